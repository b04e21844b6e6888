package billing

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/budgets"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/charging"
	"tollgate/engine/billing/internal/holds"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// ReservationView is a reservation. What commands answer has no Meta.
//
//schema:answer billingview Reservation
//schema:straight
type ReservationView struct {
	// ID is absent where nothing is held: of a dryRun.
	ID       [16]byte               `wire:"1" json:"id,omitzero"`
	Key      string                 `wire:"2" json:"reservationKey,omitzero" rule:"min=1,max=255"`
	Customer string                 `wire:"3" json:"customerReferenceId" rule:"min=1,max=128"`
	State    holds.ReservationState `wire:"4" json:"state" as:"text"`
	DryRun   bool                   `wire:"5" json:"dryRun"`
	// CreatedAt and ExpiresAt are on the environment's clock.
	CreatedAt int64 `wire:"6" json:"createdAt" as:"time"`
	ExpiresAt int64 `wire:"7" json:"expiresAt" as:"time"`
	// RemainingSeconds is how long it still lives, 0 where it is closed.
	RemainingSeconds int64                 `wire:"8" json:"remainingSeconds"`
	Items            []ReservationItemView `wire:"9" json:"items" ref:"ReservationItem"`
	// RefuseOverrun and SettleOnExpiry are overrun and onExpiry of the request.
	RefuseOverrun  bool `wire:"10" json:"refusesOverrun"`
	SettleOnExpiry bool `wire:"11" json:"settlesOnExpiry"`
	// Event is the key of the usage event that settled it, where the caller named one, Recorded
	// whether that event was there before, so that nothing was recorded.
	Event    string `wire:"12" json:"eventIdempotencyKey,omitzero" rule:"max=255"`
	Recorded bool   `wire:"13" json:"recordedBefore"`
	// Late reports whether it was settled after it had expired.
	Late     bool   `wire:"14" json:"afterExpiry"`
	Meta     []byte `wire:"15" json:"meta,omitzero" as:"object"`
	LogIndex uint64 `wire:"16" json:"logIndex"`
	// Budget is the key of the budget at which it is held.
	Budget string `wire:"17" json:"budget,omitzero" rule:"max=128"`
	ReservedLimit
	RecordedEvent
}

// ReservedLimit is the hard limit, of the reservation's budget or of one above it, that has the
// smallest part left. It stands in the answer to the request alone.
//
//schema:part
type ReservedLimit struct {
	// LimitBudget is the budget that has the limit; empty: no hard limit counts what is held.
	LimitBudget   string          `wire:"18" json:"budgetLimit.budget" in:"whole" rule:"min=1,max=128"`
	LimitOf       budgets.Measure `wire:"19" json:"budgetLimit.of"`
	LimitFeature  string          `wire:"20" json:"budgetLimit.featureKey,omitzero" rule:"min=1,max=128"`
	LimitCurrency string          `wire:"21" json:"budgetLimit.currency,omitzero" rule:"min=3,max=3"`
	LimitWindow   budgets.Window  `wire:"22" json:"budgetLimit.window"`
	LimitMax      decimal.Decimal `wire:"23" json:"budgetLimit.limit"`
	// LimitLeft is what the limit leaves in addition to this reservation.
	LimitLeft decimal.Decimal `wire:"24" json:"budgetLimit.remaining"`
}

// RecordedEvent is the usage event that was recorded already under the key that a settlement named.
// It stands in the answer to the settlement alone.
//
//schema:part
type RecordedEvent struct {
	// RecordedKey is the event's key; empty: there is none, or it is not found.
	RecordedKey      string `wire:"25" json:"recordedEvent.eventIdempotencyKey" in:"whole" rule:"min=1,max=255"`
	RecordedCustomer string `wire:"26" json:"recordedEvent.customerReferenceId" rule:"min=1,max=128"`
	RecordedFeature  string `wire:"27" json:"recordedEvent.featureKey,omitzero" rule:"max=128"`
	// RecordedUnits are what the event counts now: 0 once it is voided.
	RecordedUnits decimal.Decimal `wire:"28" json:"recordedEvent.usageUnits"`
	// RecordedOccurred and RecordedAt are on the environment's clock.
	RecordedOccurred int64 `wire:"29" json:"recordedEvent.occurredAt" as:"time"`
	RecordedAt       int64 `wire:"30" json:"recordedEvent.recordedAt" as:"time"`
}

