package book

import "tollgate/engine/wire"

// InvoiceLines is the cold part of an invoice.
type InvoiceLines struct {
	Items []InvoiceItem `wire:"1"`
}

// InvoiceWith finds an invoice by its UUID in any environment; 0 if there is none.
func (s *Book) InvoiceWith(id *[16]byte) uint32 {
	return s.InvoiceByID.Find(s.IDHash(id), func(row uint32) bool {
		return s.Invoices.ID(row) == *id
	})
}

// InvoiceIn finds an invoice of one environment; 0 if there is none.
func (s *Book) InvoiceIn(env uint32, id *[16]byte) uint32 {
	row := s.InvoiceWith(id)
	if row != 0 && s.Customers.Read(s.Invoices.Owner(row)).Env != env {
		return 0
	}
	return row
}

// InvoiceItems decodes the lines of an invoice.
func (s *Book) InvoiceItems(row uint32, v *Invoice) []InvoiceItem {
	items, err := s.StoredItems(row, v)
	if err != nil {
		panic("billing: invoice lines in memory do not decode: " + err.Error())
	}
	return items
}

// StoredItems decodes the lines of an invoice, which may be damaged.
func (s *Book) StoredItems(row uint32, v *Invoice) ([]InvoiceItem, error) {
	var lines InvoiceLines
	if err := wire.Decode(s.Items.Get(row), &lines); err != nil {
		return nil, err
	}
	for i := range lines.Items {
		if item := &lines.Items[i]; item.PeriodEnd == 0 {
			item.PeriodStart, item.PeriodEnd = v.PeriodStart, v.PeriodEnd
		}
	}
	return lines.Items, nil
}

// InvoiceView requires the customer's lock.
func (s *Book) InvoiceView(v *Invoice, items []InvoiceItem) InvoiceView {
	c := s.Customers.Read(v.Customer)
	e := s.Environment(c.Env)
	for i := range items {
		if items[i].PeriodEnd == 0 {
			items[i].PeriodStart, items[i].PeriodEnd = v.PeriodStart, v.PeriodEnd
		}
	}
	catalog := e.Catalog.Load()
	BreakDown(catalog, v.Version, items)
	return InvoiceView{
		ID: v.ID, SubscriptionID: s.Subscriptions.Read(v.Subscription).ID, Number: v.Number,
		Type: v.Kind, Status: v.Status,
		Customer: string(s.ExternalID(c)),
		Amount:   v.Amount, Currency: catalog.Version(v.Version).Currency,
		CreatedAt: v.CreatedAt, DueDate: v.DueAt, PaidAt: v.PaidAt,
		PeriodStart: v.PeriodStart, PeriodEnd: v.PeriodEnd, Items: items,
	}
}
