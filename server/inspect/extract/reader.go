package extract

import (
	"context"
	"iter"
	"slices"
	"strings"

	"tollgate/server/inspect/collect"
	"tollgate/server/inspect/document"
	"tollgate/server/inspect/fill"
	"tollgate/server/inspect/openapi"
	"tollgate/server/inspect/page"
	"tollgate/server/inspect/tree"
)

// reader reads one collection.
type reader struct {
	ctx context.Context
	c   *collect.Collection
	f   *Facts
	// control is the hash of what a host that answers everything answers to a path that cannot
	// exist; shape are the names in that answer where it is a JSON object.
	control string
	shape   []string
	pages   map[string]*page.Page
	data    []data
	// late are the answers that there was no time to read; unread those whose text is longer than
	// is searched.
	late   map[string]bool
	unread int
	// ways are the published ways to a key; filler makes their requests, as an agent does.
	ways   []way
	filler fill.Filler
	// wanted is what ways to a key want that only somebody else has.
	wanted []document.Friction
}

// data is a JSON-LD block.
type data struct {
	obs, text string
	root      *tree.Node
}

func newReader(ctx context.Context, c *collect.Collection, f *Facts) *reader {
	r := &reader{ctx: ctx, c: c, f: f, pages: map[string]*page.Page{}, late: map[string]bool{}}
	if o := c.Control(); o != nil && c.AnswersEverything && o.SHA256 != nil {
		r.control = *o.SHA256
		r.shape = shapeOf(o.Text)
	}
	return r
}

// counts are the answers of a role that are something else than what the host always answers.
func (r *reader) counts(role string) []*collect.Observation {
	var all []*collect.Observation
	for _, o := range r.c.All(role) {
		if role == collect.RoleHome || r.control == "" || !r.always(o) {
			all = append(all, o)
		}
	}
	return all
}

// always reports whether an answer is what the host answers to everything: the same bytes, or a
// JSON object of the same names, such as an error with the address that was asked for.
func (r *reader) always(o *collect.Observation) bool {
	return *o.SHA256 == r.control || r.shape != nil && slices.Equal(r.shape, shapeOf(o.Text))
}

// shapeOf are the names of a JSON object, in order; nil where a text is none.
func shapeOf(text string) []string {
	if !strings.HasPrefix(strings.TrimLeft(text, " \t\r\n\ufeff"), "{") {
		return nil
	}
	root, err := tree.ParseJSON(text)
	if err != nil || !root.Is(tree.Map) {
		return nil
	}
	return slices.Sorted(slices.Values(root.Keys))
}

// plain are the answers of a role that are not HTML.
func (r *reader) plain(role string) []*collect.Observation {
	var all []*collect.Observation
	for _, o := range r.counts(role) {
		if !o.IsHTML() && strings.TrimSpace(o.Text) != "" {
			all = append(all, o)
		}
	}
	return all
}

// objects are the answers of roles that are JSON objects, whatever their media type says.
func (r *reader) objects(roles ...string) iter.Seq2[*collect.Observation, *tree.Node] {
	return func(yield func(*collect.Observation, *tree.Node) bool) {
		for _, role := range roles {
			for _, o := range r.counts(role) {
				if r.over(o) {
					continue
				}
				root, err := tree.ParseJSON(o.Text)
				if err == nil && root.Is(tree.Map) && !yield(o, root) {
					return
				}
			}
		}
	}
}

// over reports whether there is no time left to read an answer.
func (r *reader) over(o *collect.Observation) bool {
	if r.ctx.Err() == nil {
		return false
	}
	r.late[o.ID] = true
	return true
}

func (r *reader) page(o *collect.Observation) *page.Page {
	if r.pages[o.ID] == nil {
		if r.over(o) {
			return &page.Page{}
		}
		r.pages[o.ID] = page.Of(o.MediaType(), o.Text)
	}
	return r.pages[o.ID]
}

// quoted is evidence, if there is anything to quote.
func quoted(obs, quote string) (document.Evidence, bool) {
	quote = tree.Cut(quote, maxQuote)
	return document.Evidence{Obs: obs, Quote: quote}, quote != ""
}

// quotes are the beginning of a piece of a page and, where it is longer than a quote may be, its
// end: a number may follow long tags.
func quotes(obs, piece string) []document.Evidence {
	list := add(nil, obs, piece)
	if len(piece) > maxQuote {
		end := len(piece) - maxQuote
		for piece[end]&0xc0 == 0x80 {
			end++
		}
		list = add(list, obs, piece[end:])
	}
	return list
}

// add adds evidence, up to the bound.
func add(list []document.Evidence, obs, quote string) []document.Evidence {
	if e, ok := quoted(obs, quote); ok && len(list) < maxEvidence {
		list = append(list, e)
	}
	return list
}