// ReservationItemView is what a reservation holds of one feature.
//
//schema:answer billingview ReservationItem
//schema:straight
type ReservationItemView struct {
	FeatureKey     string   `wire:"1" json:"featureKey" rule:"min=1,max=128"`
	SubscriptionID [16]byte `wire:"2" json:"subscriptionId"`
	// Granted is the hold in all, Settled what of it, and beyond it, is usage, Held what is left.
	Granted decimal.Decimal `wire:"3" json:"grantedUnits"`
	Settled decimal.Decimal `wire:"4" json:"settledUnits"`
	Held    decimal.Decimal `wire:"5" json:"heldUnits"`
	// Overrun is what was recorded beyond the hold although it did not fit.
	Overrun decimal.Decimal `wire:"6" json:"overrunUnits"`
	HasCost bool            `wire:"7"`
	Cost    decimal.Decimal `wire:"8" json:"costAmount" if:"HasCost"`
	// Rule is what decided how much is granted: limit, pool, budget, or none; where all is, the first
	// of them that bounds the feature. It stands in the answer to the request alone, as do Limit and
	// Remaining, where the feature has a limit, and CreditsLeft: what is left in addition to this
	// reservation.
	Rule      string          `wire:"9" json:"rule,omitzero" rule:"oneof=limit|pool|budget|none"`
	HasLimit  bool            `wire:"10"`
	Limit     decimal.Decimal `wire:"11" json:"limit" if:"HasLimit"`
	Remaining decimal.Decimal `wire:"12" json:"remaining" if:"HasLimit"`
	// CreditsLeft are the credits that pools have left, where they pay for the feature and end.
	HasCredits  bool            `wire:"13"`
	CreditsLeft decimal.Decimal `wire:"14" json:"creditsRemaining" if:"HasCredits"`
}

// begun adds what the request is answered with alone.
func (v *ReservationView) begun(w *holds.Words, b *holds.Beginning) {
	v.LogIndex, v.Key, v.Budget = b.Index, w.Key, w.Budget
	for j := range v.Items {
		i, r := &v.Items[j], &b.Rooms[j]
		if i.Rule = holds.Rules[r.Rule]; i.Rule == "" {
			i.Rule = ruleNone
		}
		i.HasLimit, i.Limit, i.Remaining = r.HasLimit, r.Limit, r.Remaining
		i.HasCredits, i.CreditsLeft = r.HasCredits, r.Credits
	}
}

// bound adds the limit of a budget that binds it most.
func (v *ReservationView) bound(s *state, env uint32, b *budgets.Binding) {
	if b.Node == 0 || !s.budgets.Forest.Has(env, b.Node) {
		return
	}
	v.ReservedLimit = ReservedLimit{
		LimitBudget: s.budgets.Forest.Key(b.Node), LimitOf: b.Of, LimitCurrency: b.Currency,
		LimitWindow: b.Window, LimitMax: b.Limit, LimitLeft: b.Remaining,
	}
	if f := s.Environment(env).Catalog.Load().Feature(b.Feature); f != nil {
		v.LimitFeature = f.Document.Key
	}
}

// reservationView describes a reservation as a command leaves it, in memory that the next one
// reuses.
func (t *turn) reservationView(v *holds.Hold, items []holds.Item) *ReservationView {
	view := &t.m.scratch.view
	view.describe(t.state, v, items, t.Environment(t.Customers.Read(v.Customer).Env).Now(t.Stamp))
	return view
}

// answerReservation makes a view the record's reply.
func (t *turn) answerReservation(view *ReservationView) {
	t.Reply = t.m.scratch.replied(view.append(t.m.scratch.reply()))
}

