package billing

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/charging"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/holds"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
)

// correctedCost is costChange for a journal record; it decodes the original.
func (s *state) correctedCost(
	kind journal.Kind, k *correctionEntry,
) (change decimal.Decimal, err error) {
	var c RecordUsage
	if err = wire.Decode(k.Original.Record, &c); err != nil {
		return change, err
	}
	change, ok := s.costChange(kind, k, &c)
	if !ok {
		return change, ErrMarginOverflow
	}
	return change, nil
}

// costChange returns how much a correction changes the provider's cost of an event. A void removes
// all of it. An amendment changes a computed cost, at the cost per unit of the event's time, and
// keeps a cost that the caller stated. What a settlement has stated is in the entry. It returns
// false if the cost leaves the range of exact numbers.
func (s *state) costChange(
	kind journal.Kind, k *correctionEntry, c *RecordUsage,
) (change decimal.Decimal, ok bool) {
	if k.HasCost {
		return k.CostChange, true
	}
	if !k.Original.HasCost {
		return change, true
	}
	unit := s.unitCost(&k.Original, c)
	before, ok := k.Units.Sub(k.Delta)
	if !ok {
		return change, false
	}
	was, ok := costOf(&k.Original, c, unit, before)
	if !ok {
		return change, false
	}
	var now decimal.Decimal
	if kind != journal.KindVoid {
		if now, ok = costOf(&k.Original, c, unit, k.Units); !ok {
			return change, false
		}
	}
	return now.Sub(was)
}

// recost is costChange of a correction that is being applied. If this or an earlier settlement
// stated a cost, it puts the new total and the change into entry; later corrections carry the total
// on.
func (k *correcting) recost(
	s *state, kind journal.Kind, entry *correctionEntry, stated *decimal.Decimal,
) (change decimal.Decimal, ok bool) {
	if stated == nil && !k.text.HasCost {
		return s.costChange(kind, entry, &k.usage)
	}
	was, ok := k.cost(s)
	if !ok {
		return change, false
	}
	switch entry.Cost = was; {
	case kind == journal.KindVoid:
		entry.Cost = decimal.Decimal{}
	case stated != nil:
		entry.Cost = *stated
	}
	entry.HasCost = true
	entry.CostChange, ok = entry.Cost.Sub(was)
	return entry.CostChange, ok
}

// cost returns what an event costs the provider, after its corrections so far.
func (k *correcting) cost(s *state) (cost decimal.Decimal, ok bool) {
	switch {
	case k.text.HasCost:
		return k.text.Cost, true
	case !k.original.HasCost || k.voidedAt != 0:
		return cost, true
	}
	return costOf(&k.original, &k.usage, s.unitCost(&k.original, &k.usage), k.units)
}

// costOf returns the cost of an event with a number of units.
func costOf(u *usageEntry, c *RecordUsage, unit, units decimal.Decimal) (decimal.Decimal, bool) {
	if c.HasCost || units == c.Units {
		return u.Cost, true
	}
	return unit.Mul(units)
}

// unitCost returns the cost per unit of an event's computed cost, rounded to 12 decimals. It is
// exact unless the event has less than one unit. For an event without units it is the feature's
// present cost.
func (s *state) unitCost(u *usageEntry, c *RecordUsage) decimal.Decimal {
	if c.HasCost {
		return decimal.Decimal{}
	}
	if c.Units.IsZero() {
		if f := s.Environment(c.Env).Catalog.Load().Feature(u.Feature); f != nil {
			return f.Document.CostPerUnit
		}
		return decimal.Decimal{}
	}
	unit, ok := u.Cost.FloorDiv(c.Units)
	if !ok {
		return decimal.Decimal{}
	}
	least := decimal.FromBits(0, 1)
	rest, _ := u.Cost.Exact().Sub(decimal.Product(unit, c.Units))
	twice, _ := rest.Add(rest)
	if twice.Cmp(decimal.Product(c.Units, least)) >= 0 {
		unit = sums.Of(unit, least)
	}
	return unit
}

// addCost adds to an item's late costs what the command says of the units behind those that were
// settled before, as an event of its own would have it: the cost that it states, else that of the
// feature. A final total below that of a part takes back what is above it: then the cost that it
// states is that of all units, and without one it goes down with them.
func (c *SettleReservation) addCost(h *settling, item int, before decimal.Decimal) {
	late := &h.late[item]
	for j := range c.Items {
		s := &c.Items[j]
		if c.item(h, j) != item || !s.HasCost && !late.Stated() && !c.Partial {
			continue
		}
		from := decimal.Max(before, late.Units)
		switch {
		case from.Less(s.Units):
			if s.HasCost && late.Unstated {
				late.Cost, late.Unstated = c.unstated(h, item, sums.Remaining(from, before)), false
			}
			switch {
			case s.HasCost:
				late.Cost = sums.Of(late.Cost, s.Cost)
			case late.Stated():
				more := c.unstated(h, item, sums.Difference(s.Units, from))
				late.Cost = sums.Of(late.Cost, more)
			default:
				late.Unstated = true
			}
			late.Units = s.Units
		case c.Partial || !s.Units.Less(late.Units): // a part that came before, or again
		case s.HasCost:
			late.Cost, late.Unstated = s.Cost, false
		default:
			late.Cost = holds.Share(late.Cost, sums.Remaining(s.Units, before),
				sums.Difference(late.Units, before))
		}
	}
}

