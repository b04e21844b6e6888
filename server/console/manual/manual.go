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
	"strings"

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
type Manual struct{ table *server.Table }

// document is a page: its title, and its text without it.
type document struct {
	title string
	body  template.HTML
}

// New renders all documents of files. A link between them to one that does not exist is an error.
func New(files fs.FS, gate *server.Gate, log *slog.Logger) (*Manual, error) {
	own, err := fs.Sub(templates, "template")
	if err != nil {
		return nil, fmt.Errorf("manual: %w", err)
	}
	site, err := page.New(page.Config{Brand: "Documentation", Root: Root, Templates: own, Log: log})
	if err != nil {
		return nil, err
	}
	routes := site.Assets()
	err = fs.WalkDir(files, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".md" {
			return err
		}
		d, err := render(files, name)
		if err != nil {
			return fmt.Errorf("manual: %s: %w", name, err)
		}
		view := page.View{Page: "document", Title: d.title, Data: d.body}
		if name != first {
			view.Crumbs = []page.Link{{Text: "Documentation", URL: Root}, {Text: d.title}}
		}
		routes = append(routes, server.Route{
			Method: "GET", Path: address(name), Operation: "document " + name, Access: server.AccessOpen,
			Handle: func(x *server.Exchange) {
				own := view
				site.Show(x, 200, &own)
			},
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	m := &Manual{}
	m.table, err = server.NewTable(routes, server.TableConfig{Head: true, Gate: gate, Log: log})
	return m, err
}

// Handler answers the pages, and leaves every other path to next.
func (m *Manual) Handler(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		if bytes.HasPrefix(ctx.Request.Header.RequestURI(), []byte(Root)) && m.table.Knows(ctx) {
			m.table.Serve(ctx)
			return
		}
		next(ctx)
	}
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
	tree := markdown.Parser().Parse(text.NewReader([]byte(body)))
	var links []*ast.Link
	err = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, ok := n.(*ast.Link); ok && entering {
			links = append(links, link)
		}
		return ast.WalkContinue, nil
	})
	for _, link := range links {
		if err == nil {
			err = resolve(files, name, link)
		}
	}
	if err != nil {
		return d, err
	}
	var out bytes.Buffer
	err = markdown.Renderer().Render(&out, []byte(body), tree)
	// Pictures in characters do not wrap, and are scrolled: by the keyboard, too.
	html := strings.ReplaceAll(out.String(), "<pre><code>", `<pre tabindex="0"><code>`)
	d.body = template.HTML(html) // of our own, and raw HTML is left out
	return d, err
}

// resolve turns a link between documents into one between their pages. A link to a file elsewhere
// becomes its text.
func resolve(files fs.FS, name string, link *ast.Link) error {
	target, fragment, _ := strings.Cut(string(link.Destination), "#")
	if target == "" || strings.Contains(target, ":") {
		return nil
	}
	target = path.Join(path.Dir(name), target)
	if strings.HasPrefix(target, "../") {
		for child := link.FirstChild(); child != nil; child = link.FirstChild() {
			link.Parent().InsertBefore(link.Parent(), link, child)
		}
		link.Parent().RemoveChild(link.Parent(), link)
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
