package billing

import (
	"tollgate/engine/decimal"
	"tollgate/engine/price"
)

// place is where usage of a feature counts: a feature of a subscription, and its counter.
type place struct {
	subscription uint32 // 0: no subscription of the customer carries the feature
	counter      uint32
	feature      *planFeature
}

// found says that a subscription carries the feature.
func (p place) found() bool { return p.subscription != 0 }

// pick is the one rule by which checks, simulations and usage events choose: among the customer's
// subscriptions that are not cancelled and carry the feature, suspended ones too, oldest first,
// the first whose usage is below its limit, else the first. Readers hold the customer's lock. stale
// says that something of a subscription is due that has not happened yet: see foresee.
func (s *state) pick(c *catalog, customer *customer, feature uint32, now int64) (
	p place, stale bool,
) {
	row := customer.firstSubscription
	version, counter := customer.hintVersion, customer.hintCounter
	for row != 0 {
		at, carries := placeIn(c, feature, place{row, counter, nil}, version)
		full := carries && at.feature.full(s.counters.Reading(at.counter, at.feature))
		b := s.subscriptions.Read(row)
		if b.due <= now {
			return place{}, true
		}
		if carries && (b.rest == 0 || s.subscriptions.Rest(row).endedAt == 0) {
			if !full {
				return at, false
			}
			if !p.found() {
				p = at
			}
		}
		if row = b.next; row != 0 {
			next := s.subscriptions.Read(row)
			version, counter = next.version, next.firstCounter
		}
	}
	return p, false
}

// foresee is pick, and the reasons before the limit, for a customer of whom something is due that
// has not happened yet. It allocates, for the moments until the sweep comes by.
func (s *state) foresee(customer *customer, d *Decision, now int64) (
	p place, used decimal.Decimal,
) {
	reason := ReasonNoSubscription
	for row := customer.firstSubscription; row != 0; row = s.subscriptions.Read(row).next {
		l := s.ledgerAt(row, now)
		if l.b.active() {
			reason = ReasonNotInPlan
		} else if l.b.endedAt == 0 && reason == ReasonNoSubscription {
			reason = ReasonSuspended
		}
		slot, carries := l.version().slot(d.FeatureNumber)
		if !carries || l.b.endedAt != 0 {
			continue
		}
		f := &l.version().features[slot]
		reading := l.counters[slot].reading(f)
		full := f.full(reading)
		if p.found() && full {
			continue
		}
		p, used = place{row, l.b.firstCounter + slot, f}, reading
		d.SubscriptionID, d.Reason = l.b.id, 0
		if l.b.suspendedAt != 0 {
			d.Reason = ReasonSuspended
		}
		if !full {
			return p, used
		}
	}
	if !p.found() {
		d.Reason = reason
	}
	return p, used
}

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

// Check decides whether a customer may use a feature. It fills d, and allocates nothing. The log
// entries up to d.LogIndex are in the decision.
func (m *Machine) Check(q *CheckQuery, d *Decision) {
	s := m.state.Load()
	*d = Decision{LogIndex: s.applied.Load()}
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
	if p.credited() && d.Reason == 0 && u.empty(q, &p.feature.credits) {
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
	if p, stale = s.pick(c, customer, d.FeatureNumber, now); stale {
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

// entitled finds a feature within one of a customer's subscriptions by its entitlement id, even
// in a cancelled one.
func (s *state) entitled(c *catalog, customer uint32, id *[16]byte) (p place, ok bool) {
	for row := s.customers.Read(customer).firstSubscription; row != 0; {
		b := s.subscriptions.Read(row)
		version := c.version(b.version)
		for i := range version.features {
			f := &version.features[i]
			if entitlementID(b.id, c.feature(f.feature).id) == *id {
				return place{row, b.firstCounter + uint32(i), f}, true
			}
		}
		row = b.next
	}
	return place{}, false
}
