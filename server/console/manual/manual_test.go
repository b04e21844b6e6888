package manual_test

import (
	"errors"
	"log/slog"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"tollgate/server/console/manual"
)

// TestDocumentsThatCannotBeShown: the error names the document and what is wrong with it.
func TestDocumentsThatCannotBeShown(t *testing.T) {
	for text, want := range map[string]string{
		"No title\n":                        "a.md: it does not begin with a title",
		"# A\n\n[there](missing.md)\n":      "a.md: its link to missing.md",
		"# A\n\n[up](../docs/missing.md)\n": "",
	} {
		files := fstest.MapFS{"a.md": {Data: []byte(text)}}
		_, err := manual.New(files, nil, slog.New(slog.DiscardHandler))
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
	m, err := manual.New(fstest.MapFS{
		"README.md": {Data: []byte("# A\n\n<script>alert(1)</script>\n\n[code](../x.go) [b](b.md#c)\n")},
		"b.md":      {Data: []byte("# B\n\n## C\n")},
	}, nil, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	var ctx fasthttp.RequestCtx
	ctx.Request.SetRequestURI("/docs")
	over, err := m.Over(nil)
	require.NoError(t, err)
	over(nil)(&ctx)
	body := string(ctx.Response.Body())
	require.NotContains(t, body, "alert(1)")
	require.Contains(t, body, `code <a href="/docs/b#c">b</a>`)
}

// TestDocumentsAreRenderedWhenTheyAreAskedFor: once, and a fault in them leaves other paths alone.
func TestDocumentsAreRenderedWhenTheyAreAskedFor(t *testing.T) {
	for _, fault := range []error{nil, errors.New("a link to nowhere")} {
		rendered := 0
		shown := func(fasthttp.RequestHandler) fasthttp.RequestHandler {
			return func(ctx *fasthttp.RequestCtx) { ctx.SetStatusCode(fasthttp.StatusAccepted) }
		}
		handler := manual.Later(slog.New(slog.DiscardHandler), func() (manual.Over, error) {
			rendered++
			return shown, fault
		})(func(ctx *fasthttp.RequestCtx) { ctx.SetStatusCode(fasthttp.StatusTeapot) })
		status := func(uri string) int {
			var ctx fasthttp.RequestCtx
			ctx.Request.SetRequestURI(uri)
			handler(&ctx)
			return ctx.Response.StatusCode()
		}
		require.Equal(t, fasthttp.StatusTeapot, status("/console"))
		require.Zero(t, rendered)
		want := fasthttp.StatusAccepted
		if fault != nil {
			want = fasthttp.StatusInternalServerError
		}
		for range 2 {
			require.Equal(t, want, status("/docs/x"))
		}
		require.Equal(t, 1, rendered)
	}
}
