// Package manual serves documents written in Markdown as pages, on every listener of a node. See
// DESIGN.md.
package manual

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/valyala/fasthttp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"tollgate/server"
	"tollgate/server/console/page"
)

// Root is the path of the first page.
const Root = "/docs"

// first is the document of the first page.
const first = "README.md"

//go:embed template
var templates embed.FS

// Manual is the documents, rendered. Safe for concurrent use.
type Manual struct {
	site   *page.Site
	routes []server.Route
	gate   *server.Gate
	log    *slog.Logger
}

// document is a page: its title, and its text without it.
type document struct {
	title string
	body  template.HTML
}

// New renders all documents of files. A link between them to one that does not exist is an error.
func New(files fs.FS, gate *server.Gate, log *slog.Logger) (*Manual, error) {
	m := &Manual{gate: gate, log: log}
	var err error
	m.site, err = page.New(page.Config{
		Brand: "Documentation", Root: Root, Templates: templates, Log: log,
	})
	if err != nil {
		return nil, err
	}
	m.routes = m.site.Assets()
	err = fs.WalkDir(files, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path.Ext(name) == ".svg" {
			return m.picture(files, name)
		}
		if path.Ext(name) != ".md" {
			return nil
		}
		if name == commands {
			return m.commands(files)
		}
		d, err := render(files, name)
		if err != nil {
			return fmt.Errorf("manual: %s: %w", name, err)
		}
		p := Page{Path: address(name), Title: d.title, template: "document", data: d.body}
		if name != first {
			p.crumbs = []page.Link{top, {Text: d.title}}
		}
		m.routes = append(m.routes, m.route(p))
		return nil
	})
	return m, err
}

// commands is the reference of the command line, which is too long for one page.
const commands = "cli.md"

// commands adds the reference of the command line, a page for each group of commands.
func (m *Manual) commands(files fs.FS) error {
	source, err := fs.ReadFile(files, commands)
	if err != nil {
		return fmt.Errorf("manual: %w", err)
	}
	pages, err := book(address(commands), string(source), func(link *ast.Link) error {
		if chapter, found := strings.CutPrefix(string(link.Destination), "#"); found {
			link.Destination = []byte(address(commands) + "/" + chapter)
			return nil
		}
		return resolve(files, commands, link)
	})
	for _, p := range pages {
		m.routes = append(m.routes, m.route(p))
	}
	return err
}

// picture adds a picture to the routes. It may be kept for a while: another release has another.
func (m *Manual) picture(files fs.FS, name string) error {
	body, err := fs.ReadFile(files, name)
	if err != nil {
		return fmt.Errorf("manual: %w", err)
	}
	m.routes = append(m.routes, server.Route{
		Method: "GET", Path: Root + "/" + name, Operation: "picture " + name,
		Access: server.AccessOpen, Handle: func(x *server.Exchange) {
			m.site.Guard(x)
			x.Caching("public, max-age=3600")
			x.Bare(200, "image/svg+xml", body)
		},
	})
	return nil
}

// top leads to the first page.
var top = page.Link{Text: "Documentation", URL: Root}

func (m *Manual) route(p Page) server.Route {
	view := page.View{Page: p.template, Title: p.Title, Crumbs: p.crumbs, Data: p.data}
	return server.Route{
		Method: "GET", Path: p.Path, Operation: "document " + p.Path, Access: server.AccessOpen,
		Handle: func(x *server.Exchange) {
			own := view
			m.site.Show(x, 200, &own)
		},
	}
}

// Over puts documents in front of a handler, to which it leaves every other path.
type Over = func(next fasthttp.RequestHandler) fasthttp.RequestHandler

// Later makes the documents when the first of them is asked for.
func Later(log *slog.Logger, render func() (Over, error)) Over {
	return func(next fasthttp.RequestHandler) fasthttp.RequestHandler {
		handler := sync.OnceValue(func() fasthttp.RequestHandler {
			over, err := recovered(render)
			if err != nil { // for good: they are the program's own, and it would fail again
				log.Error("the documents cannot be rendered", "error", err)
				return func(ctx *fasthttp.RequestCtx) { server.Fail(ctx, faultUnrendered) }
			}
			return over(next)
		})
		return func(ctx *fasthttp.RequestCtx) {
			if !isBelow(ctx) {
				next(ctx)
				return
			}
			handler()(ctx)
		}
	}
}

var faultUnrendered = server.FaultInternal.Saying("The documents cannot be shown")

// recovered is an error where render panics: no table is above it that would recover.
func recovered(render func() (Over, error)) (over Over, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%v\n%s", cause, debug.Stack())
		}
	}()
	return render()
}

// isBelow reports whether a request may be for a document.
func isBelow(ctx *fasthttp.RequestCtx) bool {
	return bytes.HasPrefix(ctx.Request.Header.RequestURI(), []byte(Root))
}

