package billing

import (
	"tollgate/engine"
	"tollgate/engine/decimal"
	"tollgate/engine/period"
	"tollgate/engine/wire"
)

// CancelMode says when a cancellation takes effect; 0: none was asked for.
type CancelMode uint8

const (
	CancelImmediate   CancelMode = 1
	CancelAtPeriodEnd CancelMode = 2
)

// CancelSubscription ends a subscription: now, with what is unbilled on a last invoice and nothing
// refunded, or at the period's end.
type CancelSubscription struct {
	Env  uint32
	ID   [16]byte
	Mode CancelMode
}

// Fields states the command's fields.
func (c *CancelSubscription) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &c.Env)
	w.ID(2, &c.ID)
	wire.Uint(w, 3, &c.Mode)
}

func (c *CancelSubscription) apply(t *turn) engine.Outcome {
	e := t.environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	row := t.subscriptionIn(c.Env, &c.ID)
	if row == 0 {
		return engine.OutcomeSubscriptionUnknown
	}
	now := e.now(t.stamp)
	l, ok := t.advanced(row, now)
	if !ok {
		return engine.OutcomeDeferred
	}
	switch {
	case l.b.endedAt != 0 && c.Mode == CancelAtPeriodEnd:
		return engine.OutcomeSubscriptionEnded
	case l.b.endedAt != 0, l.b.cancelMode != 0 && l.b.cancelMode == c.Mode:
		return engine.OutcomeDone
	}

	if l.b.pending != 0 {
		l.dropChange(ChangeCancelled)
	}
	if l.b.cancelledAt == 0 {
		l.b.cancelledAt = now
	}
	l.b.cancelMode = CancelAtPeriodEnd
	if c.Mode != CancelAtPeriodEnd {
		l.b.cancelMode = CancelImmediate
		l.cancelNow(now)
	} else {
		l.tell(WebhookSubscriptionChanged, now)
	}
	l.b.due = l.nextDue()
	t.commit(l)
	return engine.OutcomeDone
}

// cancelNow ends the subscription within its period. What is unbilled is its usage, and in arrears
// the part of the base price for the time that has passed.
func (l *ledger) cancelNow(now int64) {
	b := &l.b
	d := l.draft(InvoiceRegular, pendingID(b), now)
	l.credited = append(l.credited, creditStep{end: true, version: b.version, at: now})
	l.closeSpan(now, cut{period: true, ends: true, version: b.version})
	l.billUsage(d)
	if l.version().timing == timingInArrears {
		whole := period.Period{Start: b.periodStart, End: b.periodEnd}
		left, _ := whole.RemainingRatio(now) // a period is never empty
		passed := difference(decimal.FromInt(1), left)
		if !passed.IsZero() {
			d.charge(l, chargeFact{
				Kind: LineBase, Version: b.baseVersion, Ratio: passed, Start: b.periodStart, End: now,
			})
		}
	}
	l.end(now)
	l.issue(d)
}

// RevertCancellation takes a scheduled cancellation back before its period has ended.
type RevertCancellation struct {
	Env uint32
	ID  [16]byte
}

// Fields states the command's fields.
func (c *RevertCancellation) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &c.Env)
	w.ID(2, &c.ID)
}

func (c *RevertCancellation) apply(t *turn) engine.Outcome {
	e := t.environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	row := t.subscriptionIn(c.Env, &c.ID)
	if row == 0 {
		return engine.OutcomeSubscriptionUnknown
	}
	now := e.now(t.stamp)
	l, ok := t.advanced(row, now)
	if !ok {
		return engine.OutcomeDeferred
	}
	if !l.b.active() || l.b.cancelMode != CancelAtPeriodEnd {
		return engine.OutcomeNothingToRevert
	}

	l.b.cancelMode, l.b.cancelledAt = 0, 0
	l.tell(WebhookSubscriptionChanged, now)
	l.b.due = l.nextDue()
	t.commit(l)
	return engine.OutcomeDone
}
