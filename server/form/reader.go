// Package form reads the JSON object of a request strictly, and collects everything that is wrong
// with it. cmd/generate writes the calls from struct tags; hot routes write them by hand.
package form

import (
	"cmp"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync"

	"tollgate/engine/decimal"
	"tollgate/server"
	"tollgate/server/scan"
)

// maxRepeated limits what an answer repeats of unknown names, in bytes.
const maxRepeated = 1024

// maxEnum limits the name of a value, in characters.
const maxEnum = 128

// Reader reads the fields of one JSON object. Each of its methods for a value passes the value,
// whatever is wrong with it, and reports whether it was there and right; null counts as absent.
// A field is known by its bit, and by Name. The zero value is ready for Reset.
type Reader struct {
	Scanner scan.Scanner
	// Name is the name of the field that the reader is at.
	Name []byte

	problems []server.FieldError
	repeated int
	fields   state
	within   []string // the names of the objects that the reader is in
	first    bool     // no name of the object was read yet
	fault    *server.Fault
	room     []byte // of free-form objects
}

// state is what an object's fields came to, by their bits.
type state struct {
	seen, given, wrong uint64
}

// Reset begins a new text.
func (r *Reader) Reset(body []byte) {
	r.Scanner.Reset(body)
	r.Begin()
}

// Begin begins another object of the same text.
func (r *Reader) Begin() {
	r.problems, r.repeated, r.fault = r.problems[:0], 0, nil
	r.fields, r.within, r.first, r.room = state{}, r.within[:0], true, r.room[:0]
}

var readers = sync.Pool{New: func() any { return new(Reader) }}

func (r *Reader) release() {
	r.Reset(nil)
	readers.Put(r)
}

// Read reads a whole body into v, which must keep no bytes of the reader. What follows the object
// is refused before its fields.
func Read[T any](body []byte, v *T, fields func(*Reader, *T)) *server.Fault {
	r := readers.Get().(*Reader)
	defer r.release()
	r.Reset(body)
	if r.Enter() {
		fields(r, v)
	}
	if r.fault == nil {
		r.Scanner.End()
	}
	return r.Fault()
}

// None checks the body of a request without fields.
func None(body []byte) *server.Fault {
	return Read(body, &struct{}{}, func(r *Reader, _ *struct{}) {
		for r.Next() {
			r.Unknown()
		}
	})
}

// Enter enters the body's object. A body that is of another kind is refused.
func (r *Reader) Enter() bool {
	switch kind := r.Scanner.Peek(); kind {
	case scan.KindObject:
		return r.Scanner.Object()
	case scan.KindNone:
		r.refuse(server.FaultJSON.With("The body must be a JSON object."))
	default:
		if r.Scanner.Skip() {
			is := WrongType("a JSON object", kind)
			r.refuse(server.FieldsFault([]server.FieldError{{
				Field: "body", Code: is.Code, Message: "the body " + is.Text,
			}}))
		}
	}
	return false
}

// Leave returns what is wrong with the body: its fields first, then what follows the object.
func (r *Reader) Leave() *server.Fault {
	if fault := r.Fault(); fault != nil {
		return fault
	}
	r.Scanner.End()
	return r.Fault()
}

func (r *Reader) refuse(f *server.Fault) {
	r.fault = cmp.Or(r.fault, f)
}

// Next goes to the object's next field; false at its end, or where the text is malformed.
func (r *Reader) Next() (more bool) {
	if r.fault != nil {
		return false
	}
	r.Name, more = r.Scanner.Name(r.first)
	r.first = false
	return more
}

// Malformed reports whether reading stopped before the object's end.
func (r *Reader) Malformed() bool { return r.fault != nil || r.Scanner.Err() != nil }

// Fault returns what is wrong with what was read; nil where nothing is.
func (r *Reader) Fault() *server.Fault {
	switch err := r.Scanner.Err(); {
	case r.fault != nil:
		return r.fault
	case err != nil:
		return server.FaultJSON.With(err.Error())
	case len(r.problems) > 0:
		return server.FieldsFault(slices.Clone(r.problems))
	}
	return nil
}

// Problem notes a mistake that no method finds, about one field or several together.
func (r *Reader) Problem(field string, wrong Mistake) { r.Note(wrong.Of(r.path(field))) }

// Note is Problem in other words.
func (r *Reader) Note(wrong server.FieldError) { r.problems = append(r.problems, wrong) }

// mistake notes what is wrong with the field that the reader is at, which counts as given.
func (r *Reader) mistake(bit uint, wrong Mistake) bool {
	r.fields.given |= 1 << bit
	r.fields.wrong |= 1 << bit
	r.Problem(string(r.Name), wrong)
	return false
}

// path returns a field's name after those of the objects that it is in.
func (r *Reader) path(name string) string {
	if len(r.within) == 0 {
		return name
	}
	return strings.Join(r.within, ".") + "." + name
}

