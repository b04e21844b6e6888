package billing

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/lifecycle"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
)

// usageTarget is what a usage event is about.
type usageTarget struct {
	customer, feature uint32
	now               int64
}

// targeted is a place with the number of its feature.
type targeted struct {
	book.Place
	number uint32
}

// place finds where the event counts: by its ids, else by pick. What it names must exist, belong to
// the customer, and belong together.
func (c *RecordUsage) place(
	t *turn, catalog *catalogs.Catalog, u usageTarget,
) (at targeted, outcome engine.Outcome) {
	at.number = u.feature
	explicit := c.SubscriptionID != ([16]byte{})
	entitled := c.EntitlementID != ([16]byte{})
	invoiced := c.InvoiceID != ([16]byte{})
	if !explicit && !entitled && !invoiced {
		if u.feature != 0 {
			row, late := t.Customers.Read(u.customer), false
			at.Place, _, late = t.pick(catalog, row, u.feature, u.now, c.OccurredAt)
			if late {
				at.Place = t.pickThen(catalog, &u, c.OccurredAt)
			}
		}
		return at, engine.OutcomeDone
	}
	var named uint32 // the subscription that the ids name
	if explicit {
		named = t.SubscriptionWith(&c.SubscriptionID)
		if named == 0 || t.Subscriptions.Read(named).Customer != u.customer {
			return at, engine.OutcomeSubscriptionUnknown
		}
	}
	var of, feature uint32 // what the entitlement is of
	if entitled {
		if of, feature = t.entitled(catalog, u.customer, &c.EntitlementID); of == 0 {
			return at, engine.OutcomeEntitlementUnknown
		}
	}
	billed, outcome := c.invoiceSubscription(t, u.customer)
	if outcome != engine.OutcomeDone {
		return at, outcome
	}
	if entitled {
		byFeature := c.FeatureID != ([16]byte{}) || len(c.FeatureKey) > 0
		if named != 0 && named != of || byFeature && u.feature != feature {
			return at, engine.OutcomeIDsContradict
		}
		named, at.number = of, feature
	}
	if invoiced {
		if named != 0 && billed != named {
			return at, engine.OutcomeIDsContradict
		}
		if t.PendingWith(c.Env, &c.InvoiceID) == 0 {
			return at, engine.OutcomeInvoiceClosed
		}
		named = billed
	}
	at.Place = t.within(catalog, named, at.number, c.OccurredAt)
	return at, engine.OutcomeDone
}

// invoiceSubscription returns the subscription of the event's invoice, if it names one: the
// customer's, issued or PENDING.
func (c *RecordUsage) invoiceSubscription(t *turn, customer uint32) (
	row uint32, outcome engine.Outcome,
) {
	if c.InvoiceID == ([16]byte{}) {
		return 0, engine.OutcomeDone
	}
	row = t.InvoicedWith(c.Env, &c.InvoiceID)
	if row == 0 || t.Subscriptions.Read(row).Customer != customer {
		return 0, engine.OutcomeInvoiceUnknown
	}
	return row, engine.OutcomeDone
}

// within finds a feature in the one subscription that an event names. If that did not have it when
// the event occurred, only the subscription is known: recorded, unpriced.
func (s *state) within(c *catalogs.Catalog, row, feature uint32, occurredAt int64) book.Place {
	if u := s.Subscriptions.Read(row); u.ColdPart == 0 && occurredAt >= u.PeriodStart { // as most are
		at, ok := book.PlaceIn(
			c, feature, book.Place{Subscription: row, Counter: u.FirstCounter}, u.Version)
		if !ok {
			return book.Place{Subscription: row}
		}
		return at
	}
	b := s.Subscriptions.Whole(row)
	if p, _ := s.placeThen(c, row, &b, feature, occurredAt); p.Found() {
		return p
	}
	return book.Place{Subscription: row}
}

// choice examines a customer's subscriptions with a feature, oldest first, and keeps the one for
// its usage: active before suspended before ended ones; among those, the first with usage below its
// limit, else the first. Checks, simulations and usage events all choose by this rule.
type choice struct {
	open, full [3]book.Place // by standing
}