// Over answers the documents and further pages, and leaves every other path to the handler that it
// is given.
func (m *Manual) Over(pages []Page) (Over, error) {
	routes := slices.Clone(m.routes)
	for _, p := range pages {
		routes = append(routes, m.route(p))
	}
	table, err := server.NewTable(routes, server.TableConfig{Head: true, Gate: m.gate, Log: m.log})
	if err != nil {
		return nil, err
	}
	return func(next fasthttp.RequestHandler) fasthttp.RequestHandler {
		return func(ctx *fasthttp.RequestCtx) {
			if isBelow(ctx) && table.Knows(ctx) {
				table.Serve(ctx)
				return
			}
			next(ctx)
		}
	}, nil
}

// address is where a document is shown.
func address(name string) string {
	if name == first {
		return Root
	}
	return Root + "/" + strings.TrimSuffix(name, ".md")
}

var markdown = goldmark.New(
	goldmark.WithExtensions(extension.Table, extension.TaskList),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
)

// render makes a page of a document, whose first line is its title.
func render(files fs.FS, name string) (d document, err error) {
	source, err := fs.ReadFile(files, name)
	if err != nil {
		return d, err
	}
	title, body, _ := strings.Cut(string(source), "\n")
	var found bool
	if d.title, found = strings.CutPrefix(title, "# "); !found {
		return d, errors.New("it does not begin with a title")
	}
	d.body, err = converted(body, func(link *ast.Link) error { return resolve(files, name, link) },
		func(picture *ast.Image) error { return show(files, name, picture) })
	return d, err
}

// converted is a text as HTML, in which resolve changes the links, and show the pictures.
func converted(
	source string, resolve func(*ast.Link) error, show func(*ast.Image) error,
) (template.HTML, error) {
	tree := markdown.Parser().Parse(text.NewReader([]byte(source)))
	var links []*ast.Link
	var pictures []*ast.Image
	var comments []ast.Node
	err := ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Link:
			if entering {
				links = append(links, n)
			}
		case *ast.Image:
			if entering {
				pictures = append(pictures, n)
			}
		case *ast.HTMLBlock:
			if entering {
				comments = append(comments, n)
			}
		}
		return ast.WalkContinue, nil
	})
	for _, comment := range comments {
		comment.Parent().RemoveChild(comment.Parent(), comment)
	}
	for _, link := range links {
		if err == nil {
			err = resolve(link)
		}
	}
	for _, picture := range pictures {
		if err == nil {
			err = show(picture)
		}
	}
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = markdown.Renderer().Render(&out, []byte(source), tree)
	return template.HTML(accessible.Replace(out.String())), err // of our own, and raw HTML is left out
}

// accessible changes what goldmark writes that not everybody can use. Pictures in characters do not
// wrap, and are scrolled: by the keyboard, too. A column without a name has no header, and a box to
// tick on paper is not a field.
var accessible = strings.NewReplacer(
	"<pre><code>", `<pre tabindex="0"><code>`,
	"<th></th>", "<td></td>",
	`<input disabled="" type="checkbox">`, `<span aria-hidden="true">☐</span>`,
	`<input checked="" disabled="" type="checkbox">`, `<span aria-hidden="true">☑</span>`,
)

// show turns the address of a picture among the files into that of the node.
func show(files fs.FS, name string, picture *ast.Image) error {
	target := path.Join(path.Dir(name), string(picture.Destination))
	if strings.HasPrefix(target, "../") || path.Ext(target) != ".svg" {
		return hide(picture)
	}
	if _, err := fs.Stat(files, target); err != nil {
		return fmt.Errorf("its picture %s: %w", target, err)
	}
	picture.Destination = []byte(Root + "/" + target)
	return nil
}

// hide takes out a picture that a node does not have.
func hide(picture *ast.Image) error {
	picture.Parent().RemoveChild(picture.Parent(), picture)
	return nil
}

// unlink makes a link its text.
func unlink(link *ast.Link) error {
	for child := link.FirstChild(); child != nil; child = link.FirstChild() {
		link.Parent().InsertBefore(link.Parent(), link, child)
	}
	link.Parent().RemoveChild(link.Parent(), link)
	return nil
}

// resolve turns a link between documents into one between their pages. A link to a file elsewhere
// becomes its text.
func resolve(files fs.FS, name string, link *ast.Link) error {
	target, fragment, _ := strings.Cut(string(link.Destination), "#")
	if target == "" || strings.Contains(target, ":") {
		return nil
	}
	target = path.Join(path.Dir(name), target)
	if page := elsewhere[target]; page != "" {
		if fragment != "" { // a chapter, which is a page of its own
			page += "/" + fragment
		}
		link.Destination = []byte(page)
		return nil
	}
	if strings.HasPrefix(target, "../") || strings.HasPrefix(target, "api/admin/") {
		return unlink(link) // the admin API's reference is on the operations listener alone
	}
	if strings.HasPrefix(target, "api/") {
		page := strings.TrimSuffix(strings.TrimSuffix(target, ".md"), "/README")
		link.Destination = []byte(Root + "/" + page)
		return nil
	}
	if _, err := fs.Stat(files, target); err != nil {
		return fmt.Errorf("its link to %s: %w", target, err)
	}
	target = address(target)
	if fragment != "" {
		target += "#" + fragment
	}
	link.Destination = []byte(target)
	return nil
}
