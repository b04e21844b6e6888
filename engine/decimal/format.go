package decimal

import "strconv"

// maxText is the longest text of a Decimal: sign, 25 digits, point, 12 digits, enough for halves
// that are out of range.
const maxText = 48

// AppendTo appends d to dst as a JSON number: never an exponent, no zeros that trail a fraction,
// no negative zero.
func (d Decimal) AppendTo(dst []byte) []byte {
	m := d.magnitude()
	if d.hi < 0 {
		dst = append(dst, '-')
	}
	whole, fraction := m.over(one)
	dst = appendWhole(dst, whole)
	if fraction == 0 {
		return dst
	}
	var digits [Scale]byte
	for i := Scale - 1; i >= 0; i-- {
		digits[i] = byte('0' + fraction%10)
		fraction /= 10
	}
	n := Scale
	for digits[n-1] == '0' {
		n--
	}
	return append(append(dst, '.'), digits[:n]...)
}

// String returns d as AppendTo writes it.
func (d Decimal) String() string {
	var text [maxText]byte
	return string(d.AppendTo(text[:0]))
}

// AppendText is AppendTo in the form of encoding.TextAppender; it never fails.
func (d Decimal) AppendText(dst []byte) ([]byte, error) { return d.AppendTo(dst), nil }

// MarshalJSON writes a JSON number; it never fails.
func (d Decimal) MarshalJSON() ([]byte, error) {
	return d.AppendTo(make([]byte, 0, maxText)), nil
}

// UnmarshalJSON reads a JSON number as Parse does. Strings, null and all other values are
// ErrSyntax: an optional field is a pointer, which the decoder sets without calling this.
func (d *Decimal) UnmarshalJSON(text []byte) error {
	parsed, err := Parse(text)
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}

// appendWhole appends a whole number below 10³⁸.
func appendWhole(dst []byte, u uint128) []byte {
	if u.hi == 0 {
		return strconv.AppendUint(dst, u.lo, 10)
	}
	high, low := u.over(1e19)
	dst = strconv.AppendUint(dst, high.lo, 10)
	var digits [19]byte
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = byte('0' + low%10)
		low /= 10
	}
	return append(dst, digits[:]...)
}
