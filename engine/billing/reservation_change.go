package billing

import (
	"strings"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/budgets"
	"tollgate/engine/billing/internal/holds"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/period"
	"tollgate/engine/uuid"
)

// ExtendReservation makes an open reservation hold more, or live longer. It never makes one less.
// The reply is a ReservationView; of a refusal, a Shortage.
type ExtendReservation struct {
	Env uint32   `wire:"1"`
	ID  [16]byte `wire:"2"`
	// Units is the hold that is wanted in all, of a reservation of one feature; 0 leaves it.
	Units decimal.Decimal `wire:"3"`
	// TTLMS is how long it lives from now on, in milliseconds; 0 leaves it.
	TTLMS int64 `wire:"4"`
	// KeyBudget and Bindings are those of RecordUsage.
	KeyBudget uint32 `wire:"5"`
	Bindings  uint32 `wire:"6"`
}

// describe returns what an operator's extension changes.
func (c *ExtendReservation) describe(t *turn) accounts.Change {
	d := accounts.Change{Env: c.Env, Action: "reservation.extended", Subject: uuid.Text(c.ID)}
	h, outcome := t.openReservation(c.Env, &c.ID, 0)
	if outcome != engine.OutcomeDone {
		return d
	}
	d.Values = append(d.Values, accounts.About("customer", h.customer(t)),
		accounts.Given("expires", period.Format(h.hold.ExpiresAt)))
	if len(h.items) == 1 {
		d.Values = append(d.Values, accounts.Given("units", h.items[0].Granted.String()))
	}
	return d
}

func (c *ExtendReservation) apply(t *turn) engine.Outcome {
	h, outcome := t.openReservation(c.Env, &c.ID, 0)
	if outcome == engine.OutcomeDone {
		outcome = h.reached(t, c.KeyBudget, c.Bindings)
	}
	switch {
	case outcome != engine.OutcomeDone:
		return outcome
	case c.Units.Sign() < 0 || !c.Units.InRange() || c.TTLMS < 0 || c.TTLMS > MaxReservationMS ||
		len(h.items) > 1 && !c.Units.IsZero():
		return engine.OutcomeReservationInvalid
	case h.hold.State != holds.ReservationOpen:
		return h.closed(t)
	}
	before := h.hold.ExpiresAt
	if c.TTLMS > 0 {
		last := h.hold.CreatedAt + t.Limits.Load().MaxHold()
		h.hold.ExpiresAt = max(before, min(h.now+c.TTLMS, last))
	}
	h.rehold, h.until = h.hold.ExpiresAt != before, before
	grows := h.items[0].Granted.Less(c.Units)
	if grows {
		if outcome = h.grow(t, c.Units); outcome != engine.OutcomeDone {
			return outcome
		}
		h.rehold = true
	}
	if h.rehold {
		if outcome = h.afford(t, grows); outcome != engine.OutcomeDone {
			return outcome
		}
	}
	if h.rehold {
		h.keepAnswer(t)
	}
	if h.node != 0 && h.words.Budget == "" {
		h.words.Budget = t.budgets.Forest.Key(h.node)
		h.write(t)
	}
	h.store(t)
	if i := &h.items[0]; !i.Credits.IsZero() {
		t.NoteHeld(h.hold.Customer, i.Pool)
	}
	h.answer(t)
	return engine.OutcomeDone
}

// grow makes the only item hold so many units in all.
func (h *settling) grow(t *turn, units decimal.Decimal) engine.Outcome {
	i := &h.items[0]
	more := sums.Remaining(units, decimal.Max(i.Granted, i.Settled))
	key := h.catalog.Feature(i.Feature).Document.Key
	at := t.within(h.catalog, i.Subscription, i.Feature, h.now)
	b := t.Subscriptions.Whole(i.Subscription)
	if at.Feature == nil || !b.Active() {
		reason := ReasonNotInPlan
		if b.SuspendedAt != 0 {
			reason = ReasonSuspended
		}
		t.Answer(&Shortage{FeatureKey: key, Asked: more, Reason: reason, LogIndex: t.Index})
		return engine.OutcomeNotEntitled
	}
	a := allotment{customer: h.hold.Customer, now: h.now, catalog: h.catalog, key: key}
	r := t.roomFor(a.customer, at, h.now)
	if r.limited && r.left.Less(more) {
		r.rule = ruleLimit
		r.short(t, key, more)
		return engine.OutcomeReservationShort
	}
	if at.Credited() {
		var added holds.Item
		if i.Pool != at.Feature.Credits.Pool { // a plan change: the new pool holds all of it
			more, i.Credits = sums.Remaining(units, i.Settled), decimal.Decimal{}
		}
		granted := more
		if outcome := a.credit(t, at, &added, &r, &granted); outcome != engine.OutcomeDone {
			return outcome
		}
		if granted.Less(more) {
			r.short(t, key, more)
			return engine.OutcomeReservationShort
		}
		i.Pool, i.Credits = added.Pool, sums.Of(i.Credits, added.Credits)
	}
	if total, ok := sums.Of(r.used, r.held).Add(more); !ok || !at.Feature.Billable(total) {
		return engine.OutcomeOverflow
	}
	if i.HasCost {
		cost, ok := i.Cost.Mul(units)
		if ok {
			cost, ok = cost.FloorDiv(i.Granted)
		}
		if !ok {
			return engine.OutcomeOverflow
		}
		i.Cost = cost
	}
	i.Granted = units
	return engine.OutcomeDone
}

