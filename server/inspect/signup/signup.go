// Package signup says which published operations sign a stranger up or make a key, which field of
// an answer is the key, and which fields of a body only somebody else can fill. It reads names and
// descriptions, and judges nothing that was not published.
package signup

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"tollgate/server/inspect/document"
	"tollgate/server/inspect/openapi"
	"tollgate/server/inspect/tree"
)

// signUpWords are how requests are called that sign somebody up; notSignUp those that do not,
// though they sound like it.
var (
	signUpWords = regexp.MustCompile(`(?i)sign[-_ ]?up|regist(er|ration)|enrol|onboard|` +
		`\bagent/(auth|identity)\b|provision|create[-_ ]?(an? )?(account|user|workspace|tenant|agent)|` +
		`(get|create|issue|generate|mint|obtain)[-_ ]?(an? )?(api[-_ ]?)?(key|token)`)
	keyWords  = regexp.MustCompile(`(?i)/(api[-_]?)?(keys|tokens|credentials)/?$`)
	notSignUp = regexp.MustCompile(`(?i)log[-_ ]?in|session|refresh|revoke|rotate|reset|` +
		`confirm|verif|webhook|exchange|feedback|complete|redeem|/claim`)
)

// Score says how surely a request signs somebody up: 0 is not.
func Score(path, called string, promises bool) int {
	if notSignUp.MatchString(path) {
		return 0
	}
	points := 0
	if signUpWords.MatchString(path) || signUpWords.MatchString(called) {
		points += 4
	}
	if keyWords.MatchString(path) {
		points += 3
	}
	if points > 0 && promises {
		points += 3
	}
	return points
}

// CredentialNames are what keys are called, the surest first; case, dashes and underscores aside.
var CredentialNames = []string{
	"credential", "apikey", "apitoken", "accesskey", "secretkey", "accesstoken", "bearertoken",
	"authtoken", "key", "token", "secret",
}

// tellsKey is how a schema says that a property is the key.
var tellsKey = regexp.MustCompile(
	`(?i)\b(the|your|an?|new) (api[ -]?key|access token|credential)\b`)

// maxDepth is how deep answers are read.
const maxDepth = 4

// PlainName is a name as CredentialNames has it.
func PlainName(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "", ".", "").Replace(name))
}

// KeyNames are the properties of an operation's answers that their schemas call the key; promises
// says whether they have one by name, too.
func KeyNames(s *openapi.Source, o *openapi.Operation) (names []string, promises bool) {
	for _, schema := range s.Answers(o) {
		walkProperties(s.Resolve, schema, func(name string, property *tree.Node) {
			if tellsKey.MatchString(property.TextOf("description")) {
				names = append(names, name)
			}
			promises = promises || slices.Contains(CredentialNames, PlainName(name))
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
		if n = resolve(n); n == nil || depth > maxDepth {
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

// Called says that a name, or the text of a link, is what signing up is called.
func Called(text string) bool { return signUpWords.MatchString(text) }

// Makes finds the operation by which a description says that a stranger gets a key: a POST that
// needs no credential, and whose answer has a key or, where no answer is described, whose path ends
// as those do. Wants is the rule of a field of its body that only somebody else can fill; empty
// where there is none. Of several the first that wants nothing counts.
func Makes(s *openapi.Source) (found *openapi.Operation, wants string) {
	declares := slices.ContainsFunc(s.Operations, func(o openapi.Operation) bool {
		return o.Security.Value == document.RequirementRequired
	})
	for i := range s.Operations {
		o := &s.Operations[i]
		// Who declares security where it is needed declares none where it is not.
		open := o.Security.Value == document.RequirementNone ||
			o.Security.Value == document.RequirementNotDeclared && declares
		if o.Method != http.MethodPost || !open || !makesKey(s, o) {
			continue
		}
		rule := wantedBy(s, o)
		if found == nil || rule == "" {
			found, wants = o, rule
		}
		if rule == "" {
			break
		}
	}
	return found, wants
}

func makesKey(s *openapi.Source, o *openapi.Operation) bool {
	_, promises := KeyNames(s, o)
	if Score(o.Path, o.ID.Value+" "+o.Summary.Value, promises) == 0 {
		return false
	}
	described := slices.ContainsFunc(s.Answers(o), func(n *tree.Node) bool {
		return s.Resolve(n).Of("properties") != nil
	})
	return promises || !described && keyWords.MatchString(o.Path)
}

// wantedBy is the rule of the first required field of a body that only somebody else can fill.
func wantedBy(s *openapi.Source, o *openapi.Operation) string {
	body, is := s.Body(o)
	if !is {
		return ""
	}
	for _, name := range s.Resolve(body.Schema).Of("required").List() {
		if rule := Wanted(name.AsText()); rule != "" {
			return rule
		}
	}
	return ""
}
