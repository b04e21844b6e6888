package billing

import (
	"sync"

	"tollgate/engine"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/budgets"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/charging"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/price"
	"tollgate/engine/wire"
)

// Answer implements engine.Answerer: it answers an encoded CheckQuery with an encoded Decision. The
// query's Now is the clock of the asking node.
func (m *customerReader) Answer(question []byte) []byte {
	var q CheckQuery
	if wire.Decode(question, &q) != nil {
		return nil
	}
	q.Now = m.Clock(q.Now)
	var d Decision
	m.Check(&q, &d)
	return wire.Encode(make([]byte, 0, 128), &d)
}

// Check decides whether a customer may use a feature. It fills d and allocates nothing. The
// decision includes the log entries up to d.LogIndex.
func (m *customerReader) Check(q *CheckQuery, d *Decision) {
	s := m.state.Load()
	m.check(s, q, d, false)
}

// CheckTogether decides checks in order, as Check does, and prefetches memory for several at once:
// with many customers each takes two thirds of the time. ds is as long as qs.
func (m *customerReader) CheckTogether(qs []CheckQuery, ds []Decision) {
	s := m.state.Load()
	for len(qs) > 0 {
		n := min(len(qs), book.Prefetched)
		var names [book.Prefetched]uint64
		for i := range qs[:n] {
			names[i] = s.ExternalHash(qs[i].Env, qs[i].Customer)
		}
		s.Prefetch(names[:n])
		for i := range qs[:n] {
			m.check(s, &qs[i], &ds[i], true)
		}
		qs, ds = qs[n:], ds[n:]
	}
}

// check is Check; fetched tells that its memory was prefetched.
func (*customerReader) check(s *state, q *CheckQuery, d *Decision, fetched bool) {
	if d.Reason >= ReasonBudgetUnknown {
		d.Refused = budgets.Refusal{}
	}
	d.Ruling = Ruling{LogIndex: s.Log.Applied()}
	e := s.Environment(q.Env)
	if e == nil {
		d.Reason = ReasonCustomerUnknown
		return
	}
	now := e.Now(q.Now)
	d.EnvironmentTime = now
	var used decimal.Decimal
	var p book.Place
	var u credits.Purse
	row, lock := s.HoldNamed(q.Env, q.Customer, fetched)
	if d.CustomerRow = row; row != 0 {
		// The catalog is loaded under the lock, so it is at least as new as the subscriptions.
		c := e.Catalog.Load()
		d.FeatureNumber = c.FeatureByKey[string(q.Feature)]
		var stale bool
		customer := s.Customers.Read(row)
		if p, stale = s.decide(c, customer, d, now); stale {
			p, used = s.foresee(customer, d, now)
		} else if p.Found() {
			used = s.Counters.Reading(p.Counter, p.Feature)
		}
		if p.Credited() {
			u = s.Purse(d.CustomerRow, p, now)
		}
		if customer.Held && p.Found() {
			d.Held = s.Held.Units(d.CustomerRow, p.Subscription, d.FeatureNumber, now)
			u.Keep(s.Held.Credits(d.CustomerRow, p.Feature.Credits.Pool, now))
		}
		if customer.Budgeted || len(q.Budget) > 0 || q.KeyBudget != 0 {
			d.judgeBudgeted(s, q, p, used, &u, lock)
			return
		}
		lock.RUnlock()
	} else {
		d.FeatureNumber = e.Catalog.Load().FeatureByKey[string(q.Feature)]
		d.Reason = ReasonCustomerUnknown
	}
	d.judge(q, p, used, &u)
}

// judge decides what the reasons before the credits and the limit leave open. u is the purse of a
// place with credits.
func (d *Decision) judge(q *CheckQuery, p book.Place, used decimal.Decimal, u *credits.Purse) {
	var asked decimal.Decimal
	if q.Track {
		asked = q.Units
	}
	if p.Credited() && d.Reason == 0 && u.Empty(asked, &p.Feature.Credits) {
		d.Reason = ReasonCreditsEmpty
	}
	d.measure(q, p, used)
	if p.Credited() && d.HasCost {
		d.chargeUncovered(q, p, u)
	}
}

