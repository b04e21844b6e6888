package billing

import (
	"slices"

	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
)

// Fault changes one stored value by hand, as damaged memory or a wrong program would. Problem is
// part of what a verification says then.
type Fault struct {
	What, Problem string
	Change        func(*Machine)
}

// SpansHeld is how many closed spans of a customer a pass holds in the end.
func SpansHeld(m *Machine, src journal.Source, env, row uint32) (count int, err error) {
	p := newPass(m.state.Load(), env, []uint32{row})
	err = p.read(src)
	return p.accounts[row].Spans(), err
}

// CountingFaults are changes of what later invoices are made of.
var CountingFaults = []Fault{
	{"a counter", "quantity", func(m *Machine) {
		c := &m.state.Load().Counters
		n := c.Read(3) // output-tokens
		n.Used = sums.Of(n.Used, decimal.FromInt(1))
		c.Write(3, &n)
	}},
	{"usage ahead of the period", "quantity", func(m *Machine) {
		c := &m.state.Load().Counters
		n := c.Read(3)
		n.Next = sums.Of(n.Next, decimal.FromInt(1000))
		c.Write(3, &n)
	}},
	{"what a closed span counted", "quantity", func(m *Machine) {
		n := m.state.Load().Meters.Write(1)
		n.Quantity = sums.Of(n.Quantity, decimal.FromInt(1000))
	}},
	{"what is invoiced already", "quantity", func(m *Machine) {
		n := m.state.Load().Meters.Write(1)
		n.Invoiced = sums.Of(n.Invoiced, decimal.FromInt(1000))
	}},
	{"the customer's credit", "amount", func(m *Machine) {
		b := m.state.Load().Balances.Write(1)
		b.Amount = sums.Of(b.Amount, decimal.MustParse("0.01"))
	}},
}

// stored is a change of an invoice's record.
func stored(row uint32, change func(*book.Invoice)) func(*Machine) {
	return func(m *Machine) { changeInvoice(&m.state.Load().Invoices, row, change) }
}

// lines is a change of an invoice's stored lines.
func lines(row uint32, change func(*book.InvoiceLines)) func(*Machine) {
	return func(m *Machine) {
		s := m.state.Load()
		l := book.InvoiceLines{Items: s.InvoiceItems(row, new(s.Invoices.Read(row)))}
		change(&l)
		s.Items.Put(row, wire.Encode(nil, &l))
	}
}

// usageInvoice is past due, with late usage, usage ahead, and credit that is used up; lastInvoice
// is not due yet.
const (
	usageInvoice = 3
	lastInvoice  = 6
)

// line is a change of the first line of usageInvoice.
func line(change func(*book.InvoiceItem)) func(*Machine) {
	return lines(usageInvoice, func(l *book.InvoiceLines) { change(&l.Items[0]) })
}

