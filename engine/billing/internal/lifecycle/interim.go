package lifecycle

import (
	"slices"

	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
)

// BillAbove issues an interim invoice for each subscription that Above named whose unbilled usage
// has passed its plan's invoiceAbove. There are at most eight, one for each item of a settlement.
// It runs behind the command, whose journal records it follows.
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
// brought, and issues, as of that instant, the interim invoices that the resulting usage calls for:
// no later usage, and no period's end, comes before them.
func (t *Runner) expire(hold rows.Due) {
	before := len(t.Moves.Above)
	t.Holds.ExpireHold(hold.Row)
	for _, row := range t.Moves.Above[before:] {
		t.billAbove(row, hold.At)
	}
	t.Moves.Above = t.Moves.Above[:before]
}

// maxUnpaid is the number of unpaid invoices at which a subscription gets no further interim
// invoice, since each one reads them all. The period's end bills the usage.
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
// that of the present span, and what closed ones have left, but for what was forgiven, as the bill
// absorbs it. Usage ahead of the period's end counts when its period begins. meters is how many it
// looked at of closed spans.
func (s *Projector) beyond(row uint32, amount decimal.Decimal) (beyond bool, meters int) {
	b := s.Subscriptions.Whole(row)
	if b.EndedAt != 0 {
		return false, 0
	}
	c := s.Environment(s.Customers.Read(b.Customer).Env).Catalog.Load()
	sum := unbilledSum{rated: func(key book.SequenceKey, slot uint32) decimal.Decimal {
		return s.ratedUnder(&b, key, slot)
	}}
	for at := b.FirstSpan; at != 0; {
		p := s.Spans.Read(at)
		for m := p.FirstMeter; m != 0; meters++ {
			x := *s.Meters.Read(m)
			absorbed := x.Absorb()
			sum.add(c.Version(p.Version), x.Slot, x.Invoiced, x.Unbilled(), absorbed)
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
		x := s.openMeter(&b, at)
		absorbed, units := x.Absorb(), x.Unbilled()
		sum.add(version, uint32(i), sums.Difference(s.Billed(at, false), units), units, absorbed)
	}
	return sum.above(amount), meters
}

// billAbove does the same for a projection that has just begun a period or moved to another plan
// version: usage that was ahead counts now, and the amount may be a lower one.
func billAbove(l *Projection, at int64) {
	amount := l.Version().InvoiceAbove
	if l.Sub.EndedAt == 0 && !amount.IsZero() && len(l.Unpaid) < maxUnpaid && beyond(l, amount) {
		issueInterim(l, at)
	}
}

// beyond is the same of a projection.
func beyond(l *Projection, amount decimal.Decimal) bool {
	sum := unbilledSum{rated: func(key book.SequenceKey, slot uint32) decimal.Decimal {
		return *l.rated(key.Version, slot)
	}}
	l.withPresent(l.Sub.SpanStart, func() {
		for i := range l.Spans {
			p := &l.Spans[i]
			for j := range p.Meters {
				x := p.Meters[j].Meter
				absorbed := x.Absorb()
				sum.add(l.Catalog.Version(p.Version), x.Slot, x.Invoiced, x.Unbilled(), absorbed)
			}
		}
	})
	return sum.above(amount)
}

// unbilledSum adds up the price of units that no invoice has, unrounded; over is set where that is
// beyond the range of numbers.
type unbilledSum struct {
	// rated is where the tiers of an accumulating feature's next line begin, by its sequence and its
	// place in the plan version.
	rated func(key book.SequenceKey, slot uint32) decimal.Decimal
	total decimal.Exact
	over  bool
	// sequences are those of accumulating features, each of which is priced as one.
	sequences []unbilledSequence
}

// unbilledSequence is the units of an accumulating feature in all spans, whose price begins behind
// rated.
type unbilledSequence struct {
	book.SequenceKey
	f            *catalogs.PlanFeature
	rated, units decimal.Decimal
}

// add adds units of a feature in a plan version, whose price begins behind so many, or where the
// feature accumulates, behind those that lines have priced, with the absorbed ones.
func (u *unbilledSum) add(
	v *catalogs.PlanVersion, slot uint32, billed, units, absorbed decimal.Decimal,
) {
	f := &v.Features[slot]
	if !f.Priced || units.IsZero() && absorbed.IsZero() {
		return
	}
	if !f.Accumulate {
		u.price(f, billed, units)
		return
	}
	key := book.SequenceKey{Version: v.Number, Feature: f.Feature}
	at := slices.IndexFunc(u.sequences, func(q unbilledSequence) bool { return q.SequenceKey == key })
	if at < 0 {
		at = len(u.sequences)
		u.sequences = append(u.sequences, unbilledSequence{
			SequenceKey: key, f: f, rated: u.rated(key, slot),
		})
	}
	q := &u.sequences[at]
	q.rated, q.units = sums.Of(q.rated, absorbed), sums.Of(q.units, units)
}

func (u *unbilledSum) price(f *catalogs.PlanFeature, billed, units decimal.Decimal) {
	added, ok := Added(f, billed, units)
	if ok {
		u.total, ok = u.total.Add(added)
	}
	u.over = u.over || !ok
}

// above reports whether all that was added costs more than an amount.
func (u *unbilledSum) above(amount decimal.Decimal) bool {
	for _, q := range u.sequences {
		u.price(q.f, q.rated, q.units)
	}
	return u.over || u.total.Cmp(amount.Exact()) > 0
}

// openMeter is what a place's units in the present span will be once it closes. Its Quantity is
// without those that credits have paid.
func (s *Projector) openMeter(b *book.Subscription, at book.Place) book.Meter {
	units := s.uncovered(at).Used
	if b.FirstBase != 0 {
		units = sums.Difference(units, s.Bases.Read(b.FirstBase+at.Counter-b.FirstCounter).Opened)
	}
	billed := s.InterimOf(at.Counter)
	return book.Meter{Quantity: units, Invoiced: billed.Invoiced, Forgiven: billed.Forgiven}
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
