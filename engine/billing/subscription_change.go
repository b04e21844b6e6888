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
	l.Emit(accounts.WebhookSubscriptionChanged, now)
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
func unpaidReply(l *lifecycle.Projection) (r RevertReply) {
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

// ChangePlan moves a subscription to the newest version of a plan: an upgrade now, with the rest of
// the period prorated, a downgrade at the period's end. Repeating the ChangeID is the same success
// (a re-sent command).
//
//schema:request client PlanChangeRequest
type ChangePlan struct {
	Env      uint32   `wire:"1"`
	ID       [16]byte `wire:"2"`
	ChangeID [16]byte `wire:"3"`
	// Plan is the plan's id (text form) or key.
	Plan string          `wire:"4" json:"changeToPlanId" rule:"required,min=1,max=128"`
	Type book.ChangeType `wire:"5" json:"changeType" rule:"required"`
}

func (c *ChangePlan) apply(t *turn) engine.Outcome {
	l, now, outcome := t.Current(c.Env, &c.ID)
	if l == nil {
		return outcome
	}
	if t.changeKnown(&l.Sub, &c.ChangeID) {
		return engine.OutcomeDone
	}
	to, outcome := l.ChangeTo(c.Plan, c.Type, now)
	if to == nil {
		return outcome
	}

	l.ChangePlan(c.ChangeID, to, c.Type, now)
	t.Commit(l)
	return engine.OutcomeDone
}

// CancelPlanChange cancels a pending downgrade.
type CancelPlanChange struct {
	Env uint32   `wire:"1"`
	ID  [16]byte `wire:"2"` // of the subscription
}

func (c *CancelPlanChange) apply(t *turn) engine.Outcome {
	l, now, outcome := t.Current(c.Env, &c.ID)
	if l == nil {
		return outcome
	}
	if l.Sub.Pending == 0 {
		return engine.OutcomeNoChangePending
	}

	l.DropChange(book.ChangeCancelled)
	l.Emit(accounts.WebhookSubscriptionChanged, now)
	t.Commit(l)
	return engine.OutcomeDone
}

// changeKnown reports whether a subscription has a change of this id.
func (s *state) changeKnown(b *book.Subscription, id *[16]byte) bool {
	for row := b.FirstChange; row != 0; row = s.PlanChanges.Read(row).Next {
		if s.PlanChanges.Read(row).ID == *id {
			return true
		}
	}
	return false
}

// PlanChangeView is one plan change of a subscription.
//
//schema:answer client ScheduledChange
type PlanChangeView struct {
	ID             [16]byte          `json:"id"`
	SubscriptionID [16]byte          `json:"subscriptionId"`
	Type           book.ChangeType   `json:"type"`
	From           PlanView          `json:"fromPlan" ref:"Plan"`
	To             PlanView          `json:"toPlan" ref:"Plan"`
	Status         book.ChangeStatus `json:"status"`
	EffectiveAt    int64             `json:"effectiveAt" as:"time"`
	CreatedAt      int64             `json:"createdAt" as:"time"`
}

func planChangeView(l *lifecycle.Projection, c *book.PlanChange) PlanChangeView {
	return PlanChangeView{
		ID: c.ID, SubscriptionID: l.Sub.ID, Type: c.Kind, Status: c.Status,
		From: planView(l.Catalog, l.Catalog.Version(c.From)),
		To:   planView(l.Catalog, l.Catalog.Version(c.To)),

		EffectiveAt: c.EffectiveAt, CreatedAt: c.CreatedAt,
	}
}

// PlanChanges lists a subscription's plan changes, oldest first; false if there is no such
// subscription.
func (m *customerReader) PlanChanges(env uint32, id [16]byte) ([]PlanChangeView, bool) {
	s := m.state.Load()
	row := s.SubscriptionIn(env, &id)
	if row == 0 {
		return nil, false
	}
	lock := s.ReadLock(s.Subscriptions.Read(row).Customer)
	defer lock.RUnlock()
	e := s.Environment(env)
	l := s.ProjectionAt(row, e.Now(s.Log.Stamp()))
	views := []PlanChangeView{}
	for at := l.Sub.FirstChange; at != 0; at = s.PlanChanges.Read(at).Next {
		views = append(views, planChangeView(l, l.ChangeAt(at)))
	}
	return views, true
}
