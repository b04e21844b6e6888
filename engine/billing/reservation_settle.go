package billing

import (
	"slices"
	"strings"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/budgets"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/holds"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/idempotency"
	"tollgate/engine/prefetch"
	"tollgate/engine/uuid"
	"tollgate/engine/wire"
)

// SettleReservation takes a hold away and records what of it was used, in one entry. Units are
// running totals of the reservation, so a repeated or reordered one never counts twice. Up to the
// units and the money that are held it is not refused. The reply is a ReservationView; of a
// refusal, a Shortage.
//
//schema:quick
type SettleReservation struct {
	Env   uint32       `wire:"1"`
	ID    [16]byte     `wire:"2"`
	Items []SettleItem `wire:"3"`
	// Partial leaves the reservation open, for what is still to come.
	Partial bool `wire:"4"`
	// EventKey is the idempotency key of the usage event; empty: one is made. Key is its UsageKey.
	// Where it is used up already, nothing is recorded, and the hold goes.
	EventKey string   `wire:"5"`
	Key      [16]byte `wire:"6"`
	// OccurredAt is when it was used; 0: now.
	OccurredAt int64  `wire:"7"`
	Meta       []byte `wire:"8"`
	// Through, Found and Number are what files say of Key: see idempotency.Verdict.
	Through uint64 `wire:"9"`
	Found   bool   `wire:"10"`
	Number  uint64 `wire:"11"`
	// Originals are the events by which the expired reservation was billed, to be amended.
	Originals []UsageRef `wire:"12"`
	// KeyBudget and Bindings are those of RecordUsage.
	KeyBudget uint32 `wire:"13"`
	Bindings  uint32 `wire:"14"`
	// Own is FirstEventKey of the reservation, which its proposer has made; zero: Apply makes it.
	// Apply does not check it: an event under another key would be recorded and billed, but not be
	// found by its key, so it could be neither voided nor amended.
	Own [16]byte `wire:"15"`

	own own
}

// SettleItem is how much was used of a feature in all. Of a reservation of one feature neither id
// nor key need be set.
//
//schema:quick
type SettleItem struct {
	FeatureKey string          `wire:"1"`
	FeatureID  [16]byte        `wire:"2"`
	Units      decimal.Decimal `wire:"3"`
	// Cost is what this part costs the provider; without HasCost the feature says it, or it is a
	// share of what the reservation expects.
	Cost    decimal.Decimal `wire:"4"`
	HasCost bool            `wire:"5"`
}

// own is the key of the event that settles a reservation next, if no caller names one: made while
// its memory is prefetched.
type own struct {
	row, number uint32 // the reservation's row, and the event's number; 0: no key was made
	key         [16]byte
	hash        uint64
}

// FirstEventKey is the key of the first event that settles a reservation, unless a caller names
// another: see SettleReservation.Own.
func FirstEventKey(env uint32, id [16]byte) [16]byte { return holds.EventKey(env, &id, 1) }

// ownKey is the key of the n-th event that settles a reservation.
func (c *SettleReservation) ownKey(id *[16]byte, n uint32) [16]byte {
	if n == 1 && c.Own != ([16]byte{}) {
		return c.Own
	}
	return holds.EventKey(c.Env, id, n)
}

// openSettlement decodes a SettleReservation.
func openSettlement(m *Machine, payload []byte) (op, error) {
	c := m.scratch.settlements.next()
	items := c.Items[:0]
	*c = SettleReservation{} // in place
	c.Items = items
	if c.quick(payload) {
		return c, nil
	}
	*c = SettleReservation{}
	return c, wire.Decode(payload, c)
}

