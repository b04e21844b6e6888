package billing

import (
	"slices"

	"tollgate/engine"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/budgets"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/charging"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/holds"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/credit"
	"tollgate/engine/decimal"
)

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

// allotment is what a reservation gets, item by item.
type allotment struct {
	env, customer uint32
	now, until    int64 // until: when it expires
	catalog       *catalogs.Catalog
	partial       bool
	items         []holds.Item
	rooms         []room // as long as items
	key           string
	// begun is what is kept of the answer, bytes its encoding.
	begun        holds.Beginning
	bytes, bound []byte // bound is the encoding of begun.Limit
	// node is the budget at which it is held; 0: at none. charges are what the items hold there.
	node    uint32
	charges []budgets.Charge
}

// budget finds the budget at which the items are held, the one that is named or the customer's own,
// and asks its limits. The request's API key is bound to keyNode.
func (a *allotment) budget(
	t *turn, named string, keyNode uint32, asked []ReserveItem,
) (outcome engine.Outcome) {
	if !t.Customers.Read(a.customer).Budgeted && named == "" && keyNode == 0 {
		return engine.OutcomeDone
	}
	node, ok := t.budgets.Forest.Choose(&charging.For{
		Env: a.env, Customer: a.customer, Named: []byte(named), KeyNode: keyNode,
	})
	switch {
	case !ok:
		return engine.OutcomeBudgetUnknown
	case node == 0:
		return engine.OutcomeDone
	}
	for i := range a.items {
		charge, ok := t.chargeOf(a.customer, &a.items[i], a.now, a.until)
		if !ok {
			return engine.OutcomeOverflow
		}
		a.charges = append(a.charges, charge)
	}
	a.node = node
	outcome = t.budgets.AskHold(&t.Runner, a.env, node, a.charges, a.now)
	if outcome == engine.OutcomeBudgetExceeded && a.partial {
		return a.partly(t, &asked[0])
	}
	return outcome
}

// partialWork bounds the work of finding how many units fit, in units of an entry: a plan of many
// tiers is granted less than there is, and never more.
const partialWork = 2048

// partly grants what of the only item fits all levels of its budget, where one of them has refused
// the whole: whole units, where the request asks for such.
func (a *allotment) partly(t *turn, c *ReserveItem) engine.Outcome {
	s := charging.Fitting{Not: a.items[0].Granted, Step: decimal.FromBits(0, 1)}
	if c.Units == charging.Whole(c.Units) {
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
		part := partOf(&whole, c, units, at)
		charge, ok := t.chargeOf(a.customer, &part, a.now, a.until)
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
	return t.budgets.Hold(&u, until+aheadMS)
}

// room is what there is of a feature for one more reservation.
type room struct {
	used, held, limit decimal.Decimal
	limited           bool
	left              decimal.Decimal // what the limit leaves, where limited is set
	rule              string          // what decided
	// kept are the credits that are held, and balance all that the pools have; where these decided.
	kept, balance decimal.Decimal
	// free are the credits that the item found, where ends is set: its pools have no more. pooled is
	// set where it gets no more than these pay.
	free         decimal.Decimal
	ends, pooled bool
}

// told notes what the answer says of an item; bounded tells whether its budget bounds it.
func (a *allotment) told(item int, bounded bool) (told holds.Room) {
	r, i := &a.rooms[item], &a.items[item]
	rule := r.rule
	switch {
	case rule != "":
	case r.limited:
		rule = ruleLimit
	case r.pooled:
		rule = rulePool
	case bounded:
		rule = ruleBudget
	}
	told.Rule = uint8(slices.Index(holds.Rules[:], rule))
	if r.limited {
		told.HasLimit, told.Limit = true, r.limit
		told.Remaining = sums.Remaining(r.left, i.Granted)
	}
	if r.ends {
		told.HasCredits, told.Credits = true, r.free
		for j := item; j < len(a.items); j++ {
			if a.items[j].Pool == i.Pool {
				told.Credits = sums.Remaining(told.Credits, a.items[j].Credits)
			}
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
	if b := t.Subscriptions.Read(at.Subscription); b.ColdPart != 0 &&
		t.Subscriptions.Cold(at.Subscription).SuspendedAt != 0 {
		return at, ReasonSuspended
	}
	return at, 0
}

// roomFor is what there is of a feature at a place, now and in the period after.
func (t *turn) roomFor(customer uint32, at book.Place, now int64) (r room) {
	n := t.Counters.Read(at.Counter)
	r.used = decimal.Max(n.Reading(at.Feature), n.Next)
	r.held, _ = t.reservedOf(customer, at, now)
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
		r.free, r.ends, r.pooled = free, true, !c.Fallback
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
	_, kept := t.reservedOf(customer, at, now)
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
