// Package tree reads JSON and YAML into one bounded tree that knows where each value is in its
// text, so that a fact can quote it. It is tolerant: names that occur twice, text that is not
// UTF-8, aliases and merge keys are taken; what is too large or malformed is an error, not a part.
package tree

import (
	"errors"
	"net/url"
	"strings"
)

// Bounds of a document.
const (
	// MaxNodes is how many values a document may have.
	MaxNodes = 150_000
	// MaxDepth is how deep they may lie.
	MaxDepth = 100
	// maxMarks bounds a YAML text before it is parsed: each line break, comma, opening bracket and
	// dash makes at most two nodes of the YAML library, of some 180 bytes each.
	maxMarks = 125_000
)

// Errors of Parse.
var (
	ErrMalformed  = errors.New("tree: neither JSON nor YAML")
	ErrTooComplex = errors.New("tree: more values, or deeper, than are read")
)

// Kind is what a value is.
type Kind uint8

// The kinds. Unresolved is an alias within its own anchor, or what was left out.
const (
	Null Kind = iota
	Bool
	Number
	Text
	List
	Map
	Unresolved
)

// Node is a value. The nodes of a tree are shared where YAML shares them: do not change them.
type Node struct {
	Kind Kind
	// from and to are where it is in the text, its key included.
	from, to int32
	// Value is a scalar's text: true, 12, what stood between the quotes.
	Value string
	// Keys are the names of a map's items.
	Keys  []string
	Items []Node
	// named finds the items of a map that has many.
	named map[string]int32
}

// fewKeys is how many names of a map are compared one by one.
const fewKeys = 16

// index makes a map that has many names as quick to ask as one that has few: a hostile document
// asks one map of a hundred thousand names a hundred thousand times.
func (n *Node) index() {
	if len(n.Keys) <= fewKeys {
		return
	}
	n.named = make(map[string]int32, len(n.Keys))
	for i, key := range n.Keys {
		n.named[key] = int32(i)
	}
}

// Parse reads a document: JSON where it begins like JSON, else YAML.
func Parse(text string) (*Node, error) { return ParseWithout(text, nil) }

// ParseWithout is Parse that leaves out of JSON what the reader has no use for: omit is asked about
// the path of each member of an object, and what it omits is Unresolved and counts as one value. A
// nil omit leaves nothing out; YAML is read whole.
func ParseWithout(text string, omit func(path []string) bool) (*Node, error) {
	trimmed := strings.TrimLeft(text, " \t\r\n\ufeff")
	if trimmed == "" {
		return nil, ErrMalformed
	}
	if trimmed[0] == '{' || trimmed[0] == '[' {
		root, err := parseJSON(text, omit)
		if err == nil || errors.Is(err, ErrTooComplex) {
			return root, err
		}
	}
	return parseYAML(text)
}

// ParseJSON reads a JSON document.
func ParseJSON(text string) (*Node, error) { return parseJSON(text, nil) }

// Of is the value of a name in a map; nil if there is none. Of two with one name it is the last.
// A nil node has nothing.
func (n *Node) Of(name string) *Node {
	if n == nil || n.Kind != Map {
		return nil
	}
	if n.named != nil {
		if i, is := n.named[name]; is {
			return &n.Items[i]
		}
		return nil
	}
	for i := len(n.Keys) - 1; i >= 0; i-- {
		if n.Keys[i] == name {
			return &n.Items[i]
		}
	}
	return nil
}

// TextOf is the text of a name in a map; empty if there is none or it is not text.
func (n *Node) TextOf(name string) string { return n.Of(name).AsText() }

// AsText is the value of a text; empty where it is none.
func (n *Node) AsText() string {
	if n == nil || n.Kind != Text {
		return ""
	}
	return n.Value
}

// AsScalar is the value of a text or a number; empty where it is neither.
func (n *Node) AsScalar() string {
	if n == nil || n.Kind != Text && n.Kind != Number {
		return ""
	}
	return n.Value
}

// Is reports whether the value is there and of a kind.
func (n *Node) Is(kind Kind) bool { return n != nil && n.Kind == kind }

// List is the items of a list; none where it is not a list.
func (n *Node) List() []Node {
	if n == nil || n.Kind != List {
		return nil
	}
	return n.Items
}

// Follow is what a JSON pointer within the document (#/a/b) leads to; nil where it leads nowhere or
// out of the document.
func (n *Node) Follow(reference string) *Node {
	path, inner := strings.CutPrefix(reference, "#/")
	if !inner {
		return nil
	}
	path, err := url.PathUnescape(path)
	if err != nil {
		return nil
	}
	for _, step := range strings.Split(path, "/") {
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		if n = n.Of(step); n == nil {
			return nil
		}
	}
	return n
}

// Quote is the value as it is written, at most maximum bytes of it.
func (n *Node) Quote(text string, maximum int) string {
	if n == nil || int(n.to) > len(text) || n.from >= n.to {
		return ""
	}
	return Cut(text[n.from:n.to], maximum)
}

// Cut is at most the first maximum bytes of a text, without half a character at the end.
func Cut(text string, maximum int) string {
	if len(text) <= maximum {
		return text
	}
	for maximum > 0 && text[maximum]&0xc0 == 0x80 {
		maximum--
	}
	return text[:maximum]
}
