package manual_test

import (
	"bytes"
	"errors"
	"log/slog"
	"sync"
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

// TestDocumentsAreRenderedWhenTheyAreAskedFor: once, however many ask at once. A fault in them or a
// panic leaves other paths alone, and is answered with the headers that protect browsers.
func TestDocumentsAreRenderedWhenTheyAreAskedFor(t *testing.T) {
	shown := func(fasthttp.RequestHandler) fasthttp.RequestHandler {
		return func(ctx *fasthttp.RequestCtx) { ctx.SetStatusCode(fasthttp.StatusAccepted) }
	}
	for want, made := range map[int][]func() (manual.Over, error){
		fasthttp.StatusAccepted: {func() (manual.Over, error) { return shown, nil }},
		fasthttp.StatusInternalServerError: {
			func() (manual.Over, error) { return nil, errors.New("a link to nowhere") },
			func() (manual.Over, error) { panic("a link to nowhere") },
		},
	} {
		for _, render := range made {
			rendered := 0
			var log bytes.Buffer
			later := manual.Later(slog.New(slog.NewTextHandler(&log, nil)), func() (manual.Over, error) {
				rendered++
				return render()
			})
			handler := later(func(ctx *fasthttp.RequestCtx) { ctx.SetStatusCode(fasthttp.StatusTeapot) })
			ask := func(uri string) *fasthttp.Response {
				var ctx fasthttp.RequestCtx
				ctx.Init(&fasthttp.Request{}, nil, nil)
				ctx.Request.SetRequestURI(uri)
				handler(&ctx)
				return &ctx.Response
			}
			require.Equal(t, fasthttp.StatusTeapot, ask("/console").StatusCode())
			require.Zero(t, rendered)
			for _, answer := range atOnce(func(int) *fasthttp.Response { return ask("/docs/x") }) {
				require.Equal(t, want, answer.StatusCode())
				if want == fasthttp.StatusInternalServerError {
					require.Equal(t, "nosniff", string(answer.Header.Peek("X-Content-Type-Options")))
					require.Contains(t, string(answer.Body()), "The documents cannot be shown")
					require.Contains(t, log.String(), "a link to nowhere")
				}
			}
			require.Equal(t, 1, rendered)
		}
	}
}

// TestDocumentsAreShownToManyAtOnce.
func TestDocumentsAreShownToManyAtOnce(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	handler := manual.Later(log, func() (manual.Over, error) {
		m, err := manual.New(fstest.MapFS{
			"README.md": {Data: []byte("# A\n\n[b](b.md#c)\n")},
			"b.md":      {Data: []byte("# B\n\n## C\n")},
		}, nil, log)
		if err != nil {
			return nil, err
		}
		return m.Over(nil)
	})(nil)
	for i, answer := range atOnce(func(i int) *fasthttp.Response {
		var ctx fasthttp.RequestCtx
		ctx.Init(&fasthttp.Request{}, nil, nil)
		ctx.Request.SetRequestURI([]string{"/docs", "/docs/b"}[i%2])
		handler(&ctx)
		return &ctx.Response
	}) {
		require.Equal(t, fasthttp.StatusOK, answer.StatusCode())
		require.Contains(t, string(answer.Body()), []string{"/docs/b#c", "<h2 id"}[i%2])
	}
}

// atOnce are the answers to eight requests that are made at the same time.
func atOnce(ask func(i int) *fasthttp.Response) (answers [8]*fasthttp.Response) {
	var asking sync.WaitGroup
	for i := range answers {
		asking.Go(func() { answers[i] = ask(i) })
	}
	asking.Wait()
	return answers
}
