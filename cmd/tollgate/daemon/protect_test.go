package daemon

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryAnswerIsProtected: whatever either listener of a node answers, a page, a document, an
// error or a redirect, has the headers that keep browsers from misusing it.
func TestEveryAnswerIsProtected(t *testing.T) {
	n := startNodes(t, 1)
	n.http.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}
	settings := &n.all[0].settings
	public := []string{
		"/", "/nothing", "/console", "/console/nothing", "/console/runs", "/approve/x", "/login",
		"/login/callback?state=x", "/favicon.ico", "/openapi.json", "/llms.txt", "/auth.md",
		"/v1/routes", "/payments/acme/sandbox/sandbox/x", "/payments/acme/live/return",
		"/purchases/sandbox/x", "/api/v1/client/nothing", "/docs",
	}
	ops := []string{
		"/", "/nothing", "/console", "/console/sign-in", "/console/nothing", "/console/cluster",
		"/console/accounts/x/live", "/mails", "/login", "/login/callback?state=x", "/favicon.ico",
		"/metrics", "/healthz", "/readyz", "/leader", "/debug/pprof", "/api/v1/admin/nothing", "/docs",
	}
	for address, list := range map[string][]string{
		settings.HTTP: append(public, n.described(settings.HTTP, "/openapi.json")...),
		settings.Ops:  append(ops, n.described(settings.Ops, "/api/v1/admin/openapi.json")...),
	} {
		require.Greater(t, len(list), 40, "the documents describe the rest")
		status, body := n.get(address, "/docs")
		require.Equal(t, http.StatusOK, status, body)
		for _, path := range list {
			for _, accept := range []string{"text/html", "application/json"} {
				n.protected(address, path, accept)
			}
		}
	}
}

// described are the paths that a document says one may GET.
func (n *nodes) described(address, path string) (list []string) {
	n.t.Helper()
	_, body := n.get(address, path)
	var document struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	require.NoError(n.t, json.Unmarshal([]byte(body), &document))
	for path, methods := range document.Paths {
		if methods["get"] != nil && !strings.HasSuffix(path, "/backup") {
			list = append(list, strings.NewReplacer("{", "", "}", "").Replace(path))
		}
	}
	return list
}

func (n *nodes) protected(address, path, accept string) {
	n.t.Helper()
	request, err := http.NewRequest(http.MethodGet, "https://"+address+path, nil)
	require.NoError(n.t, err)
	request.Header.Set("Accept", accept)
	if strings.HasPrefix(path, "/api/v1/admin") {
		request.Header.Set("Authorization", "Bearer "+n.key)
	}
	answer, err := n.http.Do(request)
	require.NoError(n.t, err)
	_, err = io.Copy(io.Discard, answer.Body)
	require.NoError(n.t, err)
	require.NoError(n.t, answer.Body.Close())
	h, what := answer.Header, address+path+" "+answer.Status
	require.Contains(n.t, h.Get("Content-Security-Policy"), "default-src 'none'", what)
	require.Contains(n.t, h.Get("Content-Security-Policy"), "frame-ancestors 'none'", what)
	require.Equal(n.t, "DENY", h.Get("X-Frame-Options"), what)
	require.Equal(n.t, "nosniff", h.Get("X-Content-Type-Options"), what)
	require.Contains(n.t, h.Get("Strict-Transport-Security"), "max-age=", what)
	if path != "/favicon.ico" {
		require.Equal(n.t, "no-store", h.Get("Cache-Control"), what)
	}
}
