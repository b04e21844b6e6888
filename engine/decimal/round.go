package decimal

import "math/bits"

// Mul returns d × e rounded to 12 places, half away from zero. When ok is false the product is out
// of range. Sums that are rounded at the end use Product.
func (d Decimal) Mul(e Decimal) (product Decimal, ok bool) {
	m, n := d.magnitude(), e.magnitude()
	if m.hi|n.hi != 0 {
		return Product(d, e).Round(Scale)
	}
	high, low := bits.Mul64(m.lo, n.lo)
	low, carry := bits.Add64(low, one/2, 0)
	quotient, _ := uint128{high + carry, low}.over(one)
	return quotient.decimal((d.hi < 0) != (e.hi < 0))
}

// MulRound returns d × e rounded once, to 0–12 places, half away from zero. When ok is false the
// product is out of range.
func (d Decimal) MulRound(e Decimal, places int) (product Decimal, ok bool) {
	return Product(d, e).Round(places)
}

// Round returns d rounded to a number of decimal places, half away from zero. Places outside of
// 0–12 count as the nearer end. Rounding never leaves the range, whose ends are whole.
func (d Decimal) Round(places int) Decimal {
	unit := pow10[Scale-min(max(places, 0), Scale)]
	quotient, _ := d.magnitude().plus(uint128{0, unit / 2}).over(unit)
	rounded, _ := quotient.times(unit, 0).decimal(d.hi < 0)
	return rounded
}

// Ratio returns part ÷ whole rounded to a number of decimal places (0–12), half away from zero.
// When ok is false the whole is not positive.
func Ratio(part, whole int64, places int) (ratio Decimal, ok bool) {
	if whole <= 0 {
		return Decimal{}, false
	}
	unit := pow10[min(max(places, 0), Scale)]
	high, low := bits.Mul64(magnitudeOfInt(part), unit)
	n := uint64(whole)
	quotient, rest := uint128{high, low}.over(n)
	if rest >= n-rest {
		quotient = quotient.plus(uint128{0, 1})
	}
	return quotient.times(one/unit, 0).decimal(part < 0)
}

// CeilDiv returns the smallest whole number that is not below d ÷ e: how many packages of e hold d.
// When ok is false d is negative, e is not positive, or the number is out of range.
func (d Decimal) CeilDiv(e Decimal) (whole Decimal, ok bool) {
	if d.Sign() < 0 || e.Sign() <= 0 {
		return Decimal{}, false
	}
	quotient, rest := d.magnitude().dividedBy(e.magnitude())
	if rest != (uint128{}) {
		quotient = quotient.plus(uint128{0, 1})
	}
	scaled, ok := quotient.timesChecked(one)
	if !ok {
		return Decimal{}, false
	}
	return scaled.decimal(false)
}

// FloorDiv returns d ÷ e rounded down to 12 places. When ok is false d is negative, e is not
// positive, or the quotient is out of range.
func (d Decimal) FloorDiv(e Decimal) (quotient Decimal, ok bool) {
	if d.Sign() < 0 || e.Sign() <= 0 {
		return Decimal{}, false
	}
	divisor := e.magnitude()
	digits, rest := d.magnitude().dividedBy(divisor)
	for range Scale {
		if digits, ok = digits.timesChecked(10); !ok {
			return Decimal{}, false
		}
		var digit uint128
		digit, rest = rest.times(10, 0).dividedBy(divisor)
		digits = digits.plus(digit)
	}
	return digits.decimal(false)
}