// Unknown notes a field that the object does not have, and passes it. Of the names that it does
// have, the answer suggests the nearest.
func (r *Reader) Unknown(known ...string) {
	if r.repeated < maxRepeated {
		shown := string(r.Name[:min(len(r.Name), 64)])
		r.repeated += len(shown) + 16
		unknown := server.UnknownField(strconv.Quote(shown))
		unknown.Field = cmp.Or(shown, "body")
		if meant := nearest(shown, known); meant != "" {
			unknown.Message += ", did you mean " + strconv.Quote(meant) + "?"
		}
		r.Note(unknown)
	}
	r.Scanner.Skip()
}

// once reports whether the field is there for the first time. A second time is a fault.
func (r *Reader) once(bit uint) bool {
	if r.fields.seen&(1<<bit) != 0 {
		r.refuse(server.FaultJSON.With(
			"The name " + strconv.Quote(string(r.Name)) + " " + server.MoreThanOnce + "."))
		return false
	}
	r.fields.seen |= 1 << bit
	return true
}

// Given reports whether a field was there, right or wrong, and not as null.
func (r *Reader) Given(bit uint) bool { return r.fields.given&(1<<bit) != 0 }

// Right reports whether a field was given and is right.
func (r *Reader) Right(bit uint) bool { return r.fields.given&^r.fields.wrong&(1<<bit) != 0 }

// Need notes a required field that was not given.
func (r *Reader) Need(bit uint, name string) {
	if !r.Given(bit) {
		r.Problem(name, Required)
	}
}

// Null passes a null and reports it, for a field that may be null.
func (r *Reader) Null(bit uint) bool {
	if r.Scanner.Peek() != scan.KindNull || !r.once(bit) {
		return false
	}
	_, ok := r.Scanner.Literal()
	return ok
}

// NotNull notes a null, for a field that can be left out but not be null.
func (r *Reader) NotNull(bit uint) bool {
	return !r.Null(bit) || r.mistake(bit, Null)
}

// expect reports whether a value of a kind follows. It passes any other.
func (r *Reader) expect(bit uint, kind scan.Kind, what string) bool {
	if !r.once(bit) {
		return false
	}
	switch is := r.Scanner.Peek(); is {
	case kind:
		r.fields.given |= 1 << bit
		return true
	case scan.KindNull:
		r.Scanner.Literal()
	case scan.KindNone:
		r.Scanner.Skip()
	default:
		r.mistake(bit, WrongType(what, is))
		r.Scanner.Skip()
	}
	return false
}

// Bytes reads a string of minimum (0 or 1) to limit characters; 0 means no limit. The bytes alias
// the body or the reader.
func (r *Reader) Bytes(bit uint, dst *[]byte, minimum, limit int) bool {
	if !r.expect(bit, scan.KindString, "a string") {
		return false
	}
	value, ok := r.Scanner.Text()
	if !ok {
		return false
	}
	if wrong, ok := CheckText(value, minimum, limit); !ok {
		return r.mistake(bit, wrong)
	}
	*dst = value
	return true
}

// Text is Bytes for a string.
func (r *Reader) Text(bit uint, dst *string, minimum, limit int) bool {
	var value []byte
	if !r.Bytes(bit, &value, minimum, limit) {
		return false
	}
	*dst = string(value)
	return true
}

// Email notes a text that is not of the form name@host. Whether mail arrives, only mail can tell.
func (r *Reader) Email(field, text string) {
	local, host, found := strings.Cut(text, "@")
	if !found || local == "" || host == "" || strings.ContainsAny(text, " \t<>\",;()") ||
		strings.Contains(host, "@") || strings.HasPrefix(host, ".") || strings.HasSuffix(host, ".") {
		r.Problem(field, NotEmail)
	}
}

// UUID reads a UUID.
func (r *Reader) UUID(bit uint, dst *[16]byte) bool {
	if !r.expect(bit, scan.KindString, "a UUID in a string") {
		return false
	}
	value, ok := r.Scanner.Text()
	if !ok {
		return false
	}
	id, valid := server.ParseUUID(value)
	if !valid || id == ([16]byte{}) {
		return r.mistake(bit, NotUUID)
	}
	*dst = id
	return true
}

// Bool reads true or false.
func (r *Reader) Bool(bit uint, dst *bool) bool {
	is := r.Scanner.Peek()
	if is != scan.KindTrue {
		is = scan.KindFalse
	}
	if !r.expect(bit, is, "a boolean") {
		return false
	}
	_, ok := r.Scanner.Literal()
	*dst = is == scan.KindTrue
	return ok
}

// Each reads the objects of an array of at most maximum, each by read, which goes through its
// fields.
func (r *Reader) Each(bit uint, name string, maximum int, read func()) {
	if !r.expect(bit, scan.KindArray, "an array") || !r.Scanner.Array() {
		return
	}
	outer, n := r.fields, 0
	more := false
	for first := true; r.Scanner.Item(first); first = false {
		at := name + "[" + strconv.Itoa(n) + "]"
		switch is := r.Scanner.Peek(); {
		case n == maximum:
			more = true
			r.Scanner.Skip()
			continue
		case is != scan.KindObject:
			r.Problem(at, WrongType("an object", is))
			r.Scanner.Skip()
		case r.Scanner.Object():
			r.within, r.fields, r.first = append(r.within, at), state{}, true
			read()
			r.within = r.within[:len(r.within)-1]
		}
		n++
	}
	if r.fields, r.first = outer, false; more {
		r.Problem(name, TooMany(maximum))
	}
}

