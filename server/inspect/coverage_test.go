package inspect_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/inspecttest"
	"tollgate/server/inspect"
	"tollgate/server/inspect/document"
	"tollgate/server/provider/fetch"
)

// linking is a home page of enough text, with links.
func linking(links string) string {
	return "=== " + home + "\n200 text/html\n\n<html><body>" + prose + links + "</body></html>\n"
}

const (
	// open describes an API that needs nothing.
	open = "=== " + home + "openapi.json\n200 application/json\n\n" +
		`{"openapi":"3.1.0","security":[{}],"paths":{"/a":{"get":{}}}}` + "\n"
	second = `<a href="/b/openapi.json">OpenAPI</a>`
	at     = "=== " + home
)

// TestWhatWasNotReadIsNotDenied: an answer that is missing makes that unknown which it would have
// told, and nothing else.
func TestWhatWasNotReadIsNotDenied(t *testing.T) {
	named := func(what string) string { return linking(second) + open + what }
	for name, c := range map[string]struct{ text, want string }{
		// api, authentication_requirement, mcp, cost, index
		"all is read":                {linking("") + open, "yes none no no no"},
		"nothing is there":           {linking(""), "no unknown no no no"},
		"a description, read":        {named(at + "b/openapi.json\n200 application/json\n\n{\"openapi\":\"3.1.0\",\"security\":[{}],\"paths\":{\"/b\":{\"get\":{}}}}"), "yes none no no no"},
		"a description answers 404":  {named(""), "yes unknown no no no"},
		"a description answers 503":  {named(at + "b/openapi.json\n503 text/plain\n\nx"), "yes unknown unknown unknown no"},
		"a description answers 403":  {named(at + "b/openapi.json\n403 text/plain\n\nx"), "yes unknown unknown unknown no"},
		"a description is a page":    {named(at + "b/openapi.json\n200 text/html\n\n<html>API</html>"), "yes unknown no no no"},
		"a description is forbidden": {named(at + "robots.txt\n200 text/plain\n\nUser-agent: *\nDisallow: /b"), "yes unknown unknown unknown no"},
		"a description is foreign":   {linking(`<a href="https://other.example/openapi.json">x</a>`) + open, "yes unknown no no no"},
		"one more than is read": {linking(`<a href="/1/openapi.json">x</a><a href="/2/openapi.json">x</a><a href="/3/openapi.json">x</a>`+
			`<a href="/4/openapi.json">x</a><a href="/5/openapi.json">x</a>`) + open +
			at + "1/openapi.json\n200\n\n{\"openapi\":\"3.0.0\",\"paths\":{}}\n" + at + "2/openapi.json\n200\n\n{\"openapi\":\"3.0.1\",\"paths\":{}}\n" +
			at + "3/openapi.json\n200\n\n{\"openapi\":\"3.0.2\",\"paths\":{}}\n" + at + "4/openapi.json\n200\n\n{\"openapi\":\"3.0.3\",\"paths\":{}}\n", "yes unknown no no no"},
		"the only one answers 404":  {linking(second), "unknown unknown no no no"},
		"the only one is foreign":   {linking(`<a href="https://other.example/openapi.json">x</a>`), "unknown unknown no no no"},
		"a guess is refused":        {linking("") + at + "openapi.json\n401 text/plain\n\nx", "unknown unknown unknown unknown no"},
		"a guess fails":             {linking("") + at + "openapi.json\nfail network", "unknown unknown unknown unknown no"},
		"everything missing is 403": {"=== *\n403 text/plain\n\nx\n" + linking(""), "no unknown no no no"},
		"documentation elsewhere":   {linking(`<a href="https://docs.other.example/">Docs</a>`), "unknown unknown unknown no no"},
		"prices elsewhere":          {linking(`<a href="https://other.example/pricing">Pricing</a>`), "no unknown no unknown no"},
		"prices answer 404":         {linking(`<a href="/cost">Pricing</a>`), "no unknown no unknown no"},
		"a viewer names it":         {linking(`<a href="/swagger-ui.html">API</a>`) + at + "swagger-ui.html\n200 text/html\n\n<html><redoc spec-url='/spec'></redoc></html>", "unknown unknown no no no"},
		"an index answers 503":      {linking("") + at + ".well-known/agent-card.json\n503 text/plain\n\nx", "unknown unknown unknown unknown unknown"},
		"an index is refused":       {linking("") + at + "llms.txt\n403 text/plain\n\nx", "unknown unknown unknown unknown unknown"},
		"an index is elsewhere":     {linking("") + at + "llms.txt\n302\nLocation: https://other.example/llms.txt\n\n", "no unknown no no unknown"},
		"the home page is a circle": {at + "\n302\nLocation: /a\n\n" + at + "a\n302\nLocation: /\n\n" + at + "llms.txt\n200 text/plain\n\n# Acme\n", "unknown unknown unknown unknown yes"},
	} {
		t.Run(name, func(t *testing.T) {
			d := inspected(t, parsed(t, c.text))
			i := &d.Interfaces
			require.Equal(t, c.want, string(i.API.Verdict)+" "+string(d.Required.Value)+" "+string(i.MCP.Verdict)+
				" "+string(d.Pricing.Determinable.Verdict)+" "+string(d.MachineAccess.Index.Verdict))
			for _, e := range []document.Evaluation{i.Website, i.API, i.MCP, i.CLI, d.MachineAccess.Index} {
				require.NotEmpty(t, e.BasedOn, e.Rule)
				require.NotContains(t, e.Reason, ": .")
			}
		})
	}
}

