package lifecycle

import (
	"cmp"
	"slices"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/period"
)

// endPeriod closes the current period at its end: the next period begins, or the subscription ends
// if its cancellation was scheduled. The invoice is issued settleMinutes later.
func (l *Projection) endPeriod(at int64) {
	ends := l.Sub.CancelMode.AtPeriodEnd()
	changes := l.Sub.Pending != 0
	next := l.dueChange(at)
	l.credited = append(l.credited, creditStep{end: true, version: l.Sub.Version, at: at})
	l.closeSpan(at, cut{period: true, ends: ends, version: next})
	if ends {
		l.end(at)
	} else {
		l.Sub.BaseVersion = next
		l.nextPeriod(at)
		if changes {
			l.Emit(accounts.WebhookSubscriptionChanged, at)
		}
		l.credited = append(l.credited, creditStep{start: true, version: next, at: at})
	}
	l.Sub.IssueAt = at + int64(l.Env.PaymentTerms().SettleMinutes)*60_000
	if l.Sub.IssueAt == at {
		l.issuePeriod(at)
	}
}

// regular begins the invoice of the last ended period.
func (l *Projection) regular(at int64) *Draft {
	last := len(l.Spans) - 1
	first := last
	for first > 0 && l.Spans[first-1].Period == l.Spans[last].Period {
		first--
	}
	d := l.draft(
		book.InvoiceRegular, book.DerivedID(l.Sub.ID, book.LabelRegular, l.Spans[last].Period), at,
	)
	d.Version, d.baseVersion = l.Spans[last].Version, l.Spans[first].Version
	d.PeriodStart, d.PeriodEnd = l.Spans[first].Start, l.Spans[last].End
	return d
}

// issuePeriod issues the one REGULAR invoice of the last ended period: its usage, then a base
// price: its own in arrears, that of the next period in advance.
func (l *Projection) issuePeriod(at int64) {
	l.Sub.IssueAt = 0
	d := l.regular(at)
	l.billUsage(d)
	if l.Catalog.Version(d.Version).Timing == catalogs.TimingInArrears {
		d.charge(l, credits.ChargeFact{
			Kind: book.LineBase, Version: d.baseVersion, Ratio: decimal.FromInt(1),
			Start: d.PeriodStart, End: d.PeriodEnd,
		})
	}
	if l.Sub.EndedAt == 0 {
		if l.Version().Timing == catalogs.TimingInAdvance {
			d.charge(l, credits.ChargeFact{
				Kind: book.LineBase, Version: l.Sub.Version, Ratio: decimal.FromInt(1),
				Start: l.Sub.PeriodStart, End: l.Sub.PeriodEnd,
			})
		}
		d.always = true
	}
	l.issue(d)
}

// issueWaiting issues the invoice that waits for late usage before another one bills usage; later
// usage is late for the next. So spans are billed in the order in which they closed.
func (l *Projection) issueWaiting(now int64) {
	if l.Sub.IssueAt != 0 {
		l.issuePeriod(now)
	}
}

// nextPeriod begins the period after the one that just ended, computed from the anchor.
func (l *Projection) nextPeriod(at int64) {
	cycle := period.Cycle{Anchor: l.Sub.Anchor, IntervalMonths: l.Version().Interval}
	p, ok := cycle.After(l.Sub.Months)
	if !ok { // the year 9999: the last period does not end
		l.Sub.PeriodStart, l.Sub.PeriodEnd = at, rows.Never
		return
	}
	l.Sub.PeriodStart, l.Sub.PeriodEnd = p.Start, p.End
	l.Sub.Months += l.Version().Interval
}

// end makes the subscription cancelled.
func (l *Projection) end(at int64) {
	l.Sub.EndedAt = at
	l.Sub.CancelMode = cmp.Or(l.Sub.CancelMode, book.CancelImmediate)
	l.Emit(accounts.WebhookSubscriptionCancelled, at)
}

// cut describes how a span closes.
type cut struct {
	// period reports whether the billing period closes with it, ends whether the subscription does.
	period, ends bool
	// version is the plan version of the span that follows.
	version uint32
}

// closeSpan closes the current span: the usage of its counters moves into meters, and the counters
// begin the next span, under the next plan version.
func (l *Projection) closeSpan(at int64, c cut) {
	b := &l.Sub
	p := book.HeldSpan{Span: book.Span{
		Start: b.SpanStart, End: at, Number: b.Span, Period: b.Period, Version: b.Version,
		Customer: b.Customer,
	}, Dirty: true}
	old, next := l.Version(), l.Catalog.Version(c.version)
	for i := range old.Features {
		f, n := &old.Features[i], &l.Counters[i]
		if _, goesOn := next.Slot(f.Feature); c.ends || !goesOn {
			// Units counted ahead of an early end have no other place.
			n.Used, n.Next = sums.Of(n.Used, n.Next), decimal.Decimal{}
			o := &l.covers[i]
			o.Used, o.Next = sums.Of(o.Used, o.Next), decimal.Decimal{}
		}
		presentMeter(l, &p, i)
	}
	l.Facts = append(l.Facts, credits.Fact{Kind: credits.FactSpan, At: at, Span: credits.SpanFact{
		Number: p.Number, Period: p.Period, Version: p.Version, Start: p.Start, End: p.End,
		PeriodEnded: c.period, Ended: c.ends, NextVersion: c.version,
	}})
	l.Spans = append(l.Spans, p)
	if next != old {
		l.leave(old)
	}
	l.carryCounters(old, next, c)
	b.Span++
	b.SpanStart, b.Version = at, c.version
	if c.period {
		b.Period++
	}
}

// carryCounters makes the counters of the next span.
func (l *Projection) carryCounters(old, next *catalogs.PlanVersion, c cut) {
	counters, bases := make([]book.Counter, len(next.Features)), make([]book.Base, len(next.Features))
	covers := make([]book.Counter, len(next.Features))
	returns := next != old && slices.Contains(l.leftVersions(), next.Number)
	for i := range next.Features {
		f := &next.Features[i]
		var n, paid book.Counter
		var o book.Base
		from, carried := old.Slot(f.Feature)
		if carried {
			n, o, paid = l.Counters[from], l.bases[from], l.covers[from]
		}
		switch {
		case !carried && !c.period && !c.ends && !f.Accumulate:
			// The period continues, and so does the usage that its limit compares.
			n.Used = l.counted(l.Sub.Period, f.Feature)
			o.Opened = n.Used
		case !carried:
		case c.ends: // the last reading stays
			o.Opened = n.Used
		case c.period && !(f.Accumulate && old.Features[from].Accumulate):
			n, o = book.Counter{Used: n.Next}, book.Base{}
			paid = book.Counter{Used: paid.Next}
		case c.period:
			o.Opened = n.Used
			n = book.Counter{Used: sums.Of(n.Used, n.Next)}
			paid = book.Counter{Used: paid.Next}
		default:
			o.Opened = n.Used
			paid.Used = decimal.Decimal{}
		}
		if next != old {
			o.Rated = decimal.Decimal{}
			if f.Accumulate && returns {
				l.enter(next.Number, f.Feature, &n, &o)
			}
		}
		counters[i], bases[i], covers[i] = n, o, paid
	}
	l.Counters, l.bases, l.covers, l.interims = counters, bases, covers, nil
	if !next.InvoiceAbove.IsZero() {
		l.interims = make([]book.InterimUnits, len(counters))
	}
}
