// Package decimal is the engine's only number for money, prices and usage: exact, fixed point,
// 128 bits, 12 decimal places, no allocation. See DESIGN.md.
package decimal

// Scale is the number of decimal places that every Decimal carries.
const Scale = 12

// Decimal is value × 10¹², a two's-complement 128-bit integer. The zero value is 0. Decimals
// compare with ==. The range is ±10²⁴; every operation that would leave it reports so.
type Decimal struct {
	hi int64
	lo uint64
}

// FromBits makes a Decimal of its two halves, as Bits returned them. For codecs only.
func FromBits(hi int64, lo uint64) Decimal { return Decimal{hi, lo} }

// Bits returns the two's-complement halves of value × 10¹², for codecs.
func (d Decimal) Bits() (hi int64, lo uint64) { return d.hi, d.lo }
