package auditor

import (
	"slices"

	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/price"
)

// subscription sums the records of a subscription so far.
type subscription struct {
	span uint32 // the number of the present one
	// used is what features have counted in the present span, ahead what they have counted for the
	// period after it.
	used, ahead map[uint32]*meter
	closed      []span // oldest first
	// rated is how many units of accumulating features lines have priced.
	rated map[place]decimal.Decimal
}

// place is a feature's place in a plan version.
type place struct{ version, slot uint32 }

// span is a closed span; its meters are by feature.
type span struct {
	number, version uint32
	start, end      int64
	// billed reports whether an invoice has its usage: later usage is late.
	billed bool
	meters map[uint32]*meter
}

// meter is what a feature counted in a span, and the part of it on invoices.
type meter struct {
	// units were counted; covered is the part of them that credits paid.
	units, covered decimal.Decimal
	// billed is the part of the rest that lines have priced, void the part of billed on VOID
	// invoices, which is not paid. Below zero, void is what a VOID invoice would have refunded.
	billed, void decimal.Decimal
	evidence     // in no line so far
}

// evidence is the number of records behind a quantity, their cost, and the range of log entries.
type evidence struct {
	events      uint64
	cost        decimal.Decimal
	first, last uint64
}

func (e *evidence) merge(o evidence) {
	e.events += o.events
	e.cost = sums.Of(e.cost, o.cost)
	if e.first == 0 || o.first != 0 && o.first < e.first {
		e.first = o.first
	}
	e.last = max(e.last, o.last)
}

// part is what a line of usage has priced of a meter.
type part struct {
	meter *meter
	units decimal.Decimal
}

// priced is a line of usage with its evidence.
type priced struct {
	line book.InvoiceItem
	part
	evidence
}

func (m *meter) count(u *Usage) {
	m.units, m.covered = sums.Of(m.units, u.Units), sums.Of(m.covered, u.Covered)
	m.merge(evidence{1, u.Cost, u.Index, u.Index})
}

// open returns what no line has priced; below zero if lines have priced too much.
func (m *meter) open() decimal.Decimal {
	return sums.Difference(sums.Difference(m.units, m.covered), m.billed)
}

// meterOf returns a feature's meter, and makes a missing one.
func meterOf(meters map[uint32]*meter, feature uint32) *meter {
	m := meters[feature]
	if m == nil {
		m = &meter{}
		meters[feature] = m
	}
	return m
}

func (s *subscription) count(c *catalogs.Catalog, u *Usage) {
	switch {
	case u.Ahead:
		meterOf(s.ahead, u.Feature).count(u)
		return
	case u.Span == s.span:
		meterOf(s.used, u.Feature).count(u)
		return
	}
	for i := range s.closed {
		p := &s.closed[i]
		if _, has := c.Version(p.version).Slot(u.Feature); has && p.number == u.Span {
			meterOf(p.meters, u.Feature).count(u)
		}
	}
}

// close closes the present span. Units counted ahead stay in it for features that the next plan
// version lacks, and for all features if the subscription ends. Otherwise they belong to the next
// span if a period ends with this one.
func (s *subscription) close(c *catalogs.Catalog, f *credits.SpanFact) {
	p := span{
		number: f.Number, version: f.Version, start: f.Start, end: f.End, meters: map[uint32]*meter{},
	}
	next, used := c.Version(f.NextVersion), map[uint32]*meter{}
	for _, feature := range c.Version(f.Version).Features {
		key := feature.Feature
		m, ahead := s.used[key], s.ahead[key]
		_, goesOn := next.Slot(key)
		if f.PeriodEnded || f.Ended || !goesOn {
			delete(s.ahead, key)
		}
		switch {
		case ahead == nil:
		case f.Ended || !goesOn:
			if m == nil {
				m = &meter{}
			}
			m.units, m.covered = sums.Of(m.units, ahead.units), sums.Of(m.covered, ahead.covered)
			m.merge(ahead.evidence)
		case f.PeriodEnded:
			used[key] = ahead
		}
		if m != nil {
			p.meters[key] = m
		}
	}
	s.used, s.span = used, f.Number+1
	s.closed = append(s.closed, p)
}

