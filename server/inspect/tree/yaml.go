package tree

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

type yamlReader struct {
	text string
	// lines are the lines of the text.
	lines []place
	left  int
	// made are the anchors that were read; one that is being read is nil.
	made map[*yaml.Node]*Node
}

// place is a line without the space about it: from..to of the text.
type place struct{ from, to int32 }

func parseYAML(text string) (*Node, error) {
	marks := strings.Count(text, "\n") + strings.Count(text, ",") + strings.Count(text, "[") +
		strings.Count(text, "{") + strings.Count(text, "- ") + strings.Count(text, "? ")
	if marks > maxMarks {
		return nil, ErrTooComplex
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil || len(document.Content) == 0 {
		return nil, ErrMalformed
	}
	r := &yamlReader{
		text: text, left: MaxNodes, made: map[*yaml.Node]*Node{}, lines: linesOf(text),
	}
	root := &Node{}
	if err := r.value(root, document.Content[0], document.Content[0], 0); err != nil {
		return nil, err
	}
	if root.Kind != Map && root.Kind != List {
		return nil, ErrMalformed // any text is a YAML scalar
	}
	return root, nil
}

// linesOf looks at each line once: one of a million spaces may hold a hundred thousand values.
func linesOf(text string) []place {
	lines := make([]place, 0, strings.Count(text, "\n")+1)
	from := 0
	for line := range strings.Lines(text) {
		begin := from + len(line) - len(strings.TrimLeft(line, " \t\ufeff"))
		end := from + len(strings.TrimRight(line, " \t\r\n"))
		lines = append(lines, place{int32(begin), int32(end)})
		from += len(line)
	}
	return lines
}

// place notes the line on which a value, or its key, begins.
func (r *yamlReader) place(n *Node, at *yaml.Node) {
	if at.Line >= 1 && at.Line <= len(r.lines) {
		n.from, n.to = r.lines[at.Line-1].from, r.lines[at.Line-1].to
	}
}

func (r *yamlReader) value(n *Node, y, at *yaml.Node, depth int) error {
	if y.Kind == yaml.AliasNode {
		return r.alias(n, y, at, depth)
	}
	if r.left--; r.left < 0 || depth > MaxDepth {
		return ErrTooComplex
	}
	if y.Anchor != "" {
		r.made[y] = nil
	}
	var err error
	switch y.Kind {
	case yaml.ScalarNode:
		n.Kind, n.Value = scalarKind(y), y.Value
	case yaml.SequenceNode:
		n.Kind, n.Items = List, make([]Node, len(y.Content))
		for i, item := range y.Content {
			if err == nil {
				err = r.value(&n.Items[i], item, item, depth+1)
			}
		}
	case yaml.MappingNode:
		n.Kind = Map
		err = r.mapping(n, y, depth)
	default:
		return ErrMalformed
	}
	r.place(n, at)
	if y.Anchor != "" {
		made := *n
		r.made[y] = &made
	}
	return err
}

func scalarKind(y *yaml.Node) Kind {
	switch y.ShortTag() {
	case "!!null":
		return Null
	case "!!bool":
		return Bool
	case "!!int", "!!float":
		return Number
	default:
		return Text
	}
}

// alias shares what its anchor made: a thousand aliases of a thousand aliases are a thousand nodes.
func (r *yamlReader) alias(n *Node, y, at *yaml.Node, depth int) error {
	if r.left--; r.left < 0 || depth > MaxDepth {
		return ErrTooComplex
	}
	if made := r.made[y.Alias]; made != nil {
		*n = *made
	} else {
		n.Kind = Unresolved
	}
	r.place(n, at)
	return nil
}

func (r *yamlReader) mapping(n *Node, y *yaml.Node, depth int) error {
	var merged []*Node
	for i := 0; i+1 < len(y.Content); i += 2 {
		key := y.Content[i]
		var item Node
		if err := r.value(&item, y.Content[i+1], key, depth+1); err != nil {
			return err
		}
		if key.ShortTag() == "!!merge" {
			merged = append(merged, &item)
			continue
		}
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		n.Keys, n.Items = append(n.Keys, key.Value), append(n.Items, item)
	}
	if len(merged) > 0 {
		own := make(map[string]bool, len(n.Keys))
		for _, key := range n.Keys {
			own[key] = true
		}
		for _, m := range merged {
			if err := r.merge(n, m, own); err != nil {
				return err
			}
		}
	}
	n.index()
	return nil
}

// merge adds what a merge key names and the map does not have itself. Each name that is looked at
// counts as a value, added or not: a map may merge another one as often as it likes.
func (r *yamlReader) merge(n, from *Node, own map[string]bool) error {
	if from.Kind == List {
		for i := range from.Items {
			if r.left--; r.left < 0 {
				return ErrTooComplex
			}
			if from.Items[i].Kind != Map {
				continue
			}
			if err := r.merge(n, &from.Items[i], own); err != nil {
				return err
			}
		}
		return nil
	}
	for i, key := range from.Keys {
		if r.left--; r.left < 0 {
			return ErrTooComplex
		}
		if !own[key] {
			own[key] = true
			n.Keys, n.Items = append(n.Keys, key), append(n.Items, from.Items[i])
		}
	}
	return nil
}
