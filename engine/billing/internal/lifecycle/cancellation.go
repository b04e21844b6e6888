package lifecycle

import (
	"cmp"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/period"
)

// Cancel applies a cancellation to the projection.
func (l *Projection) Cancel(mode book.CancelMode, now int64) {
	if l.Sub.Pending != 0 {
		l.DropChange(book.ChangeCancelled)
	}
	l.Sub.CancelledAt = cmp.Or(l.Sub.CancelledAt, now)
	l.Sub.CancelMode = mode
	if !mode.AtPeriodEnd() {
		l.Sub.CancelMode = book.CancelImmediate
		l.cancelNow(now)
	} else {
		l.Emit(accounts.WebhookSubscriptionChanged, now)
	}
	l.Sub.Due = l.NextDue()
}

// cancelNow ends the subscription within its period. It bills the unbilled usage, and in arrears
// the base price.
func (l *Projection) cancelNow(now int64) {
	l.issueWaiting(now)
	b := &l.Sub
	d := l.draft(book.InvoiceRegular, book.PendingID(b), now)
	base, due := l.unbilledBase(now)
	l.credited = append(l.credited, creditStep{end: true, version: b.Version, at: now})
	l.closeSpan(now, cut{period: true, ends: true, version: b.Version})
	l.billUsage(d)
	if due {
		d.charge(l, base)
	}
	l.end(now)
	l.issue(d)
}

// unbilledBase returns the part of the base price to bill when the period ends early: in arrears
// the part for the time that has passed. After an upgrade within the period, which returned the
// rest of the old price and charged the rest of the new one, it is the whole price, as at the
// period's end.
func (l *Projection) unbilledBase(now int64) (c credits.ChargeFact, due bool) {
	b := &l.Sub
	if l.Version().Timing != catalogs.TimingInArrears {
		return c, false
	}
	c = credits.ChargeFact{
		Kind: book.LineBase, Version: b.BaseVersion, Ratio: decimal.FromInt(1),
		Start: b.PeriodStart, End: b.PeriodEnd,
	}
	if n := len(l.Spans); n > 0 && l.Spans[n-1].Period == b.Period {
		return c, true // only an upgrade closes a span within a period
	}
	whole := period.Period{Start: b.PeriodStart, End: b.PeriodEnd}
	left, _ := whole.RemainingRatio(now) // a period is never empty
	c.Ratio, c.End = sums.Difference(c.Ratio, left), now
	return c, !c.Ratio.IsZero()
}
