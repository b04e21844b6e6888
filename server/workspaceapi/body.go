package workspaceapi

import (
	"net/url"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"

	"tollgate/server"
	"tollgate/server/form"
	"tollgate/server/provider/fetch"
	"tollgate/server/scan"
)

// bodyLimit is the size of a request body in bytes (32 KB).
const bodyLimit = 32_768

// body is a request's JSON object, read field by field. The first thing that is wrong stays; a
// field that was not read is unexpected.
type body struct {
	fields map[string]any
	used   map[string]bool
	wrong  *server.Fault
	// unknown refuses what the path names; it is said before all that is wrong.
	unknown *server.Fault
	// within is the name of the object that this is a part of, with a point behind it.
	within string
	// schema states the limits of its fields; nil where the reader has them.
	schema *server.Schema
}

// open reads the body. An empty one is an empty object where that is allowed.
func open(x *server.Exchange, mayBeEmpty bool) *body {
	b := &body{used: map[string]bool{}}
	if x.Route != nil {
		b.schema = x.Route.Body
	}
	if len(x.Body) == 0 && mayBeEmpty {
		return b
	}
	if !isObject(x.Body) || json.Unmarshal(x.Body, &b.fields) != nil {
		b.wrong = no("invalid_json")
	}
	return b
}

// fieldless refuses a body that is neither empty nor an empty object.
func fieldless(x *server.Exchange) *server.Fault { return open(x, true).close() }

// isObject reports whether a body is one JSON object: not nested too deeply, UTF-8, no name twice.
func isObject(body []byte) bool {
	var s scan.Scanner
	s.Reset(body)
	return s.Peek() == scan.KindObject && s.Skip() && s.End()
}

// readBody reads a body by its generated reader. Of all that is wrong it returns an unexpected
// field, or else the first mistake.
func readBody[T any](x *server.Exchange, v *T, fields func(*form.Reader, *T)) *server.Fault {
	if !isObject(x.Body) {
		return no("invalid_json")
	}
	fault := form.Read(x.Body, v, fields)
	if fault == nil {
		return nil
	}
	unexpected := ""
	for _, wrong := range fault.Fields {
		if wrong.Code == server.FieldUnknown && (unexpected == "" || wrong.Field < unexpected) {
			unexpected = wrong.Field
		}
	}
	if unexpected != "" {
		return badField("unexpected_field", unexpected)
	}
	return wrongField(fault.Fields[0])
}

func (b *body) fail(r *server.Fault) {
	if b.wrong == nil {
		b.wrong = r
	}
}

// refuse fails for a field, with a code of its own, where something is so.
func (b *body) refuse(is bool, code, field string) {
	if is {
		b.fail(badField(code, field))
	}
}

// mistake fails for a field.
func (b *body) mistake(name string, wrong form.Mistake) {
	b.fail(wrongField(wrong.Of(b.within + name)))
}

// wrongField is a refusal that says what is wrong with its field.
func wrongField(wrong server.FieldError) *server.Fault {
	f := badField("invalid_field", wrong.Field).Saying(wrong.Message + ".")
	f.Fields = []server.FieldError{wrong}
	return f
}

// valueOf is a field's value, which must be there and be of a type, the kind.
func valueOf[T any](b *body, name, kind string) (value T, ok bool) {
	b.used[name] = true
	is, given := b.fields[name]
	switch value, ok = is.(T); {
	case ok:
	case !given:
		b.mistake(name, form.Required)
	case is == nil:
		b.mistake(name, form.Null)
	default:
		b.mistake(name, form.WrongType(kind, kindOf(is)))
	}
	return value, ok
}

// kindOf is the kind of a value that json has read.
func kindOf(value any) scan.Kind {
	switch value.(type) {
	case bool:
		return scan.KindTrue
	case float64:
		return scan.KindNumber
	case string:
		return scan.KindString
	case []any:
		return scan.KindArray
	}
	return scan.KindObject
}

// has reports whether a field is there and not null.
func (b *body) has(name string) bool {
	b.used[name] = true
	return b.fields[name] != nil
}

// given reports whether a field is there, if only as null.
func (b *body) given(name string) bool {
	_, there := b.fields[name]
	return there
}

// taken reports whether a field is there as null, which in a change takes away what was there.
func (b *body) taken(name string) bool {
	b.used[name] = true
	return b.given(name) && b.fields[name] == nil
}