// Number reads an exact number.
func (r *Reader) Number(bit uint, dst *decimal.Decimal) bool {
	if !r.expect(bit, scan.KindNumber, "a number") {
		return false
	}
	text, ok := r.Scanner.Number()
	if !ok {
		return false
	}
	value, err := decimal.Parse(text)
	if err != nil {
		return r.mistake(bit, Inexact)
	}
	*dst = value
	return true
}

// NotNegative notes a number below 0.
func (r *Reader) NotNegative(field string, value decimal.Decimal) {
	if value.Sign() < 0 {
		r.Problem(field, Negative)
	}
}

// Uint reads a whole number from minimum to limit.
func Uint[T ~uint8 | ~uint16 | ~uint32 | ~uint64](
	r *Reader, bit uint, dst *T, minimum, limit uint64,
) bool {
	var value decimal.Decimal
	if !r.Number(bit, &value) {
		return false
	}
	n, ok := whole(value)
	if !ok || n < minimum || n > limit {
		return r.mistake(bit, Outside(minimum, limit))
	}
	*dst = T(n)
	return true
}

// whole returns a number without decimal places.
func whole(value decimal.Decimal) (n uint64, ok bool) {
	const one = 1_000_000_000_000
	hi, lo := value.Bits()
	if hi < 0 || hi >= one {
		return 0, false
	}
	n, rest := bits.Div64(uint64(hi), lo, one)
	return n, rest == 0
}

// Enum reads the name of a value; names has them by number, "" where there is no value.
func Enum[T ~uint8](r *Reader, bit uint, dst *T, names []string) bool {
	var text []byte
	if !r.Bytes(bit, &text, 1, maxEnum) {
		return false
	}
	if n := slices.Index(names, string(text)); n >= 0 {
		*dst = T(n)
		return true
	}
	return r.mistake(bit, NotAllowed(slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return name == ""
	})...))
}

// Instant reads an RFC 3339 time as milliseconds since 1970 UTC.
func (r *Reader) Instant(bit uint, dst *int64) bool {
	if !r.expect(bit, scan.KindString, "an RFC 3339 time in a string") {
		return false
	}
	text, ok := r.Scanner.Text()
	if !ok {
		return false
	}
	ms, valid := server.ParseInstant(text)
	if !valid {
		return r.mistake(bit, NotTime)
	}
	*dst = ms
	return true
}

// QueryInstant reads a parameter of a query that is an RFC 3339 time, and reports whether it is
// given.
func (r *Reader) QueryInstant(name, text string, dst *int64) (given bool) {
	if text == "" {
		return false
	}
	// In a query a bare '+' is a space, and offsets are written with it.
	ms, ok := server.ParseInstant([]byte(strings.ReplaceAll(text, " ", "+")))
	if !ok {
		r.Problem(name, NotTime)
		return true
	}
	*dst = ms
	return true
}

// Object reads a free-form object, compact. The bytes are the reader's until the next Begin.
func (r *Reader) Object(bit uint, dst *[]byte) bool {
	if !r.expect(bit, scan.KindObject, "an object") {
		return false
	}
	from := len(r.room)
	var ok bool
	r.room, ok = r.Scanner.AppendCompact(r.room)
	value := r.room[from:len(r.room):len(r.room)]
	if ok && len(value) > MaxObject {
		return r.mistake(bit, LongObject)
	}
	*dst = value
	return ok
}

// Outer is the object around one that Open entered.
type Outer struct {
	fields state
	inside bool
}

// Open enters an object, if one follows. Inside goes through its fields; Close must follow.
func (r *Reader) Open(bit uint, name string) (o Outer) {
	if o.inside = r.expect(bit, scan.KindObject, "an object") && r.Scanner.Object(); o.inside {
		o.fields = r.fields
		r.within, r.fields, r.first = append(r.within, name), state{}, true
	}
	return o
}

// Inside is Next in an object that Open entered.
func (r *Reader) Inside(o *Outer) bool { return o.inside && r.Next() }

// Close goes back to the outer object, and reports whether Open entered one.
func (r *Reader) Close(o Outer) bool {
	if o.inside {
		r.fields, r.first = o.fields, false
		r.within = r.within[:len(r.within)-1]
	}
	return o.inside
}

// Inline enters an object, if one follows, whose fields count as the outer object's. Next goes
// through them; Outside must follow.
func (r *Reader) Inline(bit uint) bool {
	r.first = r.expect(bit, scan.KindObject, "an object") && r.Scanner.Object()
	return r.first
}

// Outside goes back to the outer object.
func (r *Reader) Outside() { r.first = false }
