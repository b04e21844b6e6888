package admin

import (
	"slices"

	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/billingview"
	"tollgate/server/form"
)

// showUsage is GET …/usage: what an environment used, how its checks came out and what its invoices
// come to; with a customer or a feature the usage alone.
func (a *invoices) showUsage(x *server.Exchange) *server.Fault {
	env, fault := a.locate(x)
	if fault != nil {
		return fault
	}
	return a.read(x, func() *server.Fault {
		now := a.machine.EnvironmentNow(env, a.nowMS())
		q, fault := billingview.UsageQuery(x, a.machine, env, now)
		if fault != nil {
			return fault
		}
		if a.counts == nil {
			return faultJournal.With("This node keeps no journal. Ask another node.")
		}
		var t billing.Totals
		var err error
		if q.Customer != 0 || q.HasFeature {
			t = billing.Totals{By: q.By, From: q.From, To: q.To}
			t.Series, err = a.machine.Usage(a.counts, &q)
		} else {
			t, err = a.machine.UsageTotals(a.counts, &q)
		}
		if err != nil {
			if fault = billingview.UsageFault(err); fault != nil {
				return fault
			}
			a.log.Error("usage cannot be read", "error", err, "request_id", string(x.RequestID()))
			return server.FaultInternal
		}
		return server.One(x, 200, &t, writeUsageTotals)
	})
}

const (
	// usageCustomers is how many customers a ranking has, and maxUsageCustomers at most.
	usageCustomers, maxUsageCustomers = 20, 10_000
)

// ranked answers with a ranking of customers in a range; rank asks for so many of it.
func ranked[T any](
	a *invoices, x *server.Exchange, write func(*server.JSON, *T),
	rank func(q *billing.UsageQuery, limit int) ([]T, int, error),
) *server.Fault {
	env, fault := a.locate(x)
	if fault != nil {
		return fault
	}
	var w walk
	limit := pageSize(x, &w, usageCustomers, maxUsageCustomers)
	if fault = w.fault(); fault != nil {
		return fault
	}
	return a.read(x, func() *server.Fault {
		q, fault := billingview.UsageQuery(x, a.machine, env, a.machine.EnvironmentNow(env, a.nowMS()))
		if fault != nil {
			return fault
		}
		if a.counts == nil {
			return faultJournal.With("This node keeps no journal. Ask another node.")
		}
		list, others, err := rank(&q, limit)
		if err != nil {
			if fault = billingview.UsageFault(err); fault != nil {
				return fault
			}
			a.log.Error("usage cannot be read", "error", err, "request_id", string(x.RequestID()))
			return server.FaultInternal
		}
		return x.Object(200, func(data *server.JSON) {
			data.Time("from", q.From)
			data.Time("to", q.To)
			data.Array("customers")
			for i := range list {
				write(data, &list[i])
			}
			data.Close(']')
			data.Uint("others", uint64(others))
		})
	})
}

// sortPrice ranks customers by what their usage adds to bills.
const sortPrice = "price"

// usageByCustomer is GET …/usage/customers: who used most.
func (a *invoices) usageByCustomer(x *server.Exchange) *server.Fault {
	args := x.Ctx.QueryArgs()
	sort, currency := string(args.Peek("sort")), string(args.Peek("currency"))
	switch sort {
	case "":
	case sortPrice:
		return ranked(a, x, writeCustomerUsage,
			func(q *billing.UsageQuery, limit int) ([]billing.CustomerUsage, int, error) {
				p := billing.PriceQuery{UsageQuery: *q, Currency: currency, Max: limit}
				if all := a.machine.Currencies(q.Env); currency == "" && len(all) > 0 {
					p.Currency = all[0]
				}
				return a.machine.UsageByPrice(a.counts, &p)
			})
	default:
		return form.NotAllowed(sortPrice).Fault("sort")
	}
	return ranked(a, x, writeCustomerUsage,
		func(q *billing.UsageQuery, limit int) ([]billing.CustomerUsage, int, error) {
			return a.machine.UsageByCustomer(a.counts, q, limit)
		})
}

// denialReasons are why a check of a known customer is denied.
func denialReasons() []string {
	return slices.DeleteFunc(slices.Clone(billing.Reason(0).Names()), func(name string) bool {
		return name == "" || name == billing.ReasonAllowed.String() ||
			name == billing.ReasonCustomerUnknown.String()
	})
}

// deniedByCustomer is GET …/checks/denied: who was denied checks, and why.
func (a *invoices) deniedByCustomer(x *server.Exchange) *server.Fault {
	reason := string(x.Ctx.QueryArgs().Peek("reason"))
	if reasons := denialReasons(); reason != "" && !slices.Contains(reasons, reason) {
		return form.NotAllowed(reasons...).Fault("reason")
	}
	return ranked(a, x, writeCustomerDenials,
		func(q *billing.UsageQuery, limit int) ([]billing.CustomerDenials, int, error) {
			d := billing.DenialQuery{UsageQuery: *q, Max: limit}
			if reason != "" {
				d.Reason = billing.Reason(slices.Index(d.Reason.Names(), reason))
			}
			return a.machine.DeniedByCustomer(a.counts, &d)
		})
}