// prefetchSettlements is prefetch of settlements.
func prefetchSettlements(s *state, list []SettleReservation) {
	var room [holds.FoundLines * book.Prefetched]prefetch.Address
	lines := room[:0]
	for i := range list {
		lines = holds.NearID(&s.holds, lines, &list[i].ID)
	}
	prefetch.Lines(lines)
	lines = room[:0]
	for i := range list {
		list[i].own.row = s.holds.Likely(&list[i].ID)
		if row := list[i].own.row; row != 0 {
			lines = holds.NearRow(&s.holds, lines, row)
		}
	}
	prefetch.Lines(lines)
	lines = room[:0]
	for i := range list {
		c := &list[i]
		if c.own.row == 0 {
			continue
		}
		v := s.holds.Rows.Read(c.own.row)
		if v.State != holds.ReservationOpen || v.ID != c.ID {
			continue
		}
		lines = holds.NearCustomer(&s.holds, holds.NearItem(&s.holds, lines, v), v.Customer)
		lines = s.holds.Texts.Lines(holds.NearLinks(&s.holds, lines, v), c.own.row)
		lines = append(lines, prefetch.Of(s.Customers.Read(v.Customer)))
		if c.EventKey != "" {
			lines = append(lines, prefetch.Of(s.keys.Near(s.keys.Hash(c.Key))))
			continue
		}
		c.own.number = v.Events + 1
		c.own.key = c.ownKey(&v.ID, c.own.number)
		c.own.hash = s.keys.Hash(c.own.key)
		lines = append(lines, prefetch.Of(s.keys.Near(c.own.hash)))
	}
	prefetch.Lines(lines)
	lines = room[:0]
	for i := range list {
		if at := s.holds.SubscriptionOf(list[i].own.row); at != 0 {
			b := s.Subscriptions.Read(at)
			lines = append(lines, prefetch.Of(b), prefetch.Of(&b.PeriodEnd))
			lines = holds.NearTotals(&s.holds, lines, s.holds.Rows.Read(list[i].own.row).Customer)
		}
	}
	prefetch.Lines(lines)
	lines = room[:0]
	for i := range list {
		if at := s.holds.SubscriptionOf(list[i].own.row); at != 0 {
			if first := s.Subscriptions.Read(at).FirstCounter; first != 0 {
				lines = append(lines, prefetch.Of(s.Counters.Near(first)))
			}
			lines = holds.NearFirst(&s.holds, lines, s.holds.Rows.Read(list[i].own.row).Customer)
		}
	}
	prefetch.Lines(lines)
}

// Apply implements machine.Op.
func (c *SettleReservation) Apply(t *turn) engine.Outcome {
	if c.EventKey != "" && t.Held.Owns(c.Env, []byte(c.EventKey)) {
		return engine.OutcomeEventKeyReserved
	}
	h, outcome := t.openReservation(c.Env, &c.ID, c.own.row)
	if outcome == engine.OutcomeDone {
		outcome = h.reached(t, c.KeyBudget, c.Bindings)
	}
	if outcome != engine.OutcomeDone {
		return outcome
	}
	totals, outcome := c.totals(h)
	if outcome != engine.OutcomeDone {
		return outcome
	}
	if h.hold.State != holds.ReservationOpen {
		done := true
		for i := range h.items {
			done = done && !h.items[i].Settled.Less(totals[i])
		}
		switch {
		case h.hold.State == holds.ReservationSettled && (done || c.answered(h)):
			h.answer(t)
			return engine.OutcomeDone
		case h.hold.State == holds.ReservationReleased, h.hold.State == holds.ReservationSettled:
			return h.closed(t)
		case h.hold.State == holds.ReservationBilled:
			return c.amend(t, h, totals)
		}
	}
	return c.settle(t, h, totals)
}

// describe returns what an operator's settlement changes.
func (c *SettleReservation) describe(t *turn) accounts.Change {
	d := accounts.Change{Env: c.Env, Action: "reservation.settled", Subject: uuid.Text(c.ID)}
	h, outcome := t.openReservation(c.Env, &c.ID, 0)
	if outcome != engine.OutcomeDone {
		return d
	}
	var settled []string
	for i := range h.items {
		key := h.catalog.Feature(h.items[i].Feature).Document.Key
		settled = append(settled, key+" "+h.items[i].Settled.String())
	}
	d.Values = append(d.Values, accounts.About("customer", h.customer(t)),
		accounts.About("reservationKey", strings.Clone(h.words.Key)),
		accounts.Given("state", h.hold.State.String()),
		accounts.Given("settled", strings.Join(settled, ", ")))
	return d
}

