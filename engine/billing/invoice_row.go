package billing

import (
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

// invoice is the record of an invoice; its lines are the text of the same row. id, customer and
// subscription never change.
type invoice struct {
	id                                    [16]byte
	number                                uint64
	createdAt, dueAt, paidAt              int64
	periodStart, periodEnd                int64
	amount                                decimal.Decimal
	customer, subscription, version, next uint32 // next: the customer's next younger invoice
	kind                                  InvoiceType
	status                                InvoiceStatus
	nextUnpaid                            uint32 // the subscription's next younger unpaid one
	graceEnd                              int64  // when, unpaid, it suspends the subscription
}

// appendInvoice appends the bytes that stand for it in a snapshot.
func appendInvoice(dst []byte, v *invoice) []byte {
	dst = append(dst, v.id[:]...)
	dst = rows.AppendI64(dst, int64(v.number))
	dst = rows.AppendI64(rows.AppendI64(rows.AppendI64(dst, v.createdAt), v.dueAt), v.paidAt)
	dst = rows.AppendI64(rows.AppendI64(dst, v.periodStart), v.periodEnd)
	dst = rows.AppendDecimal(dst, v.amount)
	dst = rows.AppendU32(rows.AppendU32(dst, v.customer), v.subscription)
	dst = rows.AppendU32(rows.AppendU32(dst, v.version), v.next)
	dst = rows.AppendI64(rows.AppendU32(dst, v.nextUnpaid), v.graceEnd)
	return append(dst, byte(v.kind), byte(v.status))
}

// readInvoice reads what appendInvoice wrote.
func readInvoice(src []byte, v *invoice) ([]byte, error) {
	r := rows.Reader{Rest: src}
	v.id, v.number = r.ID(), r.U64()
	v.createdAt, v.dueAt, v.paidAt = r.I64(), r.I64(), r.I64()
	v.periodStart, v.periodEnd = r.I64(), r.I64()
	v.amount = r.Decimal()
	v.customer, v.subscription = r.U32(), r.U32()
	v.version, v.next = r.U32(), r.U32()
	v.nextUnpaid, v.graceEnd = r.U32(), r.I64()
	v.kind, v.status = InvoiceType(r.U8()), InvoiceStatus(r.U8())
	return r.Rest, r.Err
}

// invoiceRow is an invoice in memory: in few bytes where it is like nearly all of them, issued some
// minutes after a period's start or end, due and in grace for some days. Any other is a part.
type invoiceRow struct {
	invoiceIdentity
	invoiceTerms
}

// invoiceIdentity never changes: queries read it without a lock.
type invoiceIdentity struct {
	id                     [16]byte
	customer, subscription uint32
}

type invoiceTerms struct {
	periodStart, periodEnd, paidAt int64
	amount                         int64 // × 10¹²
	next, nextUnpaid, number       uint32
	whole                          uint32 // the part that has all but next; 0: none
	version                        uint16
	// issued is how many minutes after the period's start the invoice was issued, or, from afterEnd
	// on, after its end.
	issued             uint16
	dueDays, graceDays uint8
	kind               InvoiceType
	status             InvoiceStatus
}

// afterEnd is more minutes than any invoice waits for late usage.
const afterEnd = 1 << 15

// minuteMS is a minute in milliseconds.
const minuteMS = 60_000

// packed is the row of an invoice, but for what does not fit: it differs from it when unpacked.
func packed(v *invoice) invoiceRow {
	_, low := v.amount.Bits()
	r := invoiceRow{invoiceIdentity{v.id, v.customer, v.subscription}, invoiceTerms{
		periodStart: v.periodStart, periodEnd: v.periodEnd, paidAt: v.paidAt, amount: int64(low),
		next: v.next, nextUnpaid: v.nextUnpaid, number: uint32(v.number), version: uint16(v.version),
		issued:    uint16((v.createdAt - v.periodStart) / minuteMS),
		dueDays:   uint8((v.dueAt - v.createdAt) / dayMS),
		graceDays: uint8((v.graceEnd - v.dueAt) / dayMS), kind: v.kind, status: v.status,
	}}
	if v.createdAt >= v.periodEnd {
		r.issued = afterEnd | uint16((v.createdAt-v.periodEnd)/minuteMS)
	}
	return r
}

// unpacked is the invoice that a row describes without a part.
func (r *invoiceRow) unpacked() invoice {
	at := r.periodStart + int64(r.issued)*minuteMS
	if r.issued >= afterEnd {
		at = r.periodEnd + int64(r.issued-afterEnd)*minuteMS
	}
	due := at + int64(r.dueDays)*dayMS
	return invoice{
		id: r.id, number: uint64(r.number), createdAt: at, dueAt: due, paidAt: r.paidAt,
		periodStart: r.periodStart, periodEnd: r.periodEnd,
		amount: decimal.FromBits(r.amount>>63, uint64(r.amount)), customer: r.customer,
		subscription: r.subscription, version: uint32(r.version), next: r.next,
		kind: r.kind, status: r.status, nextUnpaid: r.nextUnpaid,
		graceEnd: due + int64(r.graceDays)*dayMS,
	}
}

// invoices are all invoices.
type invoices struct {
	rows  *page.Table[invoiceRow]
	whole *page.Parts[invoice]
}

// openInvoices makes the tables.
func openInvoices(s *page.Store) invoices {
	n := invoices{whole: page.NewParts[invoice]()}
	n.rows = page.NewTable(s, tableInvoices, page.Codec[invoiceRow]{
		Append: func(dst []byte, r *invoiceRow) []byte {
			v := n.of(r)
			return appendInvoice(dst, &v)
		},
		Read: func(src []byte, r *invoiceRow) ([]byte, error) {
			var v invoice
			rest, err := readInvoice(src, &v)
			if err == nil {
				n.put(r, &v)
			}
			return rest, err
		},
		Apart: func(r *invoiceRow) bool { return r.whole != 0 },
	})
	return n
}

func (n *invoices) of(r *invoiceRow) invoice {
	if r.whole == 0 {
		return r.unpacked()
	}
	v := *n.whole.Read(r.whole)
	v.next = r.next
	return v
}

func (n *invoices) put(r *invoiceRow, v *invoice) {
	p := packed(v)
	if p.unpacked() == *v {
		n.whole.Drop(r.whole)
	} else {
		p.whole = n.whole.Put(r.whole, *v)
	}
	if r.invoiceIdentity != p.invoiceIdentity { // else it may be read meanwhile
		r.invoiceIdentity = p.invoiceIdentity
	}
	r.invoiceTerms = p.invoiceTerms
}

// Len is the number of invoices.
func (n *invoices) Len() uint32 { return n.rows.Len() }

// Bytes is the memory of all invoices, without their lines.
func (n *invoices) Bytes() uint64 { return n.rows.Bytes() + n.whole.Bytes() }

// ID is an invoice's id, which never changes. It takes no lock.
func (n *invoices) ID(row uint32) [16]byte { return n.rows.Read(row).id }

// Owner is the row of an invoice's customer, which never changes. It takes no lock.
func (n *invoices) Owner(row uint32) uint32 { return n.rows.Read(row).customer }

// Read returns an invoice. Readers hold the customer's lock.
func (n *invoices) Read(row uint32) invoice { return n.of(n.rows.Read(row)) }

// Append adds an invoice. For Apply, under the customer's lock, as are Write and Link.
func (n *invoices) Append(v *invoice) (row uint32) {
	row, r := n.rows.Append()
	n.put(r, v)
	return row
}

// Write stores an invoice.
func (n *invoices) Write(row uint32, v *invoice) { n.put(n.rows.Write(row), v) }

// Link says which invoice of the customer comes after one.
func (n *invoices) Link(row, next uint32) { n.rows.Write(row).next = next }
