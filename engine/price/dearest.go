package price

import "tollgate/engine/decimal"

// Dearest returns the most that units, or fewer, can cost behind from units or more of the same
// counter, unrounded: of the tiers that they can meet, whatever comes between, the dearest. The
// errors are those of Rate.
func Dearest(m *Model, from, units decimal.Decimal) (dearest decimal.Exact, err error) {
	if units.Sign() <= 0 {
		return decimal.Exact{}, nil
	}
	peaks, err := peaksOf(m)
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
		for i := range peaks { // fewer units may cost more than all
			if p := &peaks[i]; place.Less(p.at) && p.at.Less(after) && cost.Cmp(p.cost) < 0 {
				cost = p.cost
			}
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

// peak is a quantity behind which the whole may cost less.
type peak struct {
	at   decimal.Decimal
	cost decimal.Exact
}

// peaksOf are the ends of a volume's tiers. Of the other kinds more units never cost less.
func peaksOf(m *Model) (peaks []peak, err error) {
	for i := 0; m.Kind == KindVolume && i < len(m.Tiers); i++ {
		at, ok := m.Tiers[i].UpTo.Add(m.IncludedUnits)
		if m.Tiers[i].Infinite || !ok {
			break
		}
		cost, err := Rate(m, at)
		if err != nil {
			return nil, err
		}
		peaks = append(peaks, peak{at, cost})
	}
	return peaks, nil
}
