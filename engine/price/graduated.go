package price

import "tollgate/engine/decimal"

// rateGraduated: of each tier that holds units, its units × its price + its flat fee.
func rateGraduated(m *Model, units decimal.Decimal) (decimal.Exact, error) {
	var total decimal.Exact
	var below decimal.Decimal // where the tier begins
	for i := range m.Tiers {
		tier := &m.Tiers[i]
		last := tier.Infinite || !tier.UpTo.Less(units)
		top := tier.UpTo
		if last {
			top = units
		}
		span, ok := top.Sub(below)
		if !ok {
			return decimal.Exact{}, ErrModel
		}
		amount, ok := tier.price(span)
		if !ok {
			return decimal.Exact{}, ErrRange
		}
		if total, ok = total.Add(amount); !ok {
			return decimal.Exact{}, ErrRange
		}
		if last {
			return total, nil
		}
		below = top
	}
	return decimal.Exact{}, ErrModel
}

// eachGraduated is Each, of quantities behind the units that are included: the price of their tier.
func (m *Model) eachGraduated(from, to decimal.Decimal) (price decimal.Decimal, ok bool) {
	if !m.IncludedUnits.IsZero() {
		var fits [2]bool
		from, fits[0] = from.Sub(m.IncludedUnits)
		to, fits[1] = to.Sub(m.IncludedUnits)
		if fits != [2]bool{true, true} {
			return price, false
		}
	}
	var below decimal.Decimal
	for i := range m.Tiers {
		tier := &m.Tiers[i]
		if tier.Infinite || !tier.UpTo.Less(to) {
			return tier.PricePerUnit, below.Less(from) || below == from && tier.FlatFee.IsZero()
		}
		below = tier.UpTo
	}
	return price, false
}

// price returns units × price + flat fee.
func (t *Tier) price(units decimal.Decimal) (amount decimal.Exact, ok bool) {
	amount = decimal.Product(units, t.PricePerUnit)
	if t.FlatFee.IsZero() {
		return amount, true
	}
	return amount.Add(t.FlatFee.Exact())
}
