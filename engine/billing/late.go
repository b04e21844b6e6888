package billing

import (
	"tollgate/engine"
	"tollgate/engine/decimal"
	"tollgate/engine/price"
)

// spot is where usage counts within a subscription: in its present span, ahead in the period after
// that, or in a closed span.
type spot struct {
	span   uint32
	ahead  bool
	closed *heldSpan // nil: the present span
}

// spotAt finds the span in which usage that occurred at an instant counts: before the subscription
// in its first one, after its end in its last one. False: the plan of then did not have the
// feature.
func (l *ledger) spotAt(occurredAt int64, feature uint32) (at spot, found bool) {
	if l.b.endedAt == 0 && (occurredAt >= l.b.spanStart || len(l.spans) == 0) {
		_, carried := l.version().slot(feature)
		return spot{span: l.b.span, ahead: occurredAt >= l.b.periodEnd}, carried
	}
	for i := len(l.spans) - 1; i >= 0; i-- {
		p := &l.spans[i]
		if p.start > occurredAt && i > 0 {
			continue
		}
		_, carried := l.catalog.version(p.version).slot(feature)
		return spot{span: p.number, closed: p}, carried
	}
	return at, false
}

// placeOf is where credits burn for usage at a spot: by the plan version of the spot.
func (l *ledger) placeOf(at spot, feature uint32) place {
	p, _ := placeIn(l.catalog, feature, place{l.row, l.b.firstCounter, nil}, l.b.version)
	p.subscription = l.row
	if at.closed != nil {
		v := l.catalog.version(at.closed.version)
		if slot, ok := v.slot(feature); ok {
			p.feature = &v.features[slot]
		}
	}
	return p
}

// add adds units, or takes them off, at a spot, and says how that compares with the limit of the
// period that it belongs to. Units that are added past a hard limit are refused.
func (l *ledger) add(at spot, feature uint32, units decimal.Decimal, now int64) engine.Outcome {
	if at.closed != nil {
		return l.addLate(at.closed, feature, units, now)
	}
	slot, _ := l.version().slot(feature)
	n, f := l.counters[slot], &l.version().features[slot]
	sum := &n.used
	if at.ahead {
		sum = &n.next
	}
	var ok bool
	if *sum, ok = sum.Add(units); !ok || !f.billable(*sum) {
		return engine.OutcomeOverflow
	}
	total := *sum
	if f.accumulate {
		if total, ok = n.used.Add(n.next); !ok {
			return engine.OutcomeOverflow
		}
	}
	outcome := f.compare(total, units)
	if !outcome.Refused() {
		l.counters[slot] = n
	}
	return outcome
}

// addLate is add where a closed span has the units.
func (l *ledger) addLate(
	p *heldSpan, feature uint32, units decimal.Decimal, now int64,
) engine.Outcome {
	own, _ := l.catalog.version(p.version).slot(feature)
	f := &l.catalog.version(p.version).features[own]
	m := p.meterAt(own)
	quantity, ok := m.quantity.Add(units)
	if !ok || !f.billable(quantity) {
		return engine.OutcomeOverflow
	}
	total, limit := l.compared(p, feature)
	outcome := limit.compare(sum(total, units), units)
	if outcome.Refused() {
		return outcome
	}

	m.quantity, p.dirty = quantity, true
	present, left := l.holders(p, feature)
	if present {
		slot, _ := l.version().slot(feature)
		n, o := &l.counters[slot], &l.bases[slot]
		n.used, o.opened = sum(n.used, units), sum(o.opened, units)
	}
	for _, version := range left {
		q := l.left(version, feature)
		q.counted = sum(q.counted, units)
	}
	if l.b.endedAt != 0 && l.b.adjustAt == 0 && l.b.issueAt == 0 {
		l.b.adjustAt = (now/dayMS + 1) * dayMS
		l.b.due = l.nextDue()
	}
	return outcome
}

// compared is the limit against which usage of a closed span counts, and what it compares: within
// the present period the present counter, else what its own period counted, or where the feature
// accumulates, the whole sequence of the span's plan version.
func (l *ledger) compared(p *heldSpan, feature uint32) (total decimal.Decimal, f *planFeature) {
	own, _ := l.catalog.version(p.version).slot(feature)
	f = &l.catalog.version(p.version).features[own]
	slot, carried := l.version().slot(feature)
	switch {
	case f.accumulate && p.version == l.b.version:
		return l.counters[slot].reading(f), f
	case f.accumulate:
		return l.left(p.version, feature).counted, f
	case carried && l.b.endedAt == 0 && p.period == l.b.period:
		f = &l.version().features[slot]
		return l.counters[slot].reading(f), f
	}
	return l.counted(p.period, feature), f
}

// cover notes that credits have paid units that count at a spot.
func (l *ledger) cover(at spot, feature uint32, units decimal.Decimal) {
	if units.IsZero() {
		return
	}
	if at.closed != nil {
		slot, _ := l.catalog.version(at.closed.version).slot(feature)
		m := at.closed.meterAt(slot)
		m.covered, at.closed.dirty = sum(m.covered, units), true
		return
	}
	slot, _ := l.version().slot(feature)
	if paid := &l.covers[slot]; at.ahead {
		paid.next = sum(paid.next, units)
	} else {
		paid.used = sum(paid.used, units)
	}
}

// counted is what a feature counted in all closed spans of a period.
func (l *ledger) counted(period, feature uint32) (total decimal.Decimal) {
	for i := range l.spans {
		p := &l.spans[i]
		if p.period != period {
			continue
		}
		if slot, ok := l.catalog.version(p.version).slot(feature); ok {
			if at, has := p.meterOf(slot); has {
				total = sum(total, p.meters[at].quantity)
			}
		}
	}
	return total
}

// compare says what a total means for the limit: past a hard limit nothing may be added.
func (f *planFeature) compare(total, units decimal.Decimal) engine.Outcome {
	switch {
	case f.hasMax && f.hard && f.max.Less(total) && units.Sign() > 0:
		return engine.OutcomeHardLimit
	case f.full(total):
		return engine.OutcomeLimitReached
	}
	return engine.OutcomeDone
}

// billable reports whether a quantity has a price within the range of numbers.
func (f *planFeature) billable(quantity decimal.Decimal) bool {
	if !f.safe.Less(quantity) {
		return true
	}
	_, err := price.Line(&f.model, quantity, 0)
	return err == nil
}

// safeQuantity is the largest power of ten up to which every quantity has a price.
func safeQuantity(m *price.Model) decimal.Decimal {
	ten := decimal.FromInt(10)
	safe := decimal.Decimal{}
	for next := decimal.FromInt(1); ; {
		if _, err := price.Line(m, next, 0); err != nil {
			return safe
		}
		safe = next
		var ok bool
		if next, ok = next.Mul(ten); !ok {
			return safe
		}
	}
}
