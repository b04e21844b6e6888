package billing

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/budgets"
	"tollgate/engine/billing/internal/holds"
	"tollgate/engine/decimal"
	"tollgate/engine/period"
	"tollgate/engine/prefetch"
	"tollgate/engine/uuid"
	"tollgate/engine/wire"
)

// MaxReservationItems is how many features one reservation may hold.
const MaxReservationItems = holds.MaxItems

// MaxReservationMS is the longest time to live that a request may ask for: 24 hours.
const MaxReservationMS = accounts.DayMS

// Reserve holds units of features for a customer until they are settled or released, or expire: of
// all items or of none. A reservation with this Key, Body and KeyBudget, of the same customer and
// features, is the same answer again; with another of them it is OutcomeReservationKeyReused. The
// reply is a ReservationView; of a refusal, a Shortage.
//
//schema:quick
type Reserve struct {
	Env uint32   `wire:"1"`
	ID  [16]byte `wire:"2"`
	// Key is ReservationKey of the environment and KeyText, Body a hash of what else the request says:
	// customer and features may be named by id or by key.
	Key     [16]byte `wire:"3"`
	KeyText string   `wire:"4"`
	Body    uint64   `wire:"5"`
	// Customer is the caller's id. Exactly one of it and CustomerID is set.
	Customer   string        `wire:"6"`
	CustomerID [16]byte      `wire:"7"`
	Items      []ReserveItem `wire:"8"`
	// TTLMS is how long it lives, in milliseconds of the environment's clock.
	TTLMS int64 `wire:"9"`
	// Partial grants what there is of a single item, where that is not enough.
	Partial bool `wire:"10"`
	// RefuseOverrun and SettleOnExpiry are as in holds.Hold.
	RefuseOverrun  bool `wire:"11"`
	SettleOnExpiry bool `wire:"12"`
	// DryRun answers the same, and holds nothing.
	DryRun bool   `wire:"13"`
	Meta   []byte `wire:"14"`
	// Budget is the key of the budget at which it is held; empty: the customer's own. KeyBudget is
	// the node that the request's API key is bound to; 0: to none.
	Budget    string `wire:"15"`
	KeyBudget uint32 `wire:"16"`
	// Bindings are those of RecordUsage.
	Bindings uint32 `wire:"17"`

	row    uint32       // the customer's, if it was prefetched
	hashes holds.Hashes // of ID and Key, likewise
}

// ReservationKey is a reservation's key as the log carries it. Its scope is the environment.
func ReservationKey(env uint32, key []byte) [16]byte {
	b := binary.LittleEndian.AppendUint32([]byte("reservation"), env)
	sum := sha256.Sum256(append(b, key...))
	return [16]byte(sum[:16])
}

// openReserve decodes a Reserve.
func openReserve(m *Machine, payload []byte) (op, error) {
	c := m.scratch.reserves.next()
	items := c.Items[:0]
	*c = Reserve{} // in place
	c.Items = items
	if c.quick(payload) {
		return c, nil
	}
	*c = Reserve{}
	return c, wire.Decode(payload, c)
}

// describe implements describer.
func (c *Reserve) describe(t *turn) accounts.Change {
	d := accounts.Change{Env: c.Env, Action: "reservation.made"}
	row := t.holds.Keyed(&c.Key, t.holds.Hash(&c.ID, &c.Key))
	if row == 0 || c.DryRun {
		return d
	}
	h := t.reservationAt(row)
	var granted []string
	for i := range h.items {
		key := h.catalog.Feature(h.items[i].Feature).Document.Key
		granted = append(granted, key+" "+h.items[i].Granted.String())
	}
	d.Subject = uuid.Text(h.hold.ID)
	d.Values = append(d.Values, accounts.About("customer", h.customer(t)),
		accounts.Given("reservationKey", strings.Clone(c.KeyText)),
		accounts.Given("granted", strings.Join(granted, ", ")),
		accounts.Given("expires", period.Format(h.hold.ExpiresAt)))
	return d
}