// unstated is what units of an item cost the provider where no settlement says it: what the feature
// says, else their share of the cost that the reservation expects.
func (c *SettleReservation) unstated(
	h *settling, item int, units decimal.Decimal,
) (cost decimal.Decimal) {
	i := &h.items[item]
	if f := h.catalog.Feature(i.Feature); f.Document.HasCost {
		cost, _ = units.Mul(f.Document.CostPerUnit)
	} else if i.HasCost {
		cost = i.CostOf(units)
	}
	return cost
}

// burnt returns the credits that the event has burnt, as of its newest correction.
func (k *correcting) burnt() (was credits.Burnt) {
	was = credits.Burnt{Units: k.units, Paid: k.original.Covered}
	if k.stored {
		was.Paid, was.Draws = k.covered, k.text.Draws
		return was
	}
	var list credits.DrawList
	rows.DecodeText(string(k.original.Draws), &list)
	was.Draws = list.Draws
	return was
}

// recredit plans the change of the event's credits, before the correction changes anything.
func (k *correcting) recredit(t *turn, units decimal.Decimal) engine.Outcome {
	was := k.burnt()
	k.was, k.newly = was, was
	k.newly.Units = units
	if k.projection == nil {
		return engine.OutcomeDone
	}
	k.at = k.projection.PlaceOf(k.Spot, k.original.Feature)
	_, was.Kept = t.reservedOf(k.owner, k.at, k.now)
	was.Forced = k.forced
	r, outcome := t.PlanCorrection(k.owner, k.at, was, units, k.now)
	if outcome.Refused() {
		return outcome
	}
	k.change, k.newly = r, r.Now
	k.projection.Cover(k.Spot, k.original.Feature, sums.Difference(r.Now.Paid, was.Paid))
	return engine.OutcomeDone
}

// recredited carries out the plan of recredit.
func (t *turn) recredited(k *correcting) {
	lock := t.WriteLock(k.owner)
	t.CorrectCredits(k.at, &k.change, k.now)
	lock.Unlock()
}

// ownDraws reports whether encoded draws are well-formed and belong to pools and grants of a
// customer.
func ownDraws(s *state, customer uint32, encoded []byte) bool {
	var list credits.DrawList
	if wire.Decode(encoded, &list) != nil {
		return false
	}
	for _, d := range list.Draws {
		if d.Pool == 0 || d.Pool > s.Pools.Len() || d.Grant > s.Grants.Len() ||
			s.Pools.Read(d.Pool).Customer != customer ||
			d.Grant != 0 && s.Grants.Read(d.Grant).Pool != d.Pool {
			return false
		}
	}
	return true
}

// uncharge decides what becomes of what the event has counted in budgets. It changes nothing.
func (k *correcting) uncharge(
	t *turn, void bool, delta, cost decimal.Decimal,
) (outcome engine.Outcome) {
	counted := k.counts()
	k.budget, outcome = t.budgets.PlanCorrection(&t.Runner, &charging.Correcting{
		For:     charging.For{Env: k.env.Number, Customer: k.owner, KeyNode: k.keyNode},
		Counted: counted, Now: k.now, Void: void, Units: delta, Cost: cost,
		Paid: sums.Difference(k.newly.Paid, k.was.Paid), Late: k.projection, Spot: k.Spot,
		Feature: k.original.Feature, Forced: k.forced,
	})
	return outcome
}

// counts is what the event counts in budgets, after its corrections so far.
func (k *correcting) counts() []byte {
	if k.stored {
		return k.text.Budget
	}
	return k.original.Budget
}

// reached refuses the correction if a budget-bound API key may not make it: the event must count at
// the key's budget or below it, or in none and be of a customer whose usage the key may count.
func (k *correcting) reached(t *turn, keyNode, bindings uint32) engine.Outcome {
	if bindings != 0 && bindings != k.env.Bindings() {
		return engine.OutcomeKeyRebound
	}
	if k.keyNode = keyNode; keyNode == 0 {
		return engine.OutcomeDone
	}
	f, w := &t.budgets.Forest, charging.For{Env: k.env.Number, Customer: k.owner, KeyNode: keyNode}
	counted := k.counts()
	if len(counted) == 0 {
		if _, ok := f.Choose(&w); !ok {
			return engine.OutcomeBudgetUnknown
		}
		return engine.OutcomeDone
	}
	if t.budgets.CountedWithin(counted, keyNode) {
		return engine.OutcomeDone
	}
	w.Named, w.KeyNode = k.usage.Budget, k.usage.KeyBudget
	if row, _ := t.holds.Find(w.Env, &k.original.Reservation); row != 0 {
		w.Named, w.KeyNode = []byte(t.holds.WordsOf(row).Budget), 0
	}
	if node, ok := f.Choose(&w); !ok || !f.Within(node, keyNode) {
		return engine.OutcomeBudgetUnknown
	}
	return engine.OutcomeDone
}
