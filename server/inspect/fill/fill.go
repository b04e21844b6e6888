// Package fill makes the request of a published operation: what an agent fills in of its own, or
// what stops it before anything is sent. The built-in agent sends these requests, and an evaluation
// asks whether there is one.
package fill

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"tollgate/server/inspect/signup"
	"tollgate/server/inspect/tree"
)

// Bounds of what is filled: fields, and how deep they lie.
const (
	MaxFields = 100
	MaxDepth  = 6
	maxText   = 2000
)

// Filler makes the body that a schema asks for. The same run gives the same body: what is wanted to
// be unique comes from the run's id, and nothing is made up that a person would have to answer for
// (a password, a card, a telephone number).
type Filler struct {
	// Resolve follows a schema's references.
	Resolve func(*tree.Node) *tree.Node
	Identity
	// Known are fields of the product's own answers.
	Known map[string]string
	// Account is what is signed in with; nil where an account is to be made.
	Account *Account
}

// New makes a filler whose schemas have no references.
func New(who Identity) Filler {
	return Filler{Resolve: func(n *tree.Node) *tree.Node { return n }, Identity: who}
}

// Account is the name and the password of somebody who has an account.
type Account struct{ Username, Password string }

// Stop is why a request cannot be made.
type Stop struct {
	// Rule is Unfillable, or that of a field which only somebody else can fill.
	Rule, Reason string
}

// Unfillable is the rule of a request that an agent has nothing to fill with, or cannot send.
const Unfillable = "body_not_fillable"

func (f *Filler) wanted(name string) *Stop {
	rule := signup.Wanted(name)
	if rule == "" {
		return nil
	}
	return &Stop{
		Rule:   rule,
		Reason: fmt.Sprintf("Signing up wants a %q, which this agent does not have.", head(name, 60)),
	}
}

// accountWords are names of the field that takes an account's name, next to its password.
var accountWords = regexp.MustCompile(`mail|user|log ?in|identifier|account|\bname$`)

// entered is what a field takes of the account that the run signs in with: its password, or its
// name; false where it takes neither, or there is no account.
func (f *Filler) entered(name string) (value string, is bool) {
	switch {
	case f.Account == nil || name == "":
		return "", false
	case signup.Wanted(name) == signup.Password:
		return f.Account.Password, true
	case signup.Wanted(name) == "" && accountWords.MatchString(signup.Spelled(signup.LastOf(name))):
		return f.Account.Username, true
	}
	return "", false
}

// Body is what a schema asks for.
func (f *Filler) Body(schema *tree.Node) (any, *Stop) {
	left := MaxFields
	return f.Value("", schema, 0, &left)
}

// Value is a value as its schema wants it.
func (f *Filler) Value(name string, schema *tree.Node, depth int, left *int) (any, *Stop) {
	if *left--; *left < 0 || depth > MaxDepth {
		return nil, unfillable(name, "its schema is too deep, or a circle")
	}
	if known, is := f.Known[signup.PlainName(signup.LastOf(name))]; is && name != "" {
		return known, nil
	}
	n := f.Resolve(schema)
	if kind := kindOf(n); kind == "" || kind == "string" {
		if value, is := f.entered(name); is {
			return value, nil
		}
	}
	if n == nil {
		if schema == nil && name != "" {
			return f.text(name, nil)
		}
		return nil, unfillable(name, "its schema does not resolve")
	}
	for _, fixed := range []*tree.Node{n.Of("const"), first(n.Of("enum"))} {
		if fixed != nil {
			return Plain(fixed, 0), nil
		}
	}
	switch kind := kindOf(n); kind {
	case "object":
		return f.object(name, n, depth, left)
	case "array":
		return f.array(name, n, depth, left)
	case "boolean":
		agrees := consents.MatchString(signup.PlainName(signup.LastOf(name)))
		if given := n.Of("default"); given.Is(tree.Bool) && !agrees {
			return given.Value == "true", nil
		}
		return agrees, nil
	case "integer", "number":
		if why := f.wanted(name); why != nil {
			return nil, why
		}
		return number(n), nil
	case "string":
		return f.text(name, n)
	default:
		for _, part := range []string{"oneOf", "anyOf"} {
			var why *Stop
			for i := range n.Of(part).List() {
				var v any
				if v, why = f.Value(name, &n.Of(part).List()[i], depth+1, left); why == nil {
					return v, nil
				}
			}
			if why != nil {
				return nil, why
			}
		}
		if why := f.wanted(name); why != nil {
			return nil, why
		}
		if given := example(n); given != nil {
			return Plain(given, 0), nil
		}
		return f.text(name, n)
	}
}

