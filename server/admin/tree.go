package admin

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"tollgate/engine/decimal"
	"tollgate/server"
	"tollgate/server/form"
	"tollgate/server/scan"
)

// tree is a document, JSON or YAML alike, with numbers kept as they are written.
type tree struct {
	kind  scan.Kind
	text  string // of strings and numbers
	names []string
	items []*tree // values of an object, elements of an array
	// at is where the value begins in a JSON document; line and column are its place in a YAML
	// document, from 1.
	at, line, column int
}

// parseJSON reads a document strictly.
func parseJSON(body []byte) (*tree, error) {
	var s scan.Scanner
	s.Reset(body)
	t := &tree{}
	if !t.scan(&s) || !s.End() {
		return nil, s.Err()
	}
	return t, nil
}

func (t *tree) scan(s *scan.Scanner) bool {
	t.kind = s.Peek()
	t.at = s.Pos()
	switch t.kind {
	case scan.KindString:
		text, ok := s.Text()
		t.text = string(text)
		return ok
	case scan.KindNumber:
		text, ok := s.Number()
		t.text = string(text)
		return ok
	case scan.KindArray:
		if !s.Array() {
			return false
		}
		for first := true; s.Item(first); first = false {
			item := &tree{}
			t.items = append(t.items, item)
			if !item.scan(s) {
				return false
			}
		}
		return s.Err() == nil
	case scan.KindObject:
		return t.scanObject(s)
	default:
		_, ok := s.Literal()
		return ok
	}
}

func (t *tree) scanObject(s *scan.Scanner) bool {
	if !s.Object() {
		return false
	}
	for first := true; ; first = false {
		name, more := s.Name(first)
		if !more {
			return s.Err() == nil
		}
		item := &tree{}
		t.names, t.items = append(t.names, string(name)), append(t.items, item)
		if !item.scan(s) {
			return false
		}
	}
}

// parseYAML reads one YAML document. Anchors, aliases and tags of one's own are refused: they let a
// small text stand for a huge one.
func parseYAML(body []byte) (*tree, error) {
	decoder := yaml.NewDecoder(strings.NewReader(string(body)))
	var root yaml.Node
	if err := decoder.Decode(&root); errors.Is(err, io.EOF) {
		return nil, errors.New("the body must be a document, and there is nothing in it")
	} else if err != nil {
		return nil, err
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one YAML document")
	}
	return fromYAML(root.Content[0], 0)
}

func fromYAML(n *yaml.Node, depth int) (*tree, error) {
	if depth > scan.MaxDepth {
		return nil, fmt.Errorf("line %d: nested too deeply", n.Line)
	}
	if n.Anchor != "" {
		return nil, fmt.Errorf("line %d: anchors and aliases are not taken", n.Line)
	}
	t := &tree{text: n.Value, line: n.Line, column: n.Column}
	switch n.Kind {
	case yaml.SequenceNode:
		t.kind = scan.KindArray
	case yaml.MappingNode:
		t.kind = scan.KindObject
	case yaml.ScalarNode:
		return t, t.scalar(n)
	default:
		return nil, fmt.Errorf("line %d: anchors and aliases are not taken", n.Line)
	}
	for i, child := range n.Content {
		if t.kind == scan.KindObject && i%2 == 0 {
			if child.Kind != yaml.ScalarNode || child.Tag == "!!merge" {
				return nil, fmt.Errorf("line %d: a name must be plain", child.Line)
			}
			t.names = append(t.names, child.Value)
			continue
		}
		item, err := fromYAML(child, depth+1)
		if err != nil {
			return nil, err
		}
		t.items = append(t.items, item)
	}
	return t, nil
}

func (t *tree) scalar(n *yaml.Node) error {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		t.kind = scan.KindString
	case "!!int", "!!float":
		t.kind = scan.KindNumber
	case "!!null":
		t.kind = scan.KindNull
	case "!!bool":
		t.kind = scan.KindFalse
		if strings.EqualFold(n.Value, "true") {
			t.kind = scan.KindTrue
		}
	default:
		return fmt.Errorf("line %d: the tag %s is not taken", n.Line, n.Tag)
	}
	return nil
}

// walk reads a tree into structs and collects everything that is wrong, with its place.
type walk struct {
	problems []server.FieldError
	omitted  int // problems beyond maxProblems
	// root is what was read.
	root *tree
}

// maxProblems bounds the answer to a document in which all is wrong.
const maxProblems = 200

func (w *walk) problem(place string, code server.FieldCode, format string, args ...any) {
	field := cmp.Or(strings.TrimPrefix(place, "."), "body")
	w.note(server.FieldError{
		Field: field, Code: code, Message: field + " " + fmt.Sprintf(format, args...),
	})
}

// when notes a problem where something is so.
func (w *walk) when(is bool, place string, code server.FieldCode, format string, args ...any) {
	if is {
		w.problem(place, code, format, args...)
	}
}

