package form

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"tollgate/server"
	"tollgate/server/scan"
)

// Mistake is something wrong with a field: its code, and what follows the field's name.
type Mistake struct {
	Code server.FieldCode
	Text string
}

// What can be wrong with a field, in one wording.
var (
	Required = Mistake{server.FieldRequired, "is required"}
	Null     = Mistake{server.FieldRequired, "must not be null"}
	Empty    = Mistake{server.FieldEmpty, "must not be empty"}
	Control  = Mistake{server.FieldFormat, "must not have control characters"}
	NotUTF8  = Mistake{server.FieldFormat, "must be UTF-8"}
	NotUUID  = Mistake{server.FieldFormat, "must be a UUID"}
	NotEmail = Mistake{server.FieldFormat, "must be an e-mail address"}
	NotTime  = Mistake{
		server.FieldFormat, "must be an RFC 3339 time such as 2026-01-31T15:00:00.000Z",
	}
	Inexact = Mistake{
		server.FieldOutOfRange, "must be exact to 12 decimal places and within 10^24",
	}
	Negative    = Mistake{server.FieldOutOfRange, "must not be negative"}
	NotPositive = Mistake{server.FieldOutOfRange, "must be greater than 0"}
	LongObject  = Mistake{
		server.FieldTooLong, "must have at most " + strconv.Itoa(maxObject) + " bytes as compact JSON",
	}
)

// maxObject limits a free-form object, in bytes of compact JSON.
const maxObject = 8 << 10

// TooLong is the mistake of a text of more than limit characters.
func TooLong(limit int) Mistake {
	return Mistake{server.FieldTooLong, "must have at most " + strconv.Itoa(limit) + " characters"}
}

// Outside is the mistake of a number that is not a whole one within bounds.
func Outside(least, limit uint64) Mistake {
	return Mistake{server.FieldOutOfRange, "must be a whole number from " +
		strconv.FormatUint(least, 10) + " to " + strconv.FormatUint(limit, 10)}
}

// NotAllowed is the mistake of a text that is none of these.
func NotAllowed(values ...string) Mistake {
	last := len(values) - 1
	text := values[last]
	if last > 0 {
		text = strings.Join(values[:last], ", ") + " or " + text
	}
	return Mistake{server.FieldNotAllowed, "must be " + text}
}

// WrongType is the mistake of a value of another kind.
func WrongType(want string, is scan.Kind) Mistake {
	return Mistake{server.FieldType, "must be " + want + ", not " + is.String()}
}

// Of returns the mistake about a field.
func (m Mistake) Of(field string) server.FieldError {
	return server.FieldError{Field: field, Code: m.Code, Message: field + " " + m.Text}
}

// Fault refuses a request for one field.
func (m Mistake) Fault(field string) *server.Fault {
	return server.FieldsFault([]server.FieldError{m.Of(field)})
}

// CheckText checks a text of least (0 or 1) to limit characters; 0 means no limit.
func CheckText(value []byte, least, limit int) (wrong Mistake, ok bool) {
	count := 0
	for i := 0; i < len(value); count++ {
		c := value[i]
		if c < utf8.RuneSelf {
			if c < 0x20 || c == 0x7f {
				return Control, false
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(value[i:])
		if r == utf8.RuneError && size == 1 {
			return NotUTF8, false
		}
		if r <= 0x9f {
			return Control, false
		}
		i += size
	}
	switch {
	case count < least:
		return Empty, false
	case limit > 0 && count > limit:
		return TooLong(limit), false
	}
	return Mistake{}, true
}