// customer is the ExternalID of who has the reservation.
func (h *settling) customer(t *turn) string {
	return string(t.ExternalID(t.Customers.Read(h.hold.Customer)))
}

// answered reports whether the reservation was settled by the event that the command names, which
// was there before.
func (c *SettleReservation) answered(h *settling) bool {
	return h.words.Recorded && c.EventKey == h.words.Event
}

// totals are what each item is to be settled at. One that a partial settlement is behind, or that
// none names, stays.
func (c *SettleReservation) totals(h *settling) (totals []decimal.Decimal, o engine.Outcome) {
	totals = h.totals
	for i := range h.items {
		totals = append(totals, h.items[i].Settled)
	}
	h.totals = totals
	if len(c.Items) == 0 || len(c.Items) > len(h.items) {
		return nil, engine.OutcomeReservationInvalid
	}
	var named [holds.MaxItems]bool
	for j := range c.Items {
		i := c.item(h, j)
		if i < 0 {
			return nil, engine.OutcomeFeatureUnknown
		}
		v := &c.Items[j]
		if named[i] || v.Units.Sign() < 0 || !v.Units.InRange() || v.Cost.Sign() < 0 ||
			!v.Cost.InRange() {
			return nil, engine.OutcomeReservationInvalid
		}
		named[i] = true
		if h.hold.State == holds.ReservationBilled && !c.Partial || totals[i].Less(v.Units) {
			totals[i] = v.Units
		} else if h.hold.State == holds.ReservationOpen && !c.Partial && v.Units.Less(totals[i]) {
			return nil, engine.OutcomeSettledMore
		}
	}
	return totals, engine.OutcomeDone
}

// item is the place of the item that the command's j-th names; −1 where there is none.
func (c *SettleReservation) item(h *settling, j int) int {
	v := &c.Items[j]
	if v.FeatureKey == "" && v.FeatureID == ([16]byte{}) {
		if len(h.items) == 1 {
			return 0
		}
		return -1
	}
	number := featureOf(h.catalog, v.FeatureID, v.FeatureKey)
	return slices.IndexFunc(h.items, func(i holds.Item) bool { return i.Feature == number })
}

// settle records what the totals add, and closes the reservation unless more is to come.
func (c *SettleReservation) settle(
	t *turn, h *settling, totals []decimal.Decimal,
) engine.Outcome {
	c.parts(h, totals)
	parts := h.parts
	h.partial = c.Partial
	if c.Partial && len(parts) == 0 {
		h.answer(t)
		return engine.OutcomeDone
	}
	if outcome := c.recorded(t, h); outcome != engine.OutcomeNone {
		return outcome
	}
	occurredAt := c.OccurredAt
	if occurredAt == 0 {
		occurredAt = h.now
	}
	if outcome := t.timely(h.env, occurredAt, h.now); outcome != engine.OutcomeDone {
		return outcome
	}
	if len(parts) > 0 &&
		t.Limits.Load().Full(t.keys.Present(), t.keys.Held(uint32(accounts.FlowOf(c.Env)))) {
		return engine.OutcomeKeysFull
	}
	was := h.hold.State
	if outcome := h.plan(t, occurredAt); outcome != engine.OutcomeDone {
		if was == holds.ReservationOpen && tooMuch(outcome) {
			h.keepAnswer(t)
			h.hold.SettleOnExpiry = true // the cost has arisen
			h.store(t)
			t.holds.EachItem(&h.hold, func(item uint32) {
				budgets.Expires(&t.budgets.Forest, item, h.hold.Over())
			})
			if outcome != engine.OutcomeReservationShort {
				t.stays()
			}
		}
		return outcome
	}
	if h.to = holds.ReservationSettled; c.Partial {
		h.to = was
	}
	if c.EventKey != "" && !c.Partial && len(parts) > 0 {
		h.words.Event, h.rewritten = c.EventKey, true
	}
	if was == holds.ReservationExpired && len(parts) > 0 {
		h.words.Late, h.rewritten = true, true
	}
	h.left = len(parts)
	for i := range parts {
		if outcome := parts[i].carryOut(t, h, c); outcome != engine.OutcomeDone {
			return outcome // of the first item: nothing has changed
		}
	}
	if len(parts) == 0 {
		h.hold.State = h.to
		h.store(t)
	}
	if h.rewritten {
		h.write(t)
	}
	h.answer(t)
	return engine.OutcomeDone
}

