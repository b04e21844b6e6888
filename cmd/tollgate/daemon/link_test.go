package daemon

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/config"
	"tollgate/server"
	"tollgate/server/console/portal"
)

// TestAPortalLinkOpensThePortalAlone: on each route that either listener of a node has, a link to
// the portal is worth no more than no key, wherever a key can be: the answer is a stranger's, or a
// refusal.
func TestAPortalLinkOpensThePortalAlone(t *testing.T) {
	n := startNodesWith(t, 1, func(c *config.Config) { // owners' pages need sign-in
		nobody := config.Issuer{Issuer: "http://127.0.0.1:1/oidc", ClientID: "x", ClientSecret: "x"}
		c.SignIn = config.SignIn{
			Persons: nobody, Agents: nobody, Development: true, AdminKey: true,
			Operators: []config.Operator{{
				Email: "ada@example.com", On: config.OperatorCluster, May: config.OperatorManage,
			}},
		}
	})
	n.http.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}
	const secret = "ada@secret.example"
	key := n.account("demo", "sandbox")
	status, text := n.send("POST", "/api/v1/client/customers", key, `{"externalClientCustomerId":"ada",
		"firstName":"Ada","lastName":"Lund","email":"`+secret+`"}`)
	require.Equal(t, 201, status, text)
	status, text = n.send("POST", "/api/v1/admin/accounts/demo/environments/sandbox/customers/ada/"+
		"portal-links", "", `{"expiresInMinutes":60}`)
	require.Equal(t, 201, status, text)
	var made struct{ Data struct{ URL string } }
	require.NoError(t, json.Unmarshal([]byte(text), &made))
	_, token, _ := strings.Cut(made.Data.URL, "/portal/")
	one := n.all[0]
	status, text = n.plain("GET", one.settings.HTTP, "/portal/"+token, "", "")
	require.Equal(t, 200, status, text)

	asked := 0
	try := func(address, method, path string) {
		path = filledIn(path)
		status, text := n.plain(method, address, path, "", "")
		require.NotContains(t, text, secret, path)
		require.False(t, status < 300 && strings.Contains(path, "ada"), "%s %s: open", method, path)
		for name, value := range map[string]string{
			"Authorization": "Bearer " + token, "X-API-Key": token,
			"Cookie": strings.Join([]string{
				"tollgate_operator" + address[strings.LastIndexByte(address, ':')+1:],
				"__Host-tollgate-session", "__Host-tollgate-operator-session",
			}, "="+token+"; ") + "=" + token,
		} {
			with, text := n.plain(method, address, path, name, value)
			require.True(t, with == status || with >= 400, "%s %s with %s: %d, not %d", method, path, name,
				with, status)
			require.NotEqual(t, 429, with, "it is refused for another reason")
			require.NotContains(t, text, secret, path)
		}
		asked++
	}
	for address, tables := range map[string][][]*server.Route{
		one.settings.HTTP: {
			one.client.Table().Routes(), one.tenants.api.Routes(), one.tenants.pages.Routes(),
		},
		one.settings.Ops: {one.console.Routes()},
	} {
		for _, routes := range tables {
			require.Greater(t, len(routes), 30)
			for _, r := range routes {
				try(address, r.Method, r.Path)
			}
		}
	}
	_, text = n.get(one.settings.Ops, "/api/v1/admin/openapi.json")
	var document struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &document))
	require.Greater(t, len(document.Paths), 60)
	for path, methods := range document.Paths {
		for method := range methods {
			try(one.settings.Ops, strings.ToUpper(method), path)
		}
	}
	for _, path := range portal.Paths() { // the operations listener has no portal
		status, text := n.plain("GET", one.settings.Ops,
			strings.ReplaceAll(path, "{link}", token), "", "")
		require.Equal(t, 404, status, text)
	}
	require.Greater(t, asked, 300)
}

var inBraces = regexp.MustCompile(`\{[^}]+\}`)

// filledIn is a route's path with what the link's own customer has.
func filledIn(path string) string {
	path = strings.NewReplacer("{externalClientCustomerId}", "ada", "{customer}", "ada",
		"{customerReferenceId}", "ada", "{account}", "demo", "{environment}", "sandbox").Replace(path)
	return inBraces.ReplaceAllString(path, "00000000-0000-4000-8000-000000000000")
}

// plain asks without a key, or with a header; a body that is sent cannot be read.
func (n *nodes) plain(method, address, path, header, value string) (int, string) {
	n.t.Helper()
	var body io.Reader
	if method != "GET" {
		body = strings.NewReader("{")
	}
	request, err := http.NewRequest(method, "https://"+address+path, body)
	require.NoError(n.t, err)
	request.Header.Set("Content-Type", "application/json")
	if header != "" {
		request.Header.Set(header, value)
	}
	answer, err := n.http.Do(request)
	require.NoError(n.t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(n.t, err)
	require.NoError(n.t, answer.Body.Close())
	return answer.StatusCode, string(text)
}
