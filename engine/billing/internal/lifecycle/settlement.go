package lifecycle

import (
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
)

// Pay makes an unpaid invoice PAID and the subscription active; its other invoices past due get a
// new grace period. An ended subscription stays ended.
func (l *Projection) Pay(i int, now int64) {
	l.settle(i, now)
	l.resume(now)
	l.Sub.Due = l.NextDue()
}

func (l *Projection) resume(now int64) {
	if l.Sub.EndedAt != 0 {
		return
	}
	l.activate(now)
	for i := range l.Unpaid {
		if v := &l.Unpaid[i]; v.Status == book.InvoicePastDue {
			v.GraceEnd = now + int64(l.Sub.GraceDays)*accounts.DayMS
		}
	}
}

// activate ends a suspension, if there is one.
func (l *Projection) activate(now int64) {
	if l.Sub.SuspendedAt != 0 {
		l.Sub.SuspendedAt = 0
		l.Emit(accounts.WebhookSubscriptionActivated, now)
	}
}

// Unblock makes a suspended subscription active if no invoice holds it back.
func (l *Projection) Unblock(now int64) {
	if l.Sub.SuspendedAt == 0 || l.Sub.EndedAt != 0 {
		return
	}
	for i := range l.Unpaid {
		if v := &l.Unpaid[i]; v.Status == book.InvoicePastDue && v.GraceEnd <= now {
			return
		}
	}
	l.activate(now)
}
