package billing

import (
	"strconv"

	"tollgate/engine/decimal"
	"tollgate/engine/price"
	"tollgate/engine/wire"
)

// place is where usage of a feature counts: a feature of a subscription, and its counter.
type place struct {
	subscription uint32 // 0: no subscription of the customer carries the feature
	counter      uint32
	feature      *planFeature
}

// found reports whether a subscription carries the feature.
func (p place) found() bool { return p.subscription != 0 }

// placeIn finds a feature within one subscription of a plan version: of is the subscription and
// its first counter.
func placeIn(c *catalog, feature uint32, of place, version uint32) (p place, ok bool) {
	v := c.version(version)
	slot, ok := v.slot(feature)
	if !ok {
		return place{}, false
	}
	return place{of.subscription, of.counter + slot, &v.features[slot]}, true
}

// Answer implements engine.Answerer: it answers an encoded CheckQuery by an encoded Decision. The
// query's Now is the clock of the node that asks.
func (m *Machine) Answer(question []byte) []byte {
	var q CheckQuery
	if wire.Decode(question, &q) != nil {
		return nil
	}
	q.Now = m.Clock(q.Now)
	var d Decision
	m.Check(&q, &d)
	return wire.Encode(make([]byte, 0, 128), &d)
}

// Check decides whether a customer may use a feature. It fills d, and allocates nothing. The log
// entries up to d.LogIndex are in the decision.
func (m *Machine) Check(q *CheckQuery, d *Decision) {
	s := m.state.Load()
	*d = Decision{LogIndex: s.log.Applied()}
	e := s.environment(q.Env)
	if e == nil {
		d.Reason = ReasonCustomerUnknown
		return
	}
	now := e.now(q.Now)
	d.EnvironmentTime = now
	var used decimal.Decimal
	var p place
	var u purse
	d.CustomerRow = s.customerNamed(q.Env, q.Customer)
	if d.CustomerRow != 0 {
		lock := s.stripe(d.CustomerRow)
		lock.RLock()
		// The catalog is read under the lock: it is at least as new as the subscriptions.
		c := e.catalog.Load()
		d.FeatureNumber = c.featureByKey[string(q.Feature)]
		var stale bool
		if p, stale = s.decide(c, d, now); stale {
			p, used = s.foresee(s.customers.Read(d.CustomerRow), d, now)
		} else if p.found() {
			used = s.counters.Reading(p.counter, p.feature)
		}
		if p.credited() {
			u = s.purse(d.CustomerRow, p, now)
		}
		lock.RUnlock()
	} else {
		d.FeatureNumber = e.catalog.Load().featureByKey[string(q.Feature)]
		d.Reason = ReasonCustomerUnknown
	}
	d.judge(q, p, used, &u)
}

// judge decides what the reasons before the credits and the limit leave open. u is the purse of a
// place that is credited.
func (d *Decision) judge(q *CheckQuery, p place, used decimal.Decimal, u *purse) {
	var asked decimal.Decimal
	if q.Track {
		asked = q.Units
	}
	if p.credited() && d.Reason == 0 && u.empty(asked, &p.feature.credits) {
		d.Reason = ReasonCreditsEmpty
	}
	d.measure(q, p, used)
	if p.credited() && d.HasCost {
		d.chargeUncovered(q, p, u)
	}
}

// chargeUncovered leaves out of the projected cost what credits pay.
func (d *Decision) chargeUncovered(q *CheckQuery, p place, u *purse) {
	billed := remaining(d.Used, u.covered)
	next, ok := billed.Add(remaining(q.Units, u.coverable(q.Units, &p.feature.credits)))
	if !ok {
		d.HasCost = false
		return
	}
	cost, err := price.Cost(&p.feature.model, billed, next)
	d.ProjectedCost, d.HasCost = cost, err == nil
}

// decide finds where the feature's usage counts, and the reasons that come before its limit. The
// customer's lock is held. stale is pick's.
func (s *state) decide(c *catalog, d *Decision, now int64) (p place, stale bool) {
	customer := s.customers.Read(d.CustomerRow)
	if d.FeatureNumber == 0 {
		d.Reason = ReasonFeatureUnknown
		return place{}, false
	}
	if p, stale, _ = s.pick(c, customer, d.FeatureNumber, now, always); stale {
		return place{}, true
	}
	if p.found() {
		b := s.subscriptions.Read(p.subscription)
		d.SubscriptionID = b.id
		if b.rest != 0 && s.subscriptions.Rest(p.subscription).suspendedAt != 0 {
			d.Reason = ReasonSuspended
		}
		return p, false
	}
	d.Reason = s.uncarried(customer)
	return place{}, false
}

