package lifecycle

import (
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/decimal"
)

// IndexPending adds the PENDING invoices to the index of ids.
func (s *Projector) IndexPending(row uint32, b *book.Subscription) {
	for _, id := range b.Accruing() {
		s.Pending.Insert(s.IDHash(&id), row)
	}
}

// reindexPending updates it after a projection changed them.
func (s *Projector) reindexPending(l *Projection) {
	was, is := &l.was, &l.Sub
	if was.Period == is.Period && was.EndedAt == is.EndedAt && was.IssueAt == is.IssueAt {
		return
	}
	for _, id := range was.Accruing() {
		s.Pending.Remove(s.IDHash(&id), l.Row)
	}
	s.IndexPending(l.Row, is)
}

// Upcoming returns the invoices for a subscription's periods as things are now, in the order in
// which they will be issued: that of the last ended period while it waits for late usage, and that
// of the current period. It moves the projection there.
func (s *Projector) Upcoming(l *Projection) (views []book.InvoiceView) {
	if l.Sub.IssueAt != 0 {
		views = append(views, s.foretell(l, len(l.Drafts)))
	}
	if l.Sub.EndedAt == 0 {
		first := len(l.Drafts)
		l.endPeriod(l.Sub.PeriodEnd)
		views = append(views, s.foretell(l, first))
	}
	return views
}

// foretell returns the invoice of the last ended period: the first of the drafts from there on,
// once it is issued. An invoice without lines would not be.
func (s *Projector) foretell(l *Projection, first int) book.InvoiceView {
	at := l.Sub.IssueAt
	if at == 0 {
		at = l.Spans[len(l.Spans)-1].End
	}
	pending := l.regular(at).Invoice
	l.issueWaiting(at)
	var items []book.InvoiceItem
	if len(l.Drafts) > first {
		d := &l.Drafts[first]
		pending.Amount, items = d.Amount, d.Items
	} else {
		pending.Amount = decimal.Decimal{}
	}
	pending.CreatedAt, pending.Status = 0, book.InvoicePending
	view := s.InvoiceView(&pending, items)
	if view.Items == nil {
		view.Items = []book.InvoiceItem{}
	}
	return view
}

// PendingWith finds the subscription of a PENDING invoice by its id; 0 if there is none.
func (s *Projector) PendingWith(env uint32, id *[16]byte) uint32 {
	return s.Pending.Find(s.IDHash(id), func(row uint32) bool {
		customer := s.Subscriptions.Read(row).Customer
		lock := s.ReadLock(customer)
		defer lock.RUnlock()
		b := s.Subscriptions.Whole(row)
		return s.Customers.Read(customer).Env == env && b.Accrues(id)
	})
}

// InvoicedWith finds the subscription of an invoice, issued in any environment or PENDING in this
// one; 0 if there is none.
func (s *Projector) InvoicedWith(env uint32, id *[16]byte) uint32 {
	if invoice := s.InvoiceWith(id); invoice != 0 {
		return s.Invoices.Read(invoice).Subscription
	}
	return s.PendingWith(env, id)
}
