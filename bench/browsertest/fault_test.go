package browsertest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	policy   = "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; img-src data:"
	goodPage = `<!doctype html><html lang="en"><title>A page</title>
<link rel="icon" href="data:,"><meta name="viewport" content="width=device-width">
<style>body { background: #fff; color: #222 } :focus-visible { outline: 3px solid #06c }</style>
<main><h1>A page</h1><p><a href="/">A link</a></p>
<details><summary>More</summary><p id="more">There is more.</p></details>
<form><label>Name <input name="n"></label>
<label><input type="radio" name="r" checked> one</label>
<label><input type="radio" name="r"> two</label><button>Send</button></form>`
)

// TestEveryFaultIsFound: a page that has one fault is found by it, and one that has none is not.
func TestEveryFaultIsFound(t *testing.T) {
	pages := map[string]struct{ page, fault string }{
		"good":      {"", ""},
		"overflow":  {`<p style="width: 500px">wide</p>`, "narrow, dark: it is "},
		"folded":    {`<style>#more { width: 500px }</style>`, "narrow, unfolded: it is "},
		"pale":      {`<p style="color: #999">pale</p>`, "has a contrast of 2.85"},
		"dark":      {`<style>@media (prefers-color-scheme: dark) { h1 { color: #ddd } }</style>`, "dark: h1"},
		"headings":  {`<h1>Another</h1>`, "it has 2 h1"},
		"ids":       {`<p id="more">again</p>`, "the id more appears twice"},
		"nameless":  {`<form><input name="x"></form>`, "has no name"},
		"labelled":  {`<section aria-labelledby="gone">x</section>`, "names gone, which is not there"},
		"elsewhere": {`<img alt="" src="http://127.0.0.1:9/x.png">`, "Content Security Policy"},
		"inline":    {`<p onclick="1">x</p><script>1</script>`, "Content Security Policy"},
		"script":    {`<script src="/fails.js"></script>`, "a script fails: Uncaught"},
		"console":   {`<script src="speaks.js"></script>`, "a script writes to the console"},
		"missing":   {`<script src="nothing.js"></script>`, "404"},
		"asks":      {`<script src="asks.js"></script>`, "it asks http://127.0.0.1:9/"},
		"by_script": {`<script src="adds.js"></script>`, "with scripts it has"},
		"no_focus":  {`<style>a:focus-visible { outline: none }</style>`, `a "A link" shows no focus`},
		"outside":   {`<a href="/" style="position: fixed; left: -99rem">x</a>`, "outside of the window"},
		"list":      {`<ul><p>no item</p></ul>`, "list (<ul> and <ol>"},
		"heavy":     {"<!-- " + strings.Repeat("x", maxPage) + " -->", "bytes with its styles"},
		"kept_out":  {`<div onfocusin="1" inert><a href="/x">x</a></div>`, "is not reached by the keyboard"},
	}
	scripts := map[string]string{
		"/fails.js": "throw new Error('x')", "/speaks.js": "console.error('x')",
		"/adds.js": "document.body.append(document.createElement('form'))",
		"/asks.js": "fetch('http://127.0.0.1:9/').catch(() => 0)",
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, known := scripts[r.URL.Path]
		name := strings.TrimPrefix(r.URL.Path, "/")
		allowed := policy
		switch page, isPage := pages[name]; {
		case isPage:
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			if name == "asks" {
				allowed += "; connect-src *"
			}
			text = goodPage + page.page
		case known:
			w.Header().Set("Content-Type", "text/javascript")
		default:
			w.WriteHeader(http.StatusNotFound)
		}
		w.Header().Set("Content-Security-Policy", allowed)
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
	}))
	t.Cleanup(site.Close)
	b := openBrowser(t, "fault", site.URL)
	for name, c := range pages {
		b.open(site.URL + "/" + name)
		found := append(b.asItIs(func(window, scheme) {}), b.anew()...)
		if c.fault == "" {
			require.Empty(t, found, name)
			continue
		}
		require.Contains(t, strings.Join(found, "\n"), c.fault, name)
	}
}
