package billing

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/lifecycle"
	"tollgate/engine/decimal"
)

// CancelSubscription ends a subscription now, with unbilled usage on a last invoice and no refund,
// or at the period's end.
type CancelSubscription struct {
	Env  uint32          `wire:"1"`
	ID   [16]byte        `wire:"2"`
	Mode book.CancelMode `wire:"3"`
}

func (c *CancelSubscription) apply(t *turn) engine.Outcome {
	l, now, outcome := t.Current(c.Env, &c.ID)
	if l == nil {
		return outcome
	}
	switch {
	case l.Sub.EndedAt != 0 && c.Mode.AtPeriodEnd():
		return engine.OutcomeSubscriptionEnded
	case l.Sub.EndedAt != 0, l.Sub.CancelMode != 0 && l.Sub.CancelMode == c.Mode:
		return engine.OutcomeDone
	case l.Sub.CancelMode.AtPeriodEnd() && c.Mode.AtPeriodEnd():
		// The merchant's word counts: a customer does not take over what the merchant cancelled.
		if c.Mode != book.CancelByCustomer {
			l.Sub.CancelMode = c.Mode
			t.Commit(l)
		}
		return engine.OutcomeDone
	}

	l.Cancel(c.Mode, now)
	t.Commit(l)
	return engine.OutcomeDone
}

// RevertCancellation reverts a scheduled cancellation before the period's end. For a suspended
// subscription it returns OutcomeRevertSuspended with an encoded RevertReply.
type RevertCancellation struct {
	Env uint32   `wire:"1"`
	ID  [16]byte `wire:"2"`
	// ByCustomer reverts only what the customer cancelled.
	ByCustomer bool `wire:"3"`
}

func (c *RevertCancellation) apply(t *turn) engine.Outcome {
	l, now, outcome := t.Current(c.Env, &c.ID)
	if l == nil {
		return outcome
	}
	switch {
	case l.Sub.EndedAt != 0 || !l.Sub.CancelMode.AtPeriodEnd(),
		c.ByCustomer && l.Sub.CancelMode != book.CancelByCustomer:
		return engine.OutcomeNothingToRevert
	case l.Sub.SuspendedAt != 0:
		reply := unpaidReply(l)
		t.Answer(&reply)
		return engine.OutcomeRevertSuspended
	}

	l.Sub.CancelMode, l.Sub.CancelledAt = 0, 0
	l.Tell(accounts.WebhookSubscriptionChanged, now)
	l.Sub.Due = l.NextDue()
	t.Commit(l)
	return engine.OutcomeDone
}

// RevertReply is the invoice to pay before a suspended subscription's cancellation can be reverted:
// the oldest one past due. Its payment makes the subscription active.
type RevertReply struct {
	Invoice  [16]byte        `wire:"1"`
	Number   uint64          `wire:"2"`
	Amount   decimal.Decimal `wire:"3"`
	Currency string          `wire:"4"`
}

// unpaidReply names a subscription's first overdue invoice.
func unpaidReply(l *lifecycle.Ledger) (r RevertReply) {
	for i := range l.Unpaid {
		if v := &l.Unpaid[i]; v.Status == book.InvoicePastDue {
			return RevertReply{
				Invoice: v.ID, Number: v.Number, Amount: v.Amount,
				Currency: l.Catalog.Version(v.Version).Currency,
			}
		}
	}
	return r
}
