package book

import (
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

// Invoice is the record of an invoice; its lines are the text of the same row. id, customer and
// subscription never change.
//
//schema:row
type Invoice struct {
	ID                                    [16]byte
	Number                                uint64
	CreatedAt, DueAt, PaidAt              int64
	PeriodStart, PeriodEnd                int64
	Amount                                decimal.Decimal
	Customer, Subscription, Version, Next uint32 // next: the customer's next younger invoice
	NextUnpaid                            uint32 // the subscription's next younger unpaid invoice
	GraceEnd                              int64  // when it suspends the subscription, if unpaid
	Kind                                  InvoiceType
	Status                                InvoiceStatus
}

// InvoiceRow is an invoice in memory. It takes few bytes if the invoice is like nearly all: issued
// some minutes after a period's start or end, due and in grace for some days. Any other is a part.
type InvoiceRow struct {
	invoiceIdentity
	invoiceTerms
}

// invoiceIdentity never changes: queries read it without a lock.
type invoiceIdentity struct {
	id                     [16]byte
	customer, subscription uint32
}

type invoiceTerms struct {
	periodStart, paidAt int64
	amount              int64 // × 10¹²
	next, nextUnpaid    uint32
	// number is the invoice's. If status is 0, it is that of the part, which has everything but
	// next.
	number  uint32
	version uint16
	// issued is how many minutes after the period's start the invoice was issued; from afterEnd on,
	// after its end.
	issued             uint16
	periodDays         uint16
	dueDays, graceDays uint8
	kind               InvoiceType
	status             InvoiceStatus
}

// part returns the number of the row's part; 0 if there is none.
func (r *invoiceTerms) part() uint32 {
	if r.status == 0 {
		return r.number
	}
	return 0
}

// afterEnd is more minutes than any invoice waits for late usage.
const afterEnd = 1 << 15

// MinuteMS is a minute in milliseconds.
const MinuteMS = 60_000

// packed returns the row of an invoice. If the invoice does not fit, the unpacked row differs from
// it.
func packed(v *Invoice) InvoiceRow {
	_, low := v.Amount.Bits()
	r := InvoiceRow{invoiceIdentity{v.ID, v.Customer, v.Subscription}, invoiceTerms{
		periodStart: v.PeriodStart, paidAt: v.PaidAt, amount: int64(low),
		next: v.Next, nextUnpaid: v.NextUnpaid, number: uint32(v.Number), version: uint16(v.Version),
		issued:     uint16((v.CreatedAt - v.PeriodStart) / MinuteMS),
		periodDays: uint16((v.PeriodEnd - v.PeriodStart) / accounts.DayMS),
		dueDays:    uint8((v.DueAt - v.CreatedAt) / accounts.DayMS),
		graceDays:  uint8((v.GraceEnd - v.DueAt) / accounts.DayMS), kind: v.Kind, status: v.Status,
	}}
	if v.CreatedAt >= v.PeriodEnd {
		r.issued = afterEnd | uint16((v.CreatedAt-v.PeriodEnd)/MinuteMS)
	}
	return r
}

// unpacked returns the invoice of a row without a part.
func (r *InvoiceRow) unpacked() Invoice {
	periodEnd := r.periodStart + int64(r.periodDays)*accounts.DayMS
	at := r.periodStart + int64(r.issued)*MinuteMS
	if r.issued >= afterEnd {
		at = periodEnd + int64(r.issued-afterEnd)*MinuteMS
	}
	due := at + int64(r.dueDays)*accounts.DayMS
	return Invoice{
		ID: r.id, Number: uint64(r.number), CreatedAt: at, DueAt: due, PaidAt: r.paidAt,
		PeriodStart: r.periodStart, PeriodEnd: periodEnd,
		Amount: decimal.FromBits(r.amount>>63, uint64(r.amount)), Customer: r.customer,
		Subscription: r.subscription, Version: uint32(r.version), Next: r.next,
		Kind: r.kind, Status: r.status, NextUnpaid: r.nextUnpaid,
		GraceEnd: due + int64(r.graceDays)*accounts.DayMS,
	}
}

// Invoices are all invoices.
type Invoices struct {
	rows  *page.Table[InvoiceRow]
	Whole *page.Parts[Invoice]
}

// OpenInvoices makes the tables.
func OpenInvoices(s *page.Store) Invoices {
	n := Invoices{Whole: page.NewParts[Invoice]()}
	n.rows = page.NewTable(s, accounts.TableInvoices, page.Codec[InvoiceRow]{
		Append: func(dst []byte, r *InvoiceRow) []byte {
			v := n.of(r)
			return appendInvoice(dst, &v)
		},
		Read: func(src []byte, r *InvoiceRow) ([]byte, error) {
			var v Invoice
			rest, err := readInvoice(src, &v)
			if err == nil {
				n.put(r, &v)
			}
			return rest, err
		},
		Apart: func(r *InvoiceRow) bool { return r.part() != 0 },
	})
	return n
}

func (n *Invoices) of(r *InvoiceRow) Invoice {
	part := r.part()
	if part == 0 {
		return r.unpacked()
	}
	v := *n.Whole.Read(part)
	v.Next = r.next
	return v
}

func (n *Invoices) put(r *InvoiceRow, v *Invoice) {
	p := packed(v)
	if p.unpacked() == *v && p.status != 0 {
		n.Whole.Drop(r.part())
	} else {
		p.number, p.status = n.Whole.Put(r.part(), *v), 0
	}
	if r.invoiceIdentity != p.invoiceIdentity { // otherwise a reader may see it meanwhile
		r.invoiceIdentity = p.invoiceIdentity
	}
	r.invoiceTerms = p.invoiceTerms
}

// Len is the number of invoices.
func (n *Invoices) Len() uint32 { return n.rows.Len() }

// Bytes returns the memory of all invoices, without their lines.
func (n *Invoices) Bytes() uint64 { return n.rows.Bytes() + n.Whole.Bytes() }

// ID returns an invoice's id, which never changes. It takes no lock.
func (n *Invoices) ID(row uint32) [16]byte { return n.rows.Read(row).id }

// Owner returns the row of an invoice's customer, which never changes. It takes no lock.
func (n *Invoices) Owner(row uint32) uint32 { return n.rows.Read(row).customer }

// Read returns an invoice. Readers hold the customer's lock.
func (n *Invoices) Read(row uint32) Invoice { return n.of(n.rows.Read(row)) }

// Append adds an invoice. Append, Write and Link are for Apply, under the customer's lock.
func (n *Invoices) Append(v *Invoice) (row uint32) {
	row, r := n.rows.Append()
	n.put(r, v)
	return row
}

// Write stores an invoice.
func (n *Invoices) Write(row uint32, v *Invoice) { n.put(n.rows.Write(row), v) }

// Link sets the customer's next invoice after one.
func (n *Invoices) Link(row, next uint32) { n.rows.Write(row).next = next }
