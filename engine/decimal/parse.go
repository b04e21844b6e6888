package decimal

import (
	"errors"
	"math/bits"
)

// What Parse refuses. The errors are compared with == or errors.Is; none carries the text.
var (
	// ErrSyntax means that the text is not a number of the JSON grammar.
	ErrSyntax = errors.New("not a number")
	// ErrPlaces means that the number has a digit other than 0 beyond the 12th decimal place.
	ErrPlaces = errors.New("more than 12 decimal places")
	// ErrRange means that the number lies outside ±10²⁴.
	ErrRange = errors.New("outside of the range ±10^24")
)

// maxDigits is the longest span of significant digits within the range: from 10²⁴ to 10⁻¹².
const maxDigits = 37

// Parse reads a number of the JSON grammar (RFC 8259, section 6), exponents included, and nothing
// else: no sign +, no leading zeros, no bare point, no blanks. The number must be exact: a value
// that 12 places cannot hold is ErrPlaces, zeros beyond them are fine.
func Parse[T string | []byte](text T) (Decimal, error) {
	i, n := 0, len(text)
	negative := n > 0 && text[0] == '-'
	if negative {
		i++
	}
	first := i
	var mantissa uint64
	for ; i < n && text[i]-'0' <= 9; i++ {
		mantissa = mantissa*10 + uint64(text[i]-'0')
	}
	whole, places := i-first, 0
	if i < n && text[i] == '.' {
		i++
		point := i
		for ; i < n && text[i]-'0' <= 9; i++ {
			mantissa = mantissa*10 + uint64(text[i]-'0')
		}
		if places = i - point; places == 0 {
			return Decimal{}, ErrSyntax
		}
	}
	if i < n || whole == 0 || whole > 1 && text[first] == '0' || places > Scale ||
		whole+places >= len(pow10) {
		return parseLong(text, false)
	}
	hi, lo := bits.Mul64(mantissa, pow10[Scale-places])
	return Decimal{int64(hi), lo}.signed(negative), nil
}

// ParseLoose reads what Parse reads, and fractions without a leading zero such as ".01", which
// price lists write. For catalog strings only.
func ParseLoose[T string | []byte](text T) (Decimal, error) { return parseLong(text, true) }

// MustParse is Parse for constants and tests; it panics at what Parse refuses.
func MustParse(text string) Decimal {
	d, err := Parse(text)
	if err != nil {
		panic("decimal: " + text + ": " + err.Error())
	}
	return d
}

// parseLong is the whole grammar: exponents, many digits, zeros to be dropped.
func parseLong[T string | []byte](text T, loose bool) (Decimal, error) {
	var s significand
	i, n := 0, len(text)
	negative := n > 0 && text[0] == '-'
	if negative {
		i++
	}
	first := i
	for ; i < n && text[i]-'0' <= 9; i++ {
		s.digit(text[i] - '0')
	}
	whole := i - first
	if whole > 1 && text[first] == '0' {
		return Decimal{}, ErrSyntax
	}
	point := i
	if i < n && text[i] == '.' {
		i++
		for point = i; i < n && text[i]-'0' <= 9; i++ {
			s.digit(text[i] - '0')
		}
		if i == point {
			return Decimal{}, ErrSyntax
		}
	}
	places := i - point
	if whole == 0 && (places == 0 || !loose) {
		return Decimal{}, ErrSyntax
	}
	exponent, ok := parseExponent(text[i:])
	if !ok {
		return Decimal{}, ErrSyntax
	}
	return s.decimal(negative, exponent-places)
}

// parseExponent reads an optional exponent to the end of the text. Exponents are cut at a value
// that no text of a real length can make up for.
func parseExponent[T string | []byte](text T) (exponent int, ok bool) {
	const enough = 1 << 28
	n := len(text)
	if n == 0 {
		return 0, true
	}
	if text[0]|0x20 != 'e' {
		return 0, false
	}
	i, negative := 1, false
	if n > 1 && (text[1] == '+' || text[1] == '-') {
		i, negative = 2, text[1] == '-'
	}
	if i == n {
		return 0, false
	}
	for ; i < n; i++ {
		if text[i]-'0' > 9 {
			return 0, false
		}
		exponent = min(exponent*10+int(text[i]-'0'), enough)
	}
	if negative {
		return -exponent, true
	}
	return exponent, true
}

// significand gathers digits without the zeros that lead and trail.
type significand struct {
	value  uint128
	digits int // of value; past maxDigits counting stops and value is meaningless
	zeros  int // that trail value so far
}

func (s *significand) digit(d byte) {
	switch {
	case d == 0 && s.digits == 0:
		return
	case d == 0:
		s.zeros++
		return
	}
	for added := s.zeros + 1; added > 0 && s.digits <= maxDigits; {
		step := min(added, len(pow10)-1)
		s.value = s.value.times(pow10[step], 0)
		s.digits += step
		added -= step
		if added == 0 {
			s.value = s.value.plus(uint128{0, uint64(d)})
		}
	}
	s.zeros = 0
}

// decimal returns value × 10^(zeros + exponent).
func (s *significand) decimal(negative bool, exponent int) (Decimal, error) {
	if s.digits == 0 {
		return Decimal{}, nil
	}
	exponent += s.zeros
	if s.digits+exponent > maxDigits-Scale {
		return Decimal{}, ErrRange
	}
	if exponent < -Scale {
		return Decimal{}, ErrPlaces
	}
	value := s.value
	for shift := exponent + Scale; shift > 0; {
		step := min(shift, len(pow10)-1)
		value = value.times(pow10[step], 0)
		shift -= step
	}
	d, ok := value.decimal(negative)
	if !ok {
		return Decimal{}, ErrRange
	}
	return d, nil
}