// prefetchReserves is prefetch of reservations.
func prefetchReserves(s *state, list []Reserve) {
	var names [book.Prefetched]uint64
	var room [holds.NewLines * book.Prefetched]prefetch.Address
	lines := room[:0]
	for i := range list {
		names[i] = s.ExternalHash(list[i].Env, []byte(list[i].Customer))
		list[i].hashes = s.holds.Hash(&list[i].ID, &list[i].Key)
		lines = holds.NearNew(&s.holds, lines, list[i].hashes)
	}
	prefetch.Lines(lines)
	s.Prefetch(names[:len(list)])
	lines = room[:0]
	for i := range list {
		if list[i].row = list[i].customerRow(s); list[i].row != 0 {
			lines = holds.NearCustomer(&s.holds, lines, list[i].row)
		}
	}
	prefetch.Lines(lines)
	lines = room[:0]
	for i := range list {
		if list[i].row != 0 {
			lines = holds.NearTotals(&s.holds, lines, list[i].row)
		}
	}
	prefetch.Lines(lines)
	lines = room[:0]
	for i := range list {
		if list[i].row != 0 {
			lines = holds.NearLists(&s.holds, lines, list[i].row)
		}
	}
	prefetch.Lines(lines)
}

// customerRow finds the row of the reservation's customer.
func (c *Reserve) customerRow(s *state) uint32 {
	if c.CustomerID != ([16]byte{}) {
		return s.CustomerIn(c.Env, &c.CustomerID)
	}
	return s.CustomerNamed(c.Env, []byte(c.Customer))
}

// Apply implements machine.Op.
func (c *Reserve) Apply(t *turn) engine.Outcome {
	e := t.Environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	if c.hashes == (holds.Hashes{}) {
		c.hashes = t.holds.Hash(&c.ID, &c.Key)
	}
	if row := t.holds.Keyed(&c.Key, c.hashes); row != 0 {
		if !c.repeats(t, e, row) {
			return engine.OutcomeReservationKeyReused
		}
		words := t.holds.WordsOf(row)
		if words.KeyNode != c.KeyBudget {
			return engine.OutcomeReservationKeyReused // of another API key, or bound again since
		}
		t.Reply = t.firstAnswer(row, &words)
		return engine.OutcomeDone
	}
	switch {
	case !c.valid():
		return engine.OutcomeReservationInvalid
	case c.Bindings != 0 && c.Bindings != e.Bindings():
		return engine.OutcomeKeyRebound
	}
	customer := c.row
	if customer == 0 {
		customer = c.customerRow(t.state)
	}
	if customer == 0 {
		return engine.OutcomeCustomerUnknown
	}
	now := e.Now(t.Stamp)
	if !t.advanceReservations(e, customer, now) {
		return engine.OutcomeDeferred
	}
	if t.Customers.Read(customer).Archived {
		return engine.OutcomeCustomerArchived
	}
	if outcome := t.holdRoom(e, customer, now); outcome != engine.OutcomeDone {
		return outcome
	}
	a := &t.m.scratch.allotment
	a.env, a.customer, a.catalog, a.partial = c.Env, customer, e.Catalog.Load(), c.Partial
	a.now, a.until = now, now+min(c.TTLMS, t.Limits.Load().MaxHold())
	a.items, a.rooms, a.charges, a.node = a.items[:0], a.rooms[:0], a.charges[:0], 0
	a.begun.Rooms = a.begun.Rooms[:0]
	for i := range c.Items {
		if outcome := a.take(t, &c.Items[i]); outcome != engine.OutcomeDone {
			return outcome
		}
	}
	if outcome := a.budget(t, c.Budget, c.KeyBudget, c.Items); outcome != engine.OutcomeDone {
		return outcome
	}
	return c.add(t, e, a)
}

// repeats reports whether the command asks for what the reservation of a row was asked for.
func (c *Reserve) repeats(t *turn, e *accounts.Environment, row uint32) bool {
	v, customer := t.holds.Rows.Read(row), c.row
	if customer == 0 {
		customer = c.customerRow(t.state)
	}
	if v.Body != c.Body || v.Customer != customer {
		return false
	}
	catalog, at := e.Catalog.Load(), v.FirstItem
	for i := range c.Items {
		number := featureOf(catalog, c.Items[i].FeatureID, c.Items[i].FeatureKey)
		if at == 0 || t.holds.Items.Read(at).Feature != number {
			return false
		}
		at = t.holds.Items.Next(at)
	}
	return at == 0
}

