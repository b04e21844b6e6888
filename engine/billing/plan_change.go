package billing

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
	"tollgate/engine/period"
)

// ChangeType is what the caller calls a plan change; prices are not compared.
//
//schema:enum
type ChangeType uint8

const (
	ChangeUpgrade   ChangeType = 1 // UPGRADE
	ChangeDowngrade ChangeType = 2 // DOWNGRADE
)

// ChangeStatus is the state of a plan change.
//
//schema:enum
type ChangeStatus uint8

const (
	ChangePending   ChangeStatus = 1 // PENDING
	ChangeCompleted ChangeStatus = 2 // COMPLETED
	ChangeCancelled ChangeStatus = 3 // CANCELLED
	ChangeFailed    ChangeStatus = 4 // FAILED
)

// ChangePlan moves a subscription to the newest version of a plan: an upgrade now, with what is
// left of the period prorated, a downgrade at the period's end. A change of this ChangeID is the
// same success again (a re-sent command).
//
//schema:request client PlanChangeRequest
type ChangePlan struct {
	Env      uint32   `wire:"1"`
	ID       [16]byte `wire:"2"`
	ChangeID [16]byte `wire:"3"`
	// Plan is the plan's id (text form) or key.
	Plan string     `wire:"4" json:"changeToPlanId" rule:"required,min=1,max=128"`
	Type ChangeType `wire:"5" json:"changeType" rule:"required"`
}

func (c *ChangePlan) apply(t *turn) engine.Outcome {
	l, now, outcome := t.current(c.Env, &c.ID)
	if l == nil {
		return outcome
	}
	if t.changeKnown(&l.b, &c.ChangeID) {
		return engine.OutcomeDone
	}
	to, outcome := l.changeTo(c.Plan, c.Type, now)
	if to == nil {
		return outcome
	}

	l.changePlan(c.ChangeID, to, c.Type, now)
	t.commit(l)
	return engine.OutcomeDone
}

// changeTo is the version of a plan that the subscription may change to now, for the command and
// its preview. Nil: outcome says why there is none.
func (l *ledger) changeTo(
	plan string, kind ChangeType, now int64,
) (*planVersion, engine.Outcome) {
	p := l.catalog.planNamed(plan)
	if p == nil || kind != ChangeUpgrade && kind != ChangeDowngrade {
		return nil, engine.OutcomePlanUnknown
	}
	to := p.newest()
	switch {
	case l.b.endedAt != 0:
		return nil, engine.OutcomeSubscriptionEnded
	case p.document.Status != planActive:
		return nil, engine.OutcomePlanInactive
	case to.number == l.b.version:
		return nil, engine.OutcomePlanUnchanged
	case to.currency != l.version().currency:
		return nil, engine.OutcomeCurrencyDiffers
	case kind == ChangeDowngrade && l.b.cancelMode == CancelAtPeriodEnd:
		return nil, engine.OutcomeCancellationScheduled
	case kind == ChangeDowngrade:
		return to, engine.OutcomeDone
	}
	if _, ok := (period.Cycle{Anchor: now, IntervalMonths: to.interval}).After(0); !ok {
		return nil, engine.OutcomeOverflow
	}
	if outcome := allocatable(l.vault, l.b.customer, to); outcome.Refused() {
		return nil, outcome
	}
	return to, engine.OutcomeDone
}

// changePlan does to the ledger what a plan change does.
func (l *ledger) changePlan(id [16]byte, to *planVersion, kind ChangeType, now int64) {
	if l.b.pending != 0 {
		l.dropChange(ChangeCancelled)
	}
	made := planChange{
		id: id, subscription: l.row, from: l.b.version, to: to.number, kind: kind,
		status: ChangePending, createdAt: now, effectiveAt: l.b.periodEnd,
	}
	if kind == ChangeUpgrade {
		made.status, made.effectiveAt = ChangeCompleted, now
		l.upgrade(to, now)
	}
	l.changes = append(l.changes, heldPlanChange{planChange: made})
	l.tell(WebhookSubscriptionChanged, now)
	l.b.due = l.nextDue()
}

