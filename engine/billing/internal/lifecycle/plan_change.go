package lifecycle

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/decimal"
	"tollgate/engine/period"
)

// ChangeTo returns the version of a plan to which the subscription may change now, for the command
// and its preview. If it returns nil, outcome tells why.
func (l *Projection) ChangeTo(
	plan string, kind book.ChangeType, now int64,
) (*catalogs.PlanVersion, engine.Outcome) {
	p := l.Catalog.PlanNamed(plan)
	if p == nil || kind != book.ChangeUpgrade && kind != book.ChangeDowngrade {
		return nil, engine.OutcomePlanUnknown
	}
	to := p.Newest()
	switch {
	case l.Sub.EndedAt != 0:
		return nil, engine.OutcomeSubscriptionEnded
	case p.Document.Status != catalogs.PlanActive:
		return nil, engine.OutcomePlanInactive
	case to.Number == l.Sub.Version:
		return nil, engine.OutcomePlanUnchanged
	case to.Currency != l.Version().Currency:
		return nil, engine.OutcomeCurrencyDiffers
	case kind == book.ChangeDowngrade && l.Sub.CancelMode.AtPeriodEnd():
		return nil, engine.OutcomeCancellationScheduled
	case kind == book.ChangeDowngrade:
		return to, engine.OutcomeDone
	}
	if _, ok := (period.Cycle{Anchor: now, IntervalMonths: to.Interval}).After(0); !ok {
		return nil, engine.OutcomeOverflow
	}
	if outcome := credits.Allocatable(&l.Vault, l.Sub.Customer, to); outcome.Refused() {
		return nil, outcome
	}
	return to, engine.OutcomeDone
}

// ChangePlan does to the projection what a plan change does.
func (l *Projection) ChangePlan(
	id [16]byte, to *catalogs.PlanVersion, kind book.ChangeType, now int64,
) {
	if l.Sub.Pending != 0 {
		l.DropChange(book.ChangeCancelled)
	}
	made := book.PlanChange{
		ID: id, Subscription: l.Row, From: l.Sub.Version, To: to.Number, Kind: kind,
		Status: book.ChangePending, CreatedAt: now, EffectiveAt: l.Sub.PeriodEnd,
	}
	if kind == book.ChangeUpgrade {
		made.Status, made.EffectiveAt = book.ChangeCompleted, now
		l.upgrade(to, now)
		billAbove(l, now)
	}
	l.changes = append(l.changes, heldPlanChange{PlanChange: made})
	l.Emit(accounts.WebhookSubscriptionChanged, now)
	l.Sub.Due = l.NextDue()
}

// upgrade moves the subscription to another plan version now. What is left of the period is given
// back at the old price and charged at the new one, on an invoice of its own. Where interval and
// timing stay, the period does; otherwise it closes here, and a new one begins at a new anchor.
func (l *Projection) upgrade(to *catalogs.PlanVersion, now int64) {
	l.issueWaiting(now)
	old, b := l.Version(), &l.Sub
	l.credited = append(l.credited, creditStep{from: old, version: to.Number, at: now})
	d := l.draft(
		book.InvoiceAdjustment, book.DerivedID(b.ID, book.LabelAdjustment, b.Adjustments), now,
	)
	b.Adjustments++
	left := period.Period{Start: b.PeriodStart, End: b.PeriodEnd}
	ratio, _ := left.RemainingRatio(now) // a period is never empty
	unused := credits.ChargeFact{
		Kind: book.LineUnused, Version: b.Version, Ratio: ratio, Start: now, End: b.PeriodEnd,
	}
	stays := to.Interval == old.Interval && to.Timing == old.Timing
	l.closeSpan(now, cut{period: !stays, version: to.Number})
	if stays {
		d.charge(l, unused)
		d.charge(l, credits.ChargeFact{
			Kind: book.LineRemaining, Version: to.Number, Ratio: ratio, Start: now, End: b.PeriodEnd,
		})
	} else {
		l.billUsage(d)
		if old.Timing == catalogs.TimingInArrears {
			d.charge(l, credits.ChargeFact{
				Kind: book.LineBase, Version: b.BaseVersion, Ratio: decimal.FromInt(1),
				Start: b.PeriodStart, End: b.PeriodEnd,
			})
		}
		d.charge(l, unused)
		b.BaseVersion, b.Anchor, b.Months = to.Number, now, 0
		l.nextPeriod(now)
		if to.Timing == catalogs.TimingInAdvance {
			d.charge(l, credits.ChargeFact{
				Kind: book.LineRemaining, Version: to.Number, Ratio: decimal.FromInt(1),
				Start: b.PeriodStart, End: b.PeriodEnd,
			})
		}
		d.Version, d.PeriodStart, d.PeriodEnd = b.Version, b.PeriodStart, b.PeriodEnd
	}
	d.always = true
	l.issue(d)
}

// PendingChange returns the pending change in the projection.
func (l *Projection) PendingChange() *heldPlanChange {
	for i := range l.changes {
		if l.changes[i].row == l.Sub.Pending {
			return &l.changes[i]
		}
	}
	return nil
}

// DropChange ends the pending change without its having taken effect.
func (l *Projection) DropChange(status book.ChangeStatus) {
	l.PendingChange().Status = status
	l.Sub.Pending = 0
}

// dueChange carries the pending change out at a period's end, and returns the version that the next
// period is under.
func (l *Projection) dueChange(at int64) (version uint32) {
	version = l.Sub.Version
	if l.Sub.Pending == 0 {
		return version
	}
	c := l.PendingChange()
	p := l.Catalog.Plans[l.Catalog.Version(c.To).Plan-1]
	to := p.Newest()
	if p.Document.Status != catalogs.PlanActive || to.Currency != l.Version().Currency {
		l.DropChange(book.ChangeFailed)
		return version
	}
	c.To, c.EffectiveAt = to.Number, at
	l.DropChange(book.ChangeCompleted)
	return to.Number
}

// commitChanges stores plan changes; the customer's lock is held.
func (t *Runner) commitChanges(l *Projection) {
	for i := range l.changes {
		c := &l.changes[i]
		if c.row != 0 {
			c.Next = t.S.PlanChanges.Read(c.row).Next
			*t.S.PlanChanges.Write(c.row) = c.PlanChange
			continue
		}
		c.row, _ = t.S.PlanChanges.Append()
		*t.S.PlanChanges.Write(c.row) = c.PlanChange
		if l.Sub.FirstChange == 0 {
			l.Sub.FirstChange = c.row
		} else {
			t.S.PlanChanges.Write(l.Sub.LastChange).Next = c.row
		}
		l.Sub.LastChange = c.row
		if c.Status == book.ChangePending {
			l.Sub.Pending = c.row
		}
		t.Fold(uint64(c.row)<<8 | uint64(c.Status))
	}
}

// ChangeAt is the plan change of a row, as the projection has it.
func (l *Projection) ChangeAt(row uint32) *book.PlanChange {
	for i := range l.changes {
		if l.changes[i].row == row {
			return &l.changes[i].PlanChange
		}
	}
	return l.PlanChanges.Read(row)
}
