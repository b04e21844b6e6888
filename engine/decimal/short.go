package decimal

import "math/bits"

// Short is a Decimal in 8 bytes, for memory that is mostly such numbers: 62 bits of value × 10¹²,
// of value × 10⁶ or of the whole value, whichever of these is the first that is exact. So there is
// one Short of a Decimal, and the zero value is 0. The lowest two bits say which; where both are
// set it is not a Short, and callers may keep something else there.
type Short int64

const (
	shortBits = 2
	// NoShort are the lowest bits of what is not a Short.
	NoShort = 1<<shortBits - 1
	// million is 10⁻⁶, as value × 10¹².
	million = 1_000_000
)

// Short returns d as a Short; false when it does not fit.
func (d Decimal) Short() (s Short, ok bool) {
	if s = Short(d.lo << shortBits); int64(s)>>shortBits == int64(d.lo) && d.hi == int64(d.lo)>>63 {
		return s, true
	}
	return d.rounder()
}

// rounder is Short in one of the larger units.
func (d Decimal) rounder() (s Short, ok bool) {
	m := d.magnitude()
	if m.hi < million {
		n, rest := bits.Div64(m.hi, m.lo, million)
		if n < 1<<(63-shortBits) {
			return shortOf(n, 1, d.hi < 0), rest == 0
		}
	}
	if m.hi < one {
		n, rest := bits.Div64(m.hi, m.lo, one)
		return shortOf(n, 2, d.hi < 0), rest == 0 && n < 1<<(63-shortBits)
	}
	return 0, false
}

func shortOf(n uint64, kind Short, negative bool) Short {
	if negative {
		n = -n
	}
	return Short(n<<shortBits) | kind
}

// Decimal is the number that a Short is.
func (s Short) Decimal() Decimal {
	if s&NoShort == 0 {
		return Decimal{int64(s) >> 63, uint64(s >> shortBits)}
	}
	return s.larger()
}

// larger is Decimal of a Short in one of the larger units.
func (s Short) larger() Decimal {
	n, unit := int64(s)>>shortBits, uint64(million)
	if s&NoShort == 2 {
		unit = one
	}
	hi, lo := bits.Mul64(magnitudeOfInt(n), unit)
	return Decimal{int64(hi), lo}.signed(n < 0)
}
