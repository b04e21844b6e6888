// Package page renders pages for people: their layout, style and small script, their parts (tables,
// fields, plots, notices), and the protection of browsers. It is independent of the viewer. See
// DESIGN.md.
package page

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"tollgate/server"
)

// Media is the media type of a page.
const Media = "text/html; charset=utf-8"

// Link is a place to go to, by the words that stand for it.
type Link struct {
	Text, URL string
	// Here reports whether it is the page that is shown, or the section it is in.
	Here bool
}

// Group is choices that belong together.
type Group struct {
	Title   string
	Choices []Choice
}

// Choice is what a page can be of instead: a place to go to, or, where Post is set, a form's button
// that sends Value in the field of that name.
type Choice struct {
	Link
	Post, Value string
}

// Tone is how a notice is meant; it is also its style's name.
type Tone string

// Tones of a notice.
const (
	Done    Tone = "done"
	Problem Tone = "problem"
	Hint    Tone = "hint"
)

// Notice is shown above a page: what happened, what was not changed, what to do next.
type Notice struct {
	Tone          Tone
	Title, Detail string
	// Secret is shown to be copied, once.
	Secret string
	// Next is the next action; without a URL there is none.
	Next Link
}

// View is one page with its surroundings.
type View struct {
	// Page names the template: a file of the site's templates, without .html.
	Page  string
	Title string
	// Lead is a sentence below the title.
	Lead string
	// Nav are the site's sections, Tabs those of what is shown, Crumbs the page's position, Within
	// its siblings within the tab.
	Nav, Tabs, Crumbs, Within []Link
	// Who is signed in; SignOut is where the way out leads, empty where there is none now.
	Who, SignOut string
	// Token proves that a form was written for this session; see the template "once".
	Token string
	// Old is shown above the notice where the page is not up to date.
	Old    *Notice
	Notice *Notice
	// Fields are the values of a refused form, and Wrong the problems of its fields: the template
	// "field" shows both.
	Fields url.Values
	Wrong  []Wrong
	// Place is live or sandbox where the page is of an environment, Clock the sandbox's own time:
	// the header shows both, so that they are not confused.
	Place, Clock string
	// At names what the pages are of, such as an account, and Others lead to what else they can be of.
	At     string
	Others []Group
	// Search is where the header's form looks for what was typed, Sought what it was, Seek what may
	// be; without an address there is no such form.
	Search, Sought, Seek string
	// House shows the page in the name of an account instead of Tollgate's: for its customers.
	House *House
	// Plain leaves the frame out: for signing in.
	Plain bool
	// Data is what the page's own template shows.
	Data any

	site *Site
}

// House is in whose name a page is shown.
type House struct {
	Name string
	// Home is where the name leads, Logo a picture, Style a style sheet with colours; empty for none.
	Home, Logo, Style string
}

// Wrong describes the problem of a form's field, in words for people.
type Wrong struct{ Name, Text string }

// Typed is what a refused form had in a field.
func (v *View) Typed(name string) string { return v.Fields.Get(name) }

// WrongWith returns the problem of a field; empty where there is none.
func (v *View) WrongWith(name string) string {
	for _, w := range v.Wrong {
		if w.Name == name {
			return w.Text
		}
	}
	return ""
}

// FirstWrong reports whether a field is the first that is wrong: the browser goes there.
func (v *View) FirstWrong(name string) bool { return len(v.Wrong) > 0 && v.Wrong[0].Name == name }

// Brand is the site's name, Root its path, for the layout.
func (v *View) Brand() string { return v.site.config.Brand }

// Root is the path that the site's pages begin with.
func (v *View) Root() string { return v.site.config.Root }

// Style is the address of the style sheet.
func (v *View) Style() string { return v.site.assets["style.css"].url }

// Script is the address of the script.
func (v *View) Script() string { return v.site.assets["page.js"].url }

// Icon is the address of the icon.
func (v *View) Icon() string { return v.site.assets["icon.svg"].url }

