package lifecycle

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
)

// Spot is where usage counts within a subscription: in its present span, ahead in the period after
// it, or in a closed span.
type Spot struct {
	Span   uint32
	Ahead  bool
	Closed *book.HeldSpan // nil: the present span
	// Forced units were reserved, so no limit refuses them.
	Forced bool
	// Held is how many units open reservations hold. Limits compare it together with the present
	// counter.
	Held decimal.Decimal
}

// compare compares a total, which includes the added units, with the limit.
func (at *Spot) compare(
	f *catalogs.PlanFeature, total, units decimal.Decimal,
) engine.Outcome {
	if at.Forced {
		units = decimal.Decimal{}
	}
	return f.Compare(total, units)
}

// SpotAt finds the span for usage that occurred at an instant: the first one before the
// subscription began, the last one after it ended. It returns false if the plan of that time did
// not have the feature.
func (l *Projection) SpotAt(occurredAt int64, feature uint32) (at Spot, found bool) {
	if l.Sub.EndedAt == 0 && (occurredAt >= l.Sub.SpanStart || len(l.Spans) == 0) {
		_, carried := l.Version().Slot(feature)
		return Spot{Span: l.Sub.Span, Ahead: occurredAt >= l.Sub.PeriodEnd}, carried
	}
	for i := len(l.Spans) - 1; i >= 0; i-- {
		p := &l.Spans[i]
		if p.Start > occurredAt && i > 0 {
			continue
		}
		_, carried := l.Catalog.Version(p.Version).Slot(feature)
		return Spot{Span: p.Number, Closed: p}, carried
	}
	return at, false
}

// PlaceOf returns the place where credits burn for usage at a spot: in the spot's plan version.
func (l *Projection) PlaceOf(at Spot, feature uint32) book.Place {
	p, _ := book.PlaceIn(
		l.Catalog, feature, book.Place{Subscription: l.Row, Counter: l.Sub.FirstCounter}, l.Sub.Version,
	)
	p.Subscription = l.Row
	if at.Closed != nil {
		v := l.Catalog.Version(at.Closed.Version)
		if slot, ok := v.Slot(feature); ok {
			p.Feature = &v.Features[slot]
		}
	}
	return p
}

// Add adds units at a spot, or subtracts them, and compares the result with the limit of the spot's
// period. It refuses units beyond a hard limit.
func (l *Projection) Add(at Spot, feature uint32, units decimal.Decimal, now int64) engine.Outcome {
	if at.Closed != nil {
		return l.addLate(&at, feature, units, now)
	}
	slot, _ := l.Version().Slot(feature)
	n, f := l.Counters[slot], &l.Version().Features[slot]
	sum := &n.Used
	if at.Ahead {
		sum = &n.Next
	}
	var ok bool
	if *sum, ok = sum.Add(units); !ok || !f.Billable(*sum) {
		return engine.OutcomeOverflow
	}
	total := *sum
	if f.Accumulate {
		if total, ok = n.Used.Add(n.Next); !ok {
			return engine.OutcomeOverflow
		}
	}
	outcome := at.compare(f, total, units)
	if !outcome.Refused() {
		l.Counters[slot] = n
	}
	return outcome
}

// addLate is Add for a closed span.
func (l *Projection) addLate(
	at *Spot, feature uint32, units decimal.Decimal, now int64,
) engine.Outcome {
	p := at.Closed
	own, _ := l.Catalog.Version(p.Version).Slot(feature)
	f := &l.Catalog.Version(p.Version).Features[own]
	m := p.MeterAt(own)
	quantity, ok := m.Quantity.Add(units)
	if !ok || !f.Billable(quantity) {
		return engine.OutcomeOverflow
	}
	total, limit, present := l.Compared(p, feature)
	total = sums.Of(total, units)
	outcome := at.compare(limit, total, units)
	if present && !at.Forced && !outcome.Refused() {
		outcome = limit.CompareWithHeld(total, at.Held, units)
	}
	if outcome.Refused() {
		return outcome
	}

	m.Quantity, p.Dirty = quantity, true
	carries, left := l.holders(p, feature)
	if carries {
		slot, _ := l.Version().Slot(feature)
		n, o := &l.Counters[slot], &l.bases[slot]
		n.Used, o.Opened = sums.Of(n.Used, units), sums.Of(o.Opened, units)
	}
	for _, version := range left {
		q := l.left(version, feature)
		q.Counted = sums.Of(q.Counted, units)
	}
	if l.Sub.EndedAt != 0 && l.Sub.AdjustAt == 0 && l.Sub.IssueAt == 0 {
		l.Sub.AdjustAt = (now/accounts.DayMS + 1) * accounts.DayMS
		l.Sub.Due = l.NextDue()
	}
	return outcome
}

// Compared returns the limit for usage of a closed span and the units that it compares: the present
// counter within the present period, else those of its own period, or, if the feature accumulates,
// the whole sequence of the span's plan version. present reports whether it is the present counter,
// which reservations hold units of.
func (l *Projection) Compared(
	p *book.HeldSpan, feature uint32,
) (total decimal.Decimal, f *catalogs.PlanFeature, present bool) {
	own, _ := l.Catalog.Version(p.Version).Slot(feature)
	f = &l.Catalog.Version(p.Version).Features[own]
	slot, carried := l.Version().Slot(feature)
	switch {
	case f.Accumulate && p.Version == l.Sub.Version:
		return l.Counters[slot].Reading(f), f, l.Sub.EndedAt == 0
	case f.Accumulate:
		return l.left(p.Version, feature).Counted, f, false
	case carried && l.Sub.EndedAt == 0 && p.Period == l.Sub.Period:
		f = &l.Version().Features[slot]
		return l.Counters[slot].Reading(f), f, true
	}
	return l.counted(p.Period, feature), f, false
}

// Cover notes that credits have paid units at a spot.
func (l *Projection) Cover(at Spot, feature uint32, units decimal.Decimal) {
	if units.IsZero() {
		return
	}
	if at.Closed != nil {
		// A Spot exists only for a feature of its span's version, so there is a slot.
		slot, _ := l.Catalog.Version(at.Closed.Version).Slot(feature)
		m := at.Closed.MeterAt(slot)
		m.Covered, at.Closed.Dirty = sums.Of(m.Covered, units), true
		return
	}
	slot, _ := l.Version().Slot(feature)
	if paid := &l.covers[slot]; at.Ahead {
		paid.Next = sums.Of(paid.Next, units)
	} else {
		paid.Used = sums.Of(paid.Used, units)
	}
}

// counted sums a feature's units in all closed spans of a period.
func (l *Projection) counted(period, feature uint32) (total decimal.Decimal) {
	for i := range l.Spans {
		p := &l.Spans[i]
		if p.Period != period {
			continue
		}
		if slot, ok := l.Catalog.Version(p.Version).Slot(feature); ok {
			if at, has := p.MeterOf(slot); has {
				total = sums.Of(total, p.Meters[at].Quantity)
			}
		}
	}
	return total
}
