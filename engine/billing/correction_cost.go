package billing

import (
	"tollgate/engine/billing/internal/holds"
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