// text reads a string of least (0 or 1) to most characters.
func (b *body) text(name string, minimum, maximum int) string {
	if !b.given(name) && minimum == 0 {
		return ""
	}
	text, ok := valueOf[string](b, name, "a string")
	if !ok {
		return ""
	}
	if wrong, ok := checkVisible(text, minimum, maximum); !ok {
		b.mistake(name, wrong)
		return ""
	}
	return text
}

// stated reads a string within the limits that the request's schema states.
func (b *body) stated(name string) string {
	s := b.schema.Property(name)
	return b.text(name, s.MinLength, s.MaxLength)
}

// blanks are characters that Unicode counts as graphic and that show nothing: fillers of Hangul,
// and the blank pattern of Braille.
const blanks = "\u115f\u1160\u2800\u3164\uffa0"

// visible reports whether a text has a character that a reader sees.
func visible(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsGraphic(r) && !unicode.IsSpace(r) && !strings.ContainsRune(blanks, r)
	})
}

// breaks are the control characters that texts of several lines have.
var breaks = strings.NewReplacer("\n", " ", "\r", " ", "\t", " ")

// checkText is form.CheckText for a text that may have several lines.
func checkText(text string, minimum, maximum int) (wrong form.Mistake, ok bool) {
	return form.CheckText(breaks.Replace(text), minimum, maximum)
}

// checkVisible is checkText for a text that people read: one that must not be empty must not be
// blank.
func checkVisible(text string, minimum, maximum int) (wrong form.Mistake, ok bool) {
	if wrong, ok = checkText(text, minimum, maximum); ok && minimum > 0 && !visible(text) {
		return form.Blank, false
	}
	return wrong, ok
}

// number reads a whole number within bounds.
func (b *body) number(name string, minimum, maximum int64) int64 {
	value, ok := valueOf[float64](b, name, "a number")
	if ok && (value != float64(int64(value)) || int64(value) < minimum || int64(value) > maximum) {
		b.mistake(name, form.Outside(minimum, maximum))
		ok = false
	}
	if !ok {
		return minimum
	}
	return int64(value)
}

// truth reads a boolean.
func (b *body) truth(name string) bool {
	value, _ := valueOf[bool](b, name, "a boolean")
	return value
}

// address reads a public http or https address without credentials. It may have the port that is
// given as well as 80, 443 and those that are configured; its own where own is true.
func (b *body) address(a *base, name string, port uint16, own bool) string {
	text := b.text(name, 1, 2048)
	if text == "" {
		return ""
	}
	b.refuse(!a.webAddress(text, port, own), "invalid_url", b.within+name)
	return text
}

// webAddress reports whether a text is a public http or https address without credentials; see
// address.
func (b *base) webAddress(text string, port uint16, own bool) bool {
	u, err := url.Parse(text)
	if err == nil && own {
		port = fetch.PortIn(u)
	}
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" &&
		u.User == nil && b.reachable(u, port)
}

// reachable reports whether an address may be fetched, where this port is allowed too.
func (b *base) reachable(u *url.URL, port uint16) bool {
	return b.check == nil || b.check(u.String(), port) == nil
}

// inner reads a field that is an object; nil when it is absent.
func (b *body) inner(name string) *body {
	if !b.has(name) {
		return nil
	}
	fields, _ := valueOf[map[string]any](b, name, "an object")
	made := &body{fields: fields, used: map[string]bool{}, within: b.within + name + "."}
	if b.schema != nil {
		made.schema = b.schema.Property(name)
	}
	return made
}

// close fails for a field that was not read.
func (b *body) close() *server.Fault {
	first := ""
	for field := range b.fields {
		if !b.used[field] && (first == "" || field < first) {
			first = field
		}
	}
	if first != "" {
		// A field that does not belong here is said before one that is wrong, but after a body that
		// is not an object, and after a secret.
		if b.wrong == nil || b.wrong.Code != "invalid_json" && b.wrong.Code != "credentials_not_allowed" {
			b.wrong = badField("unexpected_field", b.within+first)
		}
	}
	return b.wrong
}

// chosen is the workspace that a body is about: the one that its key or session works in, or
// another one of a person's.
func (b *base) chosen(x *server.Exchange, from *body) uint32 {
	if !person(x) || !from.has("workspace") {
		return tenant(x).Workspace
	}
	id, ok := parseID(markWorkspace, from.text("workspace", 1, 64))
	if !ok {
		from.fail(badField("invalid_field", "workspace"))
		return 0
	}
	return b.machine.WorkspaceRow(id) // of another's, or of none, the act is refused
}
