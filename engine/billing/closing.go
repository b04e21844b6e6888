package billing

import (
	"slices"

	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/period"
)

// endPeriod closes the current period at its end: the next period begins, or the subscription ends
// where its cancellation was scheduled. The invoice is issued once settleMinutes have passed.
func (l *ledger) endPeriod(at int64) {
	ends := l.b.cancelMode == CancelAtPeriodEnd
	changes := l.b.pending != 0
	next := l.dueChange(at)
	l.credited = append(l.credited, creditStep{end: true, version: l.b.version, at: at})
	l.closeSpan(at, cut{period: true, ends: ends, version: next})
	if ends {
		l.end(at)
	} else {
		l.b.baseVersion = next
		l.nextPeriod(at)
		if changes {
			l.tell(WebhookSubscriptionChanged, at)
		}
		l.credited = append(l.credited, creditStep{start: true, version: next, at: at})
	}
	l.b.issueAt = at + l.env.settleMS()
	if l.b.issueAt == at {
		l.issuePeriod(at)
	}
}

// regular begins the invoice of the period that ended last.
func (l *ledger) regular(at int64) *draft {
	last := len(l.spans) - 1
	first := last
	for first > 0 && l.spans[first-1].period == l.spans[last].period {
		first--
	}
	d := l.draft(InvoiceRegular, derivedID(l.b.id, labelRegular, l.spans[last].period), at)
	d.version, d.baseVersion = l.spans[last].version, l.spans[first].version
	d.periodStart, d.periodEnd = l.spans[first].start, l.spans[last].end
	return d
}

// issuePeriod issues the one REGULAR invoice of the period that ended last: its usage, then the
// base price, in arrears its own, in advance that of the period which has begun.
func (l *ledger) issuePeriod(at int64) {
	l.b.issueAt = 0
	d := l.regular(at)
	l.billUsage(d)
	if l.catalog.version(d.version).timing == timingInArrears {
		d.charge(l, chargeFact{
			Kind: LineBase, Version: d.baseVersion, Ratio: decimal.FromInt(1),
			Start: d.periodStart, End: d.periodEnd,
		})
	}
	if l.b.endedAt == 0 {
		if l.version().timing == timingInAdvance {
			d.charge(l, chargeFact{
				Kind: LineBase, Version: l.b.version, Ratio: decimal.FromInt(1),
				Start: l.b.periodStart, End: l.b.periodEnd,
			})
		}
		d.always = true
	}
	l.issue(d)
}

// issueWaiting issues the invoice that waits for late usage, before another one bills usage: what
// comes later is late for the next. So spans are billed in the order in which they closed.
func (l *ledger) issueWaiting(now int64) {
	if l.b.issueAt != 0 {
		l.issuePeriod(now)
	}
}

// nextPeriod begins the period after the one that just ended, computed from the anchor.
func (l *ledger) nextPeriod(at int64) {
	cycle := period.Cycle{Anchor: l.b.anchor, IntervalMonths: l.version().interval}
	p, ok := cycle.After(l.b.months)
	if !ok { // the year 9999: the last period lasts
		l.b.periodStart, l.b.periodEnd = at, rows.Never
		return
	}
	l.b.periodStart, l.b.periodEnd = p.Start, p.End
	l.b.months += l.version().interval
}

// end makes the subscription cancelled.
func (l *ledger) end(at int64) {
	l.b.endedAt = at
	if l.b.cancelMode == 0 {
		l.b.cancelMode = CancelImmediate
	}
	l.tell(WebhookSubscriptionCancelled, at)
}

// cut says how a span closes.
type cut struct {
	// period reports whether the billing period closes with it, ends that the subscription does.
	period, ends bool
	// version is the plan version of the span that follows.
	version uint32
}

// closeSpan closes the current span: what its counters hold moves into meters, and the counters
// begin the next one, under the plan version that follows.
func (l *ledger) closeSpan(at int64, c cut) {
	b := &l.b
	p := heldSpan{span: span{
		start: b.spanStart, end: at, number: b.span, period: b.period, version: b.version,
		customer: b.customer,
	}, dirty: true}
	old, next := l.version(), l.catalog.version(c.version)
	for i := range old.features {
		f, n := &old.features[i], &l.counters[i]
		if _, goesOn := next.slot(f.feature); c.ends || !goesOn {
			// What was ahead of an end that came first has no other place.
			n.used, n.next = sum(n.used, n.next), decimal.Decimal{}
			o := &l.covers[i]
			o.used, o.next = sum(o.used, o.next), decimal.Decimal{}
		}
		if quantity := difference(n.used, l.bases[i].opened); !quantity.IsZero() {
			m := p.meterAt(uint32(i))
			m.quantity, m.covered = quantity, l.covers[i].used
		}
	}
	l.facts = append(l.facts, fact{Kind: factSpan, At: at, Span: spanFact{
		Number: p.number, Period: p.period, Version: p.version, Start: p.start, End: p.end,
		PeriodEnded: c.period, Ended: c.ends, NextVersion: c.version,
	}})
	l.spans = append(l.spans, p)
	if next != old {
		l.leave(old)
	}
	l.carryCounters(old, next, c)
	b.span++
	b.spanStart, b.version = at, c.version
	if c.period {
		b.period++
	}
}

// carryCounters makes the counters of the next span.
func (l *ledger) carryCounters(old, next *planVersion, c cut) {
	counters, bases := make([]counter, len(next.features)), make([]base, len(next.features))
	covers := make([]counter, len(next.features))
	returns := next != old && slices.Contains(l.leftVersions(), next.number)
	for i := range next.features {
		f := &next.features[i]
		var n, paid counter
		var o base
		from, carried := old.slot(f.feature)
		if carried {
			n, o, paid = l.counters[from], l.bases[from], l.covers[from]
		}
		switch {
		case !carried && !c.period && !c.ends && !f.accumulate:
			// The period goes on, and with it what its limit holds over.
			n.used = l.counted(l.b.period, f.feature)
			o.opened = n.used
		case !carried:
		case c.ends: // the last reading stays
			o.opened = n.used
		case c.period && !(f.accumulate && old.features[from].accumulate):
			n, o = counter{used: n.next}, base{}
			paid = counter{used: paid.next}
		case c.period:
			o.opened = n.used
			n = counter{used: sum(n.used, n.next)}
			paid = counter{used: paid.next}
		default:
			o.opened = n.used
			paid.used = decimal.Decimal{}
		}
		if next != old {
			o.rated = decimal.Decimal{}
			if f.accumulate && returns {
				l.enter(next.number, f.feature, &n, &o)
			}
		}
		counters[i], bases[i], covers[i] = n, o, paid
	}
	l.counters, l.bases, l.covers = counters, bases, covers
}

// sum and difference saturate: amounts that reach the end of the range were refused before.
func sum(a, b decimal.Decimal) decimal.Decimal {
	if s, ok := a.Add(b); ok {
		return s
	}
	if a.Sign() < 0 {
		return decimal.Largest().Neg()
	}
	return decimal.Largest()
}

// difference is a − b within the range of numbers.
func difference(a, b decimal.Decimal) decimal.Decimal { return sum(a, b.Neg()) }
