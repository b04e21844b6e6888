// Package decimal is the engine's only number for money, prices and usage: exact, fixed point,
// 128 bits, 12 decimal places, no allocation. See DESIGN.md.
package decimal

import "math/bits"

// Scale is the number of decimal places that every Decimal carries.
const Scale = 12

// one is the number 1, as value × 10¹².
const one = 1_000_000_000_000

// limitHi and limitLo are the halves of 10³⁶, which is 10²⁴ as value × 10¹².
const (
	limitHi = 0xc097ce7bc90715
	limitLo = 0xb34b9f1000000000
)

// Decimal is value × 10¹², a two's-complement 128-bit integer. The zero value is 0. Decimals
// compare with ==. The range is ±10²⁴; every operation that would leave it reports so.
type Decimal struct {
	hi int64
	lo uint64
}

// FromBits makes a Decimal of its two halves, as Bits returned them. For codecs only, which must
// refuse values that are not InRange: all arithmetic relies on it.
func FromBits(hi int64, lo uint64) Decimal { return Decimal{hi, lo} }

// Bits returns the two's-complement halves of value × 10¹², for codecs.
func (d Decimal) Bits() (hi int64, lo uint64) { return d.hi, d.lo }

// FromInt makes a Decimal of a whole number; every int64 is in range.
func FromInt(n int64) Decimal {
	hi, lo := bits.Mul64(magnitudeOfInt(n), one)
	return Decimal{int64(hi), lo}.signed(n < 0)
}

// Largest returns 10²⁴, the end of the range on both sides.
func Largest() Decimal { return Decimal{limitHi, limitLo} }

// InRange reports whether d lies within ±10²⁴. It does for every Decimal that an operation of this
// package returned as good.
func (d Decimal) InRange() bool {
	m := d.magnitude()
	return m.hi < limitHi || m.hi == limitHi && m.lo <= limitLo
}

// Add returns d + e. When ok is false the sum is out of range and meaningless.
func (d Decimal) Add(e Decimal) (sum Decimal, ok bool) {
	lo, carry := bits.Add64(d.lo, e.lo, 0)
	hi, _ := bits.Add64(uint64(d.hi), uint64(e.hi), carry)
	sum = Decimal{int64(hi), lo}
	return sum, sum.InRange()
}

// Sub returns d − e. When ok is false the difference is out of range and meaningless.
func (d Decimal) Sub(e Decimal) (difference Decimal, ok bool) {
	lo, borrow := bits.Sub64(d.lo, e.lo, 0)
	hi, _ := bits.Sub64(uint64(d.hi), uint64(e.hi), borrow)
	difference = Decimal{int64(hi), lo}
	return difference, difference.InRange()
}

// MulInt returns d × n, which is always exact. When ok is false the product is out of range and
// meaningless.
func (d Decimal) MulInt(n int64) (product Decimal, ok bool) {
	scaled, ok := d.magnitude().timesChecked(magnitudeOfInt(n))
	if !ok {
		return Decimal{}, false
	}
	return scaled.decimal((d.hi < 0) != (n < 0))
}

// Neg returns −d.
func (d Decimal) Neg() Decimal {
	lo, borrow := bits.Sub64(0, d.lo, 0)
	hi, _ := bits.Sub64(0, uint64(d.hi), borrow)
	return Decimal{int64(hi), lo}
}

// Abs returns d without its sign.
func (d Decimal) Abs() Decimal {
	if d.hi < 0 {
		return d.Neg()
	}
	return d
}

// Sign returns -1, 0 or 1.
func (d Decimal) Sign() int {
	switch {
	case d.hi < 0:
		return -1
	case d.hi|int64(d.lo) == 0:
		return 0
	}
	return 1
}

// IsZero reports whether d is 0; it also makes the JSON option omitzero work.
func (d Decimal) IsZero() bool { return d == Decimal{} }

// Cmp returns -1 when d < e, 0 when d = e, 1 when d > e.
func (d Decimal) Cmp(e Decimal) int {
	switch {
	case d == e:
		return 0
	case d.hi < e.hi || d.hi == e.hi && d.lo < e.lo:
		return -1
	}
	return 1
}

// Less reports whether d < e.
func (d Decimal) Less(e Decimal) bool {
	return d.hi < e.hi || d.hi == e.hi && d.lo < e.lo
}

// Min returns the smaller of two.
func Min(a, b Decimal) Decimal {
	if b.Less(a) {
		return b
	}
	return a
}

// Max returns the larger of two.
func Max(a, b Decimal) Decimal {
	if a.Less(b) {
		return b
	}
	return a
}

// signed returns d, or −d where negative is set.
func (d Decimal) signed(negative bool) Decimal {
	if negative {
		return d.Neg()
	}
	return d
}

// magnitude returns |value × 10¹²|.
func (d Decimal) magnitude() uint128 {
	sign := uint64(d.hi >> 63)
	lo, borrow := bits.Sub64(d.lo^sign, sign, 0)
	return uint128{uint64(d.hi) ^ sign - sign - borrow, lo}
}
