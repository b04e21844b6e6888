package client

import (
	"cmp"
	"slices"
	"strconv"
	"unicode/utf8"

	"tollgate/engine/decimal"
	"tollgate/server"
	"tollgate/server/scan"
)

// Longest values, in Unicode code points (meta: bytes of compact JSON).
const (
	longestID      = 128
	longestName    = 128
	longestKey     = 255
	longestPhone   = 64
	longestAddress = 500
	longestEmail   = 254
	longestMeta    = 8 << 10
)

// form reads the fields of one JSON object and collects everything that is wrong with them.
type form struct {
	scanner  scan.Scanner
	problems []server.FieldError
	repeats  int // the bytes of unknown names in problems
	seen     uint64
	inner    []byte // the name that an object within the object has twice
}

func (f *form) reset(body []byte) {
	f.scanner.Reset(body)
	f.begin()
}

// begin starts another object of the same text.
func (f *form) begin() {
	f.problems, f.repeats, f.seen, f.inner = f.problems[:0], 0, 0, nil
}

// problem notes what is wrong with a field.
func (f *form) problem(name string, code server.FieldCode, text string) {
	f.problems = append(f.problems, server.FieldError{
		Field: name, Code: code, Message: name + " " + text,
	})
}

// mostRepeated bounds what an answer repeats of the request, in bytes.
const mostRepeated = 1024

// unknown notes a field that the object does not have, and passes it.
func (f *form) unknown(name []byte) bool {
	if f.repeats < mostRepeated {
		shown := string(name[:min(len(name), 64)])
		f.repeats += len(shown) + 16
		f.problems = append(f.problems, server.FieldError{
			Field: cmp.Or(shown, "body"), Code: server.FieldUnknown,
			Message: strconv.Quote(shown) + " is not a field of this request",
		})
	}
	return f.scanner.Skip()
}

// once says that field number i was not there yet; twice is malformed.
func (f *form) once(i uint) bool {
	first := f.seen&(1<<i) == 0
	f.seen |= 1 << i
	return first
}

// duplicate answers a known field that is there twice: name, or one within it.
func (f *form) duplicate(name []byte) *server.Fault {
	if f.inner != nil {
		name = f.inner
	}
	return duplicateFault(name)
}

// duplicateFault answers a known field that is there twice.
func duplicateFault(name []byte) *server.Fault {
	fault := server.FaultJSON.With("The name " + strconv.Quote(string(name)) + " is there twice.")
	return &fault
}

// fault is what the reading came to: nil when all is well.
func (f *form) fault() *server.Fault {
	if err := f.scanner.Err(); err != nil {
		fault := server.FaultJSON.With(err.Error())
		return &fault
	}
	if len(f.problems) > 0 {
		return server.FieldsFault(slices.Clone(f.problems))
	}
	return nil
}

// absent passes a null, which stands for a field that is not there.
func (f *form) absent() bool {
	if f.scanner.Peek() != scan.KindNull {
		return false
	}
	_, ok := f.scanner.Literal()
	return ok
}

// wrong notes a value of the wrong type and passes it.
func (f *form) wrong(name, want string) bool {
	kind := f.scanner.Peek()
	if kind == scan.KindNone {
		return f.scanner.Skip()
	}
	f.problem(name, server.FieldType, "must be "+want+", not "+kind.String())
	return f.scanner.Skip()
}

// text reads a string of least to most characters. given is false for null and for what is wrong.
func (f *form) text(name string, least, most int, dst *[]byte) (given, ok bool) {
	if f.absent() {
		return false, true
	}
	if f.scanner.Peek() != scan.KindString {
		return false, f.wrong(name, "a string")
	}
	value, ok := f.scanner.Text()
	if !ok {
		return false, false
	}
	if code, reason := textProblem(value, least, most); reason != "" {
		f.problem(name, code, reason)
		return false, true
	}
	*dst = value
	return true, true
}

