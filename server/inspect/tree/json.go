package tree

import (
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

type jsonReader struct {
	text string
	in   *jsontext.Decoder
	// shift is where text begins in the document.
	shift int32
	left  int
	// path is that of the value that is read, where there is an omit to ask.
	path []string
	omit func(path []string) bool
}

func parseJSON(text string, omit func(path []string) bool) (*Node, error) {
	// A byte order mark is not JSON, and yet it is sent.
	body := strings.TrimPrefix(text, "\ufeff")
	r := &jsonReader{
		text: body, shift: int32(len(text) - len(body)), left: MaxNodes, omit: omit,
		in: jsontext.NewDecoder(strings.NewReader(body), jsontext.AllowDuplicateNames(true),
			jsontext.AllowInvalidUTF8(true)),
	}
	root := &Node{}
	if err := r.value(root, r.start(), 0); err != nil {
		return nil, err
	}
	if _, err := r.in.ReadToken(); err != io.EOF {
		return nil, ErrMalformed
	}
	return root, nil
}

// start is where the next token begins, and end where the last one ends.
func (r *jsonReader) start() int32 {
	at := int(r.in.InputOffset())
	for at < len(r.text) && strings.IndexByte(" \t\r\n,:", r.text[at]) >= 0 {
		at++
	}
	return int32(at) + r.shift
}

func (r *jsonReader) end() int32 { return int32(r.in.InputOffset()) + r.shift }

func (r *jsonReader) value(n *Node, from int32, depth int) error {
	if r.left--; r.left < 0 || depth > MaxDepth {
		return ErrTooComplex
	}
	token, err := r.in.ReadToken()
	if err != nil {
		return ErrMalformed
	}
	n.from = from
	switch token.Kind() {
	case 'n':
		n.Kind = Null
	case 't', 'f':
		n.Kind, n.Value = Bool, token.String()
	case '0':
		n.Kind, n.Value = Number, token.String()
	case '"':
		n.Kind, n.Value = Text, token.String()
	case '[':
		n.Kind = List
		err = r.list(n, depth)
	case '{':
		n.Kind = Map
		err = r.object(n, depth)
	default:
		return ErrMalformed
	}
	n.to = r.end()
	return err
}

func (r *jsonReader) list(n *Node, depth int) error {
	for r.in.PeekKind() != ']' {
		n.Items = append(n.Items, Node{})
		if err := r.value(&n.Items[len(n.Items)-1], r.start(), depth+1); err != nil {
			return err
		}
	}
	return r.close()
}

func (r *jsonReader) object(n *Node, depth int) error {
	for r.in.PeekKind() != '}' {
		from := r.start()
		key, err := r.in.ReadToken()
		if err != nil || key.Kind() != '"' {
			return ErrMalformed
		}
		n.Keys = append(n.Keys, key.String())
		n.Items = append(n.Items, Node{})
		if err := r.member(n, from, depth+1); err != nil {
			return err
		}
	}
	n.index()
	return r.close()
}

// member reads the value of the newest name of an object.
func (r *jsonReader) member(n *Node, from int32, depth int) error {
	value := &n.Items[len(n.Items)-1]
	if r.omit == nil {
		return r.value(value, from, depth)
	}
	r.path = append(r.path, n.Keys[len(n.Keys)-1])
	defer func() { r.path = r.path[:len(r.path)-1] }()
	if !r.omit(r.path) {
		return r.value(value, from, depth)
	}
	if r.left--; r.left < 0 {
		return ErrTooComplex
	}
	if err := r.in.SkipValue(); err != nil {
		return ErrMalformed
	}
	value.Kind, value.from, value.to = Unresolved, from, r.end()
	return nil
}

// close reads the end of a list or an object.
func (r *jsonReader) close() error {
	if _, err := r.in.ReadToken(); err != nil {
		return ErrMalformed
	}
	return nil
}
