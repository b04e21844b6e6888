package schema

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// What can be wrong with a field, in the one wording of all that reads one. It follows the field's
// name.
const (
	Required    = "is required"
	Null        = "must not be null"
	Empty       = "must not be empty"
	Blank       = "must not be blank"
	Control     = "must not have control characters"
	NotUTF8     = "must be UTF-8"
	Inexact     = "must be a number, exact to 12 decimal places and within 10^24"
	Negative    = "must not be negative"
	NotPositive = "must be greater than 0"
)

// TooLong is what is wrong with a text of more than limit characters.
func TooLong(limit int) string {
	return "must have at most " + strconv.Itoa(limit) + " characters"
}

// TooMany is what is wrong with a list of more than limit items.
func TooMany(limit int) string { return "must have at most " + strconv.Itoa(limit) + " items" }

// Outside is what is wrong with a number that is not a whole one within bounds.
func Outside[T int | int64 | uint32 | uint64](minimum, limit T) string {
	return fmt.Sprint("must be a whole number from ", minimum, " to ", limit)
}

// NotAllowed is what is wrong with a text that is none of these.
func NotAllowed(values ...string) string {
	last := len(values) - 1
	if last == 0 {
		return "must be " + values[0]
	}
	return "must be " + strings.Join(values[:last], ", ") + " or " + values[last]
}

// CheckText says what is wrong with a text that must have least (0 or 1) to limit characters, none
// a control character: Control, NotUTF8, Empty or TooLong; "" is nothing. A limit of 0 is none.
func CheckText[T string | []byte](text T, minimum, limit int) (wrong string) {
	count := 0
	for i := 0; i < len(text); count++ {
		c := text[i]
		if c < utf8.RuneSelf {
			if c < ' ' || c == 0x7f {
				return Control
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(string(text[i:min(i+utf8.UTFMax, len(text))]))
		if r == utf8.RuneError && size == 1 {
			return NotUTF8
		}
		if r <= 0x9f {
			return Control
		}
		i += size
	}
	switch {
	case count < minimum:
		return Empty
	case limit > 0 && count > limit:
		return TooLong(limit)
	}
	return ""
}
