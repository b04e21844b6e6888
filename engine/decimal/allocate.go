package decimal

import "slices"

// Allocate shares an amount by weights so that the shares add up to it exactly. Each share is a
// multiple of 10^−places; the odd units go to the largest remainders, ties to the earlier weight.
// A negative amount is shared like its opposite. ok is false when there are no weights, one of them
// is negative, their sum is 0 or out of range, or the amount is not a multiple of that unit, which
// has 0–12 places.
func Allocate(amount Decimal, places int, weights []Decimal) (shares []Decimal, ok bool) {
	var sum Decimal
	for _, weight := range weights {
		if sum, ok = sum.Add(weight); !ok || weight.Sign() < 0 {
			return nil, false
		}
	}
	if sum.Sign() == 0 || places < 0 || places > Scale {
		return nil, false
	}
	unit := pow10[Scale-places]
	units, rest := amount.magnitude().over(unit)
	if rest != 0 {
		return nil, false
	}
	quotients, odd := split(units, weights, sum.magnitude())
	order := make([]int, len(weights))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return quotients[j].remainder.compare(quotients[i].remainder)
	})
	for _, i := range order[:odd] {
		quotients[i].units = quotients[i].units.plus(uint128{0, 1})
	}
	shares = make([]Decimal, len(weights))
	for i, quotient := range quotients {
		if shares[i], ok = quotient.units.times(unit, 0).decimal(amount.hi < 0); !ok {
			return nil, false
		}
	}
	return shares, true
}

// share is units × weight ÷ sum, truncated, with the remainder.
type share struct{ units, remainder uint128 }

// split cuts units by weights and returns how many units are left over: fewer than weights.
func split(units uint128, weights []Decimal, sum uint128) (shares []share, odd int) {
	left := units
	shares = make([]share, len(weights))
	for i, weight := range weights {
		s := &shares[i]
		s.units, s.remainder = product(units, weight.magnitude()).dividedBy(sum)
		left = left.minus(s.units)
	}
	return shares, int(left.lo)
}
