package billing

import (
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// wants reports whether any endpoint of the environment wants to hear of an event.
func (e *environment) wants(w WebhookEvent) bool { return e.wanted.Load()&(1<<w) != 0 }

// teller is a turn that queues messages for webhook endpoints.
type teller struct {
	keeper
	s      *book
	outbox *outbox
	// told counts the record's webhook messages.
	told uint32
}

// tell queues a message for each endpoint of the environment that wants it.
func (t *teller) tell(e *environment, customer uint32, m *WebhookMessage) {
	if !e.wants(m.Type) {
		return
	}
	m.Customer = string(t.s.externalID(t.s.customers.Read(customer)))
	id := messageID(t.Index, t.Position, t.told)
	t.told++
	encoded := wire.Encode(nil, &deliveryText{Message: *m})
	o := t.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, row := range e.hooks {
		ep := o.endpoints.Read(row)
		if ep.off != WebhookOn || !ep.events.wants(m.Type) {
			continue
		}
		d := delivery{
			id: id, turn: o.sequence + 1, createdAt: t.Stamp, queuedAt: t.Stamp, nextAt: t.Stamp,
			customer: customer, event: m.Type,
		}
		o.enqueue(row, &d, encoded)
		t.spend(8)
		t.Fold(o.sequence)
	}
}

// happening is something that a ledger has to tell once it is committed.
type happening struct {
	event WebhookEvent
	at    int64
	// b is the subscription as it was then, scheduled its pending plan change (zero: none).
	b         subscription
	scheduled planChange
	// invoice is the invoice as it was then, where the event is about one.
	invoice *heldInvoice
}

// tell notes what happened to the subscription.
func (l *ledger) tell(w WebhookEvent, at int64) {
	if !l.env.wants(w) {
		return
	}
	h := happening{event: w, at: at, b: l.b}
	for i := range l.changes {
		if c := &l.changes[i]; c.status == ChangePending {
			h.scheduled = c.planChange
		}
	}
	l.happened = append(l.happened, h)
}

// tellInvoice notes what happened to an invoice.
func (l *ledger) tellInvoice(w WebhookEvent, at int64, v *heldInvoice) {
	if l.env.wants(w) {
		l.happened = append(l.happened, happening{event: w, at: at, b: l.b, invoice: new(*v)})
	}
}

// tellAll queues what a ledger has to tell, now that it is committed.
func (t *runner) tellAll(l *ledger) {
	for i := range l.happened {
		h := &l.happened[i]
		m := WebhookMessage{Type: h.event, At: h.at, SubscriptionID: l.b.id}
		if h.invoice != nil {
			v := h.invoice.invoice
			if h.invoice.row == 0 {
				v.number = l.drafts[h.invoice.at].number
			}
			m.ofInvoice(&v, l.catalog.version(v.version).currency)
		} else {
			h.describe(&m, l.catalog)
		}
		t.tell(l.env, l.b.customer, &m)
	}
	l.happened = nil
}

// ofInvoice fills in what is said of an invoice.
func (m *WebhookMessage) ofInvoice(v *invoice, currency string) {
	m.InvoiceID, m.Number, m.InvoiceType, m.Status = v.id, v.number, v.kind, v.status
	m.Amount, m.Currency = v.amount, currency
	m.CreatedAt, m.DueAt, m.PaidAt = v.createdAt, v.dueAt, v.paidAt
	m.PeriodStart, m.PeriodEnd = v.periodStart, v.periodEnd
}

// describe fills in what is said of a subscription.
func (h *happening) describe(m *WebhookMessage, c *catalog) {
	version := c.version(h.b.version)
	plan := c.plans[version.plan-1]
	m.PlanID, m.PlanKey, m.PlanVersion = plan.id, plan.document.Key, version.version
	m.Active, m.SuspendedAt = h.b.active(), h.b.suspendedAt
	m.CancelMode, m.CancelledAt, m.EndedAt = h.b.cancelMode, h.b.cancelledAt, h.b.endedAt
	m.CreatedAt, m.PeriodStart, m.PeriodEnd = h.b.createdAt, h.b.periodStart, h.b.periodEnd
	if h.scheduled.to != 0 {
		m.ScheduledPlan = c.planKey(h.scheduled.to)
		m.ScheduledAt = h.scheduled.effectiveAt
	}
}

// reached are the features whose limit a ledger's usage has reached since it was stored. It must be
// asked before the ledger is committed.
func (t *runner) reached(l *ledger) (told []WebhookMessage) {
	if !l.env.wants(WebhookLimitReached) || l.b.endedAt != 0 {
		return nil
	}
	before, now := l.catalog.version(l.was.version), l.version()
	for i := range now.features {
		f := &now.features[i]
		used := l.counters[i].reading(f)
		if !f.full(used) {
			continue
		}
		slot, carried := before.slot(f.feature)
		goesOn := l.was.period == l.b.period || f.accumulate
		if carried && goesOn && int(slot) < int(l.was.counters) &&
			before.features[slot].full(
				t.s.counters.Reading(l.was.firstCounter+slot, &before.features[slot])) {
			continue // it was before
		}
		told = append(told, limitMessage(&l.b.usualSubscription, l.catalog, f, used))
	}
	return told
}

// limitMessage says that a feature's usage has reached its limit.
func limitMessage(
	b *usualSubscription, c *catalog, f *planFeature, used decimal.Decimal,
) WebhookMessage {
	return WebhookMessage{
		Type: WebhookLimitReached, SubscriptionID: b.id, FeatureKey: c.feature(f.feature).document.Key,
		Used: used, Limit: f.max, HardLimit: f.hard,
		PeriodStart: b.periodStart, PeriodEnd: b.periodEnd,
	}
}

// tellReached queues a message when a usage event is the one that has reached its feature's limit;
// before is what the counter held.
func (t *turn) tellReached(u *usage, before decimal.Decimal) {
	b := t.subscriptions.Read(u.place.subscription)
	e := t.environment(t.customers.Read(u.customer).env)
	if f := u.place.feature; e.wants(WebhookLimitReached) && !f.full(before) &&
		f.full(u.counted.reading(f)) {
		m := limitMessage(&b.usualSubscription, e.catalog.Load(), f, u.counted.reading(f))
		m.At = u.recordedAt
		t.tell(e, u.customer, &m)
	}
}

// moved notes that a pool's credits have moved, for tellDepleted.
func (t *burner) moved(pool uint32) {
	if moved := t.moves.moved; len(moved) == 0 || moved[len(moved)-1] != pool {
		t.moves.moved = append(moved, pool)
	}
}

// tellDepleted queues a message for each pool that this command has emptied. A pool that is filled
// again by the same command, as at a period's end, was never empty.
func (t *burner) tellDepleted() {
	for _, row := range t.moves.moved {
		p := t.s.pools.Read(row)
		empty := p.hard && !p.archived && p.balance().Sign() <= 0
		if empty == p.depleted {
			continue
		}
		lock := t.s.stripe(p.customer)
		lock.Lock()
		t.s.pools.Write(row).depleted = empty
		lock.Unlock()
		e := t.s.environment(t.s.customers.Read(p.customer).env)
		if !empty || !e.wants(WebhookCreditsDepleted) {
			continue
		}
		var words poolText
		decodeText(t.s.poolTexts.Read(row).Data, &words)
		t.tell(e, p.customer, &WebhookMessage{
			Type: WebhookCreditsDepleted, At: e.now(t.Stamp), PoolID: p.id, PoolName: words.Name,
			Balance: p.balance(),
		})
	}
	t.moves.moved = t.moves.moved[:0]
}

// tellOverpaid queues a message about a payment that did not fit its invoice, and which somebody
// has to give back or to book: result says why. A PENDING invoice is told as it would be issued.
func (t *turn) tellOverpaid(e *environment, c *RecordPayment, result PaymentResult) {
	if !e.wants(WebhookInvoiceOverpaid) {
		return
	}
	m := WebhookMessage{
		Type: WebhookInvoiceOverpaid, At: e.now(t.Stamp),
		Paid: c.Amount, PaidCurrency: c.Currency, PaidResult: result,
		Provider: c.Provider, ProviderEvent: c.EventID,
	}
	if row := t.invoiceIn(c.Env, &c.InvoiceID); row != 0 {
		v := t.invoices.Read(row)
		m.SubscriptionID = t.subscriptions.Read(v.subscription).id
		m.ofInvoice(&v, e.catalog.Load().version(v.version).currency)
		t.tell(e, v.customer, &m)
		return
	}
	l := t.openLedger(t.pendingWith(c.Env, &c.InvoiceID))
	t.spend(2*l.weight() + 4)
	for _, v := range t.upcoming(l) {
		if v.ID == c.InvoiceID {
			tellPending(&m, &v)
			t.tell(e, l.b.customer, &m)
		}
	}
}

func tellPending(m *WebhookMessage, v *InvoiceView) {
	m.SubscriptionID, m.InvoiceID, m.InvoiceType, m.Status = v.SubscriptionID, v.ID, v.Type, v.Status
	m.Amount, m.Currency = v.Amount, v.Currency
	m.PeriodStart, m.PeriodEnd = v.PeriodStart, v.PeriodEnd
}
