package billing

import (
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
)

// choice goes through a customer's subscriptions that carry a feature, oldest first, and keeps the
// one that usage of it is for: active ones before suspended ones before ended ones, the first whose
// usage is below its limit, else the first. It is the one rule by which checks, simulations and
// usage events choose.
type choice struct {
	open, full [3]place // by standing in life
}

// Standings in life of a subscription, in the order in which they are chosen.
const (
	lifeActive    = 0
	lifeSuspended = 1
	lifeEnded     = 2
)

// life is the subscription's standing.
func (r *subscriptionRest) life() int {
	switch {
	case r.endedAt != 0:
		return lifeEnded
	case r.suspendedAt != 0:
		return lifeSuspended
	}
	return lifeActive
}

// offer takes a subscription's place in, with whether its limit is reached.
func (h *choice) offer(at place, life int, full bool) {
	if list := &h.open; full {
		list = &h.full
		if !list[life].found() {
			list[life] = at
		}
	} else if !list[life].found() {
		list[life] = at
	}
}

// best is the place that is chosen; found is false where none was offered.
func (h *choice) best() place {
	for _, list := range [...]*[3]place{&h.open, &h.full} {
		for _, at := range list {
			if at.found() {
				return at
			}
		}
	}
	return place{}
}

// always is an instant at which no usage is late.
const always = rows.Never

// pick chooses where usage of a feature counts among the customer's subscriptions that are not
// cancelled. Readers hold the customer's lock. stale says that something of a subscription is due
// that has not happened yet: see foresee. late says that usage which occurred at an instant may
// belong to a closed span or to a subscription that has ended: see pickThen.
func (s *state) pick(c *catalog, customer *customer, feature uint32, now, occurredAt int64) (
	p place, stale, late bool,
) {
	row := customer.firstSubscription
	version, counter := customer.hintVersion, customer.hintCounter
	var suspended choice
	ended := false
	for row != 0 {
		at, carries := placeIn(c, feature, place{row, counter, nil}, version)
		full := carries && at.feature.full(s.counters.Reading(at.counter, at.feature))
		b := s.subscriptions.Read(row)
		if b.due <= now {
			return place{}, true, false
		}
		life, spanStart := lifeActive, b.periodStart
		if b.rest != 0 {
			rest := s.subscriptions.Rest(row)
			life, spanStart = rest.life(), rest.spanStart
			ended = ended || rest.endedAt > occurredAt
		}
		switch {
		case life == lifeEnded:
		case occurredAt < spanStart:
			return place{}, false, true
		case carries && life == lifeActive && !full:
			return at, false, false
		case carries && life == lifeActive && !p.found():
			p = at
		case carries && life == lifeSuspended:
			suspended.offer(at, life, full)
		}
		if row = b.next; row != 0 {
			next := s.subscriptions.Read(row)
			version, counter = next.version, next.firstCounter
		}
	}
	if at := suspended.open[lifeSuspended]; at.found() {
		return at, false, false
	}
	if !p.found() {
		p = suspended.best()
	}
	return p, false, ended // one that has ended since may have room: those above have none
}

// pickThen chooses for usage that may be late: among the subscriptions that carried the feature
// when it occurred, ended ones too, by the plan version of then and the limit that it compares.
// Only where there is none, those that began afterwards have it in their first period.
func (t *turn) pickThen(c *catalog, u *usageTarget, occurredAt int64) place {
	var then, since choice
	for row := t.customers.Read(u.customer).firstSubscription; row != 0; {
		b := t.subscriptions.Whole(row)
		t.spend(1)
		at, closed := t.placeThen(c, row, &b, u.feature, occurredAt)
		switch {
		case !at.found() || b.endedAt != 0 && occurredAt >= b.endedAt:
		case occurredAt < b.createdAt:
			if b.endedAt == 0 {
				since.offer(at, b.life(), t.fullThen(&at, closed, occurredAt))
			}
		default:
			then.offer(at, b.life(), t.fullThen(&at, closed, occurredAt))
		}
		row = b.next
	}
	if at := then.best(); at.found() {
		return at
	}
	return since.best()
}

// fullThen reports whether the limit is reached against which usage at an instant counts.
func (t *turn) fullThen(at *place, closed bool, occurredAt int64) bool {
	if !closed {
		return at.feature.full(t.counters.Reading(at.counter, at.feature))
	}
	l := t.openLedger(at.subscription)
	t.spend(2 * l.weight())
	spot, _ := l.spotAt(occurredAt, at.feature.feature)
	total, f := l.compared(spot.closed, at.feature.feature)
	return f.full(total)
}

// placeThen finds a feature in the span of a subscription in which usage that occurred at an
// instant counts; closed reports whether the span is. The place has a counter where the present
// plan version carries the feature, too.
func (s *state) placeThen(
	c *catalog, row uint32, b *subscription, feature uint32, occurredAt int64,
) (p place, closed bool) {
	p, _ = placeIn(c, feature, place{row, b.firstCounter, nil}, b.version)
	at := s.closedAt(b, occurredAt)
	if at == nil {
		return p, false
	}
	slot, ok := c.version(at.version).slot(feature)
	if !ok {
		return place{}, true
	}
	return place{row, p.counter, &c.version(at.version).features[slot]}, true
}

// closedAt is the closed span in which usage that occurred at an instant counts: before the
// subscription in its first one, after its end in its last one; nil: it counts in the present span.
func (s *state) closedAt(b *subscription, occurredAt int64) (at *span) {
	if b.endedAt == 0 && occurredAt >= b.spanStart {
		return nil
	}
	for row := b.firstSpan; row != 0; {
		p := s.spans.Read(row)
		if at != nil && p.start > occurredAt {
			break
		}
		at, row = p, p.next
	}
	return at
}

// foresee is pick, and the reasons before the limit, for a customer of whom something is due that
// has not happened yet. It allocates, for the moments until the sweep comes by.
func (s *state) foresee(customer *customer, d *Decision, now int64) (
	p place, used decimal.Decimal,
) {
	reason := ReasonNoSubscription
	var h choice
	ledgers := map[uint32]*ledger{}
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
		ledgers[row] = l
		h.offer(place{row, l.b.firstCounter + slot, f}, l.b.life(),
			f.full(l.counters[slot].reading(f)))
	}
	if p = h.best(); !p.found() {
		d.Reason = reason
		return p, used
	}
	l := ledgers[p.subscription]
	d.SubscriptionID, d.Reason = l.b.id, 0
	if l.b.suspendedAt != 0 {
		d.Reason = ReasonSuspended
	}
	return p, l.counters[p.counter-l.b.firstCounter].reading(p.feature)
}