// judgeBudgeted is judge of a customer to whom budgets may apply. Its lock is held, and given back.
func (d *Decision) judgeBudgeted(
	s *state, q *CheckQuery, p book.Place, used decimal.Decimal, u *credits.Purse, lock *sync.RWMutex,
) {
	w := charging.Usage{
		For: charging.For{
			Env: q.Env, Customer: d.CustomerRow, Named: q.Budget, KeyNode: q.KeyBudget,
		},
		Feature: d.FeatureNumber, Place: p, Now: d.EnvironmentTime,
	}
	if q.Track {
		w.Units = q.Units
	}
	charge := s.budgets.Foresee(&w, u)
	lock.RUnlock()
	if d.judge(q, p, used, u); d.Reason == ReasonAllowed {
		for look := 1; d.judgeBudget(s, w.For, &charge, !q.Track, look == maxLooks); look++ {
			s.budgets.CatchUp(q.Env, d.EnvironmentTime)
		}
	}
}

// maxLooks bounds how often a query looks at budgets, of which each entry can have more that is
// over: what the last look finds held counts.
const maxLooks = 16

// judgeBudget decides what only budgets can still deny. full is set where the charge is not known.
// behind is set where it has decided nothing and is called again behind CatchUp, never at the last
// look.
func (d *Decision) judgeBudget(
	s *state, w charging.For, charge *budgets.Charge, full, last bool,
) (behind bool) {
	refused, o, behind := s.budgets.Judge(w, charge, d.EnvironmentTime, full)
	switch {
	case behind && !last:
		return true
	case o == engine.OutcomeDone:
		return false
	case o == engine.OutcomeBudgetUnknown:
		d.Reason = ReasonBudgetUnknown
		return false
	case o == engine.OutcomeBudgetArchived:
		d.Reason = ReasonBudgetArchived
	case o == engine.OutcomeBudgetFrozen:
		d.Reason = ReasonBudgetFrozen
	default:
		d.Reason = ReasonBudgetExceeded
	}
	d.Refused = refused
	d.Refused.Index = d.LogIndex
	return false
}

// chargeUncovered reduces the projected cost by what credits pay.
func (d *Decision) chargeUncovered(q *CheckQuery, p book.Place, u *credits.Purse) {
	billed := sums.Remaining(d.Used, u.Covered)
	next, ok := billed.Add(sums.Remaining(q.Units, u.Coverable(q.Units, &p.Feature.Credits)))
	if !ok {
		d.HasCost = false
		return
	}
	cost, err := price.Cost(&p.Feature.Model, billed, next)
	d.ProjectedCost, d.HasCost = cost, err == nil
}

// decide finds where the feature's usage counts and checks the reasons before its limit. It
// requires the customer's lock. stale is pick's.
func (s *state) decide(
	c *catalogs.Catalog, customer *book.CustomerRow, d *Decision, now int64,
) (p book.Place, stale bool) {
	if d.FeatureNumber == 0 {
		d.Reason = ReasonFeatureUnknown
		return book.Place{}, false
	}
	if p, stale, _ = s.pick(c, customer, d.FeatureNumber, now, always); stale {
		return book.Place{}, true
	}
	if p.Found() {
		b := s.Subscriptions.Read(p.Subscription)
		d.SubscriptionID = b.ID
		if b.ColdPart != 0 && s.Subscriptions.Cold(p.Subscription).SuspendedAt != 0 {
			d.Reason = ReasonSuspended
		}
		return p, false
	}
	d.Reason = s.uncarried(customer)
	return book.Place{}, false
}

// uncarried returns why a customer may not use a feature that none of its subscriptions has.
func (s *state) uncarried(customer *book.CustomerRow) Reason {
	reason := ReasonNoSubscription
	for row := customer.FirstSubscription; row != 0; {
		b := s.Subscriptions.Whole(row)
		switch {
		case b.Active():
			return ReasonNotInPlan
		case b.EndedAt == 0:
			reason = ReasonSuspended
		}
		row = b.Next
	}
	return reason
}

