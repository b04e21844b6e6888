package billing

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"tollgate/engine"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
)

// ErrExplain says that an invoice cannot be worked out from the journal: records are missing.
var ErrExplain = errors.New("billing: the journal does not explain the invoice")

// Explanation is an invoice as it is stored, beside what the journal's records alone make of it.
type Explanation struct {
	Invoice    InvoiceView
	Recomputed []InvoiceItem
	// Counted is how many events and corrections each recomputed line counts, and no line before
	// it; 0 for a price.
	Counted []uint64
	// Costs are what those events cost: as it was stored with them, and as the corrections among
	// them have changed it.
	Costs []decimal.Decimal
	// FirstIndex and LastIndex bound the log entries of those.
	FirstIndex, LastIndex uint64
	// Equal says that both are the same, byte for byte.
	Equal bool
}

// Explain works an invoice out again from journal records: usage events, voids, amendments, and the
// facts of spans and invoices; never from counters or stored lines. False: there is no such invoice
// (a PENDING one has nothing to explain yet).
func (m *Machine) Explain(src journal.Source, env uint32, id [16]byte) (Explanation, bool, error) {
	s := m.state.Load()
	row := s.invoiceIn(env, &id)
	if row == 0 {
		return Explanation{}, false, nil
	}
	all, err := m.VerifyInvoices(src, env, s.invoices.Read(row).customer)
	if err != nil {
		return Explanation{}, true, err
	}
	for i := range all {
		if all[i].Invoice.ID == id {
			return all[i], true, nil
		}
	}
	return Explanation{}, true, fmt.Errorf("%w: nothing about it", ErrExplain)
}

// VerifyInvoices explains all invoices of a customer, oldest first, in one pass over its records.
func (m *Machine) VerifyInvoices(
	src journal.Source, env, customerRow uint32,
) ([]Explanation, error) {
	stored := m.storedInvoices(env, customerRow)
	e := m.state.Load().environment(env)
	if e == nil || len(stored) == 0 {
		return nil, nil
	}
	entries, err := m.state.Load().accountEntries(src, customerRow)
	if err != nil {
		return nil, err
	}
	r := newRecount(e.catalog.Load())
	made := map[[16]byte]Explanation{}
	for i := range entries {
		if x := r.take(&entries[i]); x != nil {
			made[r.issued] = *x
		}
	}
	all := make([]Explanation, len(stored))
	for i, v := range stored {
		x, ok := made[v.ID]
		if !ok {
			return nil, fmt.Errorf("%w: invoice %d", ErrExplain, v.Number)
		}
		x.Invoice = v
		x.Equal = sameInvoice(&v, x.Recomputed)
		all[i] = x
	}
	return all, nil
}

// storedInvoices lists the invoices that have numbers.
func (m *Machine) storedInvoices(env, customerRow uint32) []InvoiceView {
	all := m.Invoices(env, customerRow)
	return slices.DeleteFunc(all, func(v InvoiceView) bool { return v.Number == 0 })
}

// sameInvoice compares the lines by their encoding, and their sum with the amount.
func sameInvoice(v *InvoiceView, items []InvoiceItem) bool {
	total := decimal.Decimal{}
	for i := range items {
		total = sum(total, items[i].Amount)
	}
	return total == v.Amount &&
		same(&invoiceLines{Items: v.Items}, &invoiceLines{Items: items})
}

// Customers lists the rows of an environment's customers that come after one, at most limit.
func (m *Machine) Customers(env, after uint32, limit int) (rows []uint32) {
	s := m.state.Load()
	for row := uint64(after) + 1; row <= uint64(s.customers.Len()) && len(rows) < limit; row++ {
		if row := uint32(row); s.customers.Read(row).env == env {
			rows = append(rows, row)
		}
	}
	return rows
}

// accountEntry is one record of a customer that invoices rest on, in log order.
type accountEntry struct {
	index    uint64
	position uint32
	fact     *fact // else usage
	order    uint32
	usage    usageEntry
	units    decimal.Decimal
	covered  decimal.Decimal // of them paid by credits
	cost     decimal.Decimal
	span     uint32
	ahead    bool
}

// entriesAtOnce is how many records are read at a time.
const entriesAtOnce = 1000

