package book

import (
	"cmp"
	"slices"

	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
)

// Span is a closed stretch of a subscription under one plan version: a period, or a part of one
// that a plan change cut. Spans are numbered from 0 and follow each other without gaps. A span is
// kept until no accepted event or correction can belong to it; then its row is reused.
//
//schema:row
type Span struct {
	Start, End                                          int64 // [start, end)
	Number, Period, Version, Customer, FirstMeter, Next uint32
	// Billed reports whether an invoice has the span's usage: later usage is late.
	Billed bool
}

// Meter is a feature's usage in a closed span. Features without usage have none.
//
//schema:row
type Meter struct {
	// Quantity is the usage, Covered the part of it that credits have paid, Invoiced the part of
	// the rest on invoices.
	Quantity, Covered, Invoiced decimal.Decimal
	// Forgiven is the part of Invoiced that is only on VOID invoices. It is not paid, so a
	// correction refunds nothing for it. Below zero, it is what a VOID invoice would have refunded.
	Forgiven decimal.Decimal
	Next     uint32
	Slot     uint32 // the feature's place in the plan version
}

// Base is where a counter's current span began: for usage that accumulates, and usage that a plan
// change cut. Without a Base it began at 0.
//
//schema:row
type Base struct {
	// Rated is how many units of an accumulating feature lines have priced under the present plan
	// version, Opened the reading up to which spans are closed.
	Rated, Opened decimal.Decimal
}

// HeldSpan is a span in a projection, with its meters.
type HeldSpan struct {
	Span
	Row    uint32 // 0: not stored yet
	Dirty  bool
	Meters []heldMeter // by slot
}

// heldMeter is a meter in a projection.
type heldMeter struct {
	Meter
	row uint32
}

// MeterAt returns the meter of a slot, and makes a missing one.
func (p *HeldSpan) MeterAt(slot uint32) *Meter {
	at, has := p.MeterOf(slot)
	if !has {
		p.Meters = append(p.Meters, heldMeter{})
		copy(p.Meters[at+1:], p.Meters[at:])
		p.Meters[at] = heldMeter{Meter: Meter{Slot: slot}}
	}
	return &p.Meters[at].Meter
}

// MeterOf returns the place of a slot's meter among those of the span, or where it would be: they
// are in order.
func (p *HeldSpan) MeterOf(slot uint32) (at int, has bool) {
	return slices.BinarySearchFunc(p.Meters, slot, func(m heldMeter, slot uint32) int {
		return cmp.Compare(m.Slot, slot)
	})
}

// Settled reports whether all usage of the span is on invoices.
func (p *HeldSpan) Settled() bool {
	for i := range p.Meters {
		if !p.Meters[i].Unbilled().IsZero() {
			return false
		}
	}
	return p.Billed
}

// HeldSpans copies the closed spans of a subscription, oldest first.
func (s *Book) HeldSpans(first uint32) (spans []HeldSpan) {
	for row := first; row != 0; {
		p := HeldSpan{Span: *s.Spans.Read(row), Row: row}
		for at := p.FirstMeter; at != 0; {
			m := s.Meters.Read(at)
			p.Meters = append(p.Meters, heldMeter{*m, at})
			at = m.Next
		}
		spans = append(spans, p)
		row = p.Next
	}
	return spans
}

// Unbilled returns what is on no invoice yet; below zero if invoices have too much.
func (m *Meter) Unbilled() decimal.Decimal {
	return sums.Difference(sums.Difference(m.Quantity, m.Covered), m.Invoiced)
}

// Absorb reduces a corrected quantity by its unpaid units, which have no line, and returns their
// number.
func (m *Meter) Absorb() decimal.Decimal {
	change := m.Unbilled()
	if change.Sign()*m.Forgiven.Sign() >= 0 {
		return decimal.Decimal{}
	}
	if m.Forgiven.Abs().Less(change.Abs()) {
		change = m.Forgiven.Neg()
	}
	m.Invoiced, m.Forgiven = sums.Of(m.Invoiced, change), sums.Of(m.Forgiven, change)
	return change
}

