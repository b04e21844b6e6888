package decimal

import "math/bits"

// Exact is an unrounded amount: value × 10²⁴, a two's-complement 256-bit integer. It holds the
// product of any two Decimals, and sums of some 57,000 of the largest ones. A line is summed up
// as Exact and rounded once, at its end. The zero value is 0; Exacts compare with ==.
type Exact struct{ bits uint256 }

// Product returns a × b, unrounded.
func Product(a, b Decimal) Exact {
	u := product(a.magnitude(), b.magnitude())
	if a.hi^b.hi < 0 {
		u = uint256{}.minus(u)
	}
	return Exact{u}
}

// Exact returns d as an Exact.
func (d Decimal) Exact() Exact { return Product(d, Decimal{0, one}) }

// Add returns x + y. When ok is false the sum overflows 256 bits and is meaningless.
func (x Exact) Add(y Exact) (sum Exact, ok bool) {
	sum.bits = x.bits.plus(y.bits)
	overflow := (x.bits.w3 ^ sum.bits.w3) & (y.bits.w3 ^ sum.bits.w3)
	return sum, overflow>>63 == 0
}

// Increase adds y to x, modulo 2²⁵⁶: for sums of which it is known that they do not overflow.
func (x *Exact) Increase(y *Exact) { x.bits = x.bits.plus(y.bits) }

// Sub returns x − y. When ok is false the difference overflows 256 bits and is meaningless.
func (x Exact) Sub(y Exact) (difference Exact, ok bool) {
	difference.bits = x.bits.minus(y.bits)
	overflow := (x.bits.w3 ^ y.bits.w3) & (x.bits.w3 ^ difference.bits.w3)
	return difference, overflow>>63 == 0
}

// Neg returns −x. The one value without a counterpart, −2²⁵⁵, is not a sum of products.
func (x Exact) Neg() Exact { return Exact{uint256{}.minus(x.bits)} }

// Sign returns -1, 0 or 1.
func (x Exact) Sign() int {
	switch {
	case x.negative():
		return -1
	case x == Exact{}:
		return 0
	}
	return 1
}

func (x Exact) negative() bool { return x.bits.w3>>63 != 0 }

// Cmp returns -1 when x < y, 0 when x = y, 1 when x > y.
func (x Exact) Cmp(y Exact) int {
	switch {
	case x == y:
		return 0
	case x.negative() != y.negative():
		if x.negative() {
			return -1
		}
		return 1
	case x.bits.less(y.bits): // of one sign, two's complements order like their values
		return -1
	}
	return 1
}

// Round returns x rounded to a number of decimal places, half away from zero. Places outside of
// 0–12 count as the nearer end. ok is false when the result lies outside ±10²⁴.
func (x Exact) Round(places int) (rounded Decimal, ok bool) {
	places = min(max(places, 0), Scale)
	negative := x.negative()
	if negative {
		x = x.Neg()
	}
	// Adding half a unit and cutting is rounding half up; cutting in two steps cuts the same.
	unit := pow10[Scale-places]
	units := x.bits.plus(half[places]).over(one).over(unit)
	if units.w3|units.w2 != 0 {
		return Decimal{}, false
	}
	scaled, ok := uint128{units.w1, units.w0}.timesChecked(unit)
	if !ok {
		return Decimal{}, false
	}
	return scaled.decimal(negative)
}

// InRange reports whether x lies within ±10²⁴, the range of a Decimal.
func (x Exact) InRange() bool {
	if x.bits.w3|x.bits.w2 == 0 {
		return true // nearly always: amounts below 3 × 10¹⁴
	}
	return x.Cmp(exactLimit) <= 0 && x.Cmp(exactLimit.Neg()) >= 0
}

// Within reports whether x + y + z is at most a limit, where that is seen at a glance: none of them
// is below zero or above some 10¹⁴. False says nothing.
func Within(limit Decimal, x, y, z *Exact) bool {
	if x.bits.w3|x.bits.w2|y.bits.w3|y.bits.w2|z.bits.w3|z.bits.w2 != 0 ||
		(x.bits.w1|y.bits.w1|z.bits.w1)>>62 != 0 || limit.hi < 0 {
		return false
	}
	low, carry := bits.Add64(x.bits.w0, y.bits.w0, 0)
	high := x.bits.w1 + y.bits.w1 + carry
	low, carry = bits.Add64(low, z.bits.w0, 0)
	high += z.bits.w1 + carry // no more than 2⁶⁴ − 1: three are below 2⁶²
	middle, lowest := bits.Mul64(limit.lo, one)
	highest, rest := bits.Mul64(uint64(limit.hi), one)
	middle, carry = bits.Add64(middle, rest, 0)
	return highest+carry != 0 || high < middle || high == middle && low <= lowest
}

// exactLimit is 10²⁴.
var exactLimit = Largest().Exact()

// Words returns the four words of x as a two's complement, the least first, for codecs; ExactOf is
// their inverse.
func (x Exact) Words() (words [4]uint64) {
	return [4]uint64{x.bits.w0, x.bits.w1, x.bits.w2, x.bits.w3}
}

// Low returns the two least of Words.
func (x *Exact) Low() (w0, w1 uint64) { return x.bits.w0, x.bits.w1 }

// Above returns x in units of 2⁶⁴, cut; false where it is below 0 or takes more than 128 bits.
func (x *Exact) Above() (units uint64, ok bool) {
	return x.bits.w1, x.bits.w3|x.bits.w2 == 0
}

// IncreaseLow adds an amount by its Low words, where the two greater ones of x and of the sum are
// 0.
func (x *Exact) IncreaseLow(w0, w1 uint64) {
	var carry uint64
	x.bits.w0, carry = bits.Add64(x.bits.w0, w0, 0)
	x.bits.w1 += w1 + carry
}

// ExactOf returns the amount that has these words.
func ExactOf(words [4]uint64) Exact {
	return Exact{uint256{w3: words[3], w2: words[2], w1: words[1], w0: words[0]}}
}

// half holds half a unit of each number of places: 5 × 10^(23 − places).
var half = func() (table [Scale + 1]uint256) {
	for places := range table {
		table[places] = product(uint128{0, 5 * pow10[Scale-1]}, uint128{0, pow10[Scale-places]})
	}
	return table
}()
