package billing

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/lifecycle"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/uuid"
)

// maxPaidNote is the length of the note on a payment, in characters.
const maxPaidNote = 200

// MarkInvoicePaid makes an invoice PAID and its subscription active. For a PAID invoice it changes
// nothing and is the same success.
type MarkInvoicePaid struct {
	Env uint32   `wire:"1"`
	ID  [16]byte `wire:"2"`
	// Note says how it was paid. The record of changes keeps it, if it is plain text.
	Note string `wire:"3"`
}

func (c *MarkInvoicePaid) apply(t *turn) engine.Outcome {
	l, at, outcome := t.unpaid(c.Env, &c.ID)
	if outcome == engine.OutcomeInvoicePaid {
		return engine.OutcomeDone
	}
	if outcome != engine.OutcomeDone {
		return outcome
	}
	l.Pay(at, l.Env.Now(t.Stamp))
	t.Commit(l)
	return engine.OutcomeDone
}

// unpaid opens the projection of an unpaid invoice, brought to now, and returns the invoice's place
// in it.
func (t *turn) unpaid(
	env uint32, id *[16]byte,
) (l *lifecycle.Projection, at int, outcome engine.Outcome) {
	e := t.Environment(env)
	if e == nil {
		return nil, 0, engine.OutcomeAccountUnknown
	}
	var subscription uint32
	row := t.InvoiceIn(env, id)
	if row != 0 {
		subscription = t.Invoices.Read(row).Subscription
	} else if subscription = t.PendingWith(env, id); subscription == 0 {
		// It may be issued and listed, but not stored yet.
		if !t.Sweep(e) {
			return nil, 0, engine.OutcomeDeferred
		}
		if row = t.InvoiceIn(env, id); row == 0 {
			return nil, 0, engine.OutcomeInvoiceUnknown
		}
		subscription = t.Invoices.Read(row).Subscription
	}
	l, ok := t.Advanced(subscription, e.Now(t.Stamp))
	if !ok {
		return nil, 0, engine.OutcomeDeferred
	}
	if at, outcome = unpaidIn(t.state, l, id); outcome != engine.OutcomeDone {
		return nil, 0, outcome
	}
	return l, at, outcome
}

// unpaidIn finds an unpaid invoice in the projection of its subscription.
func unpaidIn(
	s *state, l *lifecycle.Projection, id *[16]byte,
) (at int, outcome engine.Outcome) {
	for i := range l.Unpaid {
		if l.Unpaid[i].ID == *id {
			return i, engine.OutcomeDone
		}
	}
	if l.Sub.Accrues(id) {
		return 0, engine.OutcomeInvoicePending
	}
	row := s.InvoiceIn(l.Env.Number, id)
	if row != 0 && s.Invoices.Read(row).Status == book.InvoiceVoid {
		return 0, engine.OutcomeInvoiceVoid
	}
	return 0, engine.OutcomeInvoicePaid
}

// VoidInvoice makes an unpaid invoice VOID, permanently: its usage is not billed again, and a later
// correction of that usage refunds nothing. Credit that it used returns to the customer, and credit
// that it carried forward is withdrawn. If later invoices have used that credit, it is
// OutcomeCreditUsed: void those first. For a VOID invoice it is the same success.
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

	if _, outcome = void(t.state, l, at, l.Env.Now(t.Stamp)); outcome != engine.OutcomeDone {
		return outcome
	}
	t.Commit(l)
	t.NoteChange(c.Env, c.Actor, "invoice.voided", uuid.Text(c.ID),
		accounts.Changed("status", "unpaid", "VOID"))
	return engine.OutcomeDone
}

// void makes an unpaid invoice of a projection VOID, and returns what the customer's credit gains
// by it.
func void(
	s *state, l *lifecycle.Projection, at int, now int64,
) (credit decimal.Decimal, outcome engine.Outcome) {
	v := &l.Unpaid[at]
	items := s.InvoiceItems(v.Row, &v.Invoice)
	kept := lifecycle.Carried(items)
	if l.Credit.Less(kept) {
		return credit, engine.OutcomeCreditUsed
	}

	l.Credit = sums.Difference(l.Credit, kept)
	l.Forgive(&v.Invoice, items)
	l.Facts = append(l.Facts, credits.Fact{
		Kind: credits.FactVoided, At: now, Invoice: credits.InvoiceFact{ID: v.ID},
	})
	v.Status = book.InvoiceVoid
	l.EmitInvoice(accounts.WebhookInvoiceVoided, now, v)
	l.Close(at)
	l.Unblock(now)
	l.Sub.Due = l.NextDue()
	return sums.Difference(credit, kept), engine.OutcomeDone
}