// valid repeats what servers check of a request.
func (c *Reserve) valid() bool {
	if len(c.Items) == 0 || len(c.Items) > holds.MaxItems || c.Partial && len(c.Items) > 1 ||
		c.TTLMS < 1000 || c.TTLMS > MaxReservationMS ||
		(c.Customer == "") == (c.CustomerID == [16]byte{}) {
		return false
	}
	for i := range c.Items {
		v := &c.Items[i]
		if v.Units.Sign() <= 0 || !v.Units.InRange() || v.Cost.Sign() < 0 || !v.Cost.InRange() {
			return false
		}
	}
	return true
}

// holdRoom reports whether a customer may have one more open reservation.
func (t *turn) holdRoom(e *accounts.Environment, customer uint32, now int64) engine.Outcome {
	limits := t.Limits.Load()
	own, all := limits.Holds()
	if uint64(e.HoldDues.Len()) >= all && e.HoldDues.First().At <= now && !t.Sweep(e) {
		return engine.OutcomeDeferred // what has expired takes no room
	}
	switch {
	case uint64(t.holds.OpenOf(customer)) >= own:
		t.Answer(&Shortage{
			Level: "customer", Limit: decimal.FromInt(int64(own)), LogIndex: t.Index,
		})
		return engine.OutcomeHoldLimit
	case uint64(e.HoldDues.Len()) >= all:
		t.Answer(&Shortage{
			Level: "environment", Limit: decimal.FromInt(int64(all)), LogIndex: t.Index,
		})
		return engine.OutcomeHoldLimit
	}
	if t.reservationsFull(customer) {
		t.forgetReservations() // it may be full of closed ones that need not be kept
	}
	if t.reservationsFull(customer) {
		t.Answer(&Shortage{
			Level: "account", Limit: decimal.FromInt(int64(t.holds.HeldOf(customer))),
			LogIndex: t.Index,
		})
		return engine.OutcomeReservationsFull
	}
	return engine.OutcomeDone
}

// reservationsFull reports whether a customer's account may have no other reservation.
func (t *turn) reservationsFull(customer uint32) bool {
	return t.Limits.Load().ReservationsFull(uint64(t.holds.Kept), t.holds.HeldOf(customer))
}

// forgetReservations drops some that were closed longer ago than keys are kept.
func (t *turn) forgetReservations() {
	t.holds.Forget(&t.Keeper, t.Stamp-t.Limits.Load().KeyRetentionMS)
}

// add carries the reservation out, or with DryRun only says so.
func (c *Reserve) add(t *turn, e *accounts.Environment, a *allotment) engine.Outcome {
	v := holds.Hold{
		ID: c.ID, Key: c.Key, Body: c.Body, Customer: a.customer, State: holds.ReservationOpen,
		CreatedAt: a.now, ExpiresAt: a.until,
		RefuseOverrun: c.RefuseOverrun, SettleOnExpiry: c.SettleOnExpiry,
	}
	view := t.reservationView(&v, a.items)
	limit, bounded := budgets.Bind(&t.budgets.Forest, a.node, a.charges, a.now)
	a.begun.Index, a.begun.Limit = t.Index, nil
	if limit.Node != 0 {
		a.bound = limit.Append(a.bound[:0])
		a.begun.Limit = a.bound
	}
	for i := range a.rooms {
		a.begun.Rooms = append(a.begun.Rooms, a.told(i, bounded>>i&1 != 0))
	}
	a.bytes = a.begun.Append(a.bytes[:0])
	words := holds.Words{Key: c.KeyText, Meta: c.Meta, KeyNode: c.KeyBudget, Begun: a.bytes}
	if a.node != 0 {
		words.Budget = t.budgets.Forest.Key(a.node)
	}
	view.begun(&words, &a.begun)
	view.bound(t.state, c.Env, &limit)
	if c.DryRun {
		view.ID, view.DryRun = [16]byte{}, true
		t.answerReservation(view)
		return engine.OutcomeDone
	}
	t.answerReservation(view)
	t.forgetReservations()
	t.Spend(2 * len(a.items))
	row := t.holds.Add(&t.Keeper, &v, a.items, &words, c.hashes)
	for i := range a.items {
		if !a.items[i].Credits.IsZero() {
			t.NoteHeld(a.customer, a.items[i].Pool)
		}
	}
	for i := range a.charges {
		item := t.holds.ItemRow(t.holds.Rows.Read(row), i)
		t.budgets.Forest.Hold(&t.Tx, item, a.node, &a.charges[i], v.Over())
	}
	return engine.OutcomeDone
}