// wrong notes a mistake where something is so.
func (w *walk) wrong(is bool, place string, m form.Mistake) {
	if is {
		w.problem(place, m.Code, "%s", m.Text)
	}
}

func (w *walk) unknown(place string) {
	w.note(server.UnknownField(strings.TrimPrefix(place, ".")))
}

func (w *walk) note(wrong server.FieldError) {
	if len(w.problems) >= maxProblems {
		w.omitted++
		return
	}
	w.problems = append(w.problems, wrong)
}

// fault is nil when nothing was wrong.
func (w *walk) fault() *server.Fault {
	if len(w.problems) == 0 {
		return nil
	}
	return server.FieldsFault(w.problems)
}

// reader reads the value at a place.
type reader func(t *tree, place string)

// object reads the fields of an object; unknown and doubled names are problems.
func (w *walk) object(t *tree, place string, fields map[string]reader) {
	if t.kind != scan.KindObject {
		w.wrong(true, place, form.WrongType("an object", t.kind))
		return
	}
	seen := make(map[string]bool, len(fields))
	for i, name := range t.names {
		read, known := fields[name]
		switch {
		case seen[name]:
			w.problem(place+"."+name, server.FieldRepeated, server.MoreThanOnce)
		case !known:
			w.unknown(place + "." + strconv.Quote(name))
		case t.items[i].kind != scan.KindNull:
			read(t.items[i], place+"."+name)
		}
		seen[name] = true
	}
}

// array reads each element of an array.
func (w *walk) array(each func(t *tree, place string)) reader {
	return func(t *tree, place string) {
		if t.kind != scan.KindArray {
			w.wrong(true, place, form.WrongType("an array", t.kind))
			return
		}
		for i, item := range t.items {
			each(item, place+"["+strconv.Itoa(i)+"]")
		}
	}
}

// appendCompact writes the tree as compact JSON, for documents that are stored as they are.
func (w *walk) appendCompact(dst []byte, t *tree, place string) []byte {
	switch t.kind {
	case scan.KindNull:
		return append(dst, "null"...)
	case scan.KindTrue:
		return append(dst, "true"...)
	case scan.KindFalse:
		return append(dst, "false"...)
	case scan.KindString:
		return server.AppendString(dst, t.text)
	case scan.KindNumber:
		value, err := decimal.Parse(t.text)
		w.wrong(err != nil, place, form.Inexact)
		return value.AppendTo(dst)
	case scan.KindArray:
		dst = append(dst, '[')
		for i, item := range t.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = w.appendCompact(dst, item, place+"["+strconv.Itoa(i)+"]")
		}
		return append(dst, ']')
	}
	return w.appendObject(dst, t, place)
}

// appendObject writes the names in order, so that the same object is the same text however a
// client or a YAML library orders it, and applying it again changes nothing.
func (w *walk) appendObject(dst []byte, t *tree, place string) []byte {
	order := make([]int, len(t.names))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(t.names[a], t.names[b]) })
	dst = append(dst, '{')
	for k, i := range order {
		name := t.names[i]
		if k > 0 {
			dst = append(dst, ',')
			w.when(t.names[order[k-1]] == name, place+"."+name, server.FieldRepeated, server.MoreThanOnce)
		}
		dst = append(server.AppendString(dst, name), ':')
		dst = w.appendCompact(dst, t.items[i], place+"."+name)
	}
	return append(dst, '}')
}

// body reads a request's document into the walk's fields; those that are required must be there.
func body(
	x *server.Exchange, w *walk, fields map[string]reader, required ...string,
) *server.Fault {
	return w.document(x.Body, x.Media() != "application/json", fields, required...)
}

var faultYAML = server.NewFault(400, "malformed_yaml", "Malformed YAML")

// document reads a document, in YAML or in JSON.
func (w *walk) document(
	text []byte, inYAML bool, fields map[string]reader, required ...string,
) *server.Fault {
	if len(text) == 0 {
		return server.FaultJSON.With("The body must be a document.")
	}
	parse := parseJSON
	if inYAML {
		parse = parseYAML
	}
	t, err := parse(text)
	if err != nil {
		if inYAML {
			return faultYAML.With(err.Error())
		}
		return server.FaultJSON.With(err.Error())
	}
	if t.kind != scan.KindObject {
		w.wrong(true, "", form.WrongType("an object", t.kind))
		return w.fault()
	}
	w.root = t
	w.object(t, "", fields)
	for _, name := range required {
		if i := slices.Index(t.names, name); i < 0 || t.items[i].kind == scan.KindNull {
			w.wrong(true, name, form.Required)
		}
	}
	return w.fault()
}

// fieldless judges the body of a request that needs none: an object without fields.
func fieldless(x *server.Exchange) *server.Fault { return body(x, new(walk), nil) }
