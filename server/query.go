package server

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"tollgate/server/ascii"
)

// maxWrongParameters bounds what an answer says about a query, in parameters.
const maxWrongParameters = 20

// checkQuery refuses a query parameter that appears more than once: which one was meant is not for
// us to guess. Where the table says so it refuses a parameter that the route does not state, since
// a misspelt filter would answer everything, and an empty one.
func (x *Exchange) checkQuery() *Fault {
	if bytes.IndexByte(x.Ctx.Request.Header.RequestURI(), '?') < 0 {
		return nil
	}
	strict := x.table.config.KnownQuery && x.shape == ShapeEnvelope
	var wrong []FieldError
	seen := map[string]bool{}
	for name, value := range x.Ctx.QueryArgs().All() {
		if len(wrong) == maxWrongParameters {
			break
		}
		field := string(name[:min(len(name), 64)])
		is := FieldError{Field: cmp.Or(field, "query"), Message: strconv.Quote(field)}
		switch known := slices.Contains(x.Route.query, string(name)); {
		case seen[string(name)]:
			is.Code, is.Message = FieldRepeated, "the query parameter "+is.Message+" "+MoreThanOnce
			wrong = append(wrong, is)
		case strict && !known:
			is.Code = FieldUnknown
			is.Message += " is not a query parameter of this request" + x.Route.queryNames()
			wrong = append(wrong, is)
		case strict && len(value) == 0:
			is.Code, is.Message = FieldEmpty, field+" must not be empty: leave it out instead"
			wrong = append(wrong, is)
		}
		seen[string(name)] = true
	}
	if len(wrong) == 0 {
		return nil
	}
	return FieldsFault(wrong)
}

// WholeNumber reads a number of a query: digits alone, without a sign and without zeros before it;
// false where it is another text or outside of minimum to maximum.
func WholeNumber(text string, minimum, maximum uint64) (n uint64, ok bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	plain := err == nil && text[0] != '+' && (text[0] != '0' || text == "0")
	return n, plain && minimum <= n && n <= maximum
}

// queryNames says which parameters a route takes.
func (r *Route) queryNames() string {
	if len(r.query) == 0 {
		return ", which takes none"
	}
	return ", which takes " + strings.Join(r.query, ", ")
}

// Cursor reads a cursor as Base64 for URLs writes it, and in no other spelling of the same bytes:
// the decoder skips line ends and ignores spare bits.
func Cursor(text string) (b []byte, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	return b, err == nil && base64.RawURLEncoding.EncodeToString(b) == text
}

// maxOnce is the length of an Idempotency-Key in bytes.
const maxOnce = 255

// RequestKey describes Idempotency-Key in a route table.
var RequestKey = Param{
	In: "header", Name: "Idempotency-Key", Schema: TextSchema(1, maxOnce),
	About: "the same key and request within 24 hours: nothing is done again, and the first answer " +
		"comes once more, with Idempotency-Replayed: true",
}

// OnceKey is a request's Idempotency-Key; empty when it has none.
func OnceKey(x *Exchange) ([]byte, *Fault) {
	key, one := SoleHeader(x.Ctx, "Idempotency-Key")
	if !one {
		return nil, RepeatedHeader("Idempotency-Key")
	}
	given := len(x.Ctx.Request.Header.PeekAll("Idempotency-Key")) > 0
	if given && !ascii.Visible(key, maxOnce) {
		return nil, FieldFault("Idempotency-Key", FieldFormat, "must be 1–255 visible ASCII characters")
	}
	return key, nil
}