// consents are booleans that say yes to something. The flow's owner has confirmed that an agent may
// sign up there.
var consents = regexp.MustCompile(`terms|tos|consent|accept|agree`)

func unfillable(name, why string) *Stop {
	what := "The body that is asked for cannot be filled: " + why + "."
	if name != "" {
		what = fmt.Sprintf("The field %q cannot be filled: %s.", head(name, 60), why)
	}
	return &Stop{Rule: Unfillable, Reason: what}
}

func first(list *tree.Node) *tree.Node {
	for i := range list.List() {
		if item := &list.Items[i]; !item.Is(tree.Null) {
			return item
		}
	}
	return nil
}

// example is what a schema gives as one.
func example(n *tree.Node) *tree.Node {
	for _, given := range []*tree.Node{n.Of("default"), n.Of("example"), first(n.Of("examples"))} {
		if given != nil {
			return given
		}
	}
	return nil
}

// kindOf is a schema's type; of several the first that is something.
func kindOf(n *tree.Node) string {
	if kind := n.TextOf("type"); kind != "" {
		return kind
	}
	for _, kind := range n.Of("type").List() {
		if text := kind.AsText(); text != "null" {
			return text
		}
	}
	if n.Of("properties") != nil || n.Of("required") != nil || n.Of("allOf") != nil {
		return "object"
	}
	return ""
}

// object fills what is required, and nothing else. Its name is a part of its fields' names.
func (f *Filler) object(outer string, n *tree.Node, depth int, left *int) (any, *Stop) {
	made := map[string]any{}
	for i := range n.Of("allOf").List() {
		part, why := f.Value(outer, &n.Of("allOf").List()[i], depth+1, left)
		if why != nil {
			return nil, why
		}
		if fields, is := part.(map[string]any); is {
			for name, value := range fields {
				made[name] = value
			}
		}
	}
	properties := n.Of("properties")
	for _, item := range n.Of("required").List() {
		name := item.AsText()
		if _, has := made[name]; has || name == "" {
			continue
		}
		value, why := f.Value(inside(outer, name), properties.Of(name), depth+1, left)
		if why != nil {
			return nil, why
		}
		made[name] = value
	}
	for _, name := range NamesOf(properties) {
		value, is := f.entered(inside(outer, name))
		if _, has := made[name]; is && !has && kindOf(f.Resolve(properties.Of(name))) == "string" {
			made[name] = value // not every description says what signing in needs
		}
	}
	return made, nil
}

// array has as many items as it must.
func (f *Filler) array(name string, n *tree.Node, depth int, left *int) (any, *Stop) {
	minimum, err := strconv.Atoi(n.Of("minItems").AsScalar())
	if err != nil {
		minimum = 0
	}
	made := []any{}
	for range minimum {
		item, why := f.Value(name, n.Of("items"), depth+1, left)
		if why != nil {
			return nil, why
		}
		made = append(made, item)
	}
	return made, nil
}

// number is the example, else the smallest that may be, from 1 on.
func number(n *tree.Node) any {
	value := 1.0
	if given := example(n); given.Is(tree.Number) {
		if v, err := strconv.ParseFloat(given.Value, 64); err == nil {
			value = v
		}
	}
	for _, bound := range []struct {
		name string
		step float64
		of   func(a, b float64) float64
	}{{"minimum", 0, math.Max}, {"exclusiveMinimum", 1, math.Max}, {"maximum", 0, math.Min}} {
		if v, err := strconv.ParseFloat(n.Of(bound.name).AsScalar(), 64); err == nil {
			value = bound.of(value, v+bound.step)
		}
	}
	if value == math.Trunc(value) && math.Abs(value) < 1<<53 {
		return int64(value)
	}
	return value
}

// format is a text by the format that a schema names.
func (f *Filler) format(format string) string {
	sum := sha256.Sum256([]byte(f.Name))
	text := hex.EncodeToString(sum[:16])
	switch format {
	case "email", "idn-email":
		return f.Mail
	case "uri", "url", "iri", "uri-reference":
		return "https://agents.example/" + f.Name
	case "uuid":
		return text[:8] + "-" + text[8:12] + "-4" + text[13:16] + "-8" + text[17:20] + "-" + text[20:32]
	case "date":
		return "2026-01-01"
	case "date-time":
		return "2026-01-01T00:00:00Z"
	case "hostname":
		return f.Name + ".agents.example"
	case "ipv4":
		return "192.0.2.1"
	default:
		return ""
	}
}

