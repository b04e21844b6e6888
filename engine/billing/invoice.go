package billing

import "tollgate/engine/wire"

// invoiceLines is the cold part of an invoice.
type invoiceLines struct {
	Items []InvoiceItem `wire:"1"`
}

// append numbers a draft, stores it and adds it to its customer. The customer's lock is held.
func (t *runner) append(e *environment, d *draft) (row uint32) {
	e.invoices++
	d.number = e.invoices
	row = t.s.invoices.Append(&d.invoice)
	lines := invoiceLines{Items: append([]InvoiceItem(nil), d.items...)}
	for i := range lines.Items {
		item := &lines.Items[i]
		if item.PeriodStart == d.periodStart && item.PeriodEnd == d.periodEnd {
			item.PeriodStart, item.PeriodEnd = 0, 0
		}
	}
	_, cold := t.s.items.Append()
	cold.Data = t.s.lines.Of(wire.Encode(nil, &lines))
	c := t.s.customers.Write(d.customer)
	if c.firstInvoice == 0 {
		c.firstInvoice = row
	} else {
		t.s.invoices.Link(c.lastInvoice, row)
	}
	c.lastInvoice = row
	t.Fold(uint64(row))
	t.foldDecimal(d.amount)
	return row
}

// invoiceWith finds an invoice by its UUID in any environment; 0 when there is none.
func (s *book) invoiceWith(id *[16]byte) uint32 {
	return s.invoiceByID.Find(s.idHash(id), func(row uint32) bool {
		return s.invoices.ID(row) == *id
	})
}

// invoiceIn finds an invoice of one environment; 0 when there is none.
func (s *book) invoiceIn(env uint32, id *[16]byte) uint32 {
	row := s.invoiceWith(id)
	if row != 0 && s.customers.Read(s.invoices.Owner(row)).env != env {
		return 0
	}
	return row
}

// invoiceItems decodes the lines of an invoice.
func (s *book) invoiceItems(row uint32, v *invoice) []InvoiceItem {
	items, err := s.storedItems(row, v)
	if err != nil {
		panic("billing: invoice lines in memory do not decode: " + err.Error())
	}
	return items
}

// storedItems decodes the lines of an invoice, which may be damaged.
func (s *book) storedItems(row uint32, v *invoice) ([]InvoiceItem, error) {
	var lines invoiceLines
	if err := wire.Decode([]byte(s.items.Read(row).Data), &lines); err != nil {
		return nil, err
	}
	for i := range lines.Items {
		if item := &lines.Items[i]; item.PeriodEnd == 0 {
			item.PeriodStart, item.PeriodEnd = v.periodStart, v.periodEnd
		}
	}
	return lines.Items, nil
}

// invoiceView must be called under the customer's lock.
func (s *book) invoiceView(v *invoice, items []InvoiceItem) InvoiceView {
	c := s.customers.Read(v.customer)
	e := s.environment(c.env)
	for i := range items {
		if items[i].PeriodEnd == 0 {
			items[i].PeriodStart, items[i].PeriodEnd = v.periodStart, v.periodEnd
		}
	}
	return InvoiceView{
		ID: v.id, SubscriptionID: s.subscriptions.Read(v.subscription).id, Number: v.number,
		Type: v.kind, Status: v.status,
		Customer: string(s.externalID(c)),
		Amount:   v.amount, Currency: e.catalog.Load().version(v.version).currency,
		CreatedAt: v.createdAt, DueDate: v.dueAt, PaidAt: v.paidAt,
		PeriodStart: v.periodStart, PeriodEnd: v.periodEnd, Items: items,
	}
}

// foreseen are the invoices of a ledger that were issued or changed since they were stored.
func (s *projector) foreseen(l *ledger, changed map[uint32]InvoiceView) (issued []InvoiceView) {
	issued = make([]InvoiceView, len(l.drafts))
	for i := range l.drafts {
		d := &l.drafts[i]
		issued[i] = s.invoiceView(&d.invoice, d.items)
	}
	for _, list := range [...][]heldInvoice{l.unpaid, l.finished} {
		for i := range list {
			v := &list[i]
			if v.row == 0 {
				issued[v.at].Status, issued[v.at].PaidAt = v.status, v.paidAt
			} else {
				changed[v.row] = s.invoiceView(&v.invoice, s.invoiceItems(v.row, &v.invoice))
			}
		}
	}
	return issued
}

// Invoice finds an invoice by its UUID, the PENDING one of a subscription too.
func (m *Machine) Invoice(env uint32, id [16]byte) (InvoiceView, bool) {
	s := m.state.Load()
	row := s.invoiceIn(env, &id)
	if row == 0 {
		return m.pendingInvoice(env, &id)
	}
	customer := s.invoices.Owner(row)
	for _, view := range m.Invoices(env, customer) {
		if view.ID == id {
			return view, true
		}
	}
	return InvoiceView{}, false
}