// accountEntries reads a customer's records and puts them in the order in which they happened: by
// log entry, then by command, and a command's facts before its usage, since a command that records
// usage asks for no invoice: those among its facts fell due before it.
func (s *state) accountEntries(
	src journal.Source, customer uint32,
) (entries []accountEntry, err error) {
	kinds := journal.Kinds(
		journal.KindUsage, journal.KindVoid, journal.KindAmend, journal.KindBilling)
	err = eachRecord(src, customer, kinds, func(item journal.Item) error {
		e, counts, err := s.accountEntryOf(item)
		if err == nil && counts {
			entries = append(entries, e)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b accountEntry) int {
		x := journal.Cursor{Index: a.index, Position: a.position, Ordinal: a.order}
		return x.Compare(journal.Cursor{Index: b.index, Position: b.position, Ordinal: b.order})
	})
	return entries, nil
}

// eachRecord reads a customer's records of some kinds, in the order of a listing.
func eachRecord(
	src journal.Source, customer uint32, kinds journal.KindSet, take func(journal.Item) error,
) error {
	q := journal.Query{
		Owner: customer, From: math.MinInt64, To: math.MaxInt64, Kinds: kinds,
		Limit: entriesAtOnce,
	}
	for {
		items, err := src.List(q)
		if err != nil {
			return fmt.Errorf("billing: records of customer %d: %w", customer, err)
		}
		for _, item := range items {
			if err = take(item); err != nil {
				return err
			}
		}
		if len(items) < entriesAtOnce {
			return nil
		}
		q.After, q.HasAfter = items[len(items)-1].Cursor(), true
	}
}

// accountEntryOf decodes one record; counts is false for usage that nothing counted.
func (s *state) accountEntryOf(item journal.Item) (
	e accountEntry, counts bool, err error,
) {
	e.index, e.position = item.Index, item.Position
	var record any = &e.usage
	switch item.Kind {
	case journal.KindUsage:
		var c RecordUsage
		if err = wire.Decode(item.Payload, &e.usage); err == nil {
			err = wire.Decode(e.usage.Record, &c)
		}
		counts = e.usage.Outcome != 0 && e.usage.Outcome.Recorded() && counted(&e.usage)
		e.units, e.span, e.ahead = c.Units, e.usage.Span, e.usage.Ahead
		e.covered, e.cost = e.usage.Covered, e.usage.Cost
		e.order = math.MaxUint32
	case journal.KindBilling:
		var facts factRecord
		if err = wire.Decode(item.Payload, &facts); err == nil {
			if int(item.Ordinal) >= len(facts.Facts) {
				err = fmt.Errorf("no fact %d", item.Ordinal)
			} else {
				e.fact = &facts.Facts[item.Ordinal]
				counts = e.fact.Kind < factCredits // later ones are of pools: see VerifyPools
				e.position, e.order = e.fact.Position, item.Ordinal
			}
		}
	default:
		var k correctionEntry
		if err = wire.Decode(item.Payload, &k); err == nil {
			e.cost, err = s.correctedCost(item.Kind, &k)
		}
		counts, e.usage = k.Counted, k.Original
		e.units, e.span, e.ahead = k.Delta, k.Span, k.Ahead
		e.covered = k.Covered
		e.order = math.MaxUint32
	}
	if err != nil {
		return e, false, fmt.Errorf("%w: %d.%d (%T): %w", ErrEvent, item.Index, item.Position,
			record, err)
	}
	return e, counts, nil
}

// counted says that a subscription counted the event.
func counted(u *usageEntry) bool {
	return u.Outcome != engine.OutcomeUnpriced && u.Subscription != 0
}

// recount counts a customer's usage again, record by record.
type recount struct {
	catalog *catalog
	books   map[uint32]*book // by subscription
	// credit is what the customer has to its credit, by currency; moved is what invoices did to it.
	credit map[string]decimal.Decimal
	moved  map[[16]byte]creditMove
	issued [16]byte
}

// creditMove is what an invoice added to the customer's credit, below zero what it used of it. Once
// the invoice is void it has done neither.
type creditMove struct {
	currency string
	amount   decimal.Decimal
}

func newRecount(c *catalog) *recount {
	return &recount{
		catalog: c, books: map[uint32]*book{},
		credit: map[string]decimal.Decimal{}, moved: map[[16]byte]creditMove{},
	}
}

// book is what the records say of one subscription so far.
type book struct {
	span, runSpan uint32
	used, next    map[uint32]*tally // by feature
	closed        []heldSpan
	tallies       map[[2]uint32]*tally // events by span and feature
	// run is what accumulating features hold of what was billed since the last plan change.
	run map[uint32]decimal.Decimal
}

// tally is a quantity with the events behind it.
type tally struct {
	quantity    decimal.Decimal
	covered     decimal.Decimal // of it paid by credits
	cost        decimal.Decimal
	events      uint64
	first, last uint64
}

func (t *tally) add(e *accountEntry) {
	t.quantity, t.covered = sum(t.quantity, e.units), sum(t.covered, e.covered)
	t.cost = sum(t.cost, e.cost)
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
	t.quantity, t.covered = sum(t.quantity, o.quantity), sum(t.covered, o.covered)
	t.cost = sum(t.cost, o.cost)
	t.events += o.events
	if t.first == 0 || o.first != 0 && o.first < t.first {
		t.first = o.first
	}
	t.last = max(t.last, o.last)
}

func (r *recount) book(subscription uint32) *book {
	b := r.books[subscription]
	if b == nil {
		b = &book{
			used: map[uint32]*tally{}, next: map[uint32]*tally{},
			tallies: map[[2]uint32]*tally{}, run: map[uint32]decimal.Decimal{},
		}
		r.books[subscription] = b
	}
	return b
}

// take takes one record in. It returns the explanation of the invoice that it is, if it is one.
func (r *recount) take(e *accountEntry) *Explanation {
	switch {
	case e.fact == nil:
		r.count(r.book(e.usage.Subscription), e)
	case e.fact.Kind == factSpan:
		r.closeSpan(r.book(e.fact.Subscription), &e.fact.Span)
	case e.fact.Kind == factNothing:
		r.usage(r.book(e.fact.Subscription), &Explanation{})
	case e.fact.Kind == factVoided:
		x := r.moved[e.fact.Invoice.ID]
		r.credit[x.currency] = difference(r.credit[x.currency], x.amount)
	default:
		r.issued = e.fact.Invoice.ID
		return r.invoice(r.book(e.fact.Subscription), &e.fact.Invoice)
	}
	return nil
}

func at[K comparable](tallies map[K]*tally, key K) *tally {
	t := tallies[key]
	if t == nil {
		t = &tally{}
		tallies[key] = t
	}
	return t
}

func (r *recount) count(b *book, e *accountEntry) {
	feature := e.usage.Feature
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
		if slot, ok := r.catalog.version(p.version).slot(feature); ok && p.number == e.span {
			m := p.meterAt(slot)
			m.quantity, m.covered = sum(m.quantity, e.units), sum(m.covered, e.covered)
			at(b.tallies, [2]uint32{p.number, feature}).add(e)
		}
	}
}

