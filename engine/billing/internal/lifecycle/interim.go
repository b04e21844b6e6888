package lifecycle

import (
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
)

// BillAbove issues an interim invoice for each subscription that Above named whose unbilled usage
// has passed its plan's invoiceAbove: of at most eight, as many as a settlement has items. It
// runs behind the command, whose journal records it follows.
func (t *Runner) BillAbove() {
	if len(t.Moves.Above) == 0 {
		return
	}
	t.Moves.After = t.Entry.Next()
	for _, row := range t.Moves.Above {
		b := t.S.Subscriptions.Read(row)
		t.billAbove(row, t.S.Environment(t.S.Customers.Read(b.Customer).Env).Now(t.Stamp))
	}
	t.Moves.Above, t.Moves.After = t.Moves.Above[:0], 0
}

// expire lets a reservation expire at its instant, to which its customer's subscriptions were
// brought, and issues the interim invoices of that instant to which the usage leads that it
// becomes: no later usage, and no period's end, comes before them.
func (t *Runner) expire(hold rows.Due) {
	before := len(t.Moves.Above)
	t.Holds.ExpireHold(hold.Row)
	for _, row := range t.Moves.Above[before:] {
		t.billAbove(row, hold.At)
	}
	t.Moves.Above = t.Moves.Above[:before]
}

// maxUnpaid is the number of unpaid invoices with which a subscription has no interim one more:
// each reads all of them. The period's end bills the usage.
const maxUnpaid = 100

// billAbove is BillAbove of a subscription that was brought to an instant.
func (t *Runner) billAbove(row uint32, now int64) {
	version := t.VersionOf(row)
	if version.InvoiceAbove.IsZero() {
		return
	}
	beyond, meters := t.S.beyond(row, version.InvoiceAbove)
	t.Spend(1 + len(version.Features) + meters)
	if !beyond {
		return
	}
	unpaid := t.S.unpaidOf(row, maxUnpaid)
	t.Spend(unpaid / 4)
	if unpaid == maxUnpaid {
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
func (s *Projector) unpaidOf(row uint32, maximum int) (n int) {
	b := s.Subscriptions.Whole(row)
	for at := b.FirstUnpaid; at != 0 && n < maximum; n++ {
		at = s.Invoices.Read(at).NextUnpaid
	}
	return n
}

// beyond reports whether the usage of a subscription that no invoice has costs more than an amount:
// that of the present span, and what closed ones have left. Usage ahead of the period's end counts
// when its period begins. meters is how many it looked at of closed spans.
func (s *Projector) beyond(row uint32, amount decimal.Decimal) (beyond bool, meters int) {
	b := s.Subscriptions.Whole(row)
	if b.EndedAt != 0 {
		return false, 0
	}
	c := s.Environment(s.Customers.Read(b.Customer).Env).Catalog.Load()
	sum := unbilledSum{s: s, b: &b}
	for at := b.FirstSpan; at != 0; {
		p := s.Spans.Read(at)
		for m := p.FirstMeter; m != 0; meters++ {
			x := s.Meters.Read(m)
			sum.add(c.Version(p.Version), x.Slot, x.Invoiced, x.Unbilled())
			m = x.Next
		}
		at = p.Next
	}
	version := c.Version(b.Version)
	for i := range version.Features {
		f := &version.Features[i]
		if !f.Priced {
			continue
		}
		at := book.Place{Subscription: row, Counter: b.FirstCounter + uint32(i), Feature: f}
		units := s.unbilled(&b, at)
		sum.add(version, uint32(i), sums.Difference(s.Billed(at, false), units), units)
	}
	return sum.over || sum.total.Cmp(amount.Exact()) > 0, meters
}

// unbilledSum adds up the price of units that no invoice has, unrounded; over is set where that is
// beyond the range of numbers.
type unbilledSum struct {
	s     *Projector
	b     *book.Subscription
	total decimal.Exact
	over  bool
	// rated are where the next units of accumulating features begin.
	rated map[book.SequenceKey]decimal.Decimal
}

// add adds units of a feature in a plan version, whose price begins behind so many, or where the
// feature accumulates, behind those before it.
func (u *unbilledSum) add(
	v *catalogs.PlanVersion, slot uint32, billed, units decimal.Decimal,
) {
	f := &v.Features[slot]
	if !f.Priced || units.IsZero() {
		return
	}
	if f.Accumulate {
		key := book.SequenceKey{Version: v.Number, Feature: f.Feature}
		before, begun := u.rated[key]
		if !begun {
			before = u.s.ratedUnder(u.b, key, slot)
		}
		if u.rated == nil {
			u.rated = map[book.SequenceKey]decimal.Decimal{}
		}
		billed, u.rated[key] = before, sums.Of(before, units)
	}
	added, ok := Added(f, billed, units)
	if ok {
		u.total, ok = u.total.Add(added)
	}
	u.over = u.over || !ok
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
	d.PeriodStart, d.PeriodEnd, d.fact.Interim = l.Sub.SpanStart, at, true
	l.withPresent(at, func() { l.billUsage(d) })
	if len(d.Items) > 0 { // else the invoice that waited has all of it
		l.Sub.Adjustments++
	}
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
