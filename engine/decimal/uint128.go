package decimal

import "math/bits"

// uint128 is an unsigned 128-bit integer, the magnitude that signs are taken off for.
type uint128 struct{ hi, lo uint64 }

// pow10 holds the powers of ten that fit 64 bits.
var pow10 = [20]uint64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
	1e18, 1e19,
}

// magnitudeOfInt returns |n|, also of the smallest int64.
func magnitudeOfInt(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// times returns u × n + more modulo 2¹²⁸; callers keep the result below that.
func (u uint128) times(n, more uint64) uint128 {
	hi, lo := bits.Mul64(u.lo, n)
	lo, carry := bits.Add64(lo, more, 0)
	return uint128{u.hi*n + hi + carry, lo}
}

// over returns u ÷ n and the remainder.
func (u uint128) over(n uint64) (quotient uint128, remainder uint64) {
	high, rest := u.hi/n, u.hi%n
	low, remainder := bits.Div64(rest, u.lo, n)
	return uint128{high, low}, remainder
}

// plus returns u + v modulo 2¹²⁸; callers keep the result below that.
func (u uint128) plus(v uint128) uint128 {
	lo, carry := bits.Add64(u.lo, v.lo, 0)
	return uint128{u.hi + v.hi + carry, lo}
}

// minus returns u − v, for u ≥ v.
func (u uint128) minus(v uint128) uint128 {
	lo, borrow := bits.Sub64(u.lo, v.lo, 0)
	return uint128{u.hi - v.hi - borrow, lo}
}

// less says whether u < v.
func (u uint128) less(v uint128) bool {
	return u.hi < v.hi || u.hi == v.hi && u.lo < v.lo
}

// decimal returns u with a sign as a Decimal, and whether it is in range.
func (u uint128) decimal(negative bool) (Decimal, bool) {
	if u.hi > limitHi || u.hi == limitHi && u.lo > limitLo {
		return Decimal{}, false
	}
	return Decimal{int64(u.hi), u.lo}.signed(negative), true
}