// closeSpan does what ledger.closeSpan does, with what was counted here.
func (r *recount) closeSpan(b *book, f *spanFact) {
	v, next := r.catalog.version(f.Version), r.catalog.version(f.NextVersion)
	p := heldSpan{span: span{
		start: f.Start, end: f.End, number: f.Number, period: f.Period, version: f.Version,
	}}
	used := map[uint32]*tally{}
	for i := range v.features {
		feature := v.features[i].feature
		t := at(b.used, feature)
		_, goesOn := next.slot(feature)
		if f.Ended || !f.PeriodEnded && !goesOn {
			t.merge(b.next[feature])
			delete(b.next, feature)
		}
		before := decimal.Decimal{}
		if v.features[i].accumulate {
			before = b.run[feature]
		}
		if !t.quantity.IsZero() || !before.IsZero() {
			m := p.meterAt(uint32(i))
			m.quantity, m.covered, m.before = t.quantity, t.covered, before
		}
		at(b.tallies, [2]uint32{f.Number, feature}).merge(t)
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
	if f.Version != f.NextVersion {
		b.runSpan, b.run = b.span, map[uint32]decimal.Decimal{}
	}
}

// invoice makes the lines of an invoice from its fact and what was counted.
func (r *recount) invoice(b *book, f *invoiceFact) *Explanation {
	x := &Explanation{}
	if f.Usage {
		r.usage(b, x)
	}
	for i := range f.Charges {
		x.Recomputed = append(x.Recomputed, chargeItem(r.catalog, &f.Charges[i]))
	}
	r.balance(x, f)
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
func (r *recount) balance(x *Explanation, f *invoiceFact) {
	currency := r.catalog.version(f.Version).currency
	had := r.credit[currency]
	x.Recomputed, _, r.credit[currency] = balanceItems(x.Recomputed, had)
	r.moved[f.ID] = creditMove{currency, carried(x.Recomputed)}
}

// usage makes the lines of what the spans hold and no invoice has.
func (r *recount) usage(b *book, x *Explanation) {
	reading := func(feature uint32) decimal.Decimal { return b.run[feature] }
	for i := range b.closed {
		p := &b.closed[i]
		v := r.catalog.version(p.version)
		if p.billed || p.number < b.runSpan {
			continue
		}
		for j := range p.meters {
			m := &p.meters[j]
			feature := v.features[m.slot].feature
			b.run[feature] = sum(b.run[feature], difference(m.quantity, m.covered))
		}
	}
	late := map[uint32]decimal.Decimal{}
	for i := range b.closed {
		p := &b.closed[i]
		if !p.billed || p.number < b.runSpan {
			continue
		}
		for j := range p.meters {
			feature := r.catalog.version(p.version).features[p.meters[j].slot].feature
			m := &p.meters[j]
			late[feature] = sum(late[feature], m.unbilled())
		}
	}
	for _, u := range usageLines(r.catalog, b.closed, b.runSpan, reading) {
		key := [2]uint32{u.span, u.feature}
		t := at(b.tallies, key)
		delete(b.tallies, key) // a late line counts what came after this one
		x.Recomputed, x.Counted = append(x.Recomputed, u.item), append(x.Counted, t.events)
		x.Costs = append(x.Costs, t.cost)
		if x.FirstIndex == 0 || t.first != 0 && t.first < x.FirstIndex {
			x.FirstIndex = t.first
		}
		x.LastIndex = max(x.LastIndex, t.last)
	}
	// any order: each feature has its own sum.
	for feature, units := range late {
		b.run[feature] = sum(b.run[feature], units)
	}
}
