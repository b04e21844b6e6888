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

// price returns units × price + flat fee.
func (t *Tier) price(units decimal.Decimal) (amount decimal.Exact, ok bool) {
	amount = decimal.Product(units, t.PricePerUnit)
	if t.FlatFee.IsZero() {
		return amount, true
	}
	return amount.Add(t.FlatFee.Exact())
}
