package billing

import (
	"slices"

	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/lifecycle"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
)

// recount counts a customer's usage again, record by record. It holds what each of the customer's
// subscriptions has counted in the spans to which something may still belong, and a little of each
// invoice; no record.
type recount struct {
	catalog *catalogs.Catalog
	books   map[uint32]*spanBook // by subscription
	// credit is what the customer has to its credit, by currency.
	credit map[string]decimal.Decimal
	issued []issuedInvoice // oldest first
	byID   map[[16]byte]int
	// broken says which record could not be read, where one could not.
	broken string
}

// issuedInvoice is what the journal says of an invoice besides its lines.
type issuedInvoice struct {
	id            [16]byte
	number        uint64
	dueAt, paidAt int64
	void          bool
	currency      string
	// carried is what it added to the customer's credit, below zero what it used of it. Once it is
	// void it has done neither.
	carried decimal.Decimal
	// usage is its lines of usage, and book whose, for as long as it can become VOID.
	usage []book.InvoiceItem
	book  *spanBook
	// problem says how the stored invoice differs, where it does; listed that it is among the
	// customer's.
	problem string
	listed  bool
}

func newRecount() *recount {
	return &recount{
		books: map[uint32]*spanBook{}, credit: map[string]decimal.Decimal{}, byID: map[[16]byte]int{},
	}
}

// spanBook is what the records say of one subscription so far.
type spanBook struct {
	span       uint32
	used, next map[uint32]*tally // by feature
	closed     []book.HeldSpan
	tallies    map[[2]uint32]*tally // events by span and feature
	// rated is how many units of accumulating features lines have priced, by plan version and place
	// in it.
	rated map[[2]uint32]*decimal.Decimal
}

// tally is a quantity with the events behind it.
type tally struct {
	quantity    decimal.Decimal
	covered     decimal.Decimal // of it paid by credits
	cost        decimal.Decimal
	events      uint64
	first, last uint64
}

func (t *tally) add(e *countedUsage) {
	t.quantity, t.covered = sums.Of(t.quantity, e.units), sums.Of(t.covered, e.covered)
	t.cost = sums.Of(t.cost, e.cost)
	t.events++
	if t.first == 0 || e.index < t.first {
		t.first = e.index
	}
	t.last = max(t.last, e.index)
}

// merge adds what another tally holds.
func (t *tally) merge(o *tally) {
	if o == nil {
		return
	}
	t.quantity, t.covered = sums.Of(t.quantity, o.quantity), sums.Of(t.covered, o.covered)
	t.cost = sums.Of(t.cost, o.cost)
	t.events += o.events
	if t.first == 0 || o.first != 0 && o.first < t.first {
		t.first = o.first
	}
	t.last = max(t.last, o.last)
}

func (r *recount) book(subscription uint32) *spanBook {
	b := r.books[subscription]
	if b == nil {
		b = &spanBook{
			used: map[uint32]*tally{}, next: map[uint32]*tally{},
			tallies: map[[2]uint32]*tally{}, rated: map[[2]uint32]*decimal.Decimal{},
		}
		r.books[subscription] = b
	}
	return b
}

// take takes a fact in. It returns the explanation of the invoice that it is, if it is one.
func (r *recount) take(f *credits.Fact) *Explanation {
	var x *Explanation
	b := r.book(f.Subscription)
	switch f.Kind {
	case credits.FactSpan:
		r.closeSpan(b, &f.Span)
	case credits.FactNothing:
		r.usage(b, &Explanation{})
	case credits.FactVoided:
		if v := r.invoiceWith(&f.Invoice.ID); v != nil {
			v.void = true
			r.credit[v.currency] = sums.Difference(r.credit[v.currency], v.carried)
			book.Forgive(r.catalog, v.book.closed, v.usage)
			v.usage, v.book = nil, nil
		}
	case credits.FactPaid:
		if v := r.invoiceWith(&f.Invoice.ID); v != nil {
			v.paidAt = f.At
			v.usage, v.book = nil, nil
		}
	case credits.FactInvoice:
		x = r.invoice(b, &f.Invoice)
	}
	b.drop(r.catalog, f.Oldest)
	return x
}

// invoiceWith finds an invoice that the journal has made.
func (r *recount) invoiceWith(id *[16]byte) *issuedInvoice {
	i, known := r.byID[*id]
	if !known {
		return nil
	}
	return &r.issued[i]
}

// drop forgets the spans before one to which nothing can belong any more: those that the state has
// dropped, too.
func (b *spanBook) drop(c *catalogs.Catalog, oldest uint32) {
	n := 0
	for ; n < len(b.closed) && b.closed[n].Number < oldest && b.closed[n].Settled(); n++ {
		p := &b.closed[n]
		for _, f := range c.Version(p.Version).Features {
			delete(b.tallies, [2]uint32{p.Number, f.Feature})
		}
	}
	b.closed = slices.Delete(b.closed, 0, n)
}

