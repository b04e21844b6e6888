// Package schema defines the struct tags that state a noun or a request once. cmd/generate reads
// them and writes what would otherwise be stated again by hand. It also words what can be wrong
// with a field, for all that read one.
package schema

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Tag is what the tags of one field state.
//
//	wire:"6"         the field's number in the wire format (engine/wire)
//	  ,since=2       the first cluster version in which the field may have a value
//	wire:",inline"   the fields of a nested struct, under their own numbers
//	json:"name"      its name in requests and answers; "a.name" stands in an object a
//	  ,omitzero      an answer leaves it out when it is zero
//	  ,string        a number that an answer writes as a string
//	rule:"required"  a request must have it
//	  ,null          null is a value: in a change it empties, in an answer it is zero
//	  ,min=1,max=64  limits: the characters of a text, the value of a number
//	  ,default=7     its value where a request leaves it out
//	  ,email         a text of the form name@host
//	  ,oneof=A|B     a text that is one of these
//	as:"time"        an int64 that is milliseconds since 1970 UTC; answers leave out 0
//	as:"object"      bytes that are a compact JSON object
//	as:"list"        bytes that are small numbers: an array; answers leave out an empty one
//	as:"text"        an enum whose values the schema lists as oneof does, or not at all
//	as:"flag"        a number of which an answer says only that it is not zero
//	in:"whole"       an answer leaves out the object around it when it is zero, or its if is not so
//	in:"after=b"     an answer has it behind this field, not where the struct has it
//	id:"markFlow"    an id that is written with this prefix
//	if:"HasAddress"  the field, or method with (), that reports whether an answer has this one
//	ref:"Plan"       the shared schema of a nested object, or of a list's items
//	with:"writeTier" the function that writes it, by hand; one of another package below server/ with
//	                 that package's name, as in "billingview.WriteInvoice"
//	bit:"CustomerEmail"  its constant in the flags of a command
//	bits:"given"     flags of what a request has
//	bits:"empty"     flags of texts that it has as ""
type Tag struct {
	Wire, Since int
	Inline      bool

	Within, Name     string
	OmitZero, String bool
	Whole            bool
	After            string

	Required bool
	Null     bool
	Email    bool
	Min, Max int
	HasMin   bool
	Default  string
	OneOf    string // separated by |

	As, ID, If, Ref, With string
	Bit, Bits             string
}

// Parse reads the tags of a field.
func Parse(text reflect.StructTag) (Tag, error) {
	var t Tag
	p := parser{text: text}
	p.key("wire", func(n string) { t.Wire = p.number(n) }, map[string]func(string){
		"inline": flag(&t.Inline),
		"since":  func(n string) { t.Since = p.number(n) },
	})
	p.key("json", func(name string) {
		if within, inner, found := strings.Cut(name, "."); found {
			t.Within, name = within, inner
		}
		t.Name = name
	}, map[string]func(string){
		"omitzero": flag(&t.OmitZero), "string": flag(&t.String),
		"omitempty": func(string) {}, // of structs that encoding/json reads
	})
	p.key("in", nil, map[string]func(string){
		"whole": flag(&t.Whole),
		"after": func(name string) { t.After = name },
	})
	p.key("rule", nil, map[string]func(string){
		"required": flag(&t.Required),
		"null":     flag(&t.Null),
		"email":    flag(&t.Email),
		"min":      func(n string) { t.Min, t.HasMin = p.number(n), true },
		"max":      func(n string) { t.Max = p.number(n) },
		"default":  func(value string) { t.Default = value },
		"oneof":    func(values string) { t.OneOf = values },
	})
	t.As, t.ID, t.If = text.Get("as"), text.Get("id"), text.Get("if")
	t.Ref, t.With = text.Get("ref"), text.Get("with")
	t.Bit, t.Bits = text.Get("bit"), text.Get("bits")
	return t, p.err
}

// parser reads one field's tags. Its first error stays.
type parser struct {
	text reflect.StructTag
	at   string // the key that is being read
	err  error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(p.at+": "+format, args...)
	}
}

func (p *parser) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		p.fail("%q is not a number", text)
	}
	return n
}

// key reads a tag of the form first,option,option=value.
func (p *parser) key(name string, first func(string), options map[string]func(string)) {
	p.at = name
	words := strings.Split(p.text.Get(name), ",")
	if words[0] != "" && first != nil {
		first(words[0])
		words = words[1:]
	}
	for _, word := range words {
		option, value, _ := strings.Cut(word, "=")
		switch set := options[option]; {
		case word == "":
		case set == nil:
			p.fail("unknown option %q", word)
		default:
			set(value)
		}
	}
}

func flag(b *bool) func(string) { return func(string) { *b = true } }
