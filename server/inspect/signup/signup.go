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
func Score(path, called string) int {
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
	return points
}

// CredentialNames are what keys are called, the surest first; case, dashes and underscores aside.
var CredentialNames = []string{
	"credential", "apikey", "apitoken", "accesskey", "secretkey", "accesstoken", "bearertoken",
	"authtoken", "key", "token", "secret",
}

// tellsKey matches a schema's description of a property that is the key.
var tellsKey = regexp.MustCompile(
	`(?i)\b(the|your|an?|new) (api[ -]?key|access token|credential)\b`)

// How deep schemas are read, and how many values of one.
const (
	maxDepth  = 4
	maxLooked = 500
)

// PlainName is a name as CredentialNames has it.
func PlainName(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "", ".", "").Replace(name))
}

// Answer is what the schemas of an operation's answers say of a key.
type Answer struct {
	// Names are the properties that they call the key.
	Names []string
	// Promises reports whether they have one, by that or by its name.
	Promises bool
	// given are the names of all properties; none where the answers are not described.
	given map[string]bool
}

// AnswerOf reads the schemas of an operation's answers.
func AnswerOf(s *openapi.Source, o *openapi.Operation) Answer {
	a := Answer{given: map[string]bool{}}
	for _, schema := range s.Answers(o) {
		walkProperties(s.Resolve, schema, func(name string, property *tree.Node) {
			plain := PlainName(name)
			a.given[plain] = true
			if tellsKey.MatchString(property.TextOf("description")) {
				a.Names = append(a.Names, name)
			}
			a.Promises = a.Promises || slices.Contains(CredentialNames, plain)
		})
	}
	a.Promises = a.Promises || len(a.Names) > 0
	return a
}

// walkProperties calls do for the properties of a schema, those of its parts and of objects within
// it, not deeper than answers are read.
func walkProperties(resolve func(*tree.Node) *tree.Node, schema *tree.Node,
	do func(string, *tree.Node),
) {
	left := maxLooked
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

// open reports whether an operation takes somebody without a credential, as far as its description
// says. Many descriptions declare no security at all, so what is not declared is not required.
func open(o *openapi.Operation) bool {
	return o.Method == http.MethodPost && o.Security.Value != document.RequirementRequired
}

// score says how surely an operation signs a stranger up: 0 is not.
func score(o *openapi.Operation) int {
	if !open(o) {
		return 0
	}
	return Score(o.Path, o.ID.Value+" "+o.Summary.Value)
}

// May reports whether an operation may sign a stranger up, by what it is called.
func May(o *openapi.Operation) bool { return score(o) > 0 }

// Operation is an operation that signs a stranger up.
type Operation struct {
	*openapi.Operation
	Answer
	// Points say how surely.
	Points int
}

// Operations are the operations by which a stranger signs up, as a description has them: POST
// without a required credential. They are in the order in which they are tried: the surest first,
// of two alike the first in the document.
func Operations(s *openapi.Source) (all []Operation) {
	for i := range s.Operations {
		o := &s.Operations[i]
		points := score(o)
		if points == 0 {
			continue
		}
		answer := AnswerOf(s, o)
		if answer.Promises {
			points += 3
		}
		all = append(all, Operation{o, answer, points})
	}
	slices.SortStableFunc(all, func(a, b Operation) int { return b.Points - a.Points })
	return all
}

// Leads reports whether the answer of an operation leads to a key. The operations
// last are those that finish what another has begun. The rule is that of a code that somebody is
// sent on the way; empty if there is none.
func (o *Operation) Leads(s *openapi.Source, last []*openapi.Operation) (rule string, makes bool) {
	described := len(o.given) > 0
	if o.Promises || !described && keyWords.MatchString(o.Path) {
		return "", true
	}
	makes = !described
	known := func(name string) bool { // an answer that is not described may hold anything but the code
		return o.given[PlainName(name)] || !described && Wanted(name) != EmailCode
	}
	for _, next := range last {
		missing, is := Lacks(s, next, known)
		switch {
		case next == o.Operation || !is:
		case missing == "":
			return "", true
		default:
			rule, makes = EmailCode, true
		}
	}
	return rule, makes
}

// maxFinishing bounds how many operations are looked at that may finish what another has begun.
const maxFinishing = 20

// Finishing are the operations that finish what another has begun, and answer a key.
func Finishing(s *openapi.Source) (all []*openapi.Operation) {
	for i := range s.Operations {
		o := &s.Operations[i]
		if len(all) < maxFinishing && GoesOn(o) && AnswerOf(s, o).Promises {
			all = append(all, o)
		}
	}
	return all
}

// GoesOn reports whether an operation finishes, without a credential, what another has begun.
func GoesOn(o *openapi.Operation) bool {
	return open(o) && goesOn.MatchString(o.Path+" "+o.ID.Value+" "+o.Summary.Value)
}

// address is how a field for an e-mail address is called, as Spelled has it.
var address = regexp.MustCompile(`\b(e ?)?mail( ?address)?$`)

// Lacks says what the body of an operation that finishes what another has begun must have in
// addition to what is known: nothing, or the field for a code that somebody is mailed. The address
// that the code is mailed to is known. False reports that it wants more, or nothing that is known.
func Lacks(s *openapi.Source, o *openapi.Operation, known func(name string) bool) (
	code string, is bool,
) {
	list := s.Resolve(bodyOf(s, o)).Of("required").List()
	given, mailed := false, false
	for i := range list {
		switch name := list[i].AsText(); {
		case known(name):
			given = true
		case address.MatchString(Spelled(LastOf(name))):
			mailed = true
		case code == "" && Wanted(name) == EmailCode:
			code = name
		default:
			return "", false
		}
	}
	if code == "" {
		return "", given && !mailed
	}
	return code, given || mailed
}

// bodyOf is the schema of an operation's body; nil if there is none.
func bodyOf(s *openapi.Source, o *openapi.Operation) *tree.Node {
	body, _ := s.Body(o)
	return body.Schema
}