func at[K comparable](tallies map[K]*tally, key K) *tally {
	t := tallies[key]
	if t == nil {
		t = &tally{}
		tallies[key] = t
	}
	return t
}

func (r *recount) count(e *countedUsage) {
	b, feature := r.book(e.subscription), e.feature
	switch {
	case e.ahead:
		at(b.next, feature).add(e)
		return
	case e.span == b.span:
		at(b.used, feature).add(e)
		return
	}
	for i := range b.closed {
		p := &b.closed[i]
		if slot, ok := r.catalog.Version(p.Version).Slot(feature); ok && p.Number == e.span {
			m := p.MeterAt(slot)
			m.Quantity, m.Covered = sums.Of(m.Quantity, e.units), sums.Of(m.Covered, e.covered)
			at(b.tallies, [2]uint32{p.Number, feature}).add(e)
		}
	}
}

// closeSpan does what ledger.closeSpan does, with what was counted here.
func (r *recount) closeSpan(b *spanBook, f *credits.SpanFact) {
	v, next := r.catalog.Version(f.Version), r.catalog.Version(f.NextVersion)
	p := book.HeldSpan{Span: book.Span{
		Start: f.Start, End: f.End, Number: f.Number, Period: f.Period, Version: f.Version,
	}}
	used := map[uint32]*tally{}
	for i := range v.Features {
		feature := v.Features[i].Feature
		t := at(b.used, feature)
		_, goesOn := next.Slot(feature)
		if f.Ended || !goesOn {
			t.merge(b.next[feature])
			delete(b.next, feature)
		}
		if !t.quantity.IsZero() {
			m := p.MeterAt(uint32(i))
			m.Quantity, m.Covered = t.quantity, t.covered
		}
		if t.events > 0 {
			at(b.tallies, [2]uint32{f.Number, feature}).merge(t)
		}
		if f.PeriodEnded && goesOn && b.next[feature] != nil {
			used[feature] = b.next[feature]
		}
		if f.PeriodEnded {
			delete(b.next, feature)
		}
	}
	b.used = used
	b.closed = append(b.closed, p)
	b.span = f.Number + 1
}

// invoice makes the lines of an invoice from its fact and what was counted.
func (r *recount) invoice(b *spanBook, f *credits.InvoiceFact) *Explanation {
	x := &Explanation{}
	if f.Usage {
		r.usage(b, x)
	}
	for i := range f.Charges {
		x.Recomputed = append(x.Recomputed, lifecycle.ChargeItem(r.catalog, &f.Charges[i]))
	}
	r.balance(x, f)
	v := &r.issued[len(r.issued)-1]
	v.book = b
	for i := range x.Recomputed {
		if x.Recomputed[i].Kind.OfUsage() {
			v.usage = append(v.usage, x.Recomputed[i])
		}
	}
	for i := range x.Recomputed {
		item := &x.Recomputed[i]
		if i < len(f.Titles) {
			item.Description = f.Titles[i]
		}
		if item.PeriodEnd == 0 {
			item.PeriodStart, item.PeriodEnd = f.PeriodStart, f.PeriodEnd
		}
	}
	for len(x.Counted) < len(x.Recomputed) {
		x.Counted, x.Costs = append(x.Counted, 0), append(x.Costs, decimal.Decimal{})
	}
	return x
}

// balance ends an invoice's lines with what is carried forward, or was.
func (r *recount) balance(x *Explanation, f *credits.InvoiceFact) {
	currency := r.catalog.Version(f.Version).Currency
	x.Recomputed, _, r.credit[currency] = lifecycle.BalanceItems(x.Recomputed, r.credit[currency])
	r.byID[f.ID] = len(r.issued)
	r.issued = append(r.issued, issuedInvoice{
		id: f.ID, number: f.Number, dueAt: f.DueAt, currency: currency,
		carried: lifecycle.Carried(x.Recomputed),
	})
}

// usage makes the lines of what the spans hold and no invoice has.
func (r *recount) usage(b *spanBook, x *Explanation) {
	rated := func(version, slot uint32) *decimal.Decimal {
		key := [2]uint32{version, slot}
		if b.rated[key] == nil {
			b.rated[key] = &decimal.Decimal{}
		}
		return b.rated[key]
	}
	for _, u := range lifecycle.UsageLines(r.catalog, b.closed, rated) {
		key := [2]uint32{u.Span, u.Feature}
		t := at(b.tallies, key)
		delete(b.tallies, key) // a late line counts what came after this one
		x.Recomputed, x.Counted = append(x.Recomputed, u.Item), append(x.Counted, t.events)
		x.Costs = append(x.Costs, t.cost)
		if x.FirstIndex == 0 || t.first != 0 && t.first < x.FirstIndex {
			x.FirstIndex = t.first
		}
		x.LastIndex = max(x.LastIndex, t.last)
	}
}