// firstAnswer is what a reservation was answered with, as its rows have it, and its texts.
func (t *turn) firstAnswer(row uint32, w *holds.Words) []byte {
	if len(w.Answer) > 0 {
		return w.Answer
	}
	v := *t.holds.Rows.Read(row)
	items := t.holds.ItemsOf(&v, nil)
	for i := range items {
		items[i].Settled = decimal.Decimal{}
	}
	var view ReservationView
	v.State = holds.ReservationOpen
	view.describe(t.state, &v, items, v.CreatedAt)
	begun, _ := w.Beginning()
	view.begun(w, &begun)
	var limit budgets.Binding
	if len(begun.Limit) > 0 && wire.Decode(begun.Limit, &limit) == nil {
		view.bound(t.state, t.Customers.Read(v.Customer).Env, &limit)
	}
	return view.append(nil)
}

// describe describes a reservation at an instant. One whose instant has come has expired, whether
// or not a tick has come. The customer's lock is held.
func (v *ReservationView) describe(s *state, h *holds.Hold, items []holds.Item, now int64) {
	customer := s.Customers.Read(h.Customer)
	catalog := s.Environment(customer.Env).Catalog.Load()
	list := v.Items[:0]
	*v = ReservationView{} // in place
	v.ID, v.Customer, v.State = h.ID, wire.Alias(s.ExternalID(customer)), h.State
	v.CreatedAt, v.ExpiresAt = h.CreatedAt, h.ExpiresAt
	v.RefuseOverrun, v.SettleOnExpiry = h.RefuseOverrun, h.SettleOnExpiry
	if v.State == holds.ReservationOpen && h.ExpiresAt <= now && !h.SettleOnExpiry {
		v.State = holds.ReservationExpired
	}
	if v.State == holds.ReservationOpen {
		v.RemainingSeconds = max(0, (h.ExpiresAt-now)/1000)
	}
	for j := range items {
		i := &items[j]
		list = append(list, ReservationItemView{})
		to := &list[j]
		to.FeatureKey = catalog.Feature(i.Feature).Document.Key
		to.SubscriptionID = s.Subscriptions.Read(i.Subscription).ID
		to.Granted, to.Settled, to.HasCost, to.Cost = i.Granted, i.Settled, i.HasCost, i.Cost
		if v.State == holds.ReservationOpen {
			to.Held = i.Held()
		}
	}
	v.Items = list
}

// told adds what the texts say.
func (v *ReservationView) told(w *holds.Words) {
	v.Key, v.Event, v.Recorded, v.Late = w.Key, w.Event, w.Recorded, w.Late
	v.Budget = w.Budget
	for i := range w.Overruns {
		v.Items[i].Overrun = w.Overruns[i].Units
	}
}

// Reservation is a reservation of an environment at a log time; false where there is none.
func (m *customerReader) Reservation(env uint32, id [16]byte, now int64) (ReservationView, bool) {
	s := m.state.Load()
	row, customer := s.holds.Find(env, &id)
	if row == 0 {
		return ReservationView{}, false
	}
	lock := s.ReadLock(customer)
	defer lock.RUnlock()
	v, ok := s.holds.At(row, &id)
	if !ok {
		return ReservationView{}, false
	}
	return m.wholeReservation(s, row, &v, now), true
}

// wholeReservation describes a reservation with its texts. The customer's lock is held.
func (*customerReader) wholeReservation(
	s *state, row uint32, v *holds.Hold, now int64,
) ReservationView {
	e := s.Environment(s.Customers.Read(v.Customer).Env)
	var view ReservationView
	view.describe(s, v, s.holds.ItemsOf(v, nil), e.Now(now))
	words := s.holds.WordsOf(row)
	view.Meta, view.LogIndex = words.Meta, s.Log.Applied()
	view.told(&words)
	return view
}

// settling is a reservation in the hands of a command. There is one at a time.
type settling struct {
	row     uint32
	hold    holds.Hold
	items   []holds.Item
	env     *accounts.Environment
	catalog *catalogs.Catalog
	now     int64
	// at is the item whose event is on its way, total what it is settled at then; to is the state
	// with the last event, which is the left-th from now on.
	at    int
	total decimal.Decimal
	to    holds.ReservationState
	left  int
	// named reports whether an event has the command's own key; rewritten whether words changed.
	named, rewritten bool
	words            holds.Words
	// late are the LateCosts after a late settlement.
	late []holds.LateCost
	// text has the bytes of words, key and feature those of the event on its way.
	text, key, feature []byte
	// totals are what a settlement wants each item to be settled at.
	totals []decimal.Decimal
	// parts are what a settlement adds; partial is set where the reservation stays open.
	parts   []part
	partial bool
	// charges are what parts count in budgets.
	charges []budgets.Charge
	// node is the budget where items are to be held that are held at none. rehold is set where
	// all are to be held anew: what they count may have changed, since until was when they expire.
	node   uint32
	rehold bool
	until  int64
	// counts is what the event on its way counts in budgets; nil: nothing.
	counts *charging.Charge
}

