package client

import (
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/server"
)

// limitFault adds to the refusal of an event what its limit, the usage and open reservations are
// now, where they explain it: not where the event counts in another period than the present one, or
// names a subscription, nor where what refused it has been given back meanwhile.
func (a *API) limitFault(fault *server.Fault, r *billing.RecordUsage) *server.Fault {
	var none [16]byte
	if r.FeatureID != none || r.SubscriptionID != none || r.EntitlementID != none ||
		r.InvoiceID != none {
		return fault
	}
	c := checkings.Get().(*checking)
	defer c.release()
	c.begin(r.Env, nil)
	if c.query.Customer = r.Customer; len(r.Customer) == 0 {
		customer, _ := a.machine.CustomerByID(r.Env, r.CustomerID)
		c.query.Customer = []byte(customer.ExternalID)
	}
	if c.query.Feature = r.FeatureKey; len(r.FeatureKey) == 0 {
		c.query.Feature = []byte(a.machine.FeatureOfEvent(r.Env, r.EventName))
	}
	// A node that is behind the one that refused asks that.
	for _, stale := range []bool{true, false} {
		if !a.decide(c, stale, a.readDeadline()) {
			return fault
		}
		if s, explains := a.shortage(c, r); explains {
			return fault.With(fault.Detail + " " + shortageText(s)).Adding(lacks(s))
		}
	}
	return fault
}

// shortage is what an event does not fit; false where it would fit, or counts elsewhere.
func (a *API) shortage(c *checking, r *billing.RecordUsage) (s *billing.Shortage, explains bool) {
	d := &c.decision
	if !d.HasLimit || !d.HardLimit {
		return nil, false
	}
	of, _ := a.machine.Subscription(r.Env, d.SubscriptionID)
	if r.OccurredAt < of.PeriodStart || r.OccurredAt >= of.PeriodEnd {
		return nil, false
	}
	total := d.Used
	for _, more := range []decimal.Decimal{d.Held, r.Units} {
		sum, ok := total.Add(more)
		if !ok {
			sum = decimal.Largest()
		}
		total = sum
	}
	return &billing.Shortage{
		Level: "limit", FeatureKey: string(c.query.Feature), Asked: r.Units, Used: d.Used, Held: d.Held,
		Limit: d.Limit, LogIndex: d.LogIndex,
	}, d.Limit.Less(total)
}
