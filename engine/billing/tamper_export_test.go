package billing

import (
	"slices"

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
	for _, b := range p.accounts[row].books {
		count += len(b.closed)
	}
	return count, err
}

// CountingFaults are changes of what later invoices are made of.
var CountingFaults = []Fault{
	{"a counter", "quantity", func(m *Machine) {
		c := &m.state.Load().counters
		n := c.Read(3) // output-tokens
		n.used = sum(n.used, decimal.FromInt(1))
		c.Write(3, &n)
	}},
	{"usage ahead of the period", "quantity", func(m *Machine) {
		c := &m.state.Load().counters
		n := c.Read(3)
		n.next = sum(n.next, decimal.FromInt(1000))
		c.Write(3, &n)
	}},
	{"what a closed span counted", "quantity", func(m *Machine) {
		n := m.state.Load().meters.Write(1)
		n.quantity = sum(n.quantity, decimal.FromInt(1000))
	}},
	{"what is invoiced already", "quantity", func(m *Machine) {
		n := m.state.Load().meters.Write(1)
		n.invoiced = sum(n.invoiced, decimal.FromInt(1000))
	}},
	{"the customer's credit", "amount", func(m *Machine) {
		b := m.state.Load().balances.Write(1)
		b.amount = sum(b.amount, decimal.MustParse("0.01"))
	}},
}

// stored is a change of an invoice's record.
func stored(row uint32, change func(*invoice)) func(*Machine) {
	return func(m *Machine) { changeInvoice(&m.state.Load().invoices, row, change) }
}

// lines is a change of an invoice's stored lines.
func lines(row uint32, change func(*invoiceLines)) func(*Machine) {
	return func(m *Machine) {
		s := m.state.Load()
		l := invoiceLines{Items: s.invoiceItems(row, new(s.invoices.Read(row)))}
		change(&l)
		s.items.Write(row).Data = string(wire.Encode(nil, &l))
	}
}

// usageInvoice is past due, with late usage, usage ahead, and credit that is used up; lastInvoice
// is not due yet.
const (
	usageInvoice = 3
	lastInvoice  = 6
)

// line is a change of the first line of usageInvoice.
func line(change func(*InvoiceItem)) func(*Machine) {
	return lines(usageInvoice, func(l *invoiceLines) { change(&l.Items[0]) })
}

// StoredFaults are changes of what is stored of invoices, of which the first is paid.
var StoredFaults = []Fault{
	{
		"number", "number is 7, the journal makes 3",
		stored(usageInvoice, func(v *invoice) { v.number = 7 }),
	},
	{"unpaid", "status", stored(1, func(v *invoice) { v.status, v.paidAt = InvoicePastDue, 0 })},
	{"paid at", "paidAt", stored(1, func(v *invoice) { v.paidAt++ })},
	{"paid", "status", stored(usageInvoice, func(v *invoice) { v.status, v.paidAt = InvoicePaid, 5 })},
	{"void", "status", stored(usageInvoice, func(v *invoice) { v.status = InvoiceVoid })},
	{"due again", "status", stored(usageInvoice, func(v *invoice) { v.status = InvoiceDue })},
	{"past due too soon", "status", stored(lastInvoice, func(v *invoice) {
		v.status = InvoicePastDue
	})},
	{"issued", "createdAt", stored(usageInvoice, func(v *invoice) { v.createdAt++ })},
	{"due date", "dueDate", stored(usageInvoice, func(v *invoice) { v.dueAt++ })},
	{"period's start", "periodStart", stored(usageInvoice, func(v *invoice) { v.periodStart++ })},
	{"period's end", "periodEnd", stored(usageInvoice, func(v *invoice) { v.periodEnd++ })},
	{"type", "type", stored(usageInvoice, func(v *invoice) { v.kind = InvoiceAdjustment })},
	{"amount", "amount", stored(usageInvoice, func(v *invoice) {
		v.amount = sum(v.amount, decimal.MustParse("0.01"))
	})},
	{"currency", "currency is EUR, the journal makes USD", func(m *Machine) {
		s := m.state.Load()
		versions := s.environment(1).catalog.Load().versions
		version := 1 + uint32(slices.IndexFunc(versions, func(p *planVersion) bool {
			return p.currency == "EUR"
		}))
		changeInvoice(&s.invoices, usageInvoice, func(v *invoice) { v.version = version })
	}},
	{
		"customer", "customer is 2, the journal makes 1",
		stored(usageInvoice, func(v *invoice) { v.customer = 2 }),
	},
	{"subscription", "subscription", stored(usageInvoice, func(v *invoice) { v.subscription = 2 })},
	{"identifier", "none of its id", stored(usageInvoice, func(v *invoice) { v.id[3]++ })},
	{"an end of the list", "lacks it", stored(1, func(v *invoice) { v.next = 0 })},
	{"a list without an end", "lacks it", stored(usageInvoice, func(v *invoice) { v.next = 1 })},
	{"an index without it", "none of its id", func(m *Machine) {
		s := m.state.Load()
		v := s.invoices.Read(usageInvoice)
		s.invoiceByID.Remove(s.idHash(&v.id), usageInvoice)
	}},
	{"one more", "the journal does not explain the invoice", func(m *Machine) {
		s := m.state.Load()
		v := s.invoices.Read(lastInvoice)
		v.id[3]++
		row := s.invoices.Append(&v)
		_, cold := s.items.Append()
		cold.Data = s.items.Read(lastInvoice).Data
		s.invoices.Link(lastInvoice, row)
	}},
	{"credit carried", "credit in USD is", func(m *Machine) {
		b := m.state.Load().balances.Write(1)
		b.amount = sum(b.amount, decimal.MustParse("0.01"))
	}},
	{"line's kind", "line 1: kind", line(func(i *InvoiceItem) { i.Kind = LineLate })},
	{"line's text", "line 1: description", line(func(i *InvoiceItem) { i.Description += "s" })},
	{"line's feature", "line 1: featureKey", line(func(i *InvoiceItem) { i.FeatureKey = "x" })},
	{"line's quantity", "line 1: quantity", line(func(i *InvoiceItem) {
		i.Quantity = decimal.FromInt(2)
	})},
	{"line's unit price", "line 1: unitPrice", line(func(i *InvoiceItem) {
		i.UnitPrice = decimal.FromInt(2)
	})},
	{"line without unit price", "line 1: has a unitPrice", line(func(i *InvoiceItem) {
		i.HasUnitPrice = !i.HasUnitPrice
	})},
	{"line's tier", "line 1: tiers", line(func(i *InvoiceItem) {
		i.Tiers[0].FlatFee = decimal.FromInt(2)
	})},
	{"line's start", "line 1: periodStart", line(func(i *InvoiceItem) { i.PeriodStart++ })},
	{"line's end", "line 1: periodEnd", line(func(i *InvoiceItem) { i.PeriodEnd++ })},
	{"line's amount", "line 1: amount", line(func(i *InvoiceItem) {
		i.Amount = sum(i.Amount, decimal.MustParse("0.01"))
	})},
	{
		"line missing", "number of lines",
		lines(usageInvoice, func(l *invoiceLines) { l.Items = l.Items[1:] }),
	},
	{
		"line more", "number of lines",
		lines(usageInvoice, func(l *invoiceLines) { l.Items = append(l.Items, l.Items[0]) }),
	},
	{"lines without sense", "do not decode", func(m *Machine) {
		m.state.Load().items.Write(usageInvoice).Data = "\xff\xff"
	}},
}
