package billing

import (
	"tollgate/engine"
	"tollgate/engine/decimal"
	"tollgate/engine/period"
)

// CancelMode says when a cancellation takes effect; 0: none was asked for.
//
//schema:enum
type CancelMode uint8

const (
	CancelImmediate   CancelMode = 1 // IMMEDIATE
	CancelAtPeriodEnd CancelMode = 2 // END_OF_PERIOD
)

// CancelSubscription ends a subscription: now, with what is unbilled on a last invoice and nothing
// refunded, or at the period's end.
type CancelSubscription struct {
	Env  uint32     `wire:"1"`
	ID   [16]byte   `wire:"2"`
	Mode CancelMode `wire:"3"`
}

func (c *CancelSubscription) apply(t *turn) engine.Outcome {
	l, now, outcome := t.current(c.Env, &c.ID)
	if l == nil {
		return outcome
	}
	switch {
	case l.b.endedAt != 0 && c.Mode == CancelAtPeriodEnd:
		return engine.OutcomeSubscriptionEnded
	case l.b.endedAt != 0, l.b.cancelMode != 0 && l.b.cancelMode == c.Mode:
		return engine.OutcomeDone
	}

	l.cancel(c.Mode, now)
	t.commit(l)
	return engine.OutcomeDone
}

// cancel does to the ledger what a cancellation does.
func (l *ledger) cancel(mode CancelMode, now int64) {
	if l.b.pending != 0 {
		l.dropChange(ChangeCancelled)
	}
	if l.b.cancelledAt == 0 {
		l.b.cancelledAt = now
	}
	l.b.cancelMode = CancelAtPeriodEnd
	if mode != CancelAtPeriodEnd {
		l.b.cancelMode = CancelImmediate
		l.cancelNow(now)
	} else {
		l.tell(WebhookSubscriptionChanged, now)
	}
	l.b.due = l.nextDue()
}

// cancelNow ends the subscription within its period. What is unbilled is its usage, and in arrears
// the base price.
func (l *ledger) cancelNow(now int64) {
	l.issueWaiting(now)
	b := &l.b
	d := l.draft(InvoiceRegular, pendingID(b), now)
	base, due := l.unbilledBase(now)
	l.credited = append(l.credited, creditStep{end: true, version: b.version, at: now})
	l.closeSpan(now, cut{period: true, ends: true, version: b.version})
	l.billUsage(d)
	if due {
		d.charge(l, base)
	}
	l.end(now)
	l.issue(d)
}

// unbilledBase is what of the base price an end within the period leaves to bill: in arrears the
// part for the time that has passed. Once an upgrade within the period has given back the rest of
// the old price, and charged the new one's, it is the whole, as at the period's end.
func (l *ledger) unbilledBase(now int64) (c chargeFact, due bool) {
	b := &l.b
	if l.version().timing != timingInArrears {
		return c, false
	}
	c = chargeFact{
		Kind: LineBase, Version: b.baseVersion, Ratio: decimal.FromInt(1),
		Start: b.periodStart, End: b.periodEnd,
	}
	if n := len(l.spans); n > 0 && l.spans[n-1].period == b.period {
		return c, true // only an upgrade closes a span of a period that goes on
	}
	whole := period.Period{Start: b.periodStart, End: b.periodEnd}
	left, _ := whole.RemainingRatio(now) // a period is never empty
	c.Ratio, c.End = difference(c.Ratio, left), now
	return c, !c.Ratio.IsZero()
}

// RevertCancellation takes a scheduled cancellation back before its period has ended. Of a
// suspended subscription it is OutcomeRevertSuspended, and the reply is an encoded RevertReply.
type RevertCancellation struct {
	Env uint32   `wire:"1"`
	ID  [16]byte `wire:"2"`
}

func (c *RevertCancellation) apply(t *turn) engine.Outcome {
	l, now, outcome := t.current(c.Env, &c.ID)
	if l == nil {
		return outcome
	}
	switch {
	case l.b.endedAt != 0 || l.b.cancelMode != CancelAtPeriodEnd:
		return engine.OutcomeNothingToRevert
	case l.b.suspendedAt != 0:
		reply := unpaidReply(l)
		t.Answer(&reply)
		return engine.OutcomeRevertSuspended
	}

	l.b.cancelMode, l.b.cancelledAt = 0, 0
	l.tell(WebhookSubscriptionChanged, now)
	l.b.due = l.nextDue()
	t.commit(l)
	return engine.OutcomeDone
}

// RevertReply is the invoice to pay before a suspended subscription's cancellation is reverted: its
// oldest one that is past due. The payment makes the subscription active.
type RevertReply struct {
	Invoice  [16]byte        `wire:"1"`
	Number   uint64          `wire:"2"`
	Amount   decimal.Decimal `wire:"3"`
	Currency string          `wire:"4"`
}

// unpaidReply names the first of a subscription's overdue invoices.
func unpaidReply(l *ledger) (r RevertReply) {
	for i := range l.unpaid {
		if v := &l.unpaid[i]; v.status == InvoicePastDue {
			return RevertReply{
				Invoice: v.id, Number: v.number, Amount: v.amount,
				Currency: l.catalog.version(v.version).currency,
			}
		}
	}
	return r
}
