package workspaceapi

import (
	"bytes"
	"compress/gzip"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/inspect"
	"tollgate/server/provider/fetch"
)

// harmful is a product that means harm with nearly everything that it publishes.
func harmful(t *testing.T) http.HandlerFunc {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, err := z.Write(make([]byte, 16<<20))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	laughs := "openapi: 3.0.0\na: &a [x,x,x,x,x,x,x,x,x]\n"
	for i := range 12 {
		before, now := string(rune('a'+i)), string(rune('b'+i))
		laughs += now + ": &" + now + " [" + strings.Repeat("*"+before+",", 9) + "]\n"
	}
	pages := map[string]string{
		"/openapi.json": `{"openapi":"3.0.0","paths":{` + strings.Repeat(`"/a":{"get":{}},`, 700_000) +
			`"/b":{"get":{}}}}`, // 10 MB
		"/openapi.yaml":                         laughs + "paths: {}\n",
		"/pricing.json":                         "<html>{\"plans\":[{\"price\":1}]}</html>",
		"/.well-known/agent.json":               strings.Repeat("[", 100_000),
		"/.well-known/api-catalog":              "\xff\xfe\x00{\x00",
		"/.well-known/openid-configuration":     `{"token_endpoint":{"token_endpoint":7}}`,
		"/.well-known/mcp/server-card.json":     `{"remotes":[]`,
		"/.well-known/agent-card.json":          `{"name":"\ud800","skills":[{"name":"\u0000"}]}`,
		"/.well-known/oauth-protected-resource": `{"resource":""}`,
	}
	return func(w http.ResponseWriter, r *http.Request) {
		write := func(body []byte) bool { _, err := w.Write(body); return err == nil }
		switch page, known := pages[r.URL.Path]; {
		case r.URL.Path == "/":
			w.Header().Set("Content-Type", "text/html; charset=nonsense")
			write([]byte("<html><title>\x80\xff</title><a href='http://169.254.169.254/docs'>Docs</a>" +
				"<a href='javascript:alert(1)//pricing'>Pricing</a>" + strings.Repeat("<div>", 50_000)))
		case known:
			write([]byte(page))
		case r.URL.Path == "/llms.txt": // endless
			for write(make([]byte, 1<<16)) {
				continue
			}
		case r.URL.Path == "/swagger.json": // a bomb
			w.Header().Set("Content-Encoding", "gzip")
			write(bomb.Bytes())
		case r.URL.Path == "/auth.md": // drop by drop
			for r.Context().Err() == nil && write([]byte("x")) {
				w.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
				case <-time.After(20 * time.Millisecond):
				}
			}
		case r.URL.Path == "/sitemap.xml":
			http.Redirect(w, r, "http://169.254.169.254/latest", http.StatusFound)
		case r.URL.Path == "/.well-known/ai-catalog.json":
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		case r.URL.Path == "/robots.txt":
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}
}

// TestHarmfulHostsGetADocument: with the right unknowns and what could not be read, whatever they
// answer; and what is not a target at all is refused, with nothing saved.
func TestHarmfulHostsGetADocument(t *testing.T) {
	t.Parallel()
	client, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Timeout: 5 * time.Second,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	n := start(t, func(c *Config) { c.Inspector = inspect.New(client, nil) })
	c := n.signUp("")
	host := httptest.NewServer(harmful(t))
	t.Cleanup(host.Close)
	a := c.call("POST", "/v1/interface", `{"url":"`+host.URL+`/"}`).is(200, "")
	failures := map[string]string{}
	for _, o := range a.at("inspection", "observations").([]any) {
		row := o.(map[string]any)
		if failure, failed := row["failure"].(string); failed {
			failures[strings.TrimPrefix(row["url"].(string), host.URL)] = failure
		}
	}
	require.Equal(t, map[string]string{
		"/openapi.json": "body", "/llms.txt": "body", "/swagger.json": "body", "/auth.md": "time",
		"/robots.txt": "network", "/sitemap.xml": "redirect_target",
		"/.well-known/ai-catalog.json": "redirect_loop",
	}, failures)
	for _, name := range []string{"api", "mcp", "cli"} {
		require.Equal(t, "unknown", a.at("inspection", "interfaces", name, "verdict"), name)
	}
	require.Equal(t, "unknown", a.at("inspection", "authentication_requirement", "value"))
	require.Equal(t, "unknown", a.at("inspection", "machineAccess", "aiCrawlersAllowed", "verdict"))

	secured := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secured.Close)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	for url, code := range map[string]string{
		secured.URL: "target_unreachable", "http://" + closed.Addr().String(): "target_unreachable",
		strings.Replace(host.URL, "http:", "https:", 1): "target_unreachable",
		"http://2130706433/":                            "invalid_url", "http://0x7f.1/": "invalid_url", "http://[::1]/": "invalid_url",
		"http://10.0.0.1/": "invalid_url", "http://169.254.169.254/": "invalid_url", "http://127.1/": "invalid_url",
		"file:///etc/passwd": "invalid_url", "//acme.example/": "invalid_url",
		"http://127.0.0.1:22/": "invalid_url",
	} {
		status := map[string]int{"target_unreachable": 502, "invalid_url": 400}[code]
		c.call("POST", "/v1/interface", `{"url":"`+url+`"}`).is(status, code)
	}
	require.Len(t, c.call("GET", "/v1/runs", "").at("runs"), 1, "what was refused is not saved")
}

// TestNamesInOtherScripts: a name that is not ASCII is a name, and stays as it was asked for.
func TestNamesInOtherScripts(t *testing.T) {
	c, _ := inspecting(t, smallSite)
	a := c.call("POST", "/v1/interface", `{"url":"https://bücher.example/"}`).is(200, "")
	require.Equal(t, "bücher.example", a.at("inspection", "target", "host"))
}