// drop drops the spans before one once lines have priced all their units: nothing can belong to
// them any more.
func (s *subscription) drop(oldest uint32) {
	n := 0
	for n < len(s.closed) && s.closed[n].number < oldest && s.closed[n].settled() {
		n++
	}
	s.closed = slices.Delete(s.closed, 0, n)
}

func (p *span) settled() bool {
	for _, m := range p.meters { // any order: all of them
		if !m.open().IsZero() {
			return false
		}
	}
	return p.billed
}

// presentOf is the present span, as an interim invoice bounds it; nil of another invoice. What
// lines price of its meters stays there when it closes.
func (s *subscription) presentOf(f *credits.InvoiceFact) *span {
	if !f.Interim {
		return nil
	}
	return &span{
		number: s.span, version: f.Version, start: f.PeriodStart, end: f.PeriodEnd, meters: s.used,
	}
}

// bill prices the unpriced units of closed spans, and of the present one if an interim invoice
// bills it: first of spans that were never billed, then late units of the others.
func (s *subscription) bill(c *catalogs.Catalog, present *span) (all []priced) {
	spans := make([]*span, 0, len(s.closed)+1)
	for i := range s.closed {
		spans = append(spans, &s.closed[i])
	}
	if present != nil {
		spans = append(spans, present)
	}
	s.settleVoid(c, spans)
	for _, late := range [...]bool{false, true} {
		for _, p := range spans {
			if p.billed != late {
				continue
			}
			for slot := range c.Version(p.version).Features {
				all = s.price(all, c, p, uint32(slot))
			}
		}
	}
	for i := range s.closed {
		s.closed[i].billed = true
	}
	return all
}

// settleVoid excludes corrections of units that are only on VOID invoices: those units are not
// paid, so lines neither refund them nor charge them again.
func (s *subscription) settleVoid(c *catalogs.Catalog, spans []*span) {
	for _, p := range spans {
		v := c.Version(p.version)
		for slot := range v.Features {
			m := p.meters[v.Features[slot].Feature]
			if m == nil || m.open().Sign()*m.void.Sign() >= 0 {
				continue
			}
			units := m.open()
			if m.void.Abs().Less(units.Abs()) {
				units = m.void.Neg()
			}
			m.billed, m.void = sums.Of(m.billed, units), sums.Of(m.void, units)
			if v.Features[slot].Accumulate {
				at := place{p.version, uint32(slot)}
				s.rated[at] = sums.Of(s.rated[at], units)
			}
		}
	}
}

// price adds the line of a feature of a span, if there is anything to price. Its tiers begin where
// earlier lines ended: those of the span, or, if usage accumulates, those of the plan version.
func (s *subscription) price(all []priced, c *catalogs.Catalog, p *span, slot uint32) []priced {
	v := c.Version(p.version)
	f := &v.Features[slot]
	m := p.meters[f.Feature]
	if m == nil || m.open().IsZero() {
		return all
	}
	units, from := m.open(), m.billed
	m.billed = sums.Of(m.billed, units)
	if at := (place{p.version, slot}); f.Accumulate {
		from = s.rated[at]
		s.rated[at] = sums.Of(from, units)
	}
	if !f.Priced {
		return all
	}
	amount, err := price.Delta(&f.Model, from, sums.Of(from, units), v.Places)
	if err != nil {
		amount = decimal.Largest()
	}
	line := book.InvoiceItem{
		Kind: book.LineUsage, FeatureKey: c.Feature(f.Feature).Document.Key, Quantity: units,
		Tiers: f.Pricing.Tiers, PeriodStart: p.start, PeriodEnd: p.end, Amount: amount,
	}
	if p.billed {
		line.Kind = book.LineLate
	}
	if f.Model.Kind == price.KindPerUnit {
		line.UnitPrice, line.HasUnitPrice = f.Model.PricePerUnit, true
	}
	all = append(all, priced{line, part{m, units}, m.evidence})
	m.evidence = evidence{} // a late line counts what follows this one
	return all
}