// offer adds a subscription's place, and whether its limit is reached.
func (h *choice) offer(at book.Place, life int, full bool) {
	if list := &h.open; full {
		list = &h.full
		if !list[life].Found() {
			list[life] = at
		}
	} else if !list[life].Found() {
		list[life] = at
	}
}

// best returns the chosen place; found is false if none was offered.
func (h *choice) best() book.Place {
	for _, list := range [...]*[3]book.Place{&h.open, &h.full} {
		for _, at := range list {
			if at.Found() {
				return at
			}
		}
	}
	return book.Place{}
}

// always is an instant at which no usage is late.
const always = rows.Never

// pick chooses where usage of a feature counts among the customer's subscriptions that are not
// cancelled. Readers hold the customer's lock. stale reports that something of a subscription is
// due and has not happened yet: see foresee. late reports that usage which occurred at an instant
// may belong to a closed span or to an ended subscription: see pickThen.
func (s *state) pick(
	c *catalogs.Catalog, customer *book.CustomerRow, feature uint32, now, occurredAt int64,
) (
	p book.Place, stale, late bool,
) {
	row := customer.FirstSubscription
	var suspended, suspendedFull book.Place // the oldest below its limit, and the oldest at it
	ended := false
	for row != 0 {
		b := s.Subscriptions.Read(row)
		at, carries := book.PlaceIn(
			c, feature, book.Place{Subscription: row, Counter: b.FirstCounter}, b.Version)
		full := false // matters among several subscriptions only
		if carries && (b.Next != 0 || row != customer.FirstSubscription) {
			used := s.Counters.Reading(at.Counter, at.Feature)
			full = at.Feature.Full(used) || customer.Held &&
				at.Feature.FullWithHeld(used, s.Held.Units(b.Customer, row, feature, now))
		}
		if b.Due <= now {
			return book.Place{}, true, false
		}
		life, spanStart := book.LifeActive, b.PeriodStart
		if b.ColdPart != 0 {
			cold := s.Subscriptions.Cold(row)
			life, spanStart = cold.Life(), cold.SpanStart
			ended = ended || cold.EndedAt > occurredAt
		}
		switch {
		case life == book.LifeEnded:
		case occurredAt < spanStart:
			return book.Place{}, false, true
		case carries && life == book.LifeActive && !full:
			return at, false, false
		case carries && life == book.LifeActive && !p.Found():
			p = at
		case carries && life == book.LifeSuspended && !full && !suspended.Found():
			suspended = at
		case carries && life == book.LifeSuspended && full && !suspendedFull.Found():
			suspendedFull = at
		}
		row = b.Next
	}
	if suspended.Found() {
		return suspended, false, false
	}
	if !p.Found() {
		p = suspendedFull
	}
	return p, false, ended // an ended one may have room: those above have none
}

// pickThen chooses for usage that may be late: among the subscriptions that had the feature when it
// occurred, ended ones included, by the plan version of that time and its limit. Only if there is
// none, it chooses a later subscription, in its first period.
func (t *turn) pickThen(c *catalogs.Catalog, u *usageTarget, occurredAt int64) book.Place {
	var then, since choice
	for row := t.Customers.Read(u.customer).FirstSubscription; row != 0; {
		b := t.Subscriptions.Whole(row)
		t.Spend(1)
		at, closed := t.placeThen(c, row, &b, u.feature, occurredAt)
		switch {
		case !at.Found() || b.EndedAt != 0 && occurredAt >= b.EndedAt:
		case occurredAt < b.CreatedAt:
			if b.EndedAt == 0 {
				since.offer(at, b.Life(), t.fullThen(u, &at, closed, occurredAt))
			}
		default:
			then.offer(at, b.Life(), t.fullThen(u, &at, closed, occurredAt))
		}
		row = b.Next
	}
	if at := then.best(); at.Found() {
		return at
	}
	return since.best()
}

