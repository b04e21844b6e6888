// Package signup says which published operations sign a stranger up or make a key, which field of
// an answer is the key, and which fields of a body only somebody else can fill. It reads names and
// descriptions, and judges nothing that was not published.
package signup

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"tollgate/server/inspect/document"
	"tollgate/server/inspect/openapi"
	"tollgate/server/inspect/tree"
)

// signUpWords are how requests are called that sign somebody up; notSignUp those that do not,
// though they sound like it; goesOn those that finish what another has begun.
var (
	signUpWords = regexp.MustCompile(`(?i)sign[-_ ]?up|regist(er|ration)|enrol|onboard|` +
		`\bagent/(auth|identity)\b|provision|create[-_ ]?(an? )?(account|user|workspace|tenant|agent)|` +
		`(get|create|issue|generate|mint|obtain)[-_ ]?(an? )?(api[-_ ]?)?(key|token)`)
	keyWords  = regexp.MustCompile(`(?i)/(api[-_]?)?(keys|tokens|credentials)/?$`)
	notSignUp = regexp.MustCompile(`(?i)log[-_ ]?in|session|refresh|revoke|rotate|reset|` +
		`confirm|verif|webhook|exchange|feedback|complete|redeem|/claim`)
	goesOn = regexp.MustCompile(
		`(?i)exchange|confirm|verif|activat|complete|redeem|claim|token|finish|challenge`)
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
// reports whether they have one by name, too.
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

// Called reports whether a name, or the text of a link, is what signing up is called.
func Called(text string) bool { return signUpWords.MatchString(text) }

// GoesOn reports whether an operation finishes, without a credential, what another has begun.
func GoesOn(o *openapi.Operation) bool {
	return o.Method == http.MethodPost && o.Security.Value != document.RequirementRequired &&
		goesOn.MatchString(o.Path+" "+o.ID.Value+" "+o.Summary.Value)
}

// Required are the fields that an operation's body must have.
func Required(s *openapi.Source, o *openapi.Operation) (names []string) {
	body, is := s.Body(o)
	if !is {
		return nil
	}
	for _, name := range s.Resolve(body.Schema).Of("required").List() {
		names = append(names, name.AsText())
	}
	return names
}

// Makes finds the operation by which a description says that a stranger gets a key: a POST that
// needs no credential, and whose answer has a key, or leads to an operation whose answer has one;
// or, where no answer is described, whose path ends as those do. Wants is the rule of a field that
// only somebody else can fill; empty where there is none. Of several the first that wants nothing
// counts.
func Makes(s *openapi.Source) (found *openapi.Operation, wants string) {
	declares := slices.ContainsFunc(s.Operations, func(o openapi.Operation) bool {
		return o.Security.Value == document.RequirementRequired
	})
	// Who declares security where it is needed declares none where it is not.
	open := func(o *openapi.Operation) bool {
		return o.Method == http.MethodPost && (o.Security.Value == document.RequirementNone ||
			o.Security.Value == document.RequirementNotDeclared && declares)
	}
	last := finishing(s, open)
	for i := range s.Operations {
		o := &s.Operations[i]
		if !open(o) || Score(o.Path, o.ID.Value+" "+o.Summary.Value, false) == 0 {
			continue
		}
		rule, makes := wantedBy(s, o), makesKey(s, o)
		if !makes {
			later, finished := finishedBy(s, o, last)
			rule, makes = cmp.Or(rule, later), finished
		}
		if makes && (found == nil || rule == "") {
			found, wants = o, rule
		}
		if makes && rule == "" {
			break
		}
	}
	return found, wants
}

func makesKey(s *openapi.Source, o *openapi.Operation) bool {
	_, promises := KeyNames(s, o)
	described := slices.ContainsFunc(s.Answers(o), func(n *tree.Node) bool {
		return s.Resolve(n).Of("properties") != nil
	})
	return promises || !described && keyWords.MatchString(o.Path)
}

// maxFinishing bounds how many operations are looked at that may finish what another has begun.
const maxFinishing = 20

// finishing are the operations that answer a key to whoever has begun with another one.
func finishing(s *openapi.Source, open func(*openapi.Operation) bool) (all []*openapi.Operation) {
	for i := range s.Operations {
		o := &s.Operations[i]
		if len(all) == maxFinishing || !open(o) || !GoesOn(o) {
			continue
		}
		if _, promises := KeyNames(s, o); promises {
			all = append(all, o)
		}
	}
	return all
}

// finishedBy reports whether one of the operations answers the key that o begins to make: one whose
// body needs what o answers, and nothing else but a code that somebody is sent. Rule is that of the
// code; empty where none is wanted.
func finishedBy(s *openapi.Source, o *openapi.Operation, last []*openapi.Operation) (
	rule string, finished bool,
) {
	given := map[string]bool{}
	if len(last) > 0 {
		for _, schema := range s.Answers(o) {
			walkProperties(s.Resolve, schema, func(name string, _ *tree.Node) {
				given[PlainName(name)] = true
			})
		}
	}
	for _, next := range last {
		required := Required(s, next)
		missing := slices.DeleteFunc(slices.Clone(required), func(name string) bool {
			return given[PlainName(name)]
		})
		switch {
		case next == o || len(required) == 0:
		case len(missing) == 0:
			return "", true
		case len(missing) == 1 && len(required) > 1 && Wanted(missing[0]) == EmailCode:
			rule, finished = EmailCode, true
		}
	}
	return rule, finished
}

// wantedBy is the rule of the first required field of a body that only somebody else can fill.
func wantedBy(s *openapi.Source, o *openapi.Operation) string {
	for _, name := range Required(s, o) {
		if rule := Wanted(name); rule != "" {
			return rule
		}
	}
	return ""
}