// text is a text by its format, its name, its example, in this order, within its bounds.
func (f *Filler) text(name string, n *tree.Node) (any, *Stop) {
	if n.TextOf("format") == "password" {
		name = "password"
	}
	if why := f.wanted(name); why != nil {
		return nil, why
	}
	given := example(n).AsText()
	text := cmp.Or(f.format(n.TextOf("format")), f.Own(name), given, f.Name)
	if pattern := n.TextOf("pattern"); pattern != "" && len(pattern) < 500 {
		matches, err := regexp.Compile(pattern)
		switch {
		case err != nil: // a pattern of another dialect: the product will say
		case matches.MatchString(text):
		case given != "" && matches.MatchString(given):
			return given, nil
		default:
			text = strings.NewReplacer("-", "").Replace(text)
			if !matches.MatchString(text) {
				return nil, unfillable(name, "nothing that this agent has matches its pattern")
			}
		}
	}
	return within(text, n), nil
}

// within brings a text to the length that its schema wants.
func within(text string, n *tree.Node) string {
	if maximum, err := strconv.Atoi(n.Of("maxLength").AsScalar()); err == nil && maximum >= 0 {
		text = head(text, maximum)
	}
	minimum, err := strconv.Atoi(n.Of("minLength").AsScalar())
	if short := min(minimum, maxText) - len(text); err == nil && short > 0 {
		text += strings.Repeat("x", short)
	}
	return text
}

// Plain is a node as it is sent.
func Plain(n *tree.Node, depth int) any {
	if depth > MaxDepth {
		return nil
	}
	switch n.Kind {
	case tree.Map:
		made := map[string]any{}
		for i, name := range n.Keys {
			made[name] = Plain(&n.Items[i], depth+1)
		}
		return made
	case tree.List:
		made := []any{}
		for i := range n.Items {
			made = append(made, Plain(&n.Items[i], depth+1))
		}
		return made
	case tree.Bool:
		return n.Value == "true"
	case tree.Number:
		if v, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			return v
		}
		if v, err := strconv.ParseFloat(n.Value, 64); err == nil {
			return v
		}
		return nil
	case tree.Text:
		return n.Value
	default:
		return nil
	}
}

// placeholder is a text that stands for one to be put in: <name>, {name}, YOUR_NAME, "...".
var placeholder = regexp.MustCompile(
	`^(<.*>|\{.*\}|\[.*\]|\.\.\.|…|(?i:your)[ _-].*|[A-Z][A-Z0-9]*_[A-Z0-9_]+)$`)

// Shown fills a body that a document shows: what stands for something, and what says who signs
// up, is ours; the rest is as it is shown.
func (f *Filler) Shown(name string, n *tree.Node, depth int) (any, *Stop) {
	if depth > MaxDepth {
		return nil, unfillable(name, "the example is too deep")
	}
	switch n.Kind {
	case tree.Map:
		made := map[string]any{}
		for i, inner := range n.Keys {
			value, why := f.Shown(inside(name, inner), &n.Items[i], depth+1)
			if why != nil {
				return nil, why
			}
			made[inner] = value
		}
		return made, nil
	case tree.List:
		made := []any{}
		for i := range n.Items {
			value, why := f.Shown(name, &n.Items[i], depth+1)
			if why != nil {
				return nil, why
			}
			made = append(made, value)
		}
		return made, nil
	case tree.Text, tree.Number:
		if known, is := f.Known[signup.PlainName(signup.LastOf(name))]; is {
			return known, nil
		}
		if value, is := f.entered(name); is {
			return value, nil
		}
		if why := f.wanted(name); why != nil {
			return nil, why
		}
		if n.Kind == tree.Number {
			return Plain(n, depth), nil
		}
		if own := f.Own(name); own != "" {
			return own, nil
		}
		if placeholder.MatchString(n.Value) {
			return f.Name, nil
		}
		return n.Value, nil
	default:
		return Plain(n, depth), nil
	}
}

// NamesOf are the names of an object's fields; none of anything else.
func NamesOf(n *tree.Node) []string {
	if !n.Is(tree.Map) {
		return nil
	}
	return n.Keys
}
