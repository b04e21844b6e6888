package workspace

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

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
	return badField("invalid_field", fault.Fields[0].Field).Saying(fault.Fields[0].Message + ".")
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

// wants fails for a field, and says what it must be.
func (b *body) wants(name, what string) {
	b.fail(badField("invalid_field", b.within+name).Saying(b.within + name + " must be " + what + "."))
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

// text reads a string of least to most characters.
func (b *body) text(name string, least, most int) string {
	b.used[name] = true
	value, given := b.fields[name]
	if !given && least == 0 {
		return ""
	}
	text, ok := value.(string)
	if !ok || !plain(text, least, most) {
		b.wants(name, fmt.Sprintf("a text of %d to %d characters", least, most))
		return ""
	}
	if least > 0 && !Visible(text) {
		b.wants(name, fmt.Sprintf("a text of %d to %d characters that is not blank", least, most))
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

// Visible reports whether a text has a character that a reader sees.
func Visible(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsGraphic(r) && !unicode.IsSpace(r) && !strings.ContainsRune(blanks, r)
	})
}

// plain reports whether a text has least to most characters and no control characters but line
// breaks and tabs.
func plain(text string, least, most int) bool {
	n := utf8.RuneCountInString(text)
	return n >= least && n <= most && !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r'
	})
}

// number reads a whole number within bounds.
func (b *body) number(name string, least, most int64) int64 {
	b.used[name] = true
	value, ok := b.fields[name].(float64)
	if !ok || value != float64(int64(value)) || int64(value) < least || int64(value) > most {
		b.wants(name, fmt.Sprintf("a whole number from %d to %d", least, most))
		return least
	}
	return int64(value)
}

// truth reads a boolean.
func (b *body) truth(name string) bool {
	b.used[name] = true
	value, ok := b.fields[name].(bool)
	if !ok {
		b.wants(name, "true or false")
	}
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
	fields, ok := b.fields[name].(map[string]any)
	if !ok {
		b.wants(name, "an object")
	}
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