// afford asks budgets for what the items hold now beyond what budgets hold of them. A hold that
// only lives longer, at the same price, is not asked for. One that is held at no budget, and grows,
// is held at the customer's own from now on.
func (h *settling) afford(t *turn, grows bool) engine.Outcome {
	if h.node = h.heldAt(t); h.node == 0 && grows && h.words.Budget == "" {
		h.node = t.budgets.Forest.Own(h.hold.Customer)
	}
	if h.node == 0 {
		return engine.OutcomeDone
	}
	var charges []budgets.Charge
	more, row := false, h.hold.FirstItem
	for n := range h.items {
		_, was := t.budgets.Forest.HeldBy(row)
		row = t.holds.Items.Next(row)
		charge, ok := h.holdsOn(t, &h.items[n], &was, nil)
		if !ok {
			return engine.OutcomeOverflow
		}
		charges = append(charges, was.Neg(), charge)
		more = more || charge.Exceeds(&was)
	}
	if !more {
		return engine.OutcomeDone
	}
	return t.budgets.AskHold(&t.Runner, h.env.Number, h.node, charges, h.now)
}

// ReleaseReservation gives up what an open reservation holds. Of one that was released or expired
// it is the same success again. The reply is a ReservationView.
type ReleaseReservation struct {
	Env uint32   `wire:"1"`
	ID  [16]byte `wire:"2"`
	// Actor is the operator who gives it; empty: a program does.
	Actor string `wire:"3"`
	// KeyBudget and Bindings are those of RecordUsage.
	KeyBudget uint32 `wire:"4"`
	Bindings  uint32 `wire:"5"`
}

func (c *ReleaseReservation) apply(t *turn) engine.Outcome {
	h, outcome := t.openReservation(c.Env, &c.ID, 0)
	if outcome == engine.OutcomeDone {
		outcome = h.reached(t, c.KeyBudget, c.Bindings)
	}
	if outcome != engine.OutcomeDone {
		return outcome
	}
	switch h.hold.State {
	case holds.ReservationOpen:
		h.hold.State = holds.ReservationReleased
		h.store(t)
		if c.Actor != "" {
			t.NoteChange(c.Env, c.Actor, "reservation.released", uuid.Text(c.ID),
				accounts.Changed("state", holds.ReservationOpen.String(), h.hold.State.String()),
				accounts.Given("reservationKey", strings.Clone(h.words.Key)),
				accounts.Given("customer", h.customer(t)))
		}
	case holds.ReservationSettled, holds.ReservationBilled:
		return h.closed(t)
	}
	h.answer(t)
	return engine.OutcomeDone
}

// Holder implements lifecycle.Expirer.
func (t *turn) Holder(row uint32) uint32 { return t.holds.Rows.Read(row).Customer }

// NextHold implements lifecycle.Expirer.
func (t *turn) NextHold(customer uint32) rows.Due { return t.holds.NextOf(customer) }

// ExpireHold implements lifecycle.Expirer: what a reservation holds is free, or where it says so,
// usage of that instant.
func (t *turn) ExpireHold(row uint32) {
	h := t.reservationAt(row)
	h.now = h.hold.ExpiresAt
	t.Spend(2 + len(h.items))
	payload := t.Payload
	h.hold.State = holds.ReservationExpired
	if h.hold.SettleOnExpiry {
		h.bill(t)
	}
	t.Payload = payload
	h.store(t)
	if h.rewritten {
		h.write(t)
	}
}

// bill makes usage of what an expired reservation holds, but for what is beyond the range of
// numbers.
func (h *settling) bill(t *turn) {
	h.hold.State, h.to = holds.ReservationOpen, holds.ReservationBilled
	before := h.hold.Events
	h.text = t.holds.ReadWords(h.row, &h.words, h.text)
	parts := h.parts
	for i := range h.items {
		if held := h.items[i].Held(); held.Sign() > 0 {
			given := SettleItem{Cost: h.items[i].CostOf(held), HasCost: h.items[i].HasCost}
			parts = append(parts, part{item: i, delta: held, given: &given})
		}
	}
	h.left, h.parts = len(parts), parts
	for i := range parts {
		parts[i].plan(t, h, h.now) // what is held is not refused
	}
	if h.budgeted(t) {
		if node, _, _, outcome := h.weigh(t); outcome == engine.OutcomeDone && node != 0 {
			h.markBeyond(t, node)
		}
	}
	for i := range parts {
		if parts[i].carryOut(t, h, nil) != engine.OutcomeDone {
			h.left--
		}
	}
	if h.hold.State = holds.ReservationBilled; h.hold.Events == before {
		h.hold.State = holds.ReservationExpired
	}
}