// keepAnswer puts what the reservation was answered with into its texts, before a change of what
// that follows from.
func (h *settling) keepAnswer(t *turn) {
	if len(h.words.Answer) == 0 {
		h.words.Answer = t.firstAnswer(h.row, &h.words)
		h.write(t)
	}
}

// write replaces the texts in the state.
func (h *settling) write(t *turn) {
	lock := t.WriteLock(h.hold.Customer)
	t.holds.SetWords(h.row, &h.words)
	lock.Unlock()
}

// store replaces the reservation in the state.
func (h *settling) store(t *turn) {
	h.budget(t)
	lock := t.WriteLock(h.hold.Customer)
	h.put(t)
	lock.Unlock()
}

// put replaces the reservation's rows. The customer's lock is held.
func (h *settling) put(t *turn) {
	open := t.holds.Rows.Read(h.row).State == holds.ReservationOpen
	t.holds.Put(&t.Keeper, h.row, &h.hold, h.items)
	if !open || h.hold.State == holds.ReservationOpen {
		return
	}
	for i := range h.items {
		if pool := h.items[i].Pool; pool != 0 {
			t.GaveUp(h.hold.Customer, pool, func(by int64) decimal.Decimal {
				held, looked := t.holds.CreditsBy(h.hold.Customer, pool, by)
				t.Spend(looked / 4)
				return held
			})
		}
	}
}

// budget replaces what budgets hold for the reservation: nothing where it is closed.
func (h *settling) budget(t *turn) {
	if !t.budgets.Forest.Any(h.env.Number) {
		return
	}
	row := h.hold.FirstItem
	for n := range h.items {
		node, was := t.budgets.Forest.HeldBy(row)
		if node == 0 {
			node = h.node
		}
		switch {
		case node == 0:
		case h.hold.State != holds.ReservationOpen || h.left > 0 && !h.partial:
			t.budgets.Forest.Release(&t.Tx, row)
		case h.rehold || was.Units != h.items[n].Held():
			charge, ok := h.holdsOn(t, &h.items[n], &was, h.partOf(n))
			if !ok || !t.budgets.Forest.Holdable(node, []budgets.Charge{was.Neg(), charge}) {
				charge = was // prices or costs have left the range of numbers since
			}
			t.budgets.Forest.Hold(&t.Tx, row, node, &charge, h.hold.Over())
		}
		row = t.holds.Items.Next(row)
	}
}

// holdsOn is what an item counts in budgets from now on that held a charge so far: after a part, no
// more than that leaves of it; at a later expiry, no more than so far, unless prices are others
// then. False: it is beyond the range of numbers.
func (h *settling) holdsOn(t *turn, i *holds.Item, was, part *budgets.Charge) (
	charge budgets.Charge, ok bool,
) {
	charge, ok = t.chargeOf(h.hold.Customer, i, h.now, h.hold.ExpiresAt)
	at := t.within(h.catalog, i.Subscription, i.Feature, h.now)
	if at.Feature == nil { // it counts where it was reserved
		charge.Currency, charge.Price = was.Currency, was.Price
	}
	switch {
	case !ok:
	case part != nil:
		charge = charge.Within(was, part)
	case was.Units == charge.Units:
		if before, _ := t.chargeOf(h.hold.Customer, i, h.now, h.until); before == charge {
			charge = charge.Within(was, &budgets.Charge{})
		}
	}
	return charge, ok
}

// partOf is what the part of an item counts in budgets whose event is on its way; nil: it has none.
func (h *settling) partOf(item int) *budgets.Charge {
	if h.counts == nil || item != h.at {
		return nil
	}
	return &h.counts.Charge
}

