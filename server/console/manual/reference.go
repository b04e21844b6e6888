package manual

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"tollgate/server/console/page"
)

// Page is a page that is made of something else than a document.
type Page struct {
	Path, Title string
	template    string
	crumbs      []page.Link
	data        any
}

// operation is one operation of an API, as its page shows it.
type operation struct {
	ID, Method, Path, Summary string
	About                     template.HTML
	text                      string // About in Markdown
	Open, BodyOptional        bool
	Parameters, Body          []field
	Media                     []string
	Request                   string
	Answers                   []answer
	Refusals                  []refusal
}

type answer struct {
	Status, About string
	Fields        []field
	Examples      []string
}

type refusal struct{ Status, Code, Name, About string }

// part is the operations of one tag.
type part struct {
	Name, URL, Root string
	About           template.HTML
	text            string // About in Markdown
	Operations      []*operation
}

// object is what the page of objects, or of errors, explains.
type object struct {
	ID, Title, About string
	Fields           []field
	Example          string
}

// ReferenceRoot is what the addresses of the references begin with.
const ReferenceRoot = Root + "/api/"

// methods are the HTTP methods in the order in which they are shown.
var methods = []string{"get", "post", "put", "patch", "delete"}

// Reference makes the pages of an API from its OpenAPI document: one for each part, one of the
// shared objects, one of the errors, and at root an overview. source is where the document is
// served.
func Reference(document []byte, root, source string) ([]Page, error) {
	p, err := readOpenAPI(document)
	if err != nil {
		return nil, err
	}
	r := reader{published: p, root: root}
	parts, err := r.parts()
	if err != nil {
		return nil, err
	}
	about, err := rendered(p.Info.Description)
	if err != nil {
		return nil, err
	}
	title := p.Info.Title
	below := func(path, title, template string, data any) Page {
		crumbs := []page.Link{top, {Text: p.Info.Title, URL: root}, {Text: title}}
		return Page{path, title, template, crumbs, data}
	}
	pages := []Page{
		{root, title, "reference", []page.Link{top, {Text: title}}, map[string]any{
			"About": about, "Servers": p.Servers, "Source": source, "Parts": parts, "Root": root,
		}},
		below(root+"/objects", "Objects", "objects", r.objects()),
		below(root+"/errors", "Errors", "objects", r.errors()),
	}
	for _, part := range parts {
		pages = append(pages, below(part.URL, part.Name, "part", part))
	}
	return pages, nil
}

// reader makes pages of a document.
type reader struct {
	*published
	root string
}

func (r *reader) objectsURL() string { return r.root + "/objects" }

// parts are those that have operations, in the document's order.
func (r *reader) parts() (parts []*part, err error) {
	byName := map[string]*part{}
	for _, tag := range r.Tags {
		p := &part{
			Name: tag.Name, Root: r.root, URL: r.root + "/" + slug(tag.Name), text: tag.Description,
		}
		if p.About, err = rendered(tag.Description); err != nil {
			return nil, err
		}
		byName[tag.Name] = p
		parts = append(parts, p)
	}
	for _, path := range slices.Sorted(maps.Keys(r.Paths)) {
		for _, method := range methods {
			d := r.Paths[path][method]
			if d == nil {
				continue
			}
			o, err := r.operation(method, path, d)
			if err != nil {
				return nil, err
			}
			if len(d.Tags) != 1 || byName[d.Tags[0]] == nil {
				return nil, fmt.Errorf("manual: %s is in no part", d.ID)
			}
			p := byName[d.Tags[0]]
			p.Operations = append(p.Operations, o)
		}
	}
	return slices.DeleteFunc(parts, func(p *part) bool { return len(p.Operations) == 0 }), nil
}

