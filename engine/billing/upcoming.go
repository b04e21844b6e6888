package billing

import "tollgate/engine/decimal"

// pendingID is the id of the invoice that accrues for the current period. It keeps it.
func pendingID(b *subscription) [16]byte { return derivedID(b.id, labelRegular, b.period) }

// waitingID is the id of the invoice that waits for late usage of the period before.
func waitingID(b *subscription) [16]byte { return derivedID(b.id, labelRegular, b.period-1) }

// accruing are the ids of a subscription's PENDING invoices, oldest first: of the period that ended
// last until it is issued, and of the current one.
func (b *subscription) accruing() (ids [][16]byte) {
	if b.issueAt != 0 {
		ids = append(ids, waitingID(b))
	}
	if b.endedAt == 0 {
		ids = append(ids, pendingID(b))
	}
	return ids
}

// accrues reports whether an id is that of a PENDING invoice.
func (b *subscription) accrues(id *[16]byte) bool {
	return b.issueAt != 0 && waitingID(b) == *id || b.endedAt == 0 && pendingID(b) == *id
}

// indexPending lets PENDING invoices be found by id.
func (s *projector) indexPending(row uint32, b *subscription) {
	for _, id := range b.accruing() {
		s.pending.Insert(s.idHash(&id), row)
	}
}

// reindexPending does it anew where a ledger changed them.
func (s *projector) reindexPending(l *ledger) {
	was, is := &l.was, &l.b
	if was.period == is.period && was.endedAt == is.endedAt && was.issueAt == is.issueAt {
		return
	}
	for _, id := range was.accruing() {
		s.pending.Remove(s.idHash(&id), l.row)
	}
	s.indexPending(l.row, is)
}

// upcoming are the invoices that a subscription's periods would be billed by, as things are now, in
// the order in which they will be issued: that of the period which ended last, while it waits for
// late usage, and that of the current period. The ledger goes on to there.
func (s *projector) upcoming(l *ledger) (views []InvoiceView) {
	if l.b.issueAt != 0 {
		views = append(views, s.foretell(l, len(l.drafts)))
	}
	if l.b.endedAt == 0 {
		first := len(l.drafts)
		l.endPeriod(l.b.periodEnd)
		views = append(views, s.foretell(l, first))
	}
	return views
}

// foretell is the invoice of the period that ended last: the first of the drafts from there on,
// once it is issued. One without a line would not be.
func (s *projector) foretell(l *ledger, first int) InvoiceView {
	at := l.b.issueAt
	if at == 0 {
		at = l.spans[len(l.spans)-1].end
	}
	pending := l.regular(at).invoice
	l.issueWaiting(at)
	var items []InvoiceItem
	if len(l.drafts) > first {
		d := &l.drafts[first]
		pending.amount, items = d.amount, d.items
	} else {
		pending.amount = decimal.Decimal{}
	}
	pending.createdAt, pending.status = 0, InvoicePending
	view := s.invoiceView(&pending, items)
	if view.Items == nil {
		view.Items = []InvoiceItem{}
	}
	return view
}

// Upcoming previews the PENDING invoice of a subscription that is issued next, with the id that it
// keeps. False: there is no such subscription, or it has ended and nothing waits.
func (m *Machine) Upcoming(env uint32, subscriptionID [16]byte) (InvoiceView, bool) {
	views := m.pendingOf(env, &subscriptionID)
	if len(views) == 0 {
		return InvoiceView{}, false
	}
	return views[0], true
}

// pendingOf previews the PENDING invoices of one subscription.
func (m *Machine) pendingOf(env uint32, subscriptionID *[16]byte) []InvoiceView {
	s := m.state.Load()
	row := s.subscriptionIn(env, subscriptionID)
	if row == 0 {
		return nil
	}
	lock := s.stripe(s.subscriptions.Read(row).customer)
	lock.RLock()
	defer lock.RUnlock()
	return s.upcoming(s.ledgerAmong(row, s.environment(env).now(s.log.Stamp())))
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
	now := s.environment(env).now(s.log.Stamp())
	for row := c.firstSubscription; row != 0; row = s.subscriptions.Read(row).next {
		views = append(views, s.upcoming(s.ledgerAmong(row, now))...)
	}
	return views
}

// pendingWith finds the subscription of which an id is that of a PENDING invoice; 0 when there is
// none.
func (s *projector) pendingWith(env uint32, id *[16]byte) uint32 {
	return s.pending.Find(s.idHash(id), func(row uint32) bool {
		customer := s.subscriptions.Read(row).customer
		lock := s.stripe(customer)
		lock.RLock()
		defer lock.RUnlock()
		b := s.subscriptions.Whole(row)
		return s.customers.Read(customer).env == env && b.accrues(id)
	})
}

func (m *Machine) pendingInvoice(env uint32, id *[16]byte) (InvoiceView, bool) {
	s := m.state.Load()
	row := s.pendingWith(env, id)
	if row == 0 {
		return InvoiceView{}, false
	}
	b := s.subscriptions.Read(row)
	for _, view := range m.pendingOf(env, new(b.id)) {
		if view.ID == *id {
			return view, true
		}
	}
	// It was issued a moment ago, and is not stored yet.
	for _, issued := range m.Invoices(env, b.customer) {
		if issued.ID == *id {
			return issued, true
		}
	}
	return InvoiceView{}, false
}
