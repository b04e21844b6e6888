package workspaceapi

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/workspace"
)

// granted says which scopes each route takes, any of them, as the document and the decisions page
// say it. It is not read from the route table: whoever changes that has to change this, too.
// open takes no key; any takes every key, since all keys may revoke themselves, and what only a
// person decides is refused for all alike.
const granted = `
open       POST  /v1/signup
open       POST  /v1/feedback
open       GET   /
open       GET   /v1/routes
open       GET   /v1/schema
open       GET   /openapi.json
open       GET   /.well-known/oauth-protected-resource
open       GET   /.well-known/api-catalog
open       GET   /auth.md
open       GET   /llms.txt
open       GET   /robots.txt
open       GET   /login/identity
open       GET   /approve/{token}
session    POST  /approve/{token}
read       GET   /v1/account
read       GET   /v1/execution
read       GET   /v1/flows
read       GET   /v1/flows/{flow_id}
read       GET   /v1/flows/{flow_id}/quote
read       GET   /v1/flows/{flow_id}/alerts
read       GET   /v1/runs
read       GET   /v1/runs/{run_id}
read       GET   /v1/runs/{run_id}/suggested-test
read       GET   /v1/issues
read       GET   /v1/search
read       GET   /v1/notifications
read       GET   /v1/purchases
read       GET   /v1/purchases/{id}
write      POST  /v1/flows
write      PATCH /v1/flows/{flow_id}
write      DELETE /v1/flows/{flow_id}
write      POST  /v1/interface
write      POST  /v1/evaluate
write      POST  /v1/run-requests
write      POST  /v1/run-requests/{id}/cancel
write      PATCH /v1/issues/{id}
write      POST  /v1/notifications/{id}/read
run        POST  /v1/flows/{flow_id}/run
run        POST  /v1/runs/{run_id}/resume
run        POST  /v1/purchases
run        POST  /v1/purchases/{id}/approval-link
run        POST  /v1/local-runs
run        POST  /v1/local-runs/{id}/finish
write|run  POST  /v1/runs/{run_id}/cancel
write|run  POST  /v1/purchases/{id}/cancel
write|run  POST  /v1/billing/pause
write|run  POST  /v1/billing/cap
any        POST  /v1/flows/{flow_id}/confirm-signup
any        PATCH /v1/flows/{flow_id}/alerts
any        POST  /v1/flows/{flow_id}/alerts/secret
any        POST  /v1/flows/{flow_id}/alerts/test
any        POST  /v1/keys/self/revoke
session    POST  /v1/keys/rotate
session    POST  /v1/claims
session    GET   /v1/session
session    PATCH /v1/session
session    GET   /v1/workspaces
session    POST  /v1/workspaces
session    GET   /v1/links
session    POST  /v1/links/{id}
session    GET   /v1/test-access
session    PUT   /v1/test-access/{host}
session    DELETE /v1/test-access/{host}
open       GET   /login
open       GET   /login/callback
open       POST  /logout`

// grant is one line of granted.
type grant struct {
	scopes       []string
	method, path string
	// session reports whether only who is signed in gets through.
	session bool
}

func grants() (all []grant) {
	for line := range strings.Lines(strings.TrimSpace(granted)) {
		word := strings.Fields(line)
		g := grant{method: word[1], path: word[2]}
		switch word[0] {
		case "open":
		case "session":
			g.scopes, g.session = []string{"read", "write", "run"}, true
		case "any":
			g.scopes = []string{"read", "write", "run"}
		default:
			g.scopes = strings.Split(word[0], "|")
		}
		all = append(all, g)
	}
	return all
}

// TestScopes: of every route, with keys of every set of scopes: one gets through exactly where it
// has a scope that the document names, and is else told which one is needed.
func TestScopes(t *testing.T) {
	t.Parallel()
	n := start(t)
	keys := map[workspace.Scopes]*caller{}
	for scopes := workspace.ScopeRead; scopes <= workspace.ScopesAll; scopes++ {
		keys[scopes] = n.signUp(`["` + strings.Join(scopes.Names(), `","`) + `"]`)
	}
	all := grants()
	require.Len(t, all, len(n.api.Routes())-3, "all but the payment pages'")
	for _, g := range all {
		path := filled(g.path)
		bare := n.send(g.method, path, "", "", nil)
		require.NotEqual(t, "method_not_allowed", bare.body["error"], "%s %s", g.method, g.path)
		if len(g.scopes) == 0 {
			require.NotContains(t, []int{401, 403}, bare.status, "%s %s", g.method, g.path)
			continue
		}
		if g.session {
			bare.is(401, "sign_in_required")
			keys[workspace.ScopesAll].call(g.method, path, "").is(403, "person_required")
			continue
		}
		bare.is(401, "invalid_key")
		for scopes, c := range keys {
			if g.path == "/v1/keys/self/revoke" {
				continue // last, below
			}
			a := c.call(g.method, path, "")
			if slices.ContainsFunc(scopes.Names(), func(s string) bool {
				return slices.Contains(g.scopes, s)
			}) {
				require.NotContains(t, []any{"insufficient_scope", "invalid_key"}, a.body["error"],
					"%s %s with %s", g.method, g.path, scopes)
				continue
			}
			require.Equal(t, 403, a.status, "%s %s with %s: %s", g.method, g.path, scopes, a.raw)
			a.is(403, "insufficient_scope")
			require.Contains(t, g.scopes, a.at("scope"))
			require.Contains(t, a.at("message"), a.at("scope"))
		}
	}
	for _, c := range keys {
		c.call("POST", "/v1/keys/self/revoke", "").is(200, "")
		c.call("POST", "/v1/keys/self/revoke", "").is(401, "invalid_key")
		c.call("GET", "/v1/account", "").is(401, "invalid_key")
	}
}

// TestOnlyWorkspaceKeysAreKeys: neither the other API's keys nor a claim code call this one, and a
// key counts only as it was issued.
func TestOnlyWorkspaceKeysAreKeys(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	c.call("GET", "/v1/account", "").is(200, "")
	swapped := c.key[:len(c.key)-1] + map[bool]string{true: "b", false: "a"}[strings.HasSuffix(c.key, "a")]
	for _, key := range []string{
		c.code, swapped, strings.ToUpper(c.key), c.key + "x", c.key[:len(c.key)-1], "sk_live_" + c.key,
		"Bearer " + c.key, strings.Replace(c.key, "tg_ws_", "sk_live_", 1),
	} {
		n.send("GET", "/v1/account", "", key, nil).is(401, "invalid_key")
	}
	n.send("GET", "/v1/account", "", "", map[string]string{"Authorization": c.key}).is(401, "invalid_key")
	n.send("GET", "/v1/account", "", "", map[string]string{"Authorization": "Basic " + c.key}).
		is(401, "invalid_key")
	n.send("GET", "/v1/account?key="+c.key, "", "", nil).is(401, "invalid_key")
}
