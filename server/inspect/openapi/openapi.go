// Package openapi reads OpenAPI 3.0, 3.1, 3.2 and Swagger 2 documents by a tolerant walk: one
// malformed operation does not lose the others, and it is said which could not be read. It reads
// what an inspection needs and judges nothing else.
package openapi

import (
	"errors"
	"fmt"
	"strings"

	"tollgate/server/inspect/document"
	"tollgate/server/inspect/tree"
)

// Bounds of a description.
const (
	MaxOperations    = 5_000
	maxTags          = 500
	maxOperationTags = 20 // of one operation
	maxSchemes       = 200
	maxFlows         = 10 // of one scheme
	maxRefs          = 16
	maxQuote         = 240
)

// ErrNotOpenAPI: the text is a document, but none of these.
var ErrNotOpenAPI = errors.New("openapi: neither OpenAPI 3 nor Swagger 2")

// Text is a value and where it is.
type Text struct{ Value, Quote string }

// Scheme is a declared way to authenticate.
type Scheme struct {
	Name, Type string
	// Scheme is http's; In and Field are apiKey's.
	Scheme, In, Field string
	// Flows are oauth2's.
	Flows []string
	// About is its description; Quote is where it is.
	About, Quote string
}

// Operation is one operation.
type Operation struct {
	// Method is in upper case.
	Method, Path string
	// ID and Summary are what it is called; Tags what it belongs to.
	ID, Summary Text
	Tags        []Text
	Security    Security
	// Quote is where it is.
	Quote string
	// Given is how many parameters must be given, Success the first status of success that it
	// declares: 200 where it declares none.
	Given, Success int
	// Server is the address that its path is added to, as it is declared; empty is the document's
	// own. It is not an address where it is longer than is read.
	Server string
	// long reports whether Path is cut, so that it cannot be called.
	long bool
}

// Name is how the operation is named: method and path.
func (o *Operation) Name() string { return o.Method + " " + o.Path }

// Description is what a document describes.
type Description struct {
	// Format is OpenAPI or Swagger with its version, as the document says.
	Format       Text
	Title, About Text
	Operations   []Operation
	Schemes      []Scheme
	// Tags are those that are declared, then those that are used, each once.
	Tags []Text
	// Incomplete are the reasons for which not every operation was read; LeftOut is what else was
	// not.
	Incomplete, LeftOut []string
	// Work is how many steps reading it took, at most MaxWork.
	Work int
}

type walker struct {
	text string
	root *tree.Node
	out  *Description
	// schemes is where schemes are declared.
	schemes  *tree.Node
	methods  []string
	tagged   map[string]bool
	declared Security
	// server is the document's; item is what holds for all operations of the present path.
	server string
	item   shared
	// left is how many steps it may still take.
	left int
}

// Read reads a document. The error is ErrNotOpenAPI or one of package tree.
func Read(text string) (*Description, error) {
	s, err := open(text, omitted)
	if err != nil {
		return nil, err
	}
	return s.Description, nil
}

// Open reads a document as Read does, and all of it, for a reader who goes on to what it says of
// one operation.
func Open(text string) (*Source, error) { return open(text, nil) }

func open(text string, omit func(path []string) bool) (*Source, error) {
	root, err := tree.ParseWithout(text, omit)
	if err != nil {
		return nil, err
	}
	w := &walker{
		text: text, root: root, out: &Description{}, tagged: map[string]bool{}, left: MaxWork,
	}
	if err = w.format(); err != nil {
		return nil, err
	}
	info := root.Of("info")
	w.out.Title, w.out.About = w.said(info.Of("title")), w.said(info.Of("description"))
	w.readSchemes()
	tags := root.Of("tags").List()
	for i := range tags {
		if len(w.out.Tags) == maxTags || !w.spend(1) {
			w.leftOut(fmt.Sprintf("more than %d tags", maxTags))
			break
		}
		w.tag(w.said(tags[i].Of("name")))
	}
	w.declared = w.security(root.Of("security"), document.SourceGlobal)
	w.server = w.serverOf(root)
	w.paths()
	w.out.Work = MaxWork - max(w.left, 0)
	// A caller that goes on to read single operations has as much again.
	w.left = MaxWork
	return &Source{Description: w.out, w: w}, nil
}

// unread are the parts of a document that nothing here reads: nearly all of a large one.
var unread = map[string]bool{
	"components.schemas": true, "components.examples": true, "components.requestBodies": true,
	"components.headers": true, "components.links": true, "components.callbacks": true,
	"components.responses": true, "definitions": true, "responses": true,
}

// omitted says which members of a document are left out: unread parts, and of operations bodies,
// the contents of answers, and what parameters look like. Lists are not in a path.
func omitted(path []string) bool {
	last := path[len(path)-1]
	if len(path) <= 2 {
		return unread[strings.Join(path, ".")]
	}
	if path[0] == "components" && path[1] == "pathItems" {
		path = path[1:]
	} else if path[0] != "paths" {
		return path[0] == "components" && path[1] == "parameters" && len(path) == 4 && shape[last]
	}
	switch len(path) {
	case 4: // of an operation, or of a parameter of its path
		return last == "requestBody" || last == "callbacks" || path[2] == "parameters" && shape[last]
	case 5: // of a part of an operation
		return path[3] == "responses" || path[3] == "parameters" && shape[last]
	}
	return false
}

