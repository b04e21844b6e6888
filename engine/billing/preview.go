package billing

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/lifecycle"
)

// PreviewSubscription returns the initial invoice of a customer's subscription to a plan, as things
// are at a log time. It changes nothing. The outcome is that of the command.
func (m *customerReader) PreviewSubscription(
	env uint32, customer, plan string, now int64,
) (view book.InvoiceView, outcome engine.Outcome) {
	s := m.state.Load()
	e := s.Environment(env)
	if e == nil {
		return view, engine.OutcomeAccountUnknown
	}
	row := s.CustomerNamed(env, []byte(customer))
	if row == 0 {
		return view, engine.OutcomeCustomerUnknown
	}
	lock := s.ReadLock(row)
	defer lock.RUnlock()
	version, outcome := subscribable(s, row, e, plan)
	if version == nil {
		return view, outcome
	}
	now = e.Now(now)
	b, outcome := begun(s, row, version, now)
	if outcome.Refused() {
		return view, outcome
	}
	b.SubscriptionRest = b.Usual()
	l := &lifecycle.Ledger{Projector: &s.Projector, Env: e, Catalog: e.Catalog.Load(), Sub: b}
	l.Credit = s.Credit(row, version.Currency)
	_, credit := s.LedgersOf(row, now)
	if left, ok := credit[version.Currency]; ok {
		l.Credit = left
	}
	l.Initial([16]byte{})
	return s.draftView(l, &l.Drafts[0]), engine.OutcomeDone
}

// PreviewCancellation returns the invoices that a cancellation would issue at once.
func (m *customerReader) PreviewCancellation(
	env uint32, id [16]byte, mode book.CancelMode, now int64,
) (views []book.InvoiceView, outcome engine.Outcome) {
	return m.preview(env, id, now, func(l *lifecycle.Ledger, now int64) engine.Outcome {
		if l.Sub.EndedAt != 0 {
			return engine.OutcomeSubscriptionEnded
		}
		l.Cancel(mode, now)
		return engine.OutcomeDone
	})
}

// PreviewPlanChange returns the invoices that a plan change would issue at once.
func (m *customerReader) PreviewPlanChange(
	env uint32, id [16]byte, plan string, kind book.ChangeType, now int64,
) (views []book.InvoiceView, outcome engine.Outcome) {
	return m.preview(env, id, now, func(l *lifecycle.Ledger, now int64) engine.Outcome {
		to, outcome := l.ChangeTo(plan, kind, now)
		if to != nil {
			l.ChangePlan([16]byte{}, to, kind, now)
		}
		return outcome
	})
}

// preview applies change to a copy of a subscription, as a command would, and returns the invoices
// that result from it alone.
func (m *customerReader) preview(
	env uint32, id [16]byte, now int64, change func(l *lifecycle.Ledger, now int64) engine.Outcome,
) (views []book.InvoiceView, outcome engine.Outcome) {
	s := m.state.Load()
	row := s.SubscriptionIn(env, &id)
	if row == 0 {
		return nil, engine.OutcomeSubscriptionUnknown
	}
	lock := s.ReadLock(s.Subscriptions.Read(row).Customer)
	defer lock.RUnlock()
	now = s.Environment(env).Now(now)
	l := s.LedgerAmong(row, now)
	due := len(l.Drafts)
	if outcome = change(l, now); outcome != engine.OutcomeDone {
		return nil, outcome
	}
	views = []book.InvoiceView{}
	for i := due; i < len(l.Drafts); i++ {
		views = append(views, s.draftView(l, &l.Drafts[i]))
	}
	return views, engine.OutcomeDone
}

// draftView shows an invoice that was never issued: it has no number, and its id means nothing.
func (s *state) draftView(l *lifecycle.Ledger, d *lifecycle.Draft) book.InvoiceView {
	for i := range d.Items {
		if d.Items[i].PeriodEnd == 0 {
			d.Items[i].PeriodStart, d.Items[i].PeriodEnd = d.PeriodStart, d.PeriodEnd
		}
	}
	return book.InvoiceView{
		ID: d.ID, SubscriptionID: l.Sub.ID, Type: d.Kind, Status: d.Status,
		Customer: string(s.ExternalID(s.Customers.Read(d.Customer))), Amount: d.Amount,
		Currency: l.Catalog.Version(d.Version).Currency, CreatedAt: d.CreatedAt, DueDate: d.DueAt,
		PeriodStart: d.PeriodStart, PeriodEnd: d.PeriodEnd, Items: d.Items,
	}
}
