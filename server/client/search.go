package client

import (
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/billingview"
	"tollgate/server/search"
)

// searchRoutes are the rows that find records by what a person types.
func (a *API) searchRoutes() []server.Route {
	return []server.Route{
		row("GET", "/search", "search",
			"Customers, invoices, subscriptions, events and keys by the beginning of their names",
			server.AccessRead, a.search, reads, server.Asks(billingview.SearchParams()...),
			answers(server.RefTo("SearchAnswer"))),
	}
}

func (a *API) search(x *server.Exchange) *server.Fault {
	limit, fault := billingview.SearchLimit(x)
	if fault != nil {
		return fault
	}
	return a.read(x, func() *server.Fault {
		found := a.searcher.Find(&search.Query{
			Env: principal(x).Env, Text: string(x.Ctx.QueryArgs().Peek("q")), Limit: limit,
			Keys:     principal(x).Scope == billing.ScopeFull && principal(x).Budget == 0,
			Patience: a.readTimeout / 2,
		})
		return server.One(x, 200, &found, billingview.WriteSearchAnswer)
	})
}
