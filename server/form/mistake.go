package form

import (
	"strconv"

	"tollgate/engine/schema"
	"tollgate/server"
	"tollgate/server/scan"
)

// Mistake is something wrong with a field: its code, and what follows the field's name.
type Mistake struct {
	Code server.FieldCode
	Text string
}

// What can be wrong with a field. What the engine says, too, is worded in schema.
var (
	Required = Mistake{server.FieldRequired, schema.Required}
	Null     = Mistake{server.FieldRequired, schema.Null}
	Empty    = Mistake{server.FieldEmpty, schema.Empty}
	Blank    = Mistake{server.FieldEmpty, schema.Blank}
	NotUUID  = Mistake{server.FieldFormat, "must be a UUID"}
	NotEmail = Mistake{server.FieldFormat, "must be an e-mail address"}
	NotTime  = Mistake{
		server.FieldFormat, "must be an RFC 3339 time such as 2026-01-31T15:00:00.000Z",
	}
	NotCurrency = Mistake{server.FieldNotAllowed, "must be an ISO 4217 code, such as USD"}
	BelowPrice  = Mistake{server.FieldConflict, "must be the price or more"}
	NotCursor   = Mistake{server.FieldFormat, "must be nextCursor of the page before"}
	// PassedCursor is a cursor of a page whose records are not kept any more.
	PassedCursor = Mistake{server.FieldFormat, "must be nextCursor of a page of records that are kept"}
	Inexact      = Mistake{server.FieldOutOfRange, schema.Inexact}
	Negative     = Mistake{server.FieldOutOfRange, schema.Negative}
	NotPositive  = Mistake{server.FieldOutOfRange, schema.NotPositive}
	LongObject   = Mistake{
		server.FieldTooLong, "must have at most " + strconv.Itoa(MaxObject) + " bytes as compact JSON",
	}
)

// MaxObject limits a free-form object, in bytes of compact JSON.
const MaxObject = 8 << 10

// Outside is the mistake of a number that is not a whole one within bounds.
func Outside[T int | int64 | uint32 | uint64](minimum, limit T) Mistake {
	return Mistake{server.FieldOutOfRange, schema.Outside(minimum, limit)}
}

// TooMany is the mistake of a list of more than limit items.
func TooMany(limit int) Mistake {
	return Mistake{server.FieldOutOfRange, schema.TooMany(limit)}
}

// NotAllowed is the mistake of a text that is none of these.
func NotAllowed(values ...string) Mistake {
	return Mistake{server.FieldNotAllowed, schema.NotAllowed(values...)}
}

// NotMinorUnits is the mistake of an amount that a payment cannot have.
func NotMinorUnits(currency string) Mistake {
	return Mistake{server.FieldOutOfRange, "must be whole minor units of " + currency}
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

// CheckText checks a text of minimum (0 or 1) to limit characters; 0 means no limit.
func CheckText[T string | []byte](value T, minimum, limit int) (wrong Mistake, ok bool) {
	switch text := schema.CheckText(value, minimum, limit); text {
	case "":
		return Mistake{}, true
	case schema.Empty:
		return Empty, false
	case schema.Control, schema.NotUTF8:
		return Mistake{server.FieldFormat, text}, false
	default:
		return Mistake{server.FieldTooLong, text}, false
	}
}
