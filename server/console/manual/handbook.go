package manual

import (
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"

	"tollgate/server/console/page"
)

// HandbookRoot is where the first page of the operators' handbook is; its chapters are below it.
const HandbookRoot = Root + "/operate"

// elsewhere are files that are none of the documents', as documents link to them, with where a node
// shows them.
var elsewhere = map[string]string{
	"../cluster/OPERATIONS.md": HandbookRoot,
	"../CHANGELOG.md":          Root + "/changelog",
	"../SECURITY.md":           Root + "/security",
}

// Handbook makes the pages of the operators' handbook.
func Handbook(text string) ([]Page, error) { return book(HandbookRoot, text, unlink) }

// RootFiles makes the pages of CHANGELOG.md and SECURITY.md.
func RootFiles(changelog, security string) ([]Page, error) {
	pages, err := book(Root+"/changelog", changelog, unlink)
	if err != nil {
		return nil, err
	}
	more, err := book(Root+"/security", security, unlink)
	return append(pages, more...), err
}

// book makes the pages of a text: one for each chapter ("## "), and one with its beginning and what
// the chapters are.
func book(root, text string, resolve func(*ast.Link) error) ([]Page, error) {
	title, text, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
	chapters := strings.Split(raised(text), "\n# ")
	body, err := converted(chapters[0], resolve, hide)
	if err != nil {
		return nil, err
	}
	contents := make([]page.Link, 0, len(chapters)-1)
	pages := make([]Page, 1, len(chapters))
	for _, chapter := range chapters[1:] {
		name, rest, _ := strings.Cut(chapter, "\n")
		body, err := converted(rest, resolve, hide)
		if err != nil {
			return nil, err
		}
		p := Page{
			Path: root + "/" + slug(name), Title: name, template: "document", data: body,
			crumbs: []page.Link{top, {Text: title, URL: root}, {Text: name}},
		}
		pages = append(pages, p)
		contents = append(contents, page.Link{Text: name, URL: p.Path})
	}
	pages[0] = Page{
		Path: root, Title: title, template: "handbook",
		crumbs: []page.Link{top, {Text: title}},
		data:   map[string]any{"About": body, "Chapters": contents},
	}
	return pages, nil
}

// raised is a text whose headings are one level higher; what is in blocks of code stays.
func raised(text string) string {
	lines, code := strings.Split(text, "\n"), false
	for i, line := range lines {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if !code && strings.HasPrefix(line, "##") {
			lines[i] = line[1:]
		}
	}
	return strings.Join(lines, "\n")
}

var unfit = regexp.MustCompile(`[^a-z0-9]+`)

// slug is a name as it stands in addresses.
func slug(name string) string {
	return strings.Trim(unfit.ReplaceAllString(strings.ToLower(name), "-"), "-")
}
