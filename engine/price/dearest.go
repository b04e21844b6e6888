package price

import "tollgate/engine/decimal"

// Dearest returns the most that units can cost behind from units or more of the same counter,
// unrounded: of the tiers that they can meet, whatever comes between, the dearest. The errors are
// those of Rate.
func Dearest(m *Model, from, units decimal.Decimal) (dearest decimal.Exact, err error) {
	if units.Sign() <= 0 {
		return decimal.Exact{}, nil
	}
	at := func(place decimal.Decimal) {
		after, ok := place.Add(units)
		if err != nil || place.Less(from) || !ok {
			return
		}
		var before, cost decimal.Exact
		if before, err = Rate(m, place); err != nil {
			return
		}
		if cost, err = Rate(m, after); err != nil {
			return
		}
		if cost, ok = cost.Sub(before); !ok {
			err = ErrRange
		} else if cost.Cmp(dearest) > 0 {
			dearest = cost
		}
	}
	// around is where units end, or begin, at a place where the price changes, and right behind it.
	around := func(place decimal.Decimal) {
		for _, back := range [...]decimal.Decimal{{}, units} {
			if begin, ok := place.Sub(back); ok {
				at(begin)
				if begin, ok = begin.Add(decimal.FromBits(0, 1)); ok {
					at(begin)
				}
			}
		}
	}
	if m.Kind == KindPackage { // they cost most where they begin a package
		return ratePackage(m, units)
	}
	at(decimal.Max(from, decimal.Decimal{}))
	around(m.IncludedUnits)
	for i := range m.Tiers {
		if t := &m.Tiers[i]; !t.Infinite {
			if end, ok := t.UpTo.Add(m.IncludedUnits); ok {
				around(end)
			}
		}
	}
	return dearest, err
}
