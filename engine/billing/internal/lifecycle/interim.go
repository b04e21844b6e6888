package lifecycle

import (
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
)

// BillAbove issues an interim invoice for each subscription that Above named whose unbilled usage
// has passed its plan's invoiceAbove. It runs behind the command, whose journal records it follows.
// Where a command has left no work for the second one, or expiry has billed a reservation and left
// none to bring the subscription to now, the next usage issues it or the period's end bills it.
func (t *Runner) BillAbove() {
	if len(t.Moves.Above) == 0 {
		return
	}
	t.Moves.After = t.Entry.Next()
	for i, row := range t.Moves.Above {
		if i > 0 && t.Spent() {
			break
		}
		t.billAbove(row)
	}
	t.Moves.Above, t.Moves.After = t.Moves.Above[:0], 0
}

// mostUnpaid is the number of unpaid invoices with which a subscription has no interim one more:
// each reads all of them. The period's end bills the usage.
const mostUnpaid = 100

func (t *Runner) billAbove(row uint32) {
	version := t.VersionOf(row)
	if version.InvoiceAbove.IsZero() {
		return
	}
	t.Spend(1 + len(version.Features))
	b := t.S.Subscriptions.Read(row)
	now := t.S.Environment(t.S.Customers.Read(b.Customer).Env).Now(t.Stamp)
	if b.Due <= now { // the entry had no work left to bring it to now
		return
	}
	if !t.S.beyond(row, version.InvoiceAbove) {
		return
	}
	unpaid := t.S.unpaidOf(row, mostUnpaid)
	t.Spend(unpaid / 4)
	if unpaid == mostUnpaid {
		return
	}
	l := t.S.OpenProjection(row)
	t.Spend(2 * l.Weight())
	issueInterim(l, now)
	for i := range l.Drafts {
		t.Spend(l.Weight() + l.Drafts[i].weight())
	}
	t.Commit(l)
}

// unpaidOf counts a subscription's unpaid invoices, up to a bound.
func (s *Projector) unpaidOf(row uint32, most int) (n int) {
	b := s.Subscriptions.Whole(row)
	for at := b.FirstUnpaid; at != 0 && n < most; n++ {
		at = s.Invoices.Read(at).NextUnpaid
	}
	return n
}

// beyond reports whether the unbilled usage of a subscription's present span costs more than an
// amount. Usage ahead of the period's end counts when its period begins.
func (s *Projector) beyond(row uint32, amount decimal.Decimal) bool {
	b := s.Subscriptions.Whole(row)
	if b.EndedAt != 0 {
		return false
	}
	c := s.Environment(s.Customers.Read(b.Customer).Env).Catalog.Load()
	version := c.Version(b.Version)
	var sum decimal.Exact
	for i := range version.Features {
		f := &version.Features[i]
		if !f.Priced {
			continue
		}
		at := book.Place{Subscription: row, Counter: b.FirstCounter + uint32(i), Feature: f}
		to := s.Billed(at, false)
		if f.Accumulate {
			to = sums.Difference(to, s.uncovered(at).Next)
		}
		from := sums.Difference(to, s.unbilled(&b, at))
		added, ok := Added(f, from, sums.Difference(to, from))
		if !ok {
			return true
		}
		if sum, ok = sum.Add(added); !ok {
			return true
		}
	}
	return sum.Cmp(amount.Exact()) > 0
}

// unbilled is what no invoice has of a place's units in the present span.
func (s *Projector) unbilled(b *book.Subscription, at book.Place) decimal.Decimal {
	units := s.uncovered(at).Used
	if b.FirstBase != 0 {
		units = sums.Difference(units, s.Bases.Read(b.FirstBase+at.Counter-b.FirstCounter).Opened)
	}
	return sums.Difference(units, s.InterimOf(at.Counter).Invoiced)
}

// issueInterim issues an invoice of the usage so far, closed spans' included. Its lines go on from
// those of the interim invoices before it, and the period's end goes on from its.
func issueInterim(l *Projection, at int64) {
	l.issueWaiting(at)
	d := l.draft(
		book.InvoiceInterim, book.DerivedID(l.Sub.ID, book.LabelInterim, l.Sub.Adjustments), at,
	)
	l.Sub.Adjustments++
	d.PeriodStart, d.PeriodEnd, d.fact.Interim = l.Sub.SpanStart, at, true
	l.withPresent(at, func() { l.billUsage(d) })
	l.issue(d)
	l.Sub.Due = l.NextDue()
}

// withPresent calls do while the present span is among the closed ones, as if it ended at an
// instant. What becomes of its invoiced units is kept.
func (l *Projection) withPresent(at int64, do func()) {
	b := &l.Sub
	p := book.HeldSpan{Span: book.Span{
		Start: b.SpanStart, End: at, Number: b.Span, Period: b.Period, Version: b.Version,
	}}
	for i := range l.Counters {
		presentMeter(l, &p, i)
	}
	l.Spans = append(l.Spans, p)
	do()
	last := len(l.Spans) - 1
	for i := range l.Spans[last].Meters {
		m := &l.Spans[last].Meters[i].Meter
		l.interims[m.Slot] = book.InterimUnits{Invoiced: m.Invoiced, Forgiven: m.Forgiven}
	}
	l.Spans = l.Spans[:last]
}

// presentMeter makes the meter of a counter in the present span, if it has anything.
func presentMeter(l *Projection, p *book.HeldSpan, slot int) {
	var billed book.InterimUnits
	if l.interims != nil {
		billed = l.interims[slot]
	}
	quantity := sums.Difference(l.Counters[slot].Used, l.bases[slot].Opened)
	if quantity.IsZero() && billed == (book.InterimUnits{}) {
		return
	}
	m := p.MeterAt(uint32(slot))
	m.Quantity, m.Covered = quantity, l.covers[slot].Used
	m.Invoiced, m.Forgiven = billed.Invoiced, billed.Forgiven
}

// Forgive notes the units of a newly VOID invoice where they are: in closed spans, or, of an
// interim invoice, in the present one.
func (l *Projection) Forgive(v *book.Invoice, items []book.InvoiceItem) {
	if v.Kind != book.InvoiceInterim {
		book.Forgive(l.Catalog, l.Spans, items, 0)
		return
	}
	if l.interims == nil || l.Sub.EndedAt != 0 {
		book.Forgive(l.Catalog, l.Spans, items, v.Version)
		return
	}
	l.withPresent(max(v.PeriodEnd, l.Sub.SpanStart), func() {
		book.Forgive(l.Catalog, l.Spans, items, v.Version)
	})
}

// commitInterims stores what interim invoices have of the counters. Callers hold the customer's
// lock.
func (t *Runner) commitInterims(l *Projection) {
	if !l.Catalog.Version(l.was.Version).InvoiceAbove.IsZero() {
		for i := range uint32(l.was.Counters) {
			t.SetInterim(l.was.FirstCounter+i, book.InterimUnits{})
		}
	}
	for i := range l.interims {
		t.SetInterim(l.Sub.FirstCounter+uint32(i), l.interims[i])
	}
}