// StoredFaults are changes of what is stored of invoices, of which the first is paid.
var StoredFaults = []Fault{
	{
		"number", "number is 7, the journal makes 3",
		stored(usageInvoice, func(v *book.Invoice) { v.Number = 7 }),
	},
	{"unpaid", "status", stored(1, func(v *book.Invoice) { v.Status, v.PaidAt = book.InvoicePastDue, 0 })},
	{"paid at", "paidAt", stored(1, func(v *book.Invoice) { v.PaidAt++ })},
	{"paid", "status", stored(usageInvoice, func(v *book.Invoice) { v.Status, v.PaidAt = book.InvoicePaid, 5 })},
	{"void", "status", stored(usageInvoice, func(v *book.Invoice) { v.Status = book.InvoiceVoid })},
	{"due again", "status", stored(usageInvoice, func(v *book.Invoice) { v.Status = book.InvoiceDue })},
	{"past due too soon", "status", stored(lastInvoice, func(v *book.Invoice) {
		v.Status = book.InvoicePastDue
	})},
	{"issued", "createdAt", stored(usageInvoice, func(v *book.Invoice) { v.CreatedAt++ })},
	{"due date", "dueDate", stored(usageInvoice, func(v *book.Invoice) { v.DueAt++ })},
	{"period's start", "periodStart", stored(usageInvoice, func(v *book.Invoice) { v.PeriodStart++ })},
	{"period's end", "periodEnd", stored(usageInvoice, func(v *book.Invoice) { v.PeriodEnd++ })},
	{"type", "type", stored(usageInvoice, func(v *book.Invoice) { v.Kind = book.InvoiceAdjustment })},
	{"amount", "amount", stored(usageInvoice, func(v *book.Invoice) {
		v.Amount = sums.Of(v.Amount, decimal.MustParse("0.01"))
	})},
	{"currency", "currency is EUR, the journal makes USD", func(m *Machine) {
		s := m.state.Load()
		versions := s.Environment(1).Catalog.Load().Versions
		version := 1 + uint32(slices.IndexFunc(versions, func(p *catalogs.PlanVersion) bool {
			return p.Currency == "EUR"
		}))
		changeInvoice(&s.Invoices, usageInvoice, func(v *book.Invoice) { v.Version = version })
	}},
	{
		"customer", "customer is 2, the journal makes 1",
		stored(usageInvoice, func(v *book.Invoice) { v.Customer = 2 }),
	},
	{"subscription", "subscription", stored(usageInvoice, func(v *book.Invoice) { v.Subscription = 2 })},
	{"identifier", "none of its id", stored(usageInvoice, func(v *book.Invoice) { v.ID[3]++ })},
	{"an end of the list", "lacks it", stored(1, func(v *book.Invoice) { v.Next = 0 })},
	{"a list without an end", "lacks it", stored(usageInvoice, func(v *book.Invoice) { v.Next = 1 })},
	{"an index without it", "none of its id", func(m *Machine) {
		s := m.state.Load()
		v := s.Invoices.Read(usageInvoice)
		s.InvoiceByID.Remove(s.IDHash(&v.ID), usageInvoice)
	}},
	{"one more", "the journal does not explain the invoice", func(m *Machine) {
		s := m.state.Load()
		v := s.Invoices.Read(lastInvoice)
		v.ID[3]++
		row := s.Invoices.Append(&v)
		s.Items.Append(s.Items.Get(lastInvoice))
		s.Invoices.Link(lastInvoice, row)
	}},
	{"credit carried", "credit in USD is", func(m *Machine) {
		b := m.state.Load().Balances.Write(1)
		b.Amount = sums.Of(b.Amount, decimal.MustParse("0.01"))
	}},
	{"line's kind", "line 1: kind", line(func(i *book.InvoiceItem) { i.Kind = book.LineLate })},
	{"line's text", "line 1: description", line(func(i *book.InvoiceItem) { i.Description += "s" })},
	{"line's feature", "line 1: featureKey", line(func(i *book.InvoiceItem) { i.FeatureKey = "x" })},
	{"line's quantity", "line 1: quantity", line(func(i *book.InvoiceItem) {
		i.Quantity = decimal.FromInt(2)
	})},
	{"line's unit price", "line 1: unitPrice", line(func(i *book.InvoiceItem) {
		i.UnitPrice = decimal.FromInt(2)
	})},
	{"line without unit price", "line 1: has a unitPrice", line(func(i *book.InvoiceItem) {
		i.HasUnitPrice = !i.HasUnitPrice
	})},
	{"line's tier", "line 1: tiers", line(func(i *book.InvoiceItem) {
		i.Tiers[0].FlatFee = decimal.FromInt(2)
	})},
	{"line's start", "line 1: periodStart", line(func(i *book.InvoiceItem) { i.PeriodStart++ })},
	{"line's end", "line 1: periodEnd", line(func(i *book.InvoiceItem) { i.PeriodEnd++ })},
	{"line's amount", "line 1: amount", line(func(i *book.InvoiceItem) {
		i.Amount = sums.Of(i.Amount, decimal.MustParse("0.01"))
	})},
	{
		"line missing", "number of lines",
		lines(usageInvoice, func(l *book.InvoiceLines) { l.Items = l.Items[1:] }),
	},
	{
		"line more", "number of lines",
		lines(usageInvoice, func(l *book.InvoiceLines) { l.Items = append(l.Items, l.Items[0]) }),
	},
	{"lines without sense", "do not decode", func(m *Machine) {
		m.state.Load().Items.Put(usageInvoice, []byte("\xff\xff"))
	}},
}