// measure fills in usage, limit and simulation, and makes the remaining decision.
func (d *Decision) measure(q *CheckQuery, p book.Place, used decimal.Decimal) {
	d.HasUsage = p.Found()
	d.Used = used
	full, taken := false, used
	if !d.Held.IsZero() {
		taken = sums.Of(used, d.Held)
	}
	if p.Found() && p.Feature.HasMax {
		d.HasLimit, d.HardLimit, d.Limit = true, p.Feature.Hard, p.Feature.Max
		d.Remaining = sums.Remaining(p.Feature.Max, taken)
		full = p.Feature.Full(taken)
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

// simulate fills in the usage and cost after the simulated units. A sum beyond the range of numbers
// counts as the largest number and exceeds every limit.
func (d *Decision) simulate(q *CheckQuery, p book.Place, used decimal.Decimal) {
	projected, ok := used.Add(q.Units)
	if !ok {
		projected = decimal.Largest()
	}
	d.Projected = projected
	if d.HasLimit {
		taken := projected
		if !d.Held.IsZero() {
			taken = sums.Of(projected, d.Held)
		}
		d.WouldExceed = !ok || d.Limit.Less(taken)
		d.ProjectedRemaining = sums.Remaining(d.Limit, taken)
	}
	if p.Found() && p.Feature.Priced && ok {
		cost, err := price.Cost(&p.Feature.Model, used, projected)
		d.ProjectedCost, d.HasCost = cost, err == nil
	}
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

// entitledFeature returns the feature of a plan version that an entitlement id of a subscription
// names; 0 if there is none.
func entitledFeature(
	c *catalogs.Catalog, v *catalogs.PlanVersion, subscription [16]byte, id *[16]byte,
) uint32 {
	for i := range v.Features {
		feature := v.Features[i].Feature
		if entitlementID(subscription, c.Feature(feature).ID) == *id {
			return feature
		}
	}
	return 0
}

// entitled finds a customer's subscription, even a cancelled one, and a feature within it by
// entitlement id. It also finds a feature that the plan had in a span that may still receive usage.
func (s *state) entitled(
	c *catalogs.Catalog, customer uint32, id *[16]byte,
) (subscription, feature uint32) {
	for row := s.Customers.Read(customer).FirstSubscription; row != 0; {
		b := s.Subscriptions.Read(row)
		if feature := entitledFeature(c, c.Version(b.Version), b.ID, id); feature != 0 {
			return row, feature
		}
		for at := b.FirstSpan; at != 0; at = s.Spans.Read(at).Next {
			v := c.Version(s.Spans.Read(at).Version)
			if feature := entitledFeature(c, v, b.ID, id); feature != 0 {
				return row, feature
			}
		}
		row = b.Next
	}
	return 0, 0
}

// Reason is the result of an entitlement decision. The numbers are part of audit events and are
// never reused. Reasons are checked in this order, and the first that applies is the decision.
//
//schema:enum reason_
type Reason uint8

const (
	ReasonAllowed         Reason = 1 // allowed
	ReasonCustomerUnknown Reason = 2 // customer_unknown
	ReasonFeatureUnknown  Reason = 3 // feature_unknown
	ReasonNoSubscription  Reason = 4 // no_subscription
	ReasonSuspended       Reason = 5 // subscription_suspended
	ReasonNotInPlan       Reason = 6 // feature_not_in_plan
	ReasonCreditsEmpty    Reason = 7 // credits_empty
	ReasonLimitReached    Reason = 8 // limit_reached
	ReasonWouldExceed     Reason = 9 // would_exceed_limit

	ReasonBudgetUnknown  Reason = 10 // budget_unknown
	ReasonBudgetArchived Reason = 11 // budget_archived
	ReasonBudgetFrozen   Reason = 12 // budget_frozen
	ReasonBudgetExceeded Reason = 13 // budget_exceeded
)
