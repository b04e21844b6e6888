package form

import (
	"strconv"

	"tollgate/engine/decimal"
	"tollgate/server/scan"
)

// Uints reads an array of at most maximum whole numbers from minimum to limit.
func Uints[T ~uint8 | ~uint16 | ~uint32](
	r *Reader, bit uint, name string, dst *[]T, maximum int, minimum, limit uint64,
) {
	if !r.expect(bit, scan.KindArray, "an array") || !r.Scanner.Array() {
		return
	}
	n := 0
	for first := true; r.Scanner.Item(first); first = false {
		at := name + "[" + strconv.Itoa(n) + "]"
		is := r.Scanner.Peek()
		if n++; is != scan.KindNumber || n > maximum {
			if is != scan.KindNumber {
				r.Problem(at, WrongType("a number", is))
			}
			r.Scanner.Skip()
			continue
		}
		text, ok := r.Scanner.Number()
		if !ok {
			return
		}
		value, err := decimal.Parse(text)
		item, ok := whole(value)
		if err != nil || !ok || item < minimum || item > limit {
			r.Problem(at, Outside(minimum, limit))
			continue
		}
		*dst = append(*dst, T(item))
	}
	if n > maximum {
		r.Problem(name, TooMany(maximum))
	}
}
