package billing

import "tollgate/engine"

// PreviewSubscription is the invoice that would come with a subscription of a customer to a plan,
// as things are at a log time. Nothing is changed. The outcome is that of the command.
func (m *Machine) PreviewSubscription(
	env uint32, customer, plan string, now int64,
) (view InvoiceView, outcome engine.Outcome) {
	s := m.state.Load()
	e := s.environment(env)
	if e == nil {
		return view, engine.OutcomeAccountUnknown
	}
	row := s.customerNamed(env, []byte(customer))
	if row == 0 {
		return view, engine.OutcomeCustomerUnknown
	}
	lock := s.stripe(row)
	lock.RLock()
	defer lock.RUnlock()
	version, outcome := subscribable(s, row, e, plan)
	if version == nil {
		return view, outcome
	}
	now = e.now(now)
	b, outcome := begun(s, row, version, now)
	if outcome.Refused() {
		return view, outcome
	}
	b.subscriptionRest = b.usual()
	l := &ledger{projector: s.projector, env: e, catalog: e.catalog.Load(), b: b}
	l.credit = s.credit(row, version.currency)
	_, credit := s.ledgersOf(row, now)
	if left, ok := credit[version.currency]; ok {
		l.credit = left
	}
	l.initial([16]byte{})
	return s.draftView(l, &l.drafts[0]), engine.OutcomeDone
}

// PreviewCancellation are the invoices that a cancellation would issue at once.
func (m *Machine) PreviewCancellation(
	env uint32, id [16]byte, mode CancelMode, now int64,
) (views []InvoiceView, outcome engine.Outcome) {
	return m.preview(env, id, now, func(l *ledger, now int64) engine.Outcome {
		if l.b.endedAt != 0 {
			return engine.OutcomeSubscriptionEnded
		}
		l.cancel(mode, now)
		return engine.OutcomeDone
	})
}

// PreviewPlanChange are the invoices that a plan change would issue at once.
func (m *Machine) PreviewPlanChange(
	env uint32, id [16]byte, plan string, kind ChangeType, now int64,
) (views []InvoiceView, outcome engine.Outcome) {
	return m.preview(env, id, now, func(l *ledger, now int64) engine.Outcome {
		to, outcome := l.changeTo(plan, kind, now)
		if to != nil {
			l.changePlan([16]byte{}, to, kind, now)
		}
		return outcome
	})
}

// preview lets change do to a copy of a subscription what a command would do, and returns the
// invoices that come of that alone.
func (m *Machine) preview(
	env uint32, id [16]byte, now int64, change func(l *ledger, now int64) engine.Outcome,
) (views []InvoiceView, outcome engine.Outcome) {
	s := m.state.Load()
	row := s.subscriptionIn(env, &id)
	if row == 0 {
		return nil, engine.OutcomeSubscriptionUnknown
	}
	lock := s.stripe(s.subscriptions.Read(row).customer)
	lock.RLock()
	defer lock.RUnlock()
	now = s.environment(env).now(now)
	l := s.ledgerAmong(row, now)
	due := len(l.drafts)
	if outcome = change(l, now); outcome != engine.OutcomeDone {
		return nil, outcome
	}
	views = []InvoiceView{}
	for i := due; i < len(l.drafts); i++ {
		views = append(views, s.draftView(l, &l.drafts[i]))
	}
	return views, engine.OutcomeDone
}

// draftView is an invoice that was never issued: it has no number, and its id means nothing.
func (s *state) draftView(l *ledger, d *draft) InvoiceView {
	for i := range d.items {
		if d.items[i].PeriodEnd == 0 {
			d.items[i].PeriodStart, d.items[i].PeriodEnd = d.periodStart, d.periodEnd
		}
	}
	return InvoiceView{
		ID: d.id, SubscriptionID: l.b.id, Type: d.kind, Status: d.status,
		Customer: string(s.externalID(s.customers.Read(d.customer))), Amount: d.amount,
		Currency: l.catalog.version(d.version).currency, CreatedAt: d.createdAt, DueDate: d.dueAt,
		PeriodStart: d.periodStart, PeriodEnd: d.periodEnd, Items: d.items,
	}
}