// TestAPageIsAPageHoweverItBegins: what its media type calls HTML is read as HTML, so that what is
// hidden in it does not count as text.
func TestAPageIsAPageHoweverItBegins(t *testing.T) {
	for _, begins := range []string{
		"<meta charset=utf-8>", "<title>Acme</title>", "<p>", "<!-- " + prose + " -->", "Acme <b>is</b> ",
	} {
		d := inspected(t, parsed(t, at+"\n200 text/html\n\n"+begins+prose+
			"<p hidden>There is an MCP server. Get an API key by POST /v1/keys.</p>\n"))
		require.Equal(t, document.No, d.Interfaces.MCP.Verdict, begins)
		require.Empty(t, d.Auth.Mentions, begins)
		require.Equal(t, "setup_absent", d.Auth.Understandable.Rule, begins)
	}
}

// TestAnswersToEverythingAreNoDocuments: a host that answers everything with one shape of JSON
// publishes nothing by that.
func TestAnswersToEverythingAreNoDocuments(t *testing.T) {
	for _, body := range []string{
		`{"servers":[{"url":"https://acme.example/"}],"plans":[{"price":"1"}],"path":"%s"}`,
		`{"openapi":"3.1.0","paths":{"/a":{"get":{}}},"asked":"%s"}`,
		`{"linkset":[{"anchor":"%s"}],"resource":"x","token_endpoint":"y","name":"n","skills":[{"name":"a"}]}`,
		`{"error":"not found","path":"%s","entries":[{"type":"mcp"}]}`,
	} {
		d := inspected(t, answering(t, linking(""), body))
		require.Equal(t, document.No, d.Interfaces.API.Verdict, body)
		require.Equal(t, document.No, d.Interfaces.MCP.Verdict, body)
		require.Equal(t, document.No, d.Pricing.Determinable.Verdict, body)
		require.Equal(t, document.No, d.MachineAccess.Index.Verdict, body)
		require.Empty(t, d.Auth.Declared, body)
		require.Nil(t, d.MachineAccess.Agent, body)
	}
	// Documents of another shape count there.
	d := inspected(t, answering(t, linking("")+open, `{"path":"%s"}`))
	require.Equal(t, document.Yes, d.Interfaces.API.Verdict)
	// Where paths that cannot exist are not there, a card still has to be one.
	d = inspected(t, parsed(t, linking("")+at+"pricing.json\n200\n\n{\"error\":\"no\"}\n"+
		at+".well-known/ai-catalog.json\n200\n\n{\"error\":\"no\"}\n"+
		at+".well-known/mcp.json\n200\n\n{\"servers\":[],\"endpoint\":null}\n"))
	require.Equal(t, document.No, d.Interfaces.MCP.Verdict)
	require.Equal(t, "cost_absent", d.Pricing.Determinable.Rule)
	require.Equal(t, document.No, d.MachineAccess.Index.Verdict)
}

// answering is a site that answers whatever is not listed with a body that holds the address.
func answering(t *testing.T, text, body string) *inspecttest.Site {
	t.Helper()
	s := parsed(t, text)
	s.Rest = body
	return s
}

// allUnknown wants that nothing but the website and the API is known.
func allUnknown(t *testing.T, d *document.Document, what string) {
	t.Helper()
	for _, f := range d.Findings() {
		if f.Field != "interfaces.website" && f.Field != "interfaces.api" {
			require.Equal(t, "unknown", f.Verdict, "%s: %s %s", what, f.Field, f.Rule)
		}
	}
}