func (r *reader) operation(method, path string, d *described) (*operation, error) {
	about, err := rendered(d.Description)
	if err != nil {
		return nil, err
	}
	o := &operation{
		ID: d.ID, Method: strings.ToUpper(method), Path: path, Summary: d.Summary, About: about,
		text: d.Description, Open: len(d.Security) == 0,
	}
	for _, p := range d.Parameters {
		f := field{Name: p.Name, Required: p.Required}
		f.Before, f.Type, f.Ref = p.Schema.kind(r.objectsURL())
		f.About = strings.TrimPrefix(strings.Join([]string{p.Description, p.Schema.about()}, "; "), "; ")
		f.About = p.In + ": " + cmp.Or(strings.TrimSuffix(f.About, "; "), p.Name)
		o.Parameters = append(o.Parameters, f)
	}
	if d.Body != nil {
		o.BodyOptional = !d.Body.Required
		o.Media = slices.Sorted(maps.Keys(d.Body.Content))
		o.Body = d.Body.Content[o.Media[0]].Schema.fields(r.objectsURL())
	}
	if len(d.Samples) > 0 {
		o.Request = d.Samples[0].Source
	}
	r.answers(o, d)
	return o, nil
}

// answers are what an operation answers: successes with their members and examples, refusals by
// code.
func (r *reader) answers(o *operation, d *described) {
	for _, status := range slices.Sorted(maps.Keys(d.Responses)) {
		response := d.Responses[status]
		if status == "default" {
			continue
		}
		if status >= "4" {
			o.Refusals = append(o.Refusals, refusals(status, response.Description, response.Content)...)
			continue
		}
		a := answer{Status: status, About: response.Description}
		for _, media := range slices.Sorted(maps.Keys(response.Content)) {
			c := response.Content[media]
			a.Fields = append(a.Fields, c.Schema.fields(r.objectsURL())...)
			for _, name := range slices.Sorted(maps.Keys(c.Examples)) {
				a.Examples = append(a.Examples, indented(c.Examples[name].Value))
			}
		}
		o.Answers = append(o.Answers, a)
	}
}

const examplePrefix = "#/components/examples/"

// refusals are the codes of a status, each with its name on the page of errors, which is that of an
// example where it has one; about has a line for each.
func refusals(status, about string, contents map[string]content) (all []refusal) {
	names := map[string]string{}
	for _, c := range contents {
		for code, e := range c.Examples {
			names[code] = strings.TrimPrefix(e.Ref, examplePrefix)
		}
	}
	for line := range strings.Lines(about) {
		code, meaning, found := strings.Cut(strings.TrimSpace(line), ": ")
		if !found {
			code, meaning = "", line
		}
		all = append(all, refusal{status, code, cmp.Or(names[code], code), meaning})
	}
	return all
}

func (r *reader) objects() (all []object) {
	for _, name := range slices.Sorted(maps.Keys(r.Components.Schemas)) {
		s := r.Components.Schemas[name]
		all = append(all, object{
			ID: name, Title: name, About: s.Description, Fields: s.fields(r.objectsURL()),
		})
	}
	return all
}

func (r *reader) errors() (all []object) {
	shown := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(r.Components.Examples)) {
		e := r.Components.Examples[name]
		shown[e.Summary] = true
		all = append(all, object{ID: name, Title: e.Summary, Example: indented(e.Value)})
	}
	for _, methods := range r.Paths { // any order: they are sorted
		for _, d := range methods {
			for status, response := range d.Responses {
				if status < "4" || status == "default" {
					continue
				}
				for _, f := range refusals(status, response.Description, nil) {
					if f.Code != "" && !shown[f.Code] {
						shown[f.Code] = true
						all = append(all, object{ID: f.Code, Title: f.Code, About: f.Status + ": " + f.About})
					}
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b object) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// rendered is a text in Markdown as HTML.
func rendered(text string) (template.HTML, error) {
	var out bytes.Buffer
	if err := markdown.Convert([]byte(text), &out); err != nil {
		return "", fmt.Errorf("manual: %w", err)
	}
	return template.HTML(out.String()), nil // of our own, and raw HTML is left out
}
