package follower

import (
	"regexp"
	"slices"
	"strings"

	"tollgate/server/inspect/openapi"
	"tollgate/server/inspect/tree"
)

// credentialNames are what keys are called, the surest first; case, dashes and underscores aside.
var credentialNames = []string{
	"credential", "apikey", "apitoken", "accesskey", "secretkey", "accesstoken", "bearertoken",
	"authtoken", "key", "token", "secret",
}

// keyShape is how makers of keys write them.
var keyShape = regexp.MustCompile(`^(sk|pk|rk|ak|key|tok|token|api|pat)_[A-Za-z0-9_-]{12,}$`)

// tellsKey is how a schema says that a property is the key.
var tellsKey = regexp.MustCompile(
	`(?i)\b(the|your|an?|new) (api[ -]?key|access token|credential)\b`)

const maxAnswerDepth = 4

// plainName is a name as credentialNames has it.
func plainName(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "", ".", "").Replace(name))
}

// field is a text of an answer and where it lies.
type field struct {
	name, value string
	depth       int
}

// fieldsOf are the texts of an answer, the outer ones first.
func fieldsOf(root *tree.Node) (all []field) {
	var walk func(n *tree.Node, name string, depth int)
	walk = func(n *tree.Node, name string, depth int) {
		if depth > maxAnswerDepth || len(all) >= 500 {
			return
		}
		switch n.Kind {
		case tree.Map:
			for i := range n.Items {
				inner := n.Keys[i]
				// {"apiKey": {"value": …}}: the outer name says more.
				if slices.Contains(credentialNames, plainName(name)) &&
					(inner == "value" || inner == "plaintext") {
					inner = name
				}
				walk(&n.Items[i], inner, depth+1)
			}
		case tree.List:
			for i := range n.Items[:min(len(n.Items), 1)] {
				walk(&n.Items[i], name, depth+1)
			}
		case tree.Text:
			all = append(all, field{name, n.Value, depth})
		}
	}
	if root != nil {
		walk(root, "", 0)
	}
	slices.SortStableFunc(all, func(a, b field) int { return a.depth - b.depth })
	return all
}

// credentialIn takes the key from an answer: by the names that its schema gives, then by what keys
// are called, then by how they look.
func credentialIn(root *tree.Node, hints []string) (key, name string) {
	fields := fieldsOf(root)
	for _, wanted := range slices.Concat(hints, credentialNames) {
		for _, f := range fields {
			if plainName(f.name) == plainName(wanted) && isKey(f.value) {
				return f.value, f.name
			}
		}
	}
	for _, f := range fields {
		if keyShape.MatchString(f.value) {
			return f.value, f.name
		}
	}
	return "", ""
}

func isKey(text string) bool {
	return len(text) >= 8 && len(text) <= longestKey && !strings.Contains(text, "://") &&
		!strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// hints are the properties of an operation's answers that their schemas call the key; promises says
// whether they have one by name, too.
func hints(s *openapi.Source, o *openapi.Operation) (names []string, promises bool) {
	for _, schema := range s.Answers(o) {
		walkProperties(s.Resolve, schema, func(name string, property *tree.Node) {
			if tellsKey.MatchString(property.TextOf("description")) {
				names = append(names, name)
			}
			promises = promises || slices.Contains(credentialNames, plainName(name))
		})
	}
	return names, promises || len(names) > 0
}

// walkProperties calls do for the properties of a schema, those of its parts and of objects within
// it, not deeper than answers are read.
func walkProperties(resolve func(*tree.Node) *tree.Node, schema *tree.Node,
	do func(string, *tree.Node),
) {
	left := 500
	var walk func(n *tree.Node, depth int)
	walk = func(n *tree.Node, depth int) {
		if n = resolve(n); n == nil || depth > maxAnswerDepth {
			return
		}
		for _, part := range []string{"allOf", "oneOf", "anyOf"} {
			for i := range n.Of(part).List() {
				if left--; left > 0 {
					walk(&n.Of(part).List()[i], depth+1)
				}
			}
		}
		properties := n.Of("properties")
		if !properties.Is(tree.Map) {
			return
		}
		for i, name := range properties.Keys {
			property := resolve(&properties.Items[i])
			if left--; left < 0 {
				return
			}
			if property != nil {
				do(name, property)
				walk(property, depth+1)
			}
		}
	}
	walk(schema, 0)
}