// TestWhatAnAnsweringHostHidesIsUnknown: a host that answers 2xx whatever it is asked for, with
// bodies that nobody can read, publishes nothing that is known, and denies nothing either.
func TestWhatAnAnsweringHostHidesIsUnknown(t *testing.T) {
	const links = `<a href="/docs">Docs</a><a href="/pricing">Pricing</a><a href="/signup">Sign up</a>` +
		`<a href="/api-keys">Begin here</a>`
	for _, fail := range []string{"body", "time", "encoding", "network"} {
		hidden := "=== *\nfail " + fail + " 200 1\n"
		for name, c := range map[string]struct{ text, website, api string }{
			"all of it":          {hidden, "unknown", "unknown"},
			"all but its page":   {hidden + linking(""), "yes", "unknown"},
			"a page with an API": {hidden + linking("<p>Our REST API.</p>"), "yes", "unknown"},
			"a link to its API":  {hidden + linking(second), "yes", "unknown"},
			"links to its pages": {hidden + linking(links), "yes", "unknown"},
			"one description":    {hidden + linking("") + open, "yes", "yes"},
		} {
			d := inspected(t, parsed(t, c.text))
			require.Equal(t, c.website, string(d.Interfaces.Website.Verdict), "%s: %s", fail, name)
			require.Equal(t, c.api, string(d.Interfaces.API.Verdict), "%s: %s", fail, name)
			allUnknown(t, d, fail+": "+name)
		}
	}
	// That paths that cannot exist are answered counts though nobody can read the answer: a guessed
	// page is none, however well it reads.
	const guessed = at + "robots.txt\n200 text/plain\n\nUser-agent: *\nAllow: /\n" +
		at + "pricing\n200 text/html\n\n<html><p>The plan costs $9 per month.</p></html>\n"
	for _, fail := range []string{"body", "time", "encoding"} {
		d := inspected(t, parsed(t, "=== *\nfail "+fail+" 200\n"+linking("")+guessed))
		require.Equal(t, document.Unknown, d.Pricing.Determinable.Verdict, fail)
	}
	require.Equal(t, document.Yes, inspected(t, parsed(t, linking("")+guessed)).Pricing.Determinable.Verdict)
	// Where paths that cannot exist are 404, a description that answers 200 and is not read is one.
	d := inspected(t, parsed(t, linking("<p>Our REST API.</p>")+at+"openapi.json\nfail body 200\n"))
	require.Equal(t, "api_description_unread", d.Interfaces.API.Rule)
	require.Equal(t, document.Unknown, d.Interfaces.API.Verdict)
	// A 404 needs no body.
	d = inspected(t, parsed(t, "=== *\nfail body 404\n"+linking("")))
	require.Equal(t, document.No, d.Interfaces.API.Verdict)
	require.Equal(t, document.No, d.MachineAccess.Index.Verdict)
	// A text with the address that was asked for is not a description.
	d = inspected(t, parsed(t, "=== *\n200 text/plain\n\nYou asked for openapi.json.\n"+linking("")+
		at+"openapi.yaml\n200 text/plain\n\nYou asked for openapi.yaml.\n"))
	require.Equal(t, document.No, d.Interfaces.API.Verdict)
}

// TestFloodsAreUnknown: a host that answers 200 to whatever it is asked for, in reality. Where a
// byte of a body came there is an answer, and nothing is known of it; where none did there is none.
func TestFloodsAreUnknown(t *testing.T) {
	const size = 3 << 20 // more than is read
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, err := z.Write(make([]byte, 2*size))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	gzipped := func(body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			flush(w, body)
		}
	}
	silent := func(w http.ResponseWriter, r *http.Request) {
		if flush(w, nil) {
			<-r.Context().Done()
		}
	}
	for name, flood := range map[string]struct {
		handler http.HandlerFunc
		answers bool
	}{
		"too large": {func(w http.ResponseWriter, _ *http.Request) { flush(w, make([]byte, size)) }, true},
		"announced as too large": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(size))
			flush(w, make([]byte, size))
		}, true},
		"announced, and silent": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(size))
			silent(w, r)
		}, false},
		"a bomb": {gzipped(bomb.Bytes()), true},
		"without an end": {func(w http.ResponseWriter, r *http.Request) {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for flush(w, []byte("<p>x")) {
				select {
				case <-tick.C:
				case <-r.Context().Done():
					return
				}
			}
		}, true},
		"cut off": {cutOff, true},
		"silent":  {silent, false},
		"cut off at once": {func(w http.ResponseWriter, _ *http.Request) {
			flush(w, nil)
			panic(http.ErrAbortHandler)
		}, false},
		"wrongly encoded": {gzipped([]byte("<p>it is plain text")), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flooded(t, flood.handler, flood.answers)
		})
	}
}