// fact is a text that was read; nil if there is none.
func fact(value, obs, quote string) *document.Fact[string] {
	value = tree.Cut(strings.Join(strings.Fields(value), " "), maxValue)
	e, ok := quoted(obs, quote)
	if value == "" || !ok {
		return nil
	}
	return document.Extracted(value, e)
}

func (r *reader) home() {
	home := r.c.Find(collect.RoleHome)
	if home == nil {
		return
	}
	r.f.Home = Page{Obs: home.ID, Read: home.OK()}
	if home.Status != nil {
		r.f.Home.Status = *home.Status
	}
	if home.Failure != nil {
		r.f.Home.Failure = *home.Failure
	}
	if home.OK() {
		p := r.page(home)
		r.f.Home.Letters, r.f.Home.Script, r.f.Home.Late = p.Letters, p.Scripts, r.late[home.ID]
	}
}

// descriptions reads every OpenAPI and Swagger document, one text once.
func (r *reader) descriptions() {
	seen := map[string]bool{}
	for _, o := range r.counts(collect.RoleOpenAPI) {
		if seen[*o.SHA256] {
			continue
		}
		seen[*o.SHA256] = true
		unread := Unread{Role: o.Role, Obs: o.ID, Named: o.Named(), Present: true}
		if r.over(o) {
			unread.Gap, unread.Why = GapLeft, "there was no time to read it"
			r.f.Unread = append(r.f.Unread, unread)
			continue
		}
		d, err := openapi.Read(o.Text)
		mentions := strings.Contains(o.Text, "openapi") || strings.Contains(o.Text, "swagger")
		switch {
		case err == nil:
			r.f.APIs = append(r.f.APIs, API{o.ID, o.URL, d, o})
		case err == tree.ErrTooComplex:
			unread.Gap, unread.Why = GapMore, "it is larger than is read"
			r.f.Unread = append(r.f.Unread, unread)
		case mentions && !o.IsHTML() && (o.Named() || !r.c.AnswersEverything):
			r.f.BrokenAPIs = append(r.f.BrokenAPIs, Broken{o.ID, "it does not parse"})
		case o.Named():
			r.f.Unread = append(r.f.Unread, Unread{
				Role: o.Role, Obs: o.ID, Gap: GapAbsent, Named: true, Why: "it is not an OpenAPI document",
			})
		}
	}
	r.methods()
}

// methods reads the schemes that descriptions declare.
func (r *reader) methods() {
	for _, api := range r.f.APIs {
		for _, s := range api.Schemes {
			e, ok := quoted(api.Obs, s.Quote)
			if !ok || len(r.f.Methods) == maxMethods {
				continue
			}
			m := document.AuthMethod{Name: s.Name, Type: s.Type}
			for _, field := range []struct {
				to   **string
				from string
			}{{&m.Scheme, s.Scheme}, {&m.In, s.In}, {&m.Field, s.Field}} {
				if value := tree.Cut(field.from, maxValue); value != "" {
					*field.to = &value
				}
			}
			r.f.Methods = append(r.f.Methods, document.Extracted(m, e))
			if s.About != "" {
				r.f.Setup = add(r.f.Setup, api.Obs, s.Quote)
			}
		}
	}
}

func (r *reader) capabilities() {
	put := func(name, source, obs, quote string) {
		if e, ok := quoted(obs, quote); ok && len(r.f.Capabilities) < maxCapabilities {
			r.f.Capabilities = append(r.f.Capabilities, document.Capability{
				Name: tree.Cut(name, maxValue), Source: source, Evidence: []document.Evidence{e},
			})
		}
	}
	for _, api := range r.f.APIs {
		for _, tag := range api.Tags {
			put(tag.Value, "openapi_tag", api.Obs, tag.Quote)
		}
		for _, o := range api.Operations {
			name := o.Summary
			if name.Value == "" {
				name = o.ID
			}
			if len(o.Tags) == 0 {
				put(name.Value, "openapi_operation", api.Obs, name.Quote)
			}
		}
	}
	if len(r.f.Capabilities) > 0 {
		return
	}
	for _, o := range r.llms() {
		for _, h := range r.page(o).Headings {
			if strings.HasPrefix(h.Quote, "## ") {
				put(h.Value, "llms_section", o.ID, h.Quote)
			}
		}
	}
}

// llms are the answers that are an llms.txt: no HTML, and a heading first, as its proposal says.
func (r *reader) llms() []*collect.Observation {
	var all []*collect.Observation
	for _, o := range r.plain(collect.RoleLLMs) {
		if strings.HasPrefix(strings.TrimLeft(o.Text, " \t\r\n\ufeff"), "# ") && !r.over(o) {
			all = append(all, o)
		}
	}
	return all
}
