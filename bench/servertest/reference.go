package servertest

import (
	"cmp"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"tollgate/server/console/manual"
)

// Documents asks for pages of a manual; status 0 is what the manual leaves to others.
func Documents(
	t testing.TB, m *manual.Manual, pages []manual.Page,
) func(path string) (status int, body string) {
	t.Helper()
	over, err := m.Over(pages)
	require.NoError(t, err)
	left := false
	handler := over(func(*fasthttp.RequestCtx) { left = true })
	return func(path string) (int, string) {
		var ctx fasthttp.RequestCtx
		ctx.Request.SetRequestURI(path)
		left = false
		handler(&ctx)
		if left {
			return 0, ""
		}
		return ctx.Response.StatusCode(), string(ctx.Response.Body())
	}
}

var (
	linkWithin = regexp.MustCompile(`href="(/docs[^"#]*)?(#[^"]*)?"`)
	anchorID   = regexp.MustCompile(` id="([^"]+)"`)
)

// maxPage is the size of a page in bytes, at most.
const maxPage = 100 << 10

// RequireLinked requires of a page that all its links within the manual lead somewhere, that no
// anchor appears more than once, and that it is no larger than pages are.
func RequireLinked(t testing.TB, get func(path string) (int, string), path string) (body string) {
	t.Helper()
	status, body := get(path)
	require.Equal(t, 200, status, path)
	require.Equal(t, 1, strings.Count(body, "<h1>"), path)
	require.Less(t, len(body), maxPage, path)
	ids := map[string]bool{}
	for _, found := range anchorID.FindAllStringSubmatch(body, -1) {
		require.False(t, ids[found[1]], "%s has #%s more than once", path, found[1])
		ids[found[1]] = true
	}
	for _, found := range linkWithin.FindAllStringSubmatch(body, -1) {
		target := body
		if found[1] != "" && found[1] != path {
			status, target = get(found[1])
			require.Equal(t, 200, status, "%s links to %s", path, found[1])
		}
		if len(found[2]) > 1 {
			require.Contains(t, target, ` id="`+found[2][1:]+`"`, "%s links to %s", path, found[0])
		}
	}
	return body
}

// RequireReference requires that the reference of a document shows each of its operations with its
// text, request and answers, in pages that are linked, and that docs/api/NAME has the same.
func RequireReference(t testing.TB, document Document, name string, text []byte) {
	t.Helper()
	requireFiles(t, filepath.Join("..", "..", "docs", "api", name), text)
	const root = manual.ReferenceRoot + "some"
	pages, err := manual.Reference(text, root, "/openapi.json")
	require.NoError(t, err)
	m, err := manual.New(fstest.MapFS{"README.md": {Data: []byte("# Documents\n")}}, nil,
		slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	get := Documents(t, m, pages)
	var all strings.Builder
	for i := range pages {
		body := RequireLinked(t, get, pages[i].Path)
		require.NotContains(t, body, "<no value>")
		all.WriteString(body)
	}
	for _, path := range document.Paths.InMatchingOrder() {
		for _, o := range document.Paths.Value(path).Operations() {
			require.Contains(t, all.String(), ` id="`+o.OperationID+`"`)
			require.Contains(t, all.String(), "#"+o.OperationID+`"`, "the overview leads to it")
			for status, answer := range o.Responses.Map() {
				for _, content := range answer.Value.Content {
					for name := range content.Examples {
						if status >= "4" && status != "default" {
							require.Contains(t, all.String(), "<code>"+name+"</code>", o.OperationID)
						}
					}
				}
			}
		}
	}
}

// maxFile is the size of a file of a reference in bytes, at most.
const maxFile = 100 << 10

// requireFiles compares the files of a reference with those in a folder, which the flag -examples
// writes anew.
func requireFiles(t testing.TB, folder string, document []byte) {
	t.Helper()
	files, err := manual.Markdown(document)
	require.NoError(t, err)
	kept, err := filepath.Glob(filepath.Join(folder, "*"))
	require.NoError(t, err)
	if *rewriteExamples {
		for _, file := range kept {
			require.NoError(t, os.Remove(file))
		}
		require.NoError(t, os.MkdirAll(folder, 0o750))
		for name, text := range files {
			require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
		}
		return
	}
	require.Len(t, files, len(kept), folder)
	for name, text := range files {
		file := filepath.Join(folder, name)
		is, err := os.ReadFile(file)
		require.NoError(t, err)
		require.True(t, string(is) == text, "%s is not what the API publishes: go test -run %s -args "+
			"-examples, twice where an example changes", file, t.Name())
		require.Less(t, len(text), maxFile, file)
		for _, link := range linkOfFile.FindAllStringSubmatch(text, -1) {
			target := files[cmp.Or(link[1], name)]
			require.NotEmpty(t, target, "%s links to %s", file, link[0])
			if link[2] != "" {
				require.Contains(t, strings.ToLower(target), "\n## "+link[2]+"\n",
					"%s links to %s", file, link[0])
			}
		}
	}
}

// linkOfFile is a link between files of a reference.
var linkOfFile = regexp.MustCompile(`\]\(([a-z-]+\.md|README\.md)?(?:#([^)]+))?\)`)
