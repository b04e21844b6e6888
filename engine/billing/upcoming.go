package billing

import "tollgate/engine/decimal"

// upcoming is the invoice that a subscription's period would end with, as things are now.
func (s *state) upcoming(l *ledger) (InvoiceView, bool) {
	if l.b.endedAt != 0 {
		return InvoiceView{}, false
	}
	id, first := pendingID(&l.b), len(l.drafts)
	pending := l.draft(InvoiceRegular, id, 0).invoice
	pending.dueAt = l.env.dueOf(l.b.periodEnd)
	pending.status = InvoicePending
	l.endPeriod(l.b.periodEnd)
	var items []InvoiceItem
	if len(l.drafts) > first {
		d := &l.drafts[first]
		pending.amount, items = d.amount, d.items
	} else {
		pending.amount = decimal.Decimal{}
	}
	view := s.invoiceView(&pending, items)
	if view.Items == nil {
		view.Items = []InvoiceItem{}
	}
	return view, true
}

// Upcoming previews the PENDING invoice of a subscription, with the id that it keeps. False: there
// is no such subscription, or it has ended.
func (m *Machine) Upcoming(env uint32, subscriptionID [16]byte) (InvoiceView, bool) {
	s := m.state.Load()
	row := s.subscriptionIn(env, &subscriptionID)
	if row == 0 {
		return InvoiceView{}, false
	}
	lock := s.stripe(s.subscriptions.Read(row).customer)
	lock.RLock()
	defer lock.RUnlock()
	return s.upcoming(s.ledgerAmong(row, s.environment(env).now(s.stamp.Load())))
}

// PendingInvoices previews the PENDING invoices of a customer's subscriptions, oldest first.
func (m *Machine) PendingInvoices(env, customerRow uint32) []InvoiceView {
	s := m.state.Load()
	views := []InvoiceView{}
	if customerRow == 0 || customerRow > s.customers.Len() {
		return views
	}
	lock := s.stripe(customerRow)
	lock.RLock()
	defer lock.RUnlock()
	c := s.customers.Read(customerRow)
	if c.env != env {
		return views
	}
	now := s.environment(env).now(s.stamp.Load())
	for row := c.firstSubscription; row != 0; row = s.subscriptions.Read(row).next {
		if view, ok := s.upcoming(s.ledgerAmong(row, now)); ok {
			views = append(views, view)
		}
	}
	return views
}

// pendingWith finds the subscription whose PENDING invoice has an id; 0 when there is none.
func (s *state) pendingWith(env uint32, id *[16]byte) uint32 {
	return s.pending.Find(s.idHash(id), func(row uint32) bool {
		customer := s.subscriptions.Read(row).customer
		lock := s.stripe(customer)
		lock.RLock()
		defer lock.RUnlock()
		b := s.subscriptions.Read(row)
		return s.customers.Read(customer).env == env && b.endedAt == 0 && pendingID(b) == *id
	})
}

func (m *Machine) pendingInvoice(env uint32, id *[16]byte) (InvoiceView, bool) {
	s := m.state.Load()
	row := s.pendingWith(env, id)
	if row == 0 {
		return InvoiceView{}, false
	}
	view, ok := m.Upcoming(env, s.subscriptions.Read(row).id)
	if ok && view.ID == *id {
		return view, true
	}
	// It was issued a moment ago, and is not stored yet.
	for _, issued := range m.Invoices(env, s.subscriptions.Read(row).customer) {
		if issued.ID == *id {
			return issued, true
		}
	}
	return InvoiceView{}, false
}
