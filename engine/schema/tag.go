// Package schema defines the struct tags that state a noun or a request once. cmd/generate reads
// them and writes what would otherwise be stated again by hand.
package schema

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Tag is what the tags of one field state.
//
//	wire:"6"        the field's number in the wire format (engine/wire)
//	wire:",inline"  the fields of a nested struct, under their own numbers
type Tag struct {
	Wire   int
	Inline bool
}

// Parse reads the tags of a field.
func Parse(text reflect.StructTag) (Tag, error) {
	var t Tag
	p := parser{text: text}
	p.key("wire", func(n string) { t.Wire = p.number(n) }, map[string]func(string){
		"inline": flag(&t.Inline),
	})
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
