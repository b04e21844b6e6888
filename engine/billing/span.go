package billing

import (
	"cmp"
	"slices"

	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

// span is a closed stretch of a subscription under one plan version: a period, or a part of one
// that a plan change cut. Spans are numbered from 0 and follow each other without gaps. They are
// kept until no accepted event or correction can belong to them any more; then the row is used
// again.
type span struct {
	start, end                                          int64 // [start, end)
	number, period, version, customer, firstMeter, next uint32
	// billed reports whether an invoice has the span's usage: what comes later is late.
	billed bool
}

var spanCodec = page.Codec[span]{
	Append: func(dst []byte, p *span) []byte {
		dst = rows.AppendI64(rows.AppendI64(dst, p.start), p.end)
		dst = rows.AppendU32(rows.AppendU32(rows.AppendU32(dst, p.number), p.period), p.version)
		dst = rows.AppendU32(rows.AppendU32(rows.AppendU32(dst, p.customer), p.firstMeter), p.next)
		return rows.AppendBool(dst, p.billed)
	},
	Read: func(src []byte, p *span) ([]byte, error) {
		r := rows.Reader{Rest: src}
		p.start, p.end = r.I64(), r.I64()
		p.number, p.period, p.version = r.U32(), r.U32(), r.U32()
		p.customer, p.firstMeter, p.next = r.U32(), r.U32(), r.U32()
		p.billed = r.U8() != 0
		return r.Rest, r.Err
	},
}

// meter is what a feature of a closed span counted. Features that counted nothing have none.
type meter struct {
	// quantity is what was counted, covered the part of it that credits have paid, invoiced the
	// part of the rest that invoices have.
	quantity, covered, invoiced decimal.Decimal
	// forgiven is what of invoiced only VOID invoices have: nobody pays for it, so that nothing
	// comes back when it is corrected away. Below zero: what a VOID invoice would have given back.
	forgiven decimal.Decimal
	next     uint32
	slot     uint32 // the feature's place in the plan version
}

var meterCodec = page.Codec[meter]{
	Append: func(dst []byte, m *meter) []byte {
		dst = rows.AppendDecimal(rows.AppendDecimal(dst, m.quantity), m.covered)
		dst = rows.AppendDecimal(rows.AppendDecimal(dst, m.invoiced), m.forgiven)
		return rows.AppendU32(rows.AppendU32(dst, m.next), m.slot)
	},
	Read: func(src []byte, m *meter) ([]byte, error) {
		r := rows.Reader{Rest: src}
		m.quantity, m.covered = r.Decimal(), r.Decimal()
		m.invoiced, m.forgiven = r.Decimal(), r.Decimal()
		m.next, m.slot = r.U32(), r.U32()
		return r.Rest, r.Err
	},
}

// base is where a counter's current span began, kept only where that is not 0: usage that
// accumulates, and usage that a plan change cut.
type base struct {
	// rated is how many units lines have priced of an accumulating feature under the present plan
	// version, opened the reading up to which spans are closed.
	rated, opened decimal.Decimal
}

var baseCodec = page.Codec[base]{
	Append: func(dst []byte, b *base) []byte {
		return rows.AppendDecimal(rows.AppendDecimal(dst, b.rated), b.opened)
	},
	Read: func(src []byte, b *base) ([]byte, error) {
		r := rows.Reader{Rest: src}
		b.rated, b.opened = r.Decimal(), r.Decimal()
		return r.Rest, r.Err
	},
}

// heldSpan is a span in a ledger, with its meters.
type heldSpan struct {
	span
	row    uint32 // 0: not stored yet
	dirty  bool
	meters []heldMeter // by slot
}

// heldMeter is a meter in a ledger.
type heldMeter struct {
	meter
	row uint32
}

// meterAt returns the meter of a slot, and makes it where there is none.
func (p *heldSpan) meterAt(slot uint32) *meter {
	at, has := p.meterOf(slot)
	if !has {
		p.meters = append(p.meters, heldMeter{})
		copy(p.meters[at+1:], p.meters[at:])
		p.meters[at] = heldMeter{meter: meter{slot: slot}}
	}
	return &p.meters[at].meter
}

// meterOf is where the meter of a slot is among those of the span, or would be: they are in order.
func (p *heldSpan) meterOf(slot uint32) (at int, has bool) {
	return slices.BinarySearchFunc(p.meters, slot, func(m heldMeter, slot uint32) int {
		return cmp.Compare(m.slot, slot)
	})
}

// settled reports whether invoices have all that the span counted.
func (p *heldSpan) settled() bool {
	for i := range p.meters {
		if !p.meters[i].unbilled().IsZero() {
			return false
		}
	}
	return p.billed
}

// heldSpans copies the closed spans of a subscription, oldest first.
func (s *book) heldSpans(first uint32) (spans []heldSpan) {
	for row := first; row != 0; {
		p := heldSpan{span: *s.spans.Read(row), row: row}
		for at := p.firstMeter; at != 0; {
			m := s.meters.Read(at)
			p.meters = append(p.meters, heldMeter{*m, at})
			at = m.next
		}
		spans = append(spans, p)
		row = p.next
	}
	return spans
}

// unbilled is what no invoice has yet; below zero where an invoice has too much.
func (m *meter) unbilled() decimal.Decimal {
	return difference(difference(m.quantity, m.covered), m.invoiced)
}

// absorb takes off what a correction changes of units that nobody pays for, and says how many that
// is: those have no line.
func (m *meter) absorb() decimal.Decimal {
	change := m.unbilled()
	if change.Sign()*m.forgiven.Sign() >= 0 {
		return decimal.Decimal{}
	}
	if m.forgiven.Abs().Less(change.Abs()) {
		change = m.forgiven.Neg()
	}
	m.invoiced, m.forgiven = sum(m.invoiced, change), sum(m.forgiven, change)
	return change
}

// forgive notes the units of an invoice that is VOID from now on in the spans that they are of.
// Spans to which nothing can belong any more need no note.
func forgive(c *catalog, spans []heldSpan, items []InvoiceItem) {
	for i := range items {
		if item := &items[i]; item.Kind.ofUsage() {
			if p, slot := spanOf(c, spans, item); p != nil {
				m := p.meterAt(slot)
				m.forgiven, p.dirty = sum(m.forgiven, item.Quantity), true
			}
		}
	}
}

// spanOf is the span that a line of usage is of, and the feature's place in its version. Plan
// changes of one millisecond leave spans with the same bounds: the line is of the first that has as
// many units on invoices, else of the first that has counted any.
func spanOf(c *catalog, spans []heldSpan, item *InvoiceItem) (found *heldSpan, place uint32) {
	feature, best := c.featureNamed([]byte(item.FeatureKey)), -1
	for i := range spans {
		p := &spans[i]
		slot, ok := c.version(p.version).slot(feature)
		if !ok || p.start != item.PeriodStart || p.end != item.PeriodEnd {
			continue
		}
		fits := 0
		for j := range p.meters {
			switch m := &p.meters[j].meter; {
			case m.slot != slot || m.empty():
			case item.Quantity.Sign() > 0 && !difference(m.invoiced, m.forgiven).Less(item.Quantity):
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

// empty reports whether a meter has counted nothing that stands, nor is anything on invoices.
func (m *meter) empty() bool {
	return m.quantity.IsZero() && m.invoiced.IsZero() && m.forgiven.IsZero()
}

// store writes a span with its meters. The customer's lock is held.
func (t *keeper) store(p *heldSpan) {
	for i := len(p.meters) - 1; i >= 0; i-- {
		m := &p.meters[i]
		if m.row == 0 {
			m.row = t.takeMeter()
		}
		if i+1 < len(p.meters) {
			m.next = p.meters[i+1].row
		}
		*t.s.meters.Write(m.row) = m.meter
		t.foldDecimal(m.quantity)
	}
	if len(p.meters) > 0 {
		p.firstMeter = p.meters[0].row
	}
	*t.s.spans.Write(p.row) = p.span
}

// takeMeter returns a free row of the meters.
func (t *keeper) takeMeter() (row uint32) {
	if row = t.s.freeMeter; row != 0 {
		t.s.freeMeter = t.s.meters.Read(row).next
		return row
	}
	row, _ = t.s.meters.Append()
	return row
}

// takeSpan returns a free row of the spans.
func (t *keeper) takeSpan() (row uint32) {
	if row = t.s.freeSpan; row != 0 {
		t.s.freeSpan = t.s.spans.Read(row).next
		return row
	}
	row, _ = t.s.spans.Append()
	return row
}

// free gives the rows of a span back. The customer's lock is held.
func (t *keeper) free(p *heldSpan) {
	for i := range p.meters {
		*t.s.meters.Write(p.meters[i].row) = meter{next: t.s.freeMeter}
		t.s.freeMeter = p.meters[i].row
	}
	*t.s.spans.Write(p.row) = span{next: t.s.freeSpan}
	t.s.freeSpan = p.row
}

// foldDecimal mixes a number into the rolling hash.
func (t *keeper) foldDecimal(d decimal.Decimal) {
	high, low := d.Bits()
	t.Fold(uint64(high) ^ low)
}