// textProblem says what is wrong with a text; empty when nothing is.
func textProblem(value []byte, least, most int) (code server.FieldCode, reason string) {
	count := 0
	for i := 0; i < len(value); count++ {
		c := value[i]
		if c < utf8.RuneSelf {
			if c < 0x20 || c == 0x7f {
				return server.FieldFormat, "must not have control characters"
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(value[i:])
		if r == utf8.RuneError && size == 1 {
			return server.FieldFormat, "must be UTF-8"
		}
		if r <= 0x9f {
			return server.FieldFormat, "must not have control characters"
		}
		i += size
	}
	switch {
	case count < least && least == 1:
		return server.FieldEmpty, "must not be empty"
	case count > most:
		return server.FieldTooLong, "must have at most " + strconv.Itoa(most) + " characters"
	default:
		return "", ""
	}
}

// uuid reads a UUID.
func (f *form) uuid(name string, dst *[16]byte) bool {
	if f.absent() {
		return true
	}
	if f.scanner.Peek() != scan.KindString {
		return f.wrong(name, "a UUID in a string")
	}
	value, ok := f.scanner.Text()
	if !ok {
		return false
	}
	id, valid := server.ParseUUID(value)
	if !valid || id == ([16]byte{}) {
		f.problem(name, server.FieldFormat, "must be a UUID")
		return true
	}
	*dst = id
	return true
}

// number reads an exact number.
func (f *form) number(name string, dst *decimal.Decimal) (given, ok bool) {
	if f.absent() {
		return false, true
	}
	if f.scanner.Peek() != scan.KindNumber {
		return false, f.wrong(name, "a number")
	}
	text, ok := f.scanner.Number()
	if !ok {
		return false, false
	}
	value, err := decimal.Parse(text)
	if err != nil {
		f.problem(name, server.FieldOutOfRange, "must be exact to 12 decimal places and within 10^24")
		return false, true
	}
	*dst = value
	return true, true
}

// instant reads an RFC 3339 time as milliseconds since 1970 UTC.
func (f *form) instant(name string, dst *int64) (given, ok bool) {
	if f.absent() {
		return false, true
	}
	if f.scanner.Peek() != scan.KindString {
		return false, f.wrong(name, "an RFC 3339 time in a string")
	}
	text, ok := f.scanner.Text()
	if !ok {
		return false, false
	}
	ms, valid := server.ParseInstant(text)
	if !valid {
		f.problem(name, server.FieldFormat,
			"must be an RFC 3339 time such as 2026-01-31T15:00:00.000Z")
		return false, true
	}
	*dst = ms
	return true, true
}

// object reads a free-form object, compact, into dst's memory.
func (f *form) object(name string, dst []byte) (compact []byte, ok bool) {
	if f.absent() {
		return dst[:0], true
	}
	if f.scanner.Peek() != scan.KindObject {
		return dst[:0], f.wrong(name, "an object")
	}
	if dst, ok = f.scanner.AppendCompact(dst[:0]); ok && len(dst) > longestMeta {
		f.problem(name, server.FieldTooLong, "must have at most 8192 bytes as compact JSON")
		dst = dst[:0]
	}
	return dst, ok
}

// enter begins the body's object; a body that is another kind of value, or none, is a fault.
func (f *form) enter() *server.Fault {
	switch kind := f.scanner.Peek(); kind {
	case scan.KindObject:
		if f.scanner.Object() {
			return nil
		}
		return f.fault()
	case scan.KindNone:
		fault := server.FaultJSON.With("The body must be a JSON object.")
		return &fault
	default:
		if !f.scanner.Skip() {
			return f.fault()
		}
		return server.FieldsFault([]server.FieldError{{
			Field: "body", Code: server.FieldType,
			Message: "the body must be a JSON object, not " + kind.String(),
		}})
	}
}

// leave checks that nothing follows the body's object.
func (f *form) leave() *server.Fault {
	f.scanner.End()
	return f.fault()
}

// required reads a string that must be there and not be empty.
func (f *form) required(name string, most int, dst *[]byte) bool {
	before := len(f.problems)
	given, ok := f.text(name, 1, most, dst)
	if ok && !given && len(f.problems) == before {
		f.problem(name, server.FieldRequired, "is required")
	}
	return ok
}

// wronged says that something was noted about a field already, so that its absence is no news.
func (f *form) wronged(name string) bool {
	return slices.ContainsFunc(f.problems, func(e server.FieldError) bool { return e.Field == name })
}
