package docs_test

import (
	"io/fs"
	"log/slog"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"tollgate/docs"
	"tollgate/server/console/manual"
)

// get asks for a path; status 0 is what the manual leaves to others.
func get(t *testing.T, m *manual.Manual, path string) (status int, body string) {
	t.Helper()
	var ctx fasthttp.RequestCtx
	ctx.Request.SetRequestURI(path)
	left := false
	m.Handler(func(*fasthttp.RequestCtx) { left = true })(&ctx)
	if left {
		return 0, ""
	}
	return ctx.Response.StatusCode(), string(ctx.Response.Body())
}

var link = regexp.MustCompile(`href="(/docs[^"#]*)(#[^"]*)?"`)

// TestEveryDocumentIsAPage, and every link between them leads to one.
func TestEveryDocumentIsAPage(t *testing.T) {
	m, err := manual.New(docs.Files, nil, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	count := 0
	require.NoError(t, fs.WalkDir(docs.Files, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".md" {
			return err
		}
		count++
		page := "/docs/" + strings.TrimSuffix(name, ".md")
		if name == "README.md" {
			page = "/docs"
		}
		status, body := get(t, m, page)
		require.Equal(t, 200, status, page)
		require.Equal(t, 1, strings.Count(body, "<h1>"), page)
		require.NotContains(t, body, ".md\"", page)
		for _, found := range link.FindAllStringSubmatch(body, -1) {
			status, target := get(t, m, found[1])
			require.Equal(t, 200, status, "%s links to %s", page, found[1])
			if found[2] != "" {
				require.Contains(t, target, `id="`+found[2][1:]+`"`, "%s links to %s", page, found[0])
			}
		}
		return nil
	}))
	require.Greater(t, count, 15)
	_, body := get(t, m, "/docs/quickstart")
	require.Contains(t, body, "<pre><code class=\"language-sh\">")
	_, body = get(t, m, "/docs/concepts/plans")
	require.Contains(t, body, "<table>")
	for _, other := range []string{"/docs/", "/docs/nothing", "/docs/quickstart.md", "/documents"} {
		status, _ := get(t, m, other)
		require.Zero(t, status, other)
	}
}
