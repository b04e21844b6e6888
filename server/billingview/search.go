package billingview

import (
	"tollgate/server"
	"tollgate/server/form"
)

// Results of one search.
const (
	usualResults = 20
	maxResults   = 100
)

// SearchParams are the parameters of a search.
func SearchParams() []server.Param {
	text := server.InQuery("q", server.TextSchema(1, 0),
		"what the record's name begins with, in any case; or its whole number, key or UUID")
	text.Required = true
	return []server.Param{
		text, server.InQuery("limit", server.IntSchema(1, maxResults), "20 when absent"),
	}
}

// SearchLimit reads how many results are asked for, and demands that a text is.
func SearchLimit(x *server.Exchange) (int, *server.Fault) {
	args := x.Ctx.QueryArgs()
	if len(args.Peek("q")) == 0 {
		return 0, form.Required.Fault("q")
	}
	text := string(args.Peek("limit"))
	if text == "" {
		return usualResults, nil
	}
	n, ok := server.WholeNumber(text, 1, maxResults)
	if !ok {
		return 0, form.Outside(1, maxResults).Fault("limit")
	}
	return int(n), nil
}
