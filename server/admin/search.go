package admin

import (
	"tollgate/server"
	"tollgate/server/billingview"
	"tollgate/server/search"
)

// finders is the row that finds records by what a person types.
type finders struct {
	*base
	searcher *search.Searcher
}

func (a *finders) searchRoutes() []server.Route {
	return []server.Route{
		row("GET", environment+"/search", "search",
			"Customers, invoices, subscriptions, events and keys by the beginning of their names",
			a.within(a.search), server.Asks(billingview.SearchParams()...),
			answers(server.RefTo("SearchAnswer"))),
	}
}

func (a *finders) search(x *server.Exchange, env uint32) *server.Fault {
	limit, fault := billingview.SearchLimit(x)
	if fault != nil {
		return fault
	}
	found := a.searcher.Find(&search.Query{
		Env: env, Text: string(x.Ctx.QueryArgs().Peek("q")), Limit: limit, Keys: true,
		Hints: true, Patience: a.readTimeout / 2,
	})
	return server.One(x, 200, &found, billingview.WriteSearchAnswer)
}
