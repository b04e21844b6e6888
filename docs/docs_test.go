package docs_test

import (
	"io/fs"
	"log/slog"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate"
	"tollgate/bench/servertest"
	"tollgate/cluster"
	"tollgate/docs"
	"tollgate/server/console/manual"
)

// TestEveryDocumentIsAPage, and every link between them leads to one; each chapter of the
// operators' handbook is a page, too.
func TestEveryDocumentIsAPage(t *testing.T) {
	m, err := manual.New(docs.Files, nil, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	chapters, err := manual.Handbook(cluster.Operations)
	require.NoError(t, err)
	files, err := manual.RootFiles(tollgate.Changelog, tollgate.Security)
	require.NoError(t, err)
	chapters = append(chapters, files...)
	references := []manual.Page{}
	for _, name := range []string{"client", "workspace"} { // what each API tests by itself
		pages, err := manual.Reference([]byte(`{}`), manual.ReferenceRoot+name, "/openapi.json")
		require.NoError(t, err)
		references = append(references, pages...)
	}
	get := servertest.Documents(t, m, append(references, chapters...))
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
		body := servertest.RequireLinked(t, get, page)
		require.NotContains(t, body, ".md\"", page)
		return nil
	}))
	require.Greater(t, count, 15)
	_, body := get("/docs/quickstart")
	require.Contains(t, body, "<pre><code class=\"language-sh\">")
	_, body = get("/docs/concepts/plans")
	require.Contains(t, body, "<table>")
	for _, other := range []string{"/docs/", "/docs/nothing", "/docs/quickstart.md", "/documents"} {
		status, _ := get(other)
		require.Zero(t, status, other)
	}

	require.Greater(t, len(chapters), 15)
	for i := range chapters {
		body = servertest.RequireLinked(t, get, chapters[i].Path)
		require.NotContains(t, body, "<!--", chapters[i].Path)
	}
	body = servertest.RequireLinked(t, get, manual.HandbookRoot+"/alerts")
	require.Contains(t, body, `<h2 id="tollgatenoleader">TollgateNoLeader</h2>`)
	_, body = get(manual.HandbookRoot + "/bootstrap")
	require.Contains(t, body, "# printf %s", "a comment in a block of code stays")
}

// TestTheExamplesInGoCompile: each is part of the client's example, which the compiler reads.
func TestTheExamplesInGoCompile(t *testing.T) {
	example, err := os.ReadFile("../sdk/go/example_test.go")
	require.NoError(t, err)
	compiled := strings.ReplaceAll(string(example), "\n\t", "\n")
	count := 0
	require.NoError(t, fs.WalkDir(docs.Files, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".md" {
			return err
		}
		text, err := fs.ReadFile(docs.Files, name)
		for _, block := range strings.Split(string(text), "\n```go\n")[1:] {
			count++
			block, _, _ = strings.Cut(block, "```")
			require.Contains(t, compiled, "\n"+block, name)
		}
		return err
	}))
	require.Positive(t, count)
}
