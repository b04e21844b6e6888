package decimal

import "math/bits"

// uint128 is an unsigned 128-bit integer, a magnitude without its sign.
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

// timesChecked returns u × n, and false when that does not fit 128 bits.
func (u uint128) timesChecked(n uint64) (product uint128, ok bool) {
	top, high := bits.Mul64(u.hi, n)
	carry, low := bits.Mul64(u.lo, n)
	high, over := bits.Add64(high, carry, 0)
	return uint128{high, low}, top|over == 0
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

// less reports whether u < v.
func (u uint128) less(v uint128) bool {
	return u.hi < v.hi || u.hi == v.hi && u.lo < v.lo
}

// compare returns -1 when u < v, 0 when u = v, 1 when u > v.
func (u uint128) compare(v uint128) int {
	switch {
	case u == v:
		return 0
	case u.less(v):
		return -1
	}
	return 1
}

// dividedBy returns u ÷ v and the remainder, for v > 0. A divisor of two words follows Hacker's
// Delight, section 9-5: an estimate from the normalised high word is at most one too large.
func (u uint128) dividedBy(v uint128) (quotient, remainder uint128) {
	if v.hi == 0 {
		q, rest := u.over(v.lo)
		return q, uint128{0, rest}
	}
	shift := uint(bits.LeadingZeros64(v.hi))
	divisor := v.hi<<shift | v.lo>>1>>(63-shift)
	estimate, _ := bits.Div64(u.hi>>1, u.hi<<63|u.lo>>1, divisor)
	estimate >>= 63 - shift
	if estimate != 0 {
		estimate--
	}
	quotient = uint128{0, estimate}
	remainder = u.minus(v.times(estimate, 0))
	if !remainder.less(v) {
		quotient.lo++
		remainder = remainder.minus(v)
	}
	return quotient, remainder
}

// decimal returns u with a sign as a Decimal, and whether it is in range.
func (u uint128) decimal(negative bool) (Decimal, bool) {
	if u.hi > limitHi || u.hi == limitHi && u.lo > limitLo {
		return Decimal{}, false
	}
	return Decimal{int64(u.hi), u.lo}.signed(negative), true
}