// stays says in a budget's refusal that the reservation stays open.
func (t *turn) stays() {
	var r budgets.Refusal
	if wire.Decode(t.Reply, &r) == nil {
		r.Stays = true
		t.Answer(&r)
	}
}

// tooMuch reports whether an outcome means that there is no room for what goes beyond a hold.
func tooMuch(o engine.Outcome) bool {
	switch o {
	case engine.OutcomeReservationShort, engine.OutcomeBudgetExceeded, engine.OutcomeBudgetFrozen,
		engine.OutcomeBudgetArchived:
		return true
	}
	return false
}

// used looks for an event under the command's key: None where there is none, or one that an earlier
// part of the same reservation named; Unproven where files are to be asked; Duplicate where there
// is one.
func (c *SettleReservation) used(t *turn, h *settling) engine.Outcome {
	if c.EventKey == "" || h.words.Own(&c.Key) {
		return engine.OutcomeNone
	}
	probe := RecordUsage{Key: c.Key, Fingerprint: 1 << fingerprintBits, verdict: idempotency.Verdict{
		Through: c.Through, Found: c.Found, Number: c.Number,
	}}
	switch outcome := probe.used(t); outcome {
	case engine.OutcomeNone, engine.OutcomeKeyUnproven:
		return outcome
	}
	return engine.OutcomeDuplicate
}

// recorded looks for an event under the command's key. Where there is one the hold goes, and that
// is the answer.
func (c *SettleReservation) recorded(t *turn, h *settling) engine.Outcome {
	if outcome := c.used(t, h); outcome != engine.OutcomeDuplicate {
		return outcome
	}
	h.hold.State = holds.ReservationSettled
	h.words.Event, h.words.Recorded = c.EventKey, true
	h.store(t)
	h.write(t)
	h.answer(t)
	return engine.OutcomeDone
}

// parts finds the items to which the totals add something.
func (c *SettleReservation) parts(h *settling, totals []decimal.Decimal) {
	for i := range h.items {
		if delta := sums.Difference(totals[i], h.items[i].Settled); delta.Sign() > 0 {
			h.parts = append(h.parts, part{})
			p := &h.parts[len(h.parts)-1]
			p.item, p.delta = i, delta
			for j := range c.Items {
				if c.item(h, j) == i {
					p.given = &c.Items[j]
				}
			}
		}
	}
}

// name gives the event its key: the caller's for the first one, else one of the reservation's own.
func (h *settling) name(t *turn, e *RecordUsage, c *SettleReservation) {
	if c != nil && c.EventKey != "" && !h.named && !h.words.Own(&c.Key) {
		h.named = true
		if c.Partial {
			h.words.AddPart(&c.Key)
			h.rewritten = true
		}
		e.KeyText, e.Key = []byte(c.EventKey), c.Key
		e.hash = t.keys.Hash(e.Key)
		return
	}
	h.key = holds.AppendEventKey(h.key[:0], &h.hold.ID, h.hold.Events+1)
	e.KeyText = h.key
	if c != nil && c.own.row == h.row && c.own.number == h.hold.Events+1 {
		e.Key, e.hash = c.own.key, c.own.hash
		return
	}
	if c != nil {
		e.Key = c.ownKey(&h.hold.ID, h.hold.Events+1)
	} else {
		e.Key = holds.EventKey(e.Env, &h.hold.ID, h.hold.Events+1)
	}
	e.hash = t.keys.Hash(e.Key)
}

// reservation implements settler.
func (h *settling) reservation() [16]byte { return h.hold.ID }

// took notes that the event was counted. The customer's lock is held.
func (h *settling) took(t *turn, draws []credits.Draw) {
	i := &h.items[h.at]
	i.Settled = h.total
	i.Credits = sums.Remaining(i.Credits, credits.Drawn(draws))
	h.hold.Events++
	if h.left == 0 {
		h.hold.State = h.to
	}
	h.budget(t)
	h.put(t)
}
