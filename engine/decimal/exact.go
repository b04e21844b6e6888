package decimal

import "math/bits"

// exactScale is the number of decimal places that every Exact carries.
const exactScale = 2 * Scale

// Exact is an unrounded amount: value × 10²⁴, a two's-complement 256-bit integer. It holds the
// product of any two Decimals, and sums of some 57,000 of the largest ones. A line is summed up
// as Exact and rounded once, at its end. The zero value is 0; Exacts compare with ==.
type Exact struct {
	w [4]uint64 // least significant first
}

// Product returns a × b, unrounded.
func Product(a, b Decimal) Exact {
	m, n := a.magnitude(), b.magnitude()
	var w [4]uint64
	if m.hi|n.hi == 0 {
		w[1], w[0] = bits.Mul64(m.lo, n.lo)
	} else {
		w = product(m, n)
	}
	x := Exact{w}
	if (a.hi < 0) != (b.hi < 0) {
		return x.Neg()
	}
	return x
}

// Exact returns d as an Exact.
func (d Decimal) Exact() Exact { return Product(d, Decimal{0, one}) }

// Add returns x + y. When ok is false the sum has left 256 bits and means nothing.
func (x Exact) Add(y Exact) (sum Exact, ok bool) {
	var carry uint64
	for i := range sum.w {
		sum.w[i], carry = bits.Add64(x.w[i], y.w[i], carry)
	}
	overflow := (x.w[3] ^ sum.w[3]) & (y.w[3] ^ sum.w[3])
	return sum, overflow>>63 == 0
}

// Sub returns x − y. When ok is false the difference has left 256 bits and means nothing.
func (x Exact) Sub(y Exact) (difference Exact, ok bool) {
	var borrow uint64
	for i := range difference.w {
		difference.w[i], borrow = bits.Sub64(x.w[i], y.w[i], borrow)
	}
	overflow := (x.w[3] ^ y.w[3]) & (x.w[3] ^ difference.w[3])
	return difference, overflow>>63 == 0
}

// Neg returns −x. The one value without a counterpart, −2²⁵⁵, is no sum of products.
func (x Exact) Neg() Exact {
	var y Exact
	var borrow uint64
	for i := range y.w {
		y.w[i], borrow = bits.Sub64(0, x.w[i], borrow)
	}
	return y
}

// Sign returns -1, 0 or 1.
func (x Exact) Sign() int {
	switch {
	case int64(x.w[3]) < 0:
		return -1
	case x == Exact{}:
		return 0
	}
	return 1
}

// Cmp returns -1 when x < y, 0 when x = y, 1 when x > y.
func (x Exact) Cmp(y Exact) int {
	if x.w[3] != y.w[3] {
		if int64(x.w[3]) < int64(y.w[3]) {
			return -1
		}
		return 1
	}
	for i := 2; i >= 0; i-- {
		if x.w[i] != y.w[i] {
			if x.w[i] < y.w[i] {
				return -1
			}
			return 1
		}
	}
	return 0
}

// Round returns x rounded to a number of decimal places, half away from zero. Places outside of
// 0–12 count as the nearer end. ok is false when the result lies outside of the range ±10²⁴.
func (x Exact) Round(places int) (rounded Decimal, ok bool) {
	places = min(max(places, 0), Scale)
	negative := x.Sign() < 0
	m := x
	if negative {
		m = x.Neg()
	}
	// Adding half a unit and cutting is rounding half up; cutting in two steps cuts the same.
	m.w = plus(m.w, half[places])
	m.w = over(m.w, one)
	unit := pow10[Scale-places]
	m.w = over(m.w, unit)
	if m.w[3]|m.w[2] != 0 {
		return Decimal{}, false
	}
	scaled, ok := uint128{m.w[1], m.w[0]}.timesChecked(unit)
	if !ok {
		return Decimal{}, false
	}
	return scaled.decimal(negative)
}

// InRange says whether x lies within ±10²⁴, the range of a Decimal.
func (x Exact) InRange() bool {
	limit := Largest().Exact()
	return x.Cmp(limit) <= 0 && x.Cmp(limit.Neg()) >= 0
}

// half holds half a unit of each number of places: 5 × 10^(23 − places).
var half = func() (table [Scale + 1][4]uint64) {
	for places := range table {
		table[places] = product(uint128{0, 5 * pow10[Scale-1]}, uint128{0, pow10[Scale-places]})
	}
	return table
}()

// product returns m × n, least significant word first.
func product(m, n uint128) (w [4]uint64) {
	var c uint64
	w[1], w[0] = bits.Mul64(m.lo, n.lo)
	w[3], w[2] = bits.Mul64(m.hi, n.hi)
	for _, cross := range [2][2]uint64{{m.hi, n.lo}, {m.lo, n.hi}} {
		hi, lo := bits.Mul64(cross[0], cross[1])
		w[1], c = bits.Add64(w[1], lo, 0)
		w[2], c = bits.Add64(w[2], hi, c)
		w[3] += c
	}
	return w
}

// plus returns u + v modulo 2²⁵⁶.
func plus(u, v [4]uint64) (sum [4]uint64) {
	var carry uint64
	for i := range sum {
		sum[i], carry = bits.Add64(u[i], v[i], carry)
	}
	return sum
}

// over returns u ÷ n, cut.
func over(u [4]uint64, n uint64) (quotient [4]uint64) {
	var rest uint64
	for i := len(u) - 1; i >= 0; i-- {
		if rest|u[i] != 0 {
			quotient[i], rest = bits.Div64(rest, u[i], n)
		}
	}
	return quotient
}
