package client

import (
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/billingview"
)

// usageRoutes are the rows about what was used.
func (a *API) usageRoutes() []server.Route {
	return []server.Route{
		row("GET", "/usage", "getUsage",
			"Usage by feature, by hour, day or month: of one customer, or of all",
			server.AccessCustomer, a.getUsage, server.Asks(billingview.UsageParams()...), reads,
			answers(server.RefTo("UsageReport"))),
	}
}

// getUsage is GET /usage. A customer key names its customer.
func (a *API) getUsage(x *server.Exchange) *server.Fault {
	if !a.own(x, x.Ctx.QueryArgs().Peek("customer")) {
		return server.FaultScope
	}
	return a.read(x, func() *server.Fault {
		env := principal(x).Env
		now := a.machine.EnvironmentNow(env, a.nowMS())
		q, fault := billingview.UsageQuery(x, a.machine, env, now)
		if fault != nil {
			return fault
		}
		if a.counts == nil {
			return faultJournal
		}
		series, err := a.machine.Usage(a.counts, &q)
		if err != nil {
			if fault = billingview.UsageFault(err); fault != nil {
				return fault
			}
			a.log.Error("usage cannot be read", "error", err, "request_id", string(x.RequestID()))
			return faultJournal
		}
		report := billing.UsageReport{By: q.By, From: q.From, To: q.To, Series: series}
		return server.One(x, 200, &report, billingview.WriteUsageReport)
	})
}