// shape are the members of a parameter that say what it looks like.
var shape = map[string]bool{"schema": true, "content": true, "example": true, "examples": true}

// said is a text and where it is.
func (w *walker) said(n *tree.Node) Text {
	value := strings.TrimSpace(tree.Cut(n.AsScalar(), maxText))
	if value == "" {
		return Text{}
	}
	return Text{value, n.Quote(w.text, maxQuote)}
}

var (
	methods2  = []string{"get", "put", "post", "delete", "options", "head", "patch"}
	methods3  = append(methods2[:len(methods2):len(methods2)], "trace")
	methods32 = append(methods3[:len(methods3):len(methods3)], "query")
)

func (w *walker) format() error {
	version := w.said(w.root.Of("openapi"))
	if strings.HasPrefix(version.Value, "3") {
		w.out.Format = Text{"OpenAPI " + version.Value, version.Quote}
		w.schemes = w.root.Of("components").Of("securitySchemes")
		if w.methods = methods3; strings.HasPrefix(version.Value, "3.2") {
			w.methods = methods32
		}
		return nil
	}
	version = w.said(w.root.Of("swagger"))
	if strings.HasPrefix(version.Value, "2") {
		w.out.Format = Text{"Swagger " + version.Value, version.Quote}
		w.schemes, w.methods = w.root.Of("securityDefinitions"), methods2
		return nil
	}
	return ErrNotOpenAPI
}

func (w *walker) paths() {
	paths := w.root.Of("paths")
	if paths != nil && !paths.Is(tree.Map) && !paths.Is(tree.Null) {
		w.incomplete("paths is not an object")
		return
	}
	if paths == nil {
		return
	}
	for i, path := range paths.Keys {
		if strings.HasPrefix(path, "x-") {
			continue
		}
		if !w.spend(1) || !w.pathItem(path, &paths.Items[i]) || w.left < 0 {
			break
		}
	}
	if w.left < 0 {
		w.incomplete(fmt.Sprintf("reading it takes more than %d steps", MaxWork))
	}
}

// pathItem reads the operations of a path; false reports whether there are more than are read.
func (w *walker) pathItem(path string, item *tree.Node) bool {
	sources := []*tree.Node{item}
	if item.Of("$ref") != nil {
		// What stands next to $ref is undefined in 3.0 and added in 3.1: it is read.
		sources = append(sources, w.resolve(item))
	}
	w.item = w.shared(sources)
	for _, from := range sources {
		if !from.Is(tree.Map) && !from.Is(tree.Null) {
			w.incomplete("path " + shown(path) + " does not resolve")
		} else if !w.operations(path, from) {
			return false
		}
	}
	return true
}

func (w *walker) operations(path string, item *tree.Node) bool {
	for _, method := range w.methods {
		if o := item.Of(method); o != nil && !w.operation(method, path, o) {
			return false
		}
	}
	more := item.Of("additionalOperations")
	if more.Is(tree.Map) && strings.HasPrefix(w.out.Format.Value, "OpenAPI 3.2") {
		for i, method := range more.Keys {
			if !w.spend(1) || !w.operation(method, path, &more.Items[i]) {
				return false
			}
		}
	}
	return true
}

// shown is a name as reasons have it.
func shown(name string) string { return tree.Cut(name, maxName) }

// operation reads one operation; false reports whether there are more than are read.
func (w *walker) operation(method, path string, n *tree.Node) bool {
	if len(w.out.Operations) == MaxOperations {
		w.incomplete(fmt.Sprintf("more than %d operations", MaxOperations))
		return false
	}
	o := Operation{
		Method: strings.ToUpper(shown(method)), Path: shown(path), Success: 200,
		Quote: n.Quote(w.text, maxQuote), long: len(path) > maxName,
	}
	if n = w.resolve(n); !n.Is(tree.Map) {
		w.incomplete("operation " + o.Name() + " is not an object")
		o.Security = Security{
			Value: document.RequirementUnknown, Source: document.SourceAbsent,
			Rule: "operation_malformed", Reason: "The operation is not an object.",
		}
		w.out.Operations = append(w.out.Operations, o)
		return true
	}
	w.call(&o, n)
	o.ID, o.Summary = w.said(n.Of("operationId")), w.said(n.Of("summary"))
	tags := n.Of("tags").List()
	for i := range tags[:min(len(tags), maxOperationTags)] {
		if name := w.said(&tags[i]); w.spend(named(name.Value)) && name.Value != "" {
			o.Tags = append(o.Tags, name)
			w.tag(name)
		}
	}
	if declared := n.Of("security"); declared != nil {
		o.Security = w.security(declared, document.SourceOperation)
	} else {
		o.Security = w.declared
	}
	if w.left < 0 { // it was read in part
		return false
	}
	w.out.Operations = append(w.out.Operations, o)
	return true
}

func (w *walker) tag(name Text) {
	switch {
	case name.Value == "" || w.tagged[name.Value]:
	case len(w.out.Tags) == maxTags:
		w.leftOut(fmt.Sprintf("more than %d tags", maxTags))
	default:
		w.tagged[name.Value] = true
		w.out.Tags = append(w.out.Tags, name)
	}
}