// upgrade moves the subscription to another plan version now. What is left of the period is given
// back at the old price and charged at the new one, on an invoice of its own. Where interval and
// timing stay, the period does; otherwise it closes here, and a new one begins at a new anchor.
func (l *ledger) upgrade(to *planVersion, now int64) {
	l.issueWaiting(now)
	old, b := l.version(), &l.b
	l.credited = append(l.credited, creditStep{from: old, version: to.number, at: now})
	d := l.draft(InvoiceAdjustment, derivedID(b.id, labelAdjustment, b.adjustments), now)
	b.adjustments++
	left := period.Period{Start: b.periodStart, End: b.periodEnd}
	ratio, _ := left.RemainingRatio(now) // a period is never empty
	unused := chargeFact{
		Kind: LineUnused, Version: b.version, Ratio: ratio, Start: now, End: b.periodEnd,
	}
	stays := to.interval == old.interval && to.timing == old.timing
	l.closeSpan(now, cut{period: !stays, version: to.number})
	if stays {
		d.charge(l, unused)
		d.charge(l, chargeFact{
			Kind: LineRemaining, Version: to.number, Ratio: ratio, Start: now, End: b.periodEnd,
		})
	} else {
		l.billUsage(d)
		if old.timing == timingInArrears {
			d.charge(l, chargeFact{
				Kind: LineBase, Version: b.baseVersion, Ratio: decimal.FromInt(1),
				Start: b.periodStart, End: b.periodEnd,
			})
		}
		d.charge(l, unused)
		b.baseVersion, b.anchor, b.months = to.number, now, 0
		l.nextPeriod(now)
		if to.timing == timingInAdvance {
			d.charge(l, chargeFact{
				Kind: LineRemaining, Version: to.number, Ratio: decimal.FromInt(1),
				Start: b.periodStart, End: b.periodEnd,
			})
		}
		d.version, d.periodStart, d.periodEnd = b.version, b.periodStart, b.periodEnd
	}
	d.always = true
	l.issue(d)
}

// CancelPlanChange takes a pending downgrade back.
type CancelPlanChange struct {
	Env uint32   `wire:"1"`
	ID  [16]byte `wire:"2"` // of the subscription
}

func (c *CancelPlanChange) apply(t *turn) engine.Outcome {
	l, now, outcome := t.current(c.Env, &c.ID)
	if l == nil {
		return outcome
	}
	if l.b.pending == 0 {
		return engine.OutcomeNoChangePending
	}

	l.dropChange(ChangeCancelled)
	l.tell(WebhookSubscriptionChanged, now)
	t.commit(l)
	return engine.OutcomeDone
}

// planChange is the record of a plan change. A pending one names the version that was newest when
// it was asked for; it takes the one that is newest when it takes effect.
type planChange struct {
	id                           [16]byte
	createdAt, effectiveAt       int64
	subscription, from, to, next uint32
	kind                         ChangeType
	status                       ChangeStatus
}

var planChangeCodec = page.Codec[planChange]{
	Append: func(dst []byte, c *planChange) []byte {
		dst = append(dst, c.id[:]...)
		dst = rows.AppendI64(rows.AppendI64(dst, c.createdAt), c.effectiveAt)
		dst = rows.AppendU32(rows.AppendU32(dst, c.subscription), c.from)
		dst = rows.AppendU32(rows.AppendU32(dst, c.to), c.next)
		return append(dst, byte(c.kind), byte(c.status))
	},
	Read: func(src []byte, c *planChange) ([]byte, error) {
		r := rows.Reader{Rest: src}
		c.id = r.ID()
		c.createdAt, c.effectiveAt = r.I64(), r.I64()
		c.subscription, c.from, c.to, c.next = r.U32(), r.U32(), r.U32(), r.U32()
		c.kind, c.status = ChangeType(r.U8()), ChangeStatus(r.U8())
		return r.Rest, r.Err
	},
}

