package openapi

import (
	"fmt"
	"slices"
	"strings"

	"tollgate/server/inspect/document"
	"tollgate/server/inspect/tree"
)

// Security is what an operation asks of its callers. DESIGN.md of server/inspect has the table.
type Security struct {
	Value document.Requirement
	// Source is where it is declared: operation, global or absent.
	Source string
	Rule   string
	Reason string
	// Names are the schemes that are named, each once; Alone those of them that are enough alone.
	Names, Alone []string
}

// kinds are the types of schemes that the versions know together: a tolerant reader takes an older
// one in a newer document.
var kinds = []string{"apiKey", "http", "oauth2", "openIdConnect", "mutualTLS", "basic"}

func (w *walker) readSchemes() {
	if !w.schemes.Is(tree.Map) {
		return
	}
	for i, name := range w.schemes.Keys {
		if len(w.out.Schemes) == maxSchemes || !w.spend(1) {
			w.leftOut(fmt.Sprintf("more than %d security schemes", maxSchemes))
			return
		}
		n := w.resolve(&w.schemes.Items[i])
		if n == nil || strings.HasPrefix(name, "x-") {
			continue
		}
		s := Scheme{
			Name: shown(name), Type: n.TextOf("type"), Scheme: strings.ToLower(shown(n.TextOf("scheme"))),
			About: n.TextOf("description"), Quote: w.schemes.Items[i].Quote(w.text, maxQuote),
		}
		if s.Type == "apiKey" {
			s.In, s.Field = n.TextOf("in"), n.TextOf("name")
		}
		if flows := n.Of("flows"); flows.Is(tree.Map) {
			s.Flows = flows.Keys[:min(len(flows.Keys), maxFlows)]
		} else if flow := n.TextOf("flow"); flow != "" { // Swagger 2
			s.Flows = []string{flow}
		}
		if slices.Contains(kinds, s.Type) {
			w.out.Schemes = append(w.out.Schemes, s)
		}
	}
}

// known reports whether a requirement names a scheme that is declared: by its name, or, from
// OpenAPI 3.2 on, by a reference.
func (w *walker) known(name string) bool {
	if !w.spend(named(name)) {
		return false
	}
	n := w.schemes.Of(name)
	if n == nil && strings.HasPrefix(name, "#/") {
		n = w.follow(name)
	}
	if n = w.resolve(n); !n.Is(tree.Map) {
		return false
	}
	return slices.Contains(kinds, n.TextOf("type"))
}

// security judges a list of alternatives.
func (w *walker) security(n *tree.Node, source string) Security {
	s := Security{Source: source}
	conclude := func(value document.Requirement, rule, reason string) Security {
		s.Value, s.Rule, s.Reason = value, source+"_"+rule, reason
		return s
	}
	switch {
	case n == nil:
		s.Source = document.SourceAbsent
		s.Value, s.Rule = document.RequirementNotDeclared, "security_absent"
		s.Reason = "Neither the operation nor the document declares security."
		return s
	case !n.Is(tree.List):
		return conclude(document.RequirementUnknown, "security_malformed", "security is not a list.")
	case len(n.Items) == 0 && source == document.SourceGlobal:
		return conclude(document.RequirementNotDeclared, "security_empty",
			"The document's security is an empty list, which declares nothing.")
	case len(n.Items) == 0:
		return conclude(document.RequirementNone, "security_empty",
			"The operation's security is an empty list: it needs no credential.")
	}
	r := alternatives{w: w, of: &s, seen: map[string]bool{}}
	r.read(n.Items)
	switch {
	case r.anonymous:
		return conclude(document.RequirementNone, "anonymous_alternative",
			"One alternative is empty: callers without a credential are served.")
	case r.malformed:
		return conclude(document.RequirementUnknown, "security_malformed",
			"An alternative is not a map of schemes to lists of scopes.")
	case r.more:
		return conclude(document.RequirementUnknown, "security_large",
			fmt.Sprintf("There are more than %d alternatives, or names in them.", MaxAlternatives))
	case r.missing != "":
		return conclude(document.RequirementUnknown, "scheme_unresolved",
			"The scheme "+r.missing+" is not declared, or has no known type.")
	default:
		return conclude(document.RequirementRequired, "scheme_required",
			"Every alternative names a declared scheme.")
	}
}

// alternatives is what a list of alternatives comes to.
type alternatives struct {
	w    *walker
	of   *Security
	seen map[string]bool
	// more reports whether not all were read; missing is a scheme that is not declared.
	anonymous, malformed, more bool
	missing                    string
}

func (r *alternatives) read(list []tree.Node) {
	names := 0
	for i := range list {
		if i == MaxAlternatives || !r.w.spend(1) {
			r.more = true
			return
		}
		one := &list[i]
		if !one.Is(tree.Map) {
			r.malformed = true
			continue
		}
		r.anonymous = r.anonymous || len(one.Keys) == 0
		if len(one.Keys) == 1 {
			r.of.Alone = append(r.of.Alone, shown(one.Keys[0]))
		}
		for j, name := range one.Keys {
			if names++; names > MaxAlternatives {
				r.more = true
				break
			}
			r.name(name, &one.Items[j])
		}
	}
}

func (r *alternatives) name(name string, scopes *tree.Node) {
	if short := shown(name); !r.seen[short] {
		r.seen[short] = true
		r.of.Names = append(r.of.Names, short)
	}
	// YAML authors leave the empty list out.
	r.malformed = r.malformed || !scopes.Is(tree.List) && !scopes.Is(tree.Null)
	if !r.w.known(name) {
		r.missing = shown(name)
	}
}

// Combine is what the operations of all descriptions ask for together. Complete reports whether
// all operations were read.
func Combine(values []document.Requirement, complete bool) (
	value document.Requirement, rule, reason string,
) {
	const unknown = document.RequirementUnknown
	switch {
	case len(values) == 0:
		return unknown, "no_operations", "No operation of an API description was read."
	case !complete:
		return unknown, "operations_incomplete", "Not every operation could be read."
	case slices.Contains(values, unknown):
		return unknown, "operation_unknown", "What an operation declares does not resolve."
	}
	for _, v := range values {
		if v != values[0] {
			return document.RequirementMixed, "operations_differ", "Operations differ in what they declare."
		}
	}
	return values[0], "operations_agree", "All operations declare the same."
}
