package decimal

import (
	"math/big"

	"pgregory.net/rapid"
)

// The oracle is math/big: integers for value × 10¹², rationals for everything that rounds.

var (
	bigLimit = new(big.Int).Exp(big.NewInt(10), big.NewInt(36), nil)
	bigWord  = new(big.Int).Lsh(big.NewInt(1), 64)
)

// integer returns d's value × 10¹².
func integer(d Decimal) *big.Int {
	hi, lo := d.Bits()
	n := new(big.Int).Mul(big.NewInt(hi), bigWord)
	return n.Add(n, new(big.Int).SetUint64(lo))
}

// rat returns d's value.
func rat(d Decimal) *big.Rat {
	return new(big.Rat).SetFrac(integer(d), big.NewInt(one))
}

// ratExact returns x's value.
func ratExact(x Exact) *big.Rat {
	n := big.NewInt(int64(x.bits.w3))
	for _, word := range []uint64{x.bits.w2, x.bits.w1, x.bits.w0} {
		n.Mul(n, bigWord).Add(n, new(big.Int).SetUint64(word))
	}
	return new(big.Rat).SetFrac(n, new(big.Int).Mul(big.NewInt(one), big.NewInt(one)))
}

// decimalOf returns the Decimal of value × 10¹², and whether it is in range.
func decimalOf(n *big.Int) (Decimal, bool) {
	if n.CmpAbs(bigLimit) > 0 {
		return Decimal{}, false
	}
	lo := new(big.Int).Mod(n, bigWord)
	hi := new(big.Int).Div(new(big.Int).Sub(n, lo), bigWord)
	return FromBits(hi.Int64(), lo.Uint64()), true
}

// rounded returns a rational rounded half away from zero to some places.
func rounded(r *big.Rat, places int) (Decimal, bool) {
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)
	scaled := new(big.Rat).Mul(new(big.Rat).Abs(r), new(big.Rat).SetInt(unit))
	scaled.Add(scaled, big.NewRat(1, 2))
	n := new(big.Int).Quo(scaled.Num(), scaled.Denom())
	n.Mul(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(Scale-places)), nil))
	if r.Sign() < 0 {
		n.Neg(n)
	}
	return decimalOf(n)
}

// anyDecimal draws decimals of every size, and the edges: 0, ends of the range, word borders.
func anyDecimal() *rapid.Generator[Decimal] {
	return rapid.Custom(func(t *rapid.T) Decimal {
		n := new(big.Int)
		switch rapid.IntRange(0, 3).Draw(t, "form") {
		case 0:
			n.SetInt64(rapid.Int64Range(-1000, 1000).Draw(t, "units"))
			if rapid.Bool().Draw(t, "whole") {
				n.Mul(n, big.NewInt(one))
			}
		case 1:
			n.SetInt64(rapid.Int64().Draw(t, "small"))
		case 2:
			power := rapid.IntRange(0, 36).Draw(t, "power")
			n.Exp(big.NewInt(10), big.NewInt(int64(power)), nil)
			n.Add(n, big.NewInt(rapid.Int64Range(-1, 1).Draw(t, "beside")))
		default:
			hi := rapid.Uint64Range(0, limitHi).Draw(t, "hi")
			lo := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, 1, 1<<64 - 1})).
				Draw(t, "lo")
			n.SetUint64(hi)
			n.Mul(n, bigWord).Add(n, new(big.Int).SetUint64(lo))
		}
		if rapid.Bool().Draw(t, "negative") {
			n.Neg(n)
		}
		d, ok := decimalOf(n)
		if !ok {
			d = Largest().signed(n.Sign() < 0)
		}
		return d
	})
}
