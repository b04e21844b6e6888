package follower

import (
	"regexp"
	"slices"
	"strings"

	"tollgate/server/ascii"
	"tollgate/server/inspect/signup"
	"tollgate/server/inspect/tree"
)

// keyShape is how makers of keys write them.
var keyShape = regexp.MustCompile(`^(sk|pk|rk|ak|key|tok|token|api|pat)_[A-Za-z0-9_-]{12,}$`)

// LooksLikeKey reports whether a text is written as makers of keys write them.
func LooksLikeKey(text string) bool { return keyShape.MatchString(text) }

const maxAnswerDepth = 4

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
				if slices.Contains(signup.CredentialNames, signup.PlainName(name)) &&
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
	for _, wanted := range slices.Concat(hints, signup.CredentialNames) {
		for _, f := range fields {
			if signup.PlainName(f.name) == signup.PlainName(wanted) && isKey(f.value) {
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
	return len(text) >= 8 && ascii.Visible(text, maxKey) && !strings.Contains(text, "://")
}