// fullThen reports whether the limit for usage at an instant is reached, with what is held where it
// is compared with the present counter.
func (t *turn) fullThen(u *usageTarget, at *book.Place, closed bool, occurredAt int64) bool {
	held, _ := t.reservedOf(u.customer, *at, u.now)
	if !closed {
		return at.Feature.FullWithHeld(t.Counters.Reading(at.Counter, at.Feature), held)
	}
	l := t.OpenProjection(at.Subscription)
	t.Spend(2 * l.Weight())
	spot, _ := l.SpotAt(occurredAt, at.Feature.Feature)
	total, f, present := l.Compared(spot.Closed, at.Feature.Feature)
	if present {
		return f.FullWithHeld(total, held)
	}
	return f.Full(total)
}

// placeThen finds a feature in the span of a subscription for usage that occurred at an instant;
// closed reports whether the span is closed. The place has a counter if the present plan version
// has the feature, too.
func (s *state) placeThen(
	c *catalogs.Catalog, row uint32, b *book.Subscription, feature uint32, occurredAt int64,
) (p book.Place, closed bool) {
	p, _ = book.PlaceIn(c, feature, book.Place{Subscription: row, Counter: b.FirstCounter}, b.Version)
	at := s.closedAt(b, occurredAt)
	if at == nil {
		return p, false
	}
	slot, ok := c.Version(at.Version).Slot(feature)
	if !ok {
		return book.Place{}, true
	}
	return book.Place{
		Subscription: row, Counter: p.Counter, Feature: &c.Version(at.Version).Features[slot],
	}, true
}

// closedAt returns the closed span for usage that occurred at an instant: the first one before the
// subscription began, the last one after it ended; nil if it counts in the present span.
func (s *state) closedAt(b *book.Subscription, occurredAt int64) (at *book.Span) {
	if b.EndedAt == 0 && occurredAt >= b.SpanStart {
		return nil
	}
	for row := b.FirstSpan; row != 0; {
		p := s.Spans.Read(row)
		if at != nil && p.Start > occurredAt {
			break
		}
		at, row = p, p.Next
	}
	return at
}

// foresee is pick, with the reasons before the limit, for a customer with something due that has
// not happened yet. It allocates, but only until the sweep arrives.
func (s *state) foresee(customer *book.CustomerRow, d *Decision, now int64) (
	p book.Place, used decimal.Decimal,
) {
	reason := ReasonNoSubscription
	var h choice
	projections, all := map[uint32]*lifecycle.Projection{}, s.Projections(d.CustomerRow, now)
	for row := customer.FirstSubscription; row != 0; row = s.Subscriptions.Read(row).Next {
		l := all.Of(row)
		if l.Sub.Active() {
			reason = ReasonNotInPlan
		} else if l.Sub.EndedAt == 0 && reason == ReasonNoSubscription {
			reason = ReasonSuspended
		}
		slot, carries := l.Version().Slot(d.FeatureNumber)
		if !carries || l.Sub.EndedAt != 0 {
			continue
		}
		f := &l.Version().Features[slot]
		projections[row] = l
		held := decimal.Decimal{}
		if customer.Held {
			held = s.Held.Units(d.CustomerRow, row, d.FeatureNumber, now)
		}
		h.offer(book.Place{
			Subscription: row, Counter: l.Sub.FirstCounter + slot, Feature: f,
		}, l.Sub.Life(), f.FullWithHeld(l.Counters[slot].Reading(f), held))
	}
	if p = h.best(); !p.Found() {
		d.Reason = reason
		return p, used
	}
	l := projections[p.Subscription]
	d.SubscriptionID, d.Reason = l.Sub.ID, 0
	if l.Sub.SuspendedAt != 0 {
		d.Reason = ReasonSuspended
	}
	return p, l.Counters[p.Counter-l.Sub.FirstCounter].Reading(p.Feature)
}

// reservedOf returns what a customer's reservations hold of a place's feature and of its credits.
func (t *turn) reservedOf(
	customer uint32, at book.Place, now int64,
) (units, kept decimal.Decimal) {
	if at.Feature == nil || !t.Customers.Read(customer).Held {
		return units, kept
	}
	units = t.Held.Units(customer, at.Subscription, at.Feature.Feature, now)
	if at.Credited() {
		kept = t.Held.Credits(customer, at.Feature.Credits.Pool, now)
	}
	return units, kept
}
