package price

import "tollgate/engine/decimal"

// rateVolume: the tier that the whole quantity falls into prices every unit, its flat fee once.
func rateVolume(m *Model, units decimal.Decimal) (decimal.Exact, error) {
	for i := range m.Tiers {
		tier := &m.Tiers[i]
		if !tier.Infinite && tier.UpTo.Less(units) {
			continue
		}
		amount, ok := tier.price(units)
		if !ok {
			return decimal.Exact{}, ErrRange
		}
		return amount, nil
	}
	return decimal.Exact{}, ErrModel
}