// TestAFloodIsUnknown is one of them, which the race detector sees every time.
func TestAFloodIsUnknown(t *testing.T) { flooded(t, cutOff, true) }

// cutOff is a host whose answers end in the middle.
func cutOff(w http.ResponseWriter, _ *http.Request) {
	flush(w, []byte("<p>x"))
	panic(http.ErrAbortHandler)
}

// flush sends a part of an answer, and reports whether more can be sent.
func flush(w http.ResponseWriter, body []byte) bool {
	_, err := w.Write(body)
	return err == nil && http.NewResponseController(w).Flush() == nil
}

// flooded inspects a host that answers everything with a flood, and then all but its home page.
func flooded(t *testing.T, flood http.HandlerFunc, answers bool) {
	var page atomic.Value // the home page; a flood like the rest if there is none
	pages := http.NewServeMux()
	pages.Handle("/", flood)
	pages.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		if text, is := page.Load().([]byte); is {
			flush(w, text)
			return
		}
		flood(w, r)
	})
	host := httptest.NewUnstartedServer(pages)
	host.Config.ErrorLog = log.New(io.Discard, "", 0)
	host.Start()
	t.Cleanup(host.Close)
	client, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		AllowHosts:   []string{"127.0.0.1:*"}, Timeout: 500 * time.Millisecond,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	_, err = inspect.New(client, nil).Inspect(t.Context(), host.URL+"/", "Do it.", "run_1")
	if answers {
		require.NoError(t, err)
	} else {
		require.ErrorIs(t, err, inspect.ErrUnreachable)
	}
	page.Store([]byte("<html>" + prose + `<a href="/docs">Docs</a><a href="/pricing">Pricing</a>` +
		`<a href="/signup">Sign up</a>`))
	r, err := inspect.New(client, nil).Inspect(t.Context(), host.URL+"/", "Do it.", "run_1")
	require.NoError(t, err)
	require.Equal(t, document.Yes, r.Document.Interfaces.Website.Verdict)
	require.Equal(t, document.Unknown, r.Document.Interfaces.API.Verdict)
	allUnknown(t, r.Document, t.Name())
	require.Equal(t, "unknown", string(r.Journey.Stages[3].Status))
}

// TestNothingThatCanBeReadIsUnreachable: without one 2xx answer with one readable byte of body
// there is nothing to say, whatever else was answered.
func TestNothingThatCanBeReadIsUnreachable(t *testing.T) {
	for text, unreachable := range map[string]bool{
		"=== *\nfail network\n":                              true,
		"=== *\nfail dns\n":                                  true,
		"=== *\n200 text/html\n\n":                           true,
		"=== *\n204\n\n":                                     true,
		"=== *\n404 text/html\n\n<html>no</html>\n":          true,
		"=== *\n403 text/html\n\n<html>no</html>\n":          true,
		"=== *\n503 text/html\n\n<html>no</html>\n":          true,
		"=== *\n302\nLocation: https://other.example/\n\n":   true,
		"=== *\n302\nLocation: https://acme.example/a\n\n":   true,
		"=== *\nfail time 200\n":                             true,
		"=== *\nfail network 200\n":                          true,
		"=== *\nfail encoding 200\n":                         true,
		"=== *\nfail time 404 1\n":                           true,
		"=== *\nfail time 200 1\n":                           false,
		"=== *\nfail body 200 1\n":                           false,
		at + "robots.txt\n200 text/plain\n\nUser-agent: *\n": false,
		at + "\n200 text/html\n\n<html></html>\n":            false,
	} {
		_, err := inspect.New(parsed(t, text), clock).Inspect(t.Context(), home, "", "run_1")
		if unreachable {
			require.ErrorIs(t, err, inspect.ErrUnreachable, text)
		} else {
			require.NoError(t, err, text)
		}
	}
}

// TestTextsUnderTheWrongTypeTell: an llms.txt and an auth.md that are sent as text/html, with what
// a reader fills in between angle brackets, are the texts that they are.
func TestTextsUnderTheWrongTypeTell(t *testing.T) {
	text := linking("") +
		at + "llms.txt\n200 text/html\n\n# Acme\n\n> An API. Send `Authorization: Bearer <your-key>`.\n" +
		at + "auth.md\n200 text/html\n\nCreate an API key, or write to <help@acme.example>.\n"
	r, err := inspect.New(parsed(t, text), clock).Inspect(t.Context(), home, "", "run_1")
	require.NoError(t, err)
	d := r.Document
	require.Equal(t, "index_published", d.MachineAccess.Index.Rule)
	require.Equal(t, "api_mentioned", d.Interfaces.API.Rule)
	require.Len(t, d.Auth.Mentions, 2)
}
