package billing

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/budgets"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/charging"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/holds"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/credit"
	"tollgate/engine/decimal"
	"tollgate/engine/prefetch"
	"tollgate/engine/wire"
)

// MaxReservationItems is how many features one reservation may hold.
const MaxReservationItems = holds.MaxItems

// MaxReservationMS is the longest time to live that a request may ask for: 24 hours.
const MaxReservationMS = accounts.DayMS

// Reserve holds units of features for a customer until they are settled or released, or expire: of
// all items or of none. A reservation with this Key, Body and KeyBudget is the same answer again,
// another Body or KeyBudget is OutcomeReservationKeyReused. The reply is a ReservationView; of a
// refusal, a Shortage.
//
//schema:quick
type Reserve struct {
	Env uint32   `wire:"1"`
	ID  [16]byte `wire:"2"`
	// Key is ReservationKey of the environment and KeyText, Body a hash of what the request says.
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

// ReserveItem is a feature of a reservation, by id or by key.
//
//schema:quick
type ReserveItem struct {
	FeatureKey string          `wire:"1"`
	FeatureID  [16]byte        `wire:"2"`
	Units      decimal.Decimal `wire:"3"`
	Cost       decimal.Decimal `wire:"4"`
	HasCost    bool            `wire:"5"`
}

// ReservationKey is a reservation's key as the log carries it. Its scope is the environment.
func ReservationKey(env uint32, key []byte) [16]byte {
	b := binary.LittleEndian.AppendUint32([]byte("reservation"), env)
	sum := sha256.Sum256(append(b, key...))
	return [16]byte(sum[:16])
}

// Shortage says what a reservation lacks: the first level that refuses it, by the order of items.
type Shortage struct {
	// Level is limit or pool, or customer or environment where that has as many open reservations as
	// it may, or account where that has its share of those that are kept; empty where no subscription
	// gives the customer the feature: Reason.
	Level      string          `wire:"1"`
	FeatureKey string          `wire:"2"`
	Asked      decimal.Decimal `wire:"3"` // units
	Used       decimal.Decimal `wire:"4"`
	Held       decimal.Decimal `wire:"5"`
	// Limit is that of the feature, or the credits that the pools have: Held are credits then, too,
	// and Used is 0.
	Limit    decimal.Decimal `wire:"6"`
	LogIndex uint64          `wire:"7"`
	Reason   Reason          `wire:"8"`
	// State is that of a reservation that is closed, as text.
	State string `wire:"9"`
	// Stays is set where the reservation stays open, and is billed when it expires.
	Stays bool `wire:"10"`
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
		if t.holds.Rows.Read(row).Body != c.Body {
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
	a.customer, a.now, a.catalog, a.partial = customer, now, e.Catalog.Load(), c.Partial
	a.items, a.rooms, a.charges, a.node = a.items[:0], a.rooms[:0], a.charges[:0], 0
	a.begun.Rooms = a.begun.Rooms[:0]
	for i := range c.Items {
		if outcome := a.take(t, &c.Items[i]); outcome != engine.OutcomeDone {
			return outcome
		}
	}
	if outcome := a.budget(t, c); outcome != engine.OutcomeDone {
		return outcome
	}
	return c.add(t, e, a)
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
	t.holds.Forget(&t.Keeper, t.Stamp-limits.KeyRetentionMS)
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
	if held, full := t.holds.Full(customer); full {
		t.Answer(&Shortage{
			Level: "account", Limit: decimal.FromInt(int64(held)), LogIndex: t.Index,
		})
		return engine.OutcomeReservationsFull
	}
	return engine.OutcomeDone
}

// expires is the instant at which it ends.
func (c *Reserve) expires(t *turn, now int64) int64 {
	return now + min(c.TTLMS, t.Limits.Load().LongestHold())
}

// add carries the reservation out, or with DryRun only says so.
func (c *Reserve) add(t *turn, e *accounts.Environment, a *allotment) engine.Outcome {
	v := holds.Hold{
		ID: c.ID, Key: c.Key, Body: c.Body, Customer: a.customer, State: holds.ReservationOpen,
		CreatedAt: a.now, ExpiresAt: c.expires(t, a.now),
		RefuseOverrun: c.RefuseOverrun, SettleOnExpiry: c.SettleOnExpiry,
	}
	view := t.reservationView(&v, a.items)
	a.begun.Index = t.Index
	for i := range a.rooms {
		a.begun.Rooms = append(a.begun.Rooms, a.rooms[i].told(&a.items[i]))
	}
	a.bytes = a.begun.Append(a.bytes[:0])
	words := holds.Words{Key: c.KeyText, Meta: c.Meta, KeyNode: c.KeyBudget, Begun: a.bytes}
	if a.node != 0 {
		words.Budget = t.budgets.Forest.Key(a.node)
	}
	view.begun(&words, &a.begun)
	if c.DryRun {
		view.ID, view.DryRun = [16]byte{}, true
		t.answerReservation(view)
		return engine.OutcomeDone
	}
	t.answerReservation(view)
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

// allotment is what a reservation gets, item by item.
type allotment struct {
	customer uint32
	now      int64
	catalog  *catalogs.Catalog
	partial  bool
	items    []holds.Item
	rooms    []room // as long as items
	key      string
	// begun is what is kept of the answer, bytes its encoding.
	begun holds.Beginning
	bytes []byte
	// node is the budget at which it is held; 0: at none. charges are what the items hold there.
	node    uint32
	charges []budgets.Charge
}

// budget finds the budget at which the items are held, and asks its limits.
func (a *allotment) budget(t *turn, c *Reserve) (outcome engine.Outcome) {
	if !t.Customers.Read(a.customer).Budgeted && c.Budget == "" && c.KeyBudget == 0 {
		return engine.OutcomeDone
	}
	node, ok := t.budgets.Forest.Choose(charging.For{
		Env: c.Env, Customer: a.customer, Named: []byte(c.Budget), KeyNode: c.KeyBudget,
	})
	switch {
	case !ok:
		return engine.OutcomeBudgetUnknown
	case node == 0:
		return engine.OutcomeDone
	}
	for i := range a.items {
		charge, ok := t.chargeOf(a.customer, &a.items[i], a.now, c.expires(t, a.now))
		if !ok {
			return engine.OutcomeOverflow
		}
		a.charges = append(a.charges, charge)
	}
	a.node = node
	outcome = t.budgets.AskHold(&t.Runner, c.Env, node, a.charges, a.now)
	if outcome == engine.OutcomeBudgetExceeded && a.partial {
		return a.partly(t, c)
	}
	return outcome
}

// partialWork bounds the work of finding how many units fit, in units of an entry: a plan of many
// tiers is granted less than there is, and never more.
const partialWork = 2048

// partly grants what of the only item fits all levels of its budget, where one of them has refused
// the whole: whole units, where the request asks for such.
func (a *allotment) partly(t *turn, c *Reserve) engine.Outcome {
	s := charging.Fitting{Not: a.items[0].Granted, Step: decimal.FromBits(0, 1)}
	if asked := c.Items[0].Units; asked == charging.Whole(asked) {
		s.Step = decimal.FromInt(1)
	}
	refused, outcome := t.budgets.Forest.Plan(a.node, a.charges, a.now)
	if outcome != engine.OutcomeBudgetExceeded {
		return outcome // it is frozen, archived, or beyond the range of numbers
	}
	s.Refused(s.Not, &refused, &a.charges[0])
	at := t.within(a.catalog, a.items[0].Subscription, a.items[0].Feature, a.now)
	each := 1
	if at.Feature != nil {
		each += len(at.Feature.Model.Tiers) * len(at.Feature.Model.Tiers) / 16
	}
	whole, work := a.items[0], 0
	for try := 0; !s.Over() && work < partialWork; try++ {
		work += each
		units := s.Next(try)
		part := partOf(&whole, &c.Items[0], units, at)
		charge, ok := t.chargeOf(a.customer, &part, a.now, c.expires(t, a.now))
		if !ok {
			return engine.OutcomeOverflow
		}
		asks := [...]budgets.Charge{charge}
		if refused, o := t.budgets.Forest.Plan(a.node, asks[:], a.now); o != engine.OutcomeDone {
			s.Refused(units, &refused, &charge)
			continue
		}
		s.Fits, outcome = units, engine.OutcomeDone
		a.items[0], a.charges[0], a.rooms[0].rule = part, charge, ruleBudget
	}
	t.Spend(work)
	return outcome
}

// partOf is an item that is granted fewer units.
func partOf(
	whole *holds.Item, c *ReserveItem, units decimal.Decimal, at book.Place,
) (part holds.Item) {
	part = *whole
	part.Cost, part.Granted = c.Cost, c.Units
	part.Cost = part.CostOf(units)
	part.Granted = units
	if at.Credited() {
		if need, ok := credit.Need(units, at.Feature.Credits.Weight); ok {
			part.Credits = decimal.Min(part.Credits, need)
		}
	}
	return part
}

// chargeOf is what an item that is held until an instant counts in budgets. False: it is beyond
// the range of numbers.
func (t *turn) chargeOf(
	customer uint32, i *holds.Item, now, until int64,
) (charge budgets.Charge, ok bool) {
	env := t.Customers.Read(customer).Env
	catalog := t.Environment(env).Catalog.Load()
	u := charging.Usage{
		For: charging.For{Env: env, Customer: customer}, Feature: i.Feature,
		Place: t.within(catalog, i.Subscription, i.Feature, now), Units: i.Held(),
		Cost: i.CostOf(i.Held()),
	}
	if f := catalog.Feature(i.Feature); !i.HasCost && f.Document.HasCost {
		if u.Cost, ok = u.Units.Mul(f.Document.CostPerUnit); !ok {
			return charge, false
		}
	}
	if u.Place.Credited() {
		weight := u.Place.Feature.Credits.Weight
		need, ok := credit.Need(u.Units, weight)
		if !ok {
			return charge, false
		}
		u.Covered = credit.Covered(u.Units, sums.Remaining(need, i.Credits), weight)
	}
	return t.budgets.Hold(&u, until)
}

// room is what there is of a feature for one more reservation.
type room struct {
	used, held, limit decimal.Decimal
	limited           bool
	left              decimal.Decimal // what the limit leaves, where limited is set
	rule              string          // what decided
	// kept are the credits that are held, and balance all that the pools have; where these decided.
	kept, balance decimal.Decimal
}

// told is what answers say of the room for an item.
func (r *room) told(i *holds.Item) (told holds.Room) {
	told.Rule = uint8(slices.Index(holds.Rules[:], r.rule))
	if r.limited {
		told.HasLimit, told.Limit = true, r.limit
		told.Remaining = sums.Remaining(r.left, i.Granted)
		if r.rule == "" {
			told.Rule = uint8(slices.Index(holds.Rules[:], ruleLimit))
		}
	}
	return told
}

// take adds an item, or says in the turn's reply what it lacks.
func (a *allotment) take(t *turn, c *ReserveItem) engine.Outcome {
	number, outcome := a.feature(c)
	if outcome != engine.OutcomeDone {
		return outcome
	}
	at, reason := a.place(t, number)
	if reason != 0 {
		t.Answer(&Shortage{
			FeatureKey: a.key, Asked: c.Units, Reason: reason, LogIndex: t.Index,
		})
		return engine.OutcomeNotEntitled
	}
	r := t.roomFor(a.customer, at, a.now)
	granted := c.Units
	if r.limited && r.left.Less(granted) {
		granted, r.rule = r.left, ruleLimit
	}
	i := holds.Item{
		Subscription: at.Subscription, Feature: number, Cost: c.Cost, HasCost: c.HasCost,
	}
	if at.Credited() {
		if outcome = a.credit(t, at, &i, &r, &granted); outcome != engine.OutcomeDone {
			return outcome
		}
	}
	if granted.Less(c.Units) && (!a.partial || granted.Sign() <= 0) {
		r.short(t, a.key, c.Units)
		return engine.OutcomeReservationShort
	}
	if total, ok := sums.Of(r.used, r.held).Add(granted); !ok || !at.Feature.Billable(total) {
		return engine.OutcomeOverflow
	}
	i.Granted = c.Units
	i.Cost = i.CostOf(granted)
	i.Granted = granted
	a.items, a.rooms = append(a.items, i), append(a.rooms, r)
	return engine.OutcomeDone
}

// short answers with what is not enough.
func (r *room) short(t *turn, key string, asked decimal.Decimal) {
	s := r.shortage(t, key, asked)
	t.Answer(&s)
}

func (r *room) shortage(t *turn, key string, asked decimal.Decimal) Shortage {
	s := Shortage{
		Level: r.rule, FeatureKey: key, Asked: asked, Used: r.used, Held: r.held, Limit: r.limit,
		LogIndex: t.Index,
	}
	if r.rule == rulePool {
		s.Used, s.Held, s.Limit = decimal.Decimal{}, r.kept, r.balance
	}
	return s
}

// ofPool notes what there is of a purse, and what is left of it when what is held is kept.
func (r *room) ofPool(purse credits.Purse, left *credits.Purse) {
	r.balance, _ = purse.Free()
	free, _ := left.Free()
	r.kept = sums.Remaining(r.balance, free)
}

// feature resolves an item's feature, which no item before it has.
func (a *allotment) feature(c *ReserveItem) (number uint32, outcome engine.Outcome) {
	if number = featureOf(a.catalog, c.FeatureID, c.FeatureKey); number == 0 {
		return 0, engine.OutcomeFeatureUnknown
	}
	for i := range a.items {
		if a.items[i].Feature == number {
			return 0, engine.OutcomeIDsContradict
		}
	}
	a.key = a.catalog.Feature(number).Document.Key
	return number, engine.OutcomeDone
}

// featureOf finds a feature by its id, else by its key; 0 where there is none.
func featureOf(c *catalogs.Catalog, id [16]byte, key string) uint32 {
	if id != ([16]byte{}) {
		return c.FeatureByID[id]
	}
	return c.FeatureByKey[key]
}

// place chooses the subscription as a check does; reason is why there is none that gives access.
func (a *allotment) place(t *turn, feature uint32) (at book.Place, reason Reason) {
	customer := t.Customers.Read(a.customer)
	at, _, _ = t.pick(a.catalog, customer, feature, a.now, always)
	if !at.Found() {
		return at, t.uncarried(customer)
	}
	if b := t.Subscriptions.Read(at.Subscription); b.Rest != 0 &&
		t.Subscriptions.Rest(at.Subscription).SuspendedAt != 0 {
		return at, ReasonSuspended
	}
	return at, 0
}

// roomFor is what there is of a feature at a place, now and in the period after.
func (t *turn) roomFor(customer uint32, at book.Place, now int64) (r room) {
	n := t.Counters.Read(at.Counter)
	r.used = decimal.Max(n.Reading(at.Feature), n.Next)
	r.held, _ = t.heldBeside(customer, at, now)
	if at.Feature.HasMax {
		r.limited, r.limit = true, at.Feature.Max
		r.left = sums.Remaining(r.limit, sums.Of(r.used, r.held))
	}
	return r
}

// credit holds credits for an item; granted may become less.
func (a *allotment) credit(
	t *turn, at book.Place, i *holds.Item, r *room, granted *decimal.Decimal,
) engine.Outcome {
	c := &at.Feature.Credits
	u := t.freeCredits(a.customer, at, a.now)
	for j := range a.items {
		if a.items[j].Pool == c.Pool {
			u.Keep(a.items[j].Credits)
		}
	}
	free, endless := u.Free()
	coverable := u.Coverable(*granted, c)
	if !c.Fallback && coverable.Less(*granted) {
		*granted, r.rule = coverable, rulePool
		r.ofPool(t.PurseOf(a.customer, c.Pool, a.now), &u)
	}
	need, ok := credit.Need(*granted, c.Weight)
	if !ok {
		return engine.OutcomeOverflow
	}
	if !endless {
		need = decimal.Min(need, free)
	}
	i.Pool, i.Credits = c.Pool, need
	held := t.Held.Credits(a.customer, c.Pool, a.now)
	for j := range a.items {
		if a.items[j].Pool == c.Pool {
			held = sums.Of(held, a.items[j].Credits)
		}
	}
	if sum, ok := held.Add(need); !ok || !sum.InRange() { // of endless pools
		return engine.OutcomeOverflow
	}
	return engine.OutcomeDone
}

// freeCredits are a customer's credits for a feature that no reservation holds.
func (t *turn) freeCredits(customer uint32, at book.Place, now int64) credits.Purse {
	u := t.PurseOf(customer, at.Feature.Credits.Pool, now)
	_, kept := t.heldBeside(customer, at, now)
	u.Keep(kept)
	return u
}

// Words of a reservation's rule.
const (
	ruleLimit  = holds.RuleLimit
	rulePool   = holds.RulePool
	ruleBudget = holds.RuleBudget
	ruleNone   = "none"
)