// changeKnown reports whether a subscription has a change of this id.
func (s *state) changeKnown(b *subscription, id *[16]byte) bool {
	for row := b.firstChange; row != 0; row = s.planChanges.Read(row).next {
		if s.planChanges.Read(row).id == *id {
			return true
		}
	}
	return false
}

// pendingChange returns the pending change in the ledger.
func (l *ledger) pendingChange() *heldPlanChange {
	for i := range l.changes {
		if l.changes[i].row == l.b.pending {
			return &l.changes[i]
		}
	}
	return nil
}

// dropChange ends the pending change without its having taken effect.
func (l *ledger) dropChange(status ChangeStatus) {
	l.pendingChange().status = status
	l.b.pending = 0
}

// dueChange carries the pending change out at a period's end, and returns the version that the next
// period is under.
func (l *ledger) dueChange(at int64) (version uint32) {
	version = l.b.version
	if l.b.pending == 0 {
		return version
	}
	c := l.pendingChange()
	p := l.catalog.plans[l.catalog.version(c.to).plan-1]
	to := p.newest()
	if p.document.Status != planActive || to.currency != l.version().currency {
		l.dropChange(ChangeFailed)
		return version
	}
	c.to, c.effectiveAt = to.number, at
	l.dropChange(ChangeCompleted)
	return to.number
}

// commitChanges stores plan changes; the customer's lock is held.
func (t *runner) commitChanges(l *ledger) {
	for i := range l.changes {
		c := &l.changes[i]
		if c.row != 0 {
			c.next = t.s.planChanges.Read(c.row).next
			*t.s.planChanges.Write(c.row) = c.planChange
			continue
		}
		c.row, _ = t.s.planChanges.Append()
		*t.s.planChanges.Write(c.row) = c.planChange
		if l.b.firstChange == 0 {
			l.b.firstChange = c.row
		} else {
			t.s.planChanges.Write(l.b.lastChange).next = c.row
		}
		l.b.lastChange = c.row
		if c.status == ChangePending {
			l.b.pending = c.row
		}
		t.Fold(uint64(c.row)<<8 | uint64(c.status))
	}
}

// PlanChangeView is one plan change of a subscription.
//
//schema:answer client ScheduledChange
type PlanChangeView struct {
	ID             [16]byte     `json:"id"`
	SubscriptionID [16]byte     `json:"subscriptionId"`
	Type           ChangeType   `json:"type"`
	From           PlanView     `json:"fromPlan" ref:"Plan"`
	To             PlanView     `json:"toPlan" ref:"Plan"`
	Status         ChangeStatus `json:"status"`
	EffectiveAt    int64        `json:"effectiveAt" as:"time"`
	CreatedAt      int64        `json:"createdAt" as:"time"`
}

func planChangeView(l *ledger, c *planChange) PlanChangeView {
	return PlanChangeView{
		ID: c.id, SubscriptionID: l.b.id, Type: c.kind, Status: c.status,
		From: planView(l.catalog, l.catalog.version(c.from)),
		To:   planView(l.catalog, l.catalog.version(c.to)),

		EffectiveAt: c.effectiveAt, CreatedAt: c.createdAt,
	}
}

// changeAt is the plan change of a row, as the ledger has it.
func (l *ledger) changeAt(row uint32) *planChange {
	for i := range l.changes {
		if l.changes[i].row == row {
			return &l.changes[i].planChange
		}
	}
	return l.planChanges.Read(row)
}

// PlanChanges lists a subscription's plan changes, oldest first; false when there is no such
// subscription.
func (m *Machine) PlanChanges(env uint32, id [16]byte) ([]PlanChangeView, bool) {
	s := m.state.Load()
	row := s.subscriptionIn(env, &id)
	if row == 0 {
		return nil, false
	}
	lock := s.stripe(s.subscriptions.Read(row).customer)
	lock.RLock()
	defer lock.RUnlock()
	e := s.environment(env)
	l := s.ledgerAt(row, e.now(s.log.Stamp()))
	views := []PlanChangeView{}
	for at := l.b.firstChange; at != 0; at = s.planChanges.Read(at).next {
		views = append(views, planChangeView(l, l.changeAt(at)))
	}
	return views, true
}