// Config is what a site is made of.
type Config struct {
	// Brand names the site next to the mark: "Operations".
	Brand string
	// Root is the path that all its addresses begin with, such as /console.
	Root string
	// Templates holds a folder template with one file NAME.html for each page, which defines the
	// template "main" and may define others, which Fragment shows alone. What shared.html defines,
	// all pages have.
	Templates fs.FS
	// Funcs are further functions for these templates.
	Funcs template.FuncMap
	// Origin is the site's own origin, such as https://tollgate.example. Empty compares the
	// browser's headers with the request's Host, for a listener that has no public address.
	Origin string
	// OrHost also accepts requests from the request's own Host, for a listener that is reached by
	// more than its public address.
	OrHost bool
	// Now is the clock by whose year times are written without theirs; time.Now when nil.
	Now func() time.Time
	Log *slog.Logger
}

// Site shows pages. Safe for concurrent use.
type Site struct {
	config Config
	pages  map[string]*template.Template
	assets map[string]*asset
	bodies sync.Pool
}

// shared is the file of the templates that all pages of a site have.
const shared = "shared.html"

// New reads the templates. All that can be wrong with them but for their data is an error here.
func New(c Config) (*Site, error) {
	if c.Templates == nil || !strings.HasPrefix(c.Root, "/") {
		return nil, errors.New("page: Templates and Root must be set")
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Now == nil {
		c.Now = time.Now
	}
	s := &Site{
		config: c, pages: map[string]*template.Template{},
		bodies: sync.Pool{New: func() any { return new(bytes.Buffer) }},
	}
	if err := s.readAssets(); err != nil {
		return nil, err
	}
	base, err := template.New("base").Funcs(functions).
		Funcs(template.FuncMap{"time": s.instant}).Funcs(c.Funcs).
		ParseFS(own, "template/*.html")
	if err != nil {
		return nil, fmt.Errorf("page: layout: %w", err)
	}
	templates, err := fs.Sub(c.Templates, "template")
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	names, err := fs.Glob(templates, "*.html")
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("page: no templates: %w", cmp.Or(err, fs.ErrNotExist))
	}
	if slices.Contains(names, shared) {
		if base, err = base.ParseFS(templates, shared); err != nil {
			return nil, fmt.Errorf("page: %s: %w", shared, err)
		}
	}
	for _, name := range names {
		if name == shared {
			continue
		}
		made, err := base.Clone()
		if err == nil {
			made, err = made.ParseFS(templates, name)
		}
		if err != nil {
			return nil, fmt.Errorf("page: %s: %w", name, err)
		}
		if made.Lookup("main") == nil {
			return nil, fmt.Errorf(`page: %s does not define "main"`, name)
		}
		s.pages[strings.TrimSuffix(path.Base(name), ".html")] = made
	}
	return s, nil
}

// Show answers with a page.
func (s *Site) Show(x *server.Exchange, status int, v *View) {
	v.site = s
	s.answer(x, status, v.Page, "base.html", v)
}

// Fragment answers with one template of a page's file, with which the script replaces the previous
// one.
func (s *Site) Fragment(x *server.Exchange, page, name string, data any) {
	s.answer(x, 200, page, name, data)
}

func (s *Site) answer(x *server.Exchange, status int, page, name string, data any) {
	made := s.pages[page]
	if made == nil {
		s.config.Log.Error("there is no such page", "page", page)
		x.Refuse(server.FaultInternal)
		return
	}
	body := s.bodies.Get().(*bytes.Buffer)
	defer s.bodies.Put(body)
	body.Reset()
	if err := made.ExecuteTemplate(body, name, data); err != nil {
		s.config.Log.Error("a page cannot be shown", "page", page, "error", err,
			"request_id", string(x.RequestID()))
		x.Refuse(server.FaultInternal)
		return
	}
	s.Guard(x)
	x.Bare(status, Media, body.Bytes())
}

// Redirect sends the browser on with GET, which is how every form that did something ends: going
// back or reloading does not do it again. to is a path of this site, never what a client sent.
func (s *Site) Redirect(x *server.Exchange, to string) {
	s.Guard(x)
	x.Ctx.Response.Header.Set("Location", to)
	x.Bare(303, Media, nil)
}
