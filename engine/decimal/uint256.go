package decimal

import "math/bits"

// uint256 is an unsigned 256-bit integer, or the bits of a signed one. Its words are fields
// because the compiler keeps fields in registers, and arrays not.
type uint256 struct{ w3, w2, w1, w0 uint64 }

func product(m, n uint128) (u uint256) {
	var carry uint64
	u.w1, u.w0 = bits.Mul64(m.lo, n.lo)
	u.w3, u.w2 = bits.Mul64(m.hi, n.hi)
	hi, lo := bits.Mul64(m.hi, n.lo)
	u.w1, carry = bits.Add64(u.w1, lo, 0)
	u.w2, carry = bits.Add64(u.w2, hi, carry)
	u.w3 += carry
	hi, lo = bits.Mul64(m.lo, n.hi)
	u.w1, carry = bits.Add64(u.w1, lo, 0)
	u.w2, carry = bits.Add64(u.w2, hi, carry)
	u.w3 += carry
	return u
}

// plus returns u + v modulo 2²⁵⁶.
func (u uint256) plus(v uint256) (sum uint256) {
	var carry uint64
	sum.w0, carry = bits.Add64(u.w0, v.w0, 0)
	sum.w1, carry = bits.Add64(u.w1, v.w1, carry)
	sum.w2, carry = bits.Add64(u.w2, v.w2, carry)
	sum.w3, _ = bits.Add64(u.w3, v.w3, carry)
	return sum
}

// minus returns u − v modulo 2²⁵⁶.
func (u uint256) minus(v uint256) (difference uint256) {
	var borrow uint64
	difference.w0, borrow = bits.Sub64(u.w0, v.w0, 0)
	difference.w1, borrow = bits.Sub64(u.w1, v.w1, borrow)
	difference.w2, borrow = bits.Sub64(u.w2, v.w2, borrow)
	difference.w3, _ = bits.Sub64(u.w3, v.w3, borrow)
	return difference
}

// over returns u ÷ n, cut.
func (u uint256) over(n uint64) (quotient uint256) {
	var rest uint64
	if u.w3|u.w2 != 0 {
		quotient.w3, rest = u.w3/n, u.w3%n
		quotient.w2, rest = bits.Div64(rest, u.w2, n)
	}
	if rest|u.w1 != 0 {
		quotient.w1, rest = bits.Div64(rest, u.w1, n)
	}
	quotient.w0, _ = bits.Div64(rest, u.w0, n)
	return quotient
}

// less reports whether u < v.
func (u uint256) less(v uint256) bool {
	switch {
	case u.w3 != v.w3:
		return u.w3 < v.w3
	case u.w2 != v.w2:
		return u.w2 < v.w2
	case u.w1 != v.w1:
		return u.w1 < v.w1
	}
	return u.w0 < v.w0
}

// dividedBy returns u ÷ v and the remainder bit by bit, for v below 2¹²⁷ and quotients below
// 2¹²⁸. Invoices are allocated a handful of times a month; dividing by words would not earn its
// lines.
func (u uint256) dividedBy(v uint128) (quotient, remainder uint128) {
	for range 256 {
		bit := u.w3 >> 63
		u = u.plus(u)
		quotient = quotient.plus(quotient)
		remainder = remainder.plus(remainder).plus(uint128{0, bit})
		if !remainder.less(v) {
			remainder = remainder.minus(v)
			quotient.lo |= 1
		}
	}
	return quotient, remainder
}
