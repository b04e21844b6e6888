package admin

import (
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/billingview"
)

// showUsage is GET …/usage: what an environment used, how its checks came out and what its invoices
// come to; with a customer or a feature the usage alone.
func (a *invoices) showUsage(x *server.Exchange) *server.Fault {
	env, fault := a.locate(x)
	if fault != nil {
		return fault
	}
	return a.read(func() *server.Fault {
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
	usageCustomers, maxUsageCustomers = 20, 100
)

// usageByCustomer is GET …/usage/customers: who used most.
func (a *invoices) usageByCustomer(x *server.Exchange) *server.Fault {
	env, fault := a.locate(x)
	if fault != nil {
		return fault
	}
	var w walk
	limit := pageSize(x, &w, usageCustomers, maxUsageCustomers)
	if fault = w.fault(); fault != nil {
		return fault
	}
	return a.read(func() *server.Fault {
		q, fault := billingview.UsageQuery(x, a.machine, env, a.machine.EnvironmentNow(env, a.nowMS()))
		if fault != nil {
			return fault
		}
		if a.counts == nil {
			return faultJournal.With("This node keeps no journal. Ask another node.")
		}
		list, others, err := a.machine.UsageByCustomer(a.counts, &q, limit)
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
				writeCustomerUsage(data, &list[i])
			}
			data.Close(']')
			data.Uint("others", uint64(others))
		})
	})
}
