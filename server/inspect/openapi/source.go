package openapi

import (
	"cmp"
	"strings"

	"tollgate/server/inspect/tree"
)

// Source is a description together with the document that it was read from: what a caller needs
// who makes requests by it. Its nodes stand in the document; do not change them.
type Source struct {
	*Description
	w *walker
}

// Parameter is one that an operation takes apart from its body.
type Parameter struct {
	Name string
	// In is query, header, path, cookie or, in Swagger 2, formData.
	In       string
	Required bool
	// Schema is of its value; in Swagger 2 the parameter itself. It may be nil.
	Schema *tree.Node
}

// Body is what an operation is sent.
type Body struct {
	// Media is its type: JSON where JSON is among those declared.
	Media           string
	Schema, Example *tree.Node
}

// Resolve follows $ref within the document, at most 16 times; nil where it leads nowhere, out of
// the document, or in a circle.
func (s *Source) Resolve(n *tree.Node) *tree.Node { return s.w.resolve(n) }

// Quote is a node as it is written, at most 240 bytes of it.
func (s *Source) Quote(n *tree.Node) string { return n.Quote(s.w.text, maxQuote) }

// Node is the operation as the document has it, and its path's item; nil where it cannot be read.
func (s *Source) Node(o *Operation) (operation, item *tree.Node) {
	item = s.w.root.Of("paths").Of(o.Path)
	for _, from := range []*tree.Node{item, s.Resolve(item)} {
		if operation = from.Of(strings.ToLower(o.Method)); operation != nil {
			return s.Resolve(operation), from
		}
	}
	return nil, item
}

// Named finds an operation by its operationId; nil if there is none.
func (s *Source) Named(id string) *Operation {
	for i := range s.Operations {
		if s.Operations[i].ID.Value == id {
			return &s.Operations[i]
		}
	}
	return nil
}

// Parameters are an operation's own, and those of its path, without the body of Swagger 2.
func (s *Source) Parameters(o *Operation) (all []Parameter) {
	operation, item := s.Node(o)
	for _, from := range []*tree.Node{operation, item} {
		for i := range from.Of("parameters").List() {
			n := s.Resolve(&from.Of("parameters").List()[i])
			p := Parameter{Name: n.TextOf("name"), In: n.TextOf("in"), Schema: n.Of("schema")}
			if p.Name == "" || p.In == "body" || len(all) == maxTags {
				continue
			}
			p.Schema = cmp.Or(p.Schema, n)
			p.Required = n.Of("required").Is(tree.Bool) && n.Of("required").Value == "true"
			all = append(all, p)
		}
	}
	return all
}

// Body is what an operation wants to be sent; false where it names no body.
func (s *Source) Body(o *Operation) (b Body, ok bool) {
	operation, _ := s.Node(o)
	for i := range operation.Of("parameters").List() {
		if n := s.Resolve(&operation.Of("parameters").List()[i]); n.TextOf("in") == "body" {
			return Body{Media: "application/json", Schema: n.Of("schema")}, true
		}
	}
	content := s.Resolve(operation.Of("requestBody")).Of("content")
	media, value := preferred(content)
	if value == nil {
		return b, false
	}
	b = Body{Media: media, Schema: value.Of("schema"), Example: value.Of("example")}
	if examples := value.Of("examples"); b.Example == nil && examples.Is(tree.Map) &&
		len(examples.Items) > 0 {
		b.Example = s.Resolve(&examples.Items[0]).Of("value")
	}
	return b, true
}

// preferred is the media type of a map of them that is best to speak: JSON, a form, the first.
func preferred(content *tree.Node) (media string, value *tree.Node) {
	if !content.Is(tree.Map) || len(content.Keys) == 0 {
		return "", nil
	}
	for _, wanted := range []string{"json", "x-www-form-urlencoded", ""} {
		for i, name := range content.Keys {
			if strings.Contains(strings.ToLower(name), wanted) {
				return name, &content.Items[i]
			}
		}
	}
	return "", nil
}

// Answers are the schemas of what an operation answers when it succeeds.
func (s *Source) Answers(o *Operation) (schemas []*tree.Node) {
	operation, _ := s.Node(o)
	responses := operation.Of("responses")
	if !responses.Is(tree.Map) {
		return nil
	}
	for i, status := range responses.Keys {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		n := s.Resolve(&responses.Items[i])
		schema := n.Of("schema") // Swagger 2
		if _, value := preferred(n.Of("content")); value != nil {
			schema = value.Of("schema")
		}
		if schema != nil {
			schemas = append(schemas, schema)
		}
	}
	return schemas
}