// Forgive notes the units of a newly VOID invoice in their spans. Spans that were dropped need no
// note. interim is the plan version of an interim invoice, whose lines of usage end within their
// span; 0: it is none.
func Forgive(c *catalogs.Catalog, spans []HeldSpan, items []InvoiceItem, interim uint32) {
	for i := range items {
		if item := &items[i]; item.Kind.OfUsage() {
			if p, slot := spanOf(c, spans, item, interim); p != nil {
				m := p.MeterAt(slot)
				m.Forgiven, p.Dirty = sums.Of(m.Forgiven, item.Quantity), true
			}
		}
	}
}

// spanOf returns the span of a line of usage and the feature's slot in its version. Plan changes
// within one millisecond leave spans with the same bounds: then it is the first with enough units
// on invoices, else the first with any usage.
func spanOf(
	c *catalogs.Catalog, spans []HeldSpan, item *InvoiceItem, interim uint32,
) (found *HeldSpan, place uint32) {
	feature, best := c.FeatureNamed([]byte(item.FeatureKey)), -1
	for i := range spans {
		p := &spans[i]
		slot, ok := c.Version(p.Version).Slot(feature)
		within := p.End == item.PeriodEnd ||
			p.End > item.PeriodEnd && p.Version == interim && item.Kind == LineUsage
		if !ok || p.Start != item.PeriodStart || !within {
			continue
		}
		fits := 0
		for j := range p.Meters {
			switch m := &p.Meters[j].Meter; {
			case m.Slot != slot || m.empty():
			case item.Quantity.Sign() > 0 && !sums.Difference(m.Invoiced, m.Forgiven).Less(item.Quantity):
				fits = 2
			default:
				fits = 1
			}
		}
		if fits > best {
			found, place, best = p, slot, fits
		}
	}
	return found, place
}

// empty reports whether a meter has no usage left and nothing on invoices.
func (m *Meter) empty() bool {
	return m.Quantity.IsZero() && m.Invoiced.IsZero() && m.Forgiven.IsZero()
}

// Store writes a span with its meters. Callers hold the customer's lock.
func (t *Keeper) Store(p *HeldSpan) {
	for i := len(p.Meters) - 1; i >= 0; i-- {
		m := &p.Meters[i]
		if m.row == 0 {
			m.row = t.takeMeter()
		}
		if i+1 < len(p.Meters) {
			m.Next = p.Meters[i+1].row
		}
		*t.S.Meters.Write(m.row) = m.Meter
		t.FoldDecimal(m.Quantity)
	}
	if len(p.Meters) > 0 {
		p.FirstMeter = p.Meters[0].row
	}
	*t.S.Spans.Write(p.Row) = p.Span
}

// takeMeter returns a free row of the meters.
func (t *Keeper) takeMeter() (row uint32) {
	if row = t.S.FreeMeter; row != 0 {
		t.S.FreeMeter = t.S.Meters.Read(row).Next
		return row
	}
	row, _ = t.S.Meters.Append()
	return row
}

// TakeSpan returns a free row of the spans.
func (t *Keeper) TakeSpan() (row uint32) {
	if row = t.S.FreeSpan; row != 0 {
		t.S.FreeSpan = t.S.Spans.Read(row).Next
		return row
	}
	row, _ = t.S.Spans.Append()
	return row
}

// Free frees the rows of a span. Callers hold the customer's lock.
func (t *Keeper) Free(p *HeldSpan) {
	for i := range p.Meters {
		*t.S.Meters.Write(p.Meters[i].row) = Meter{Next: t.S.FreeMeter}
		t.S.FreeMeter = p.Meters[i].row
	}
	*t.S.Spans.Write(p.Row) = Span{Next: t.S.FreeSpan}
	t.S.FreeSpan = p.Row
}

// FoldDecimal mixes a number into the rolling hash.
func (t *Keeper) FoldDecimal(d decimal.Decimal) {
	high, low := d.Bits()
	t.Fold(uint64(high) ^ low)
}