// heldAt is the budget at which the reservation is held, or was until it closed; 0: at none.
func (h *settling) heldAt(t *turn) uint32 {
	if h.words.Budget == "" {
		return 0
	}
	if node := budgets.HolderOf(&t.budgets.Forest, h.hold.FirstItem); node != 0 {
		return node // that of the key
	}
	return t.budgets.Forest.Named(h.env.Number, []byte(h.words.Budget))
}

// reached refuses the command if a budget-bound API key may not change the reservation: it must be
// held, or have been held, at the key's budget or below it.
func (h *settling) reached(t *turn, keyNode, bindings uint32) engine.Outcome {
	switch {
	case bindings != 0 && bindings != h.env.Bindings():
		return engine.OutcomeKeyRebound
	case keyNode != 0 && !t.budgets.Forest.Within(h.heldAt(t), keyNode):
		return engine.OutcomeBudgetUnknown
	}
	return engine.OutcomeDone
}

// charge finds what an event that settles an item counts in budgets: where the reservation is held,
// or was, wherever the customer's own budget is since. Limits are not asked.
func (h *settling) charge(t *turn, c *RecordUsage, u *usage) (outcome engine.Outcome) {
	node := h.heldAt(t)
	if node == 0 && !t.Customers.Read(h.hold.Customer).Budgeted {
		return engine.OutcomeDone
	}
	u.charged, outcome = t.budgets.Settle(node, &charging.Usage{
		For: charging.For{Env: h.env.Number, Customer: h.hold.Customer}, Feature: u.feature,
		Place: u.place, Ahead: u.ahead, Late: u.late, Spot: u.spot, Units: c.Units,
		Covered: u.burning.Covered, Cost: u.cost, Now: h.now,
	})
	return outcome
}

// reservationAt opens a reservation by its row.
func (t *turn) reservationAt(row uint32) *settling {
	h := &t.m.scratch.settling
	text, key, feature, items, totals, parts, charges :=
		h.text, h.key, h.feature, h.items, h.totals, h.parts, h.charges
	*h = settling{} // in place
	h.text, h.key, h.feature, h.totals, h.parts = text, key, feature, totals[:0], parts[:0]
	h.charges = charges[:0]
	h.row, h.hold = row, *t.holds.Rows.Read(row)
	h.items = t.holds.ItemsOf(&h.hold, items[:0])
	h.env = t.Environment(t.Customers.Read(h.hold.Customer).Env)
	h.catalog, h.now = h.env.Catalog.Load(), h.env.Now(t.Stamp)
	return h
}

// openReservation opens a reservation that a command names, after what was due of its customer.
// It is in the row that is likely, if it was prefetched.
func (t *turn) openReservation(
	env uint32, id *[16]byte, likely uint32,
) (*settling, engine.Outcome) {
	e := t.Environment(env)
	if e == nil {
		return nil, engine.OutcomeAccountUnknown
	}
	row, customer := t.holds.Known(env, id, likely)
	if row == 0 {
		return nil, engine.OutcomeReservationUnknown
	}
	if !t.advanceReservations(e, customer, e.Now(t.Stamp)) {
		return nil, engine.OutcomeDeferred
	}
	h := t.reservationAt(row)
	h.text = t.holds.ReadWords(row, &h.words, h.text)
	return h, engine.OutcomeDone
}

// advanceReservations is AdvanceCustomer for a command that plans what it changes. If budgets may
// refuse it, all expired reservations expire first: billing them uses the same memory as the
// command, and must not come between its plan and its change.
func (t *turn) advanceReservations(e *accounts.Environment, customer uint32, now int64) bool {
	return t.AdvanceCustomer(customer, now) &&
		(!t.budgets.Forest.Any(e.Number) || t.ExpireHolds(e, now))
}

// closed refuses what an open reservation alone can do.
func (h *settling) closed(t *turn) engine.Outcome {
	t.Answer(&Shortage{State: h.hold.State.String(), LogIndex: t.Index})
	return engine.OutcomeReservationClosed
}

func (h *settling) answer(t *turn) {
	view := t.reservationView(&h.hold, h.items)
	view.LogIndex = t.Index
	view.told(&h.words)
	t.answerReservation(view)
}
