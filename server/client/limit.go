package client

import (
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/server"
	"tollgate/server/billingview"
)

// upToDate bounds how often a request reads up to date what its refused events lack. It reads no
// more after a read that failed.
const upToDate = 16

// refusals says what events that a hard limit refused did not fit, for one request.
type refusals struct {
	*API
	// reads is how often state was read up to date.
	reads int
}

// limitFault adds to the refusal of an event what its limit, the usage and open reservations are
// now, where they explain it: not where the event counts in another period than the present one, or
// names a subscription, nor where what refused it has been given back meanwhile.
func (l *refusals) limitFault(fault *server.Fault, r *billing.RecordUsage) *server.Fault {
	var none [16]byte
	if r.FeatureID != none || r.SubscriptionID != none || r.EntitlementID != none ||
		r.InvoiceID != none {
		return fault
	}
	c := checkings.Get().(*checking)
	defer c.release()
	c.begin(r.Env, nil)
	if c.query.Customer = r.Customer; len(r.Customer) == 0 {
		customer, _ := l.machine.CustomerByID(r.Env, r.CustomerID)
		c.query.Customer = []byte(customer.ExternalID)
	}
	if c.query.Feature = r.FeatureKey; len(r.FeatureKey) == 0 {
		c.query.Feature = []byte(l.machine.FeatureOfEvent(r.Env, r.EventName))
	}
	// If local state does not explain the refusal, this node may lag: read again, up to date. It can
	// lag so only where the event counts in the period that it knows as the present one.
	for _, stale := range []bool{true, false} {
		if !stale && l.reads == upToDate {
			return fault
		}
		if !stale {
			l.reads++
		}
		if !l.decide(c, stale, l.readDeadline()) {
			l.reads = upToDate // the next one would wait as long, and fail as well
			return fault
		}
		if !l.limited(&c.decision, r) {
			return fault
		}
		if s, explains := shortage(c, r.Units); explains {
			return fault.With(fault.Detail + " " + billingview.ShortageText(s)).Adding(billingview.Lacks(s))
		}
	}
	return fault
}

// limited reports whether an event counts for a decision's limit, in the present period.
func (a *API) limited(d *billing.Decision, r *billing.RecordUsage) bool {
	if !d.HasLimit || !d.HardLimit {
		return false
	}
	of, _ := a.machine.Subscription(r.Env, d.SubscriptionID)
	return of.PeriodStart <= r.OccurredAt && r.OccurredAt < of.PeriodEnd
}

// shortage is what an event's units do not fit; false where they would.
func shortage(c *checking, units decimal.Decimal) (s *billing.Shortage, explains bool) {
	d := &c.decision
	total := d.Used
	for _, more := range []decimal.Decimal{d.Held, units} {
		sum, ok := total.Add(more)
		if !ok {
			sum = decimal.Largest()
		}
		total = sum
	}
	return &billing.Shortage{
		Level: "limit", FeatureKey: string(c.query.Feature), Asked: units, Used: d.Used, Held: d.Held,
		Limit: d.Limit, LogIndex: d.LogIndex,
	}, d.Limit.Less(total)
}