// uncarried is why a customer may not use a feature that none of its subscriptions carries.
func (s *state) uncarried(customer *customer) Reason {
	reason := ReasonNoSubscription
	for row := customer.firstSubscription; row != 0; {
		b := s.subscriptions.Whole(row)
		switch {
		case b.active():
			return ReasonNotInPlan
		case b.endedAt == 0:
			reason = ReasonSuspended
		}
		row = b.next
	}
	return reason
}

// measure fills in usage, limit and simulation, and decides what is left to decide.
func (d *Decision) measure(q *CheckQuery, p place, used decimal.Decimal) {
	d.HasUsage = p.found()
	d.Used = used
	full := false
	if p.found() && p.feature.hasMax {
		d.HasLimit, d.HardLimit, d.Limit = true, p.feature.hard, p.feature.max
		d.Remaining = remaining(p.feature.max, used)
		full = p.feature.full(used)
	}
	if q.Track {
		d.simulate(q, p, used)
	}
	if d.Reason != 0 {
		return
	}
	switch {
	case full:
		d.Reason = ReasonLimitReached
	case d.WouldExceed:
		d.Reason = ReasonWouldExceed
	default:
		d.Reason = ReasonAllowed
	}
}

// simulate fills in what usage and cost would become. A sum beyond the range of numbers counts as
// the largest number, and exceeds every limit.
func (d *Decision) simulate(q *CheckQuery, p place, used decimal.Decimal) {
	projected, ok := used.Add(q.Units)
	if !ok {
		projected = decimal.Largest()
	}
	d.Projected = projected
	if d.HasLimit {
		d.WouldExceed = !ok || d.Limit.Less(projected)
		d.ProjectedRemaining = remaining(d.Limit, projected)
	}
	if p.found() && p.feature.priced && ok {
		cost, err := price.Cost(&p.feature.model, used, projected)
		d.ProjectedCost, d.HasCost = cost, err == nil
	}
}

// remaining is max(0, limit − used).
func remaining(limit, used decimal.Decimal) decimal.Decimal {
	left, ok := limit.Sub(used)
	if !ok || left.Sign() < 0 {
		return decimal.Decimal{}
	}
	return left
}

// entitlementID names a feature within a subscription: the exclusive or of their UUIDs, as a UUID
// of version 8. It is computed, never stored.
func entitlementID(subscription, feature [16]byte) (id [16]byte) {
	for i := range id {
		id[i] = subscription[i] ^ feature[i]
	}
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}

// entitledFeature is the feature of a plan version that an entitlement id of a subscription names;
// 0 when it names none.
func entitledFeature(c *catalog, v *planVersion, subscription [16]byte, id *[16]byte) uint32 {
	for i := range v.features {
		feature := v.features[i].feature
		if entitlementID(subscription, c.feature(feature).id) == *id {
			return feature
		}
	}
	return 0
}

// entitled finds a customer's subscription, even a cancelled one, and a feature within it, by
// entitlement id; also one that its plan had in a span to which usage may still belong.
func (s *state) entitled(c *catalog, customer uint32, id *[16]byte) (subscription, feature uint32) {
	for row := s.customers.Read(customer).firstSubscription; row != 0; {
		b := s.subscriptions.Read(row)
		if feature := entitledFeature(c, c.version(b.version), b.id, id); feature != 0 {
			return row, feature
		}
		for at := b.firstSpan; at != 0; at = s.spans.Read(at).next {
			v := c.version(s.spans.Read(at).version)
			if feature := entitledFeature(c, v, b.id, id); feature != 0 {
				return row, feature
			}
		}
		row = b.next
	}
	return 0, 0
}

// Reason is why an entitlement decision came out as it did; the numbers travel in audit events and
// are never reused. The order is the order in which reasons are looked for: the first that applies
// is the decision.
type Reason uint8

const (
	ReasonAllowed         Reason = 1
	ReasonCustomerUnknown Reason = 2
	ReasonFeatureUnknown  Reason = 3
	ReasonNoSubscription  Reason = 4
	ReasonSuspended       Reason = 5
	ReasonNotInPlan       Reason = 6
	ReasonCreditsEmpty    Reason = 7
	ReasonLimitReached    Reason = 8
	ReasonWouldExceed     Reason = 9
)

var reasonNames = [...]string{
	ReasonAllowed:         "allowed",
	ReasonCustomerUnknown: "customer_unknown",
	ReasonFeatureUnknown:  "feature_unknown",
	ReasonNoSubscription:  "no_subscription",
	ReasonSuspended:       "suspended",
	ReasonNotInPlan:       "not_in_plan",
	ReasonCreditsEmpty:    "credits_empty",
	ReasonLimitReached:    "limit_reached",
	ReasonWouldExceed:     "would_exceed",
}

// String is the reason's name, the same in every version.
func (r Reason) String() string {
	if int(r) < len(reasonNames) && reasonNames[r] != "" {
		return reasonNames[r]
	}
	return "reason_" + strconv.Itoa(int(r))
}
