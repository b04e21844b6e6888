package billing

import "tollgate/engine"

// MarkInvoicePaid makes an invoice PAID and its subscription active. Of a PAID invoice it changes
// nothing and is the same success again.
type MarkInvoicePaid struct {
	Env uint32   `wire:"1"`
	ID  [16]byte `wire:"2"`
}

func (c *MarkInvoicePaid) apply(t *turn) engine.Outcome {
	l, at, outcome := t.unpaid(c.Env, &c.ID)
	if outcome == engine.OutcomeInvoicePaid {
		return engine.OutcomeDone
	}
	if outcome != engine.OutcomeDone {
		return outcome
	}
	l.pay(at, l.env.now(t.Stamp))
	t.commit(l)
	return engine.OutcomeDone
}

// unpaid opens the ledger of an unpaid invoice, brought to now, and says where in it the invoice
// is.
func (t *turn) unpaid(env uint32, id *[16]byte) (l *ledger, at int, outcome engine.Outcome) {
	e := t.environment(env)
	if e == nil {
		return nil, 0, engine.OutcomeAccountUnknown
	}
	var subscription uint32
	row := t.invoiceIn(env, id)
	if row != 0 {
		subscription = t.invoices.Read(row).subscription
	} else if subscription = t.pendingWith(env, id); subscription == 0 {
		// It may be issued, and listed, but not be stored yet.
		if !t.sweep(e) {
			return nil, 0, engine.OutcomeDeferred
		}
		if row = t.invoiceIn(env, id); row == 0 {
			return nil, 0, engine.OutcomeInvoiceUnknown
		}
		subscription = t.invoices.Read(row).subscription
	}
	l, ok := t.advanced(subscription, e.now(t.Stamp))
	if !ok {
		return nil, 0, engine.OutcomeDeferred
	}
	for i := range l.unpaid {
		if l.unpaid[i].id == *id {
			return l, i, engine.OutcomeDone
		}
	}
	if l.b.accrues(id) {
		return nil, 0, engine.OutcomeInvoicePending
	}
	if row != 0 && t.invoices.Read(row).status == InvoiceVoid {
		return nil, 0, engine.OutcomeInvoiceVoid
	}
	return nil, 0, engine.OutcomeInvoicePaid
}

// pay makes an unpaid invoice PAID and the subscription active; its other invoices that are past
// due get a fresh grace. What has ended stays ended.
func (l *ledger) pay(i int, now int64) {
	l.settle(i, now)
	l.resume(now)
	l.b.due = l.nextDue()
}

func (l *ledger) resume(now int64) {
	if l.b.endedAt != 0 {
		return
	}
	l.activate(now)
	for i := range l.unpaid {
		if v := &l.unpaid[i]; v.status == InvoicePastDue {
			v.graceEnd = now + int64(l.b.graceDays)*dayMS
		}
	}
}

// activate ends a suspension, where there is one.
func (l *ledger) activate(now int64) {
	if l.b.suspendedAt != 0 {
		l.b.suspendedAt = 0
		l.tell(WebhookSubscriptionActivated, now)
	}
}

// VoidInvoice makes an unpaid invoice VOID, for good: its usage is not billed again, nor does a
// later correction of that usage give anything back, credit that it had used is the customer's
// again, and credit that it carried to the next invoice is taken back.
// Where later invoices have used that up, it is OutcomeCreditUsed: they are to be voided first. Of
// a VOID invoice it is the same success again.
type VoidInvoice struct {
	Env   uint32   `wire:"1"`
	ID    [16]byte `wire:"2"`
	Actor string   `wire:"3"`
}

func (c *VoidInvoice) apply(t *turn) engine.Outcome {
	l, at, outcome := t.unpaid(c.Env, &c.ID)
	if outcome == engine.OutcomeInvoiceVoid {
		return engine.OutcomeDone
	}
	if outcome != engine.OutcomeDone {
		return outcome
	}

	v := &l.unpaid[at]
	items := t.invoiceItems(v.row, &v.invoice)
	kept := carried(items)
	if l.credit.Less(kept) {
		return engine.OutcomeCreditUsed
	}

	l.credit = difference(l.credit, kept)
	forgive(l.catalog, l.spans, items)
	now := l.env.now(t.Stamp)
	l.facts = append(l.facts, fact{
		Kind: factVoided, At: now, Invoice: invoiceFact{ID: v.id},
	})
	v.status = InvoiceVoid
	l.tellInvoice(WebhookInvoiceVoided, now, v)
	l.close(at)
	l.unblock(now)
	l.b.due = l.nextDue()
	t.commit(l)
	t.note(change{
		Env: c.Env, Actor: c.Actor, Action: "invoice.voided", Subject: uuidText(c.ID),
		Values: []FieldChange{{"status", "unpaid", "VOID"}},
	})
	return engine.OutcomeDone
}

// unblock makes a suspended subscription active when no invoice holds it back any more.
func (l *ledger) unblock(now int64) {
	if l.b.suspendedAt == 0 || l.b.endedAt != 0 {
		return
	}
	for i := range l.unpaid {
		if v := &l.unpaid[i]; v.status == InvoicePastDue && v.graceEnd <= now {
			return
		}
	}
	l.activate(now)
}
