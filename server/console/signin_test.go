package console_test

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oauth2-proxy/mockoidc"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"tollgate/engine/billing"
	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/console"
	"tollgate/server/identity"
	"tollgate/server/provider/fetch"
)

// organization is where operators sign in, and what the configuration grants them.
type organization struct {
	*mockoidc.MockOIDC
	mu     sync.Mutex
	grants map[string][]console.Grant // by address
}

func (o *organization) granted(issuer, email string) []console.Grant {
	o.mu.Lock()
	defer o.mu.Unlock()
	if issuer != o.Issuer() {
		return nil
	}
	return o.grants[email]
}

// grant sets an operator's permissions; none removes all.
func (o *organization) grant(email string, grants ...console.Grant) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.grants[email] = grants
}

// named starts a node whose operators sign in by name, over the real state machine.
func named(t testing.TB, set ...func(*node, *console.Config)) (*node, *organization) {
	t.Helper()
	m, err := mockoidc.Run()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Shutdown()) })
	o := &organization{MockOIDC: m, grants: map[string][]console.Grant{}}
	web, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		AllowHosts:   []string{"127.0.0.1:*"},
	})
	require.NoError(t, err)
	t.Cleanup(web.Close)
	n := start(t, append([]func(*node, *console.Config){func(n *node, c *console.Config) {
		service, err := identity.New(identity.Config{
			Machine: n.tenants.Machine, Proposer: n.tenants, Reader: n.tenants, Web: web,
			PublicURL: n.base, Surface: workspace.SurfaceOperations, Key: [32]byte{7},
			Persons: identity.Issuer{URL: m.Issuer(), ClientID: m.ClientID, ClientSecret: m.ClientSecret},
			Allow:   func(issuer, email string) bool { return len(o.granted(issuer, email)) > 0 },
		})
		require.NoError(t, err)
		table, err := server.NewTable(service.Routes(), server.TableConfig{})
		require.NoError(t, err)
		n.besides = func(next fasthttp.RequestHandler) fasthttp.RequestHandler {
			return func(ctx *fasthttp.RequestCtx) {
				if table.Knows(ctx) {
					table.Serve(ctx)
					return
				}
				next(ctx)
			}
		}
		c.SignedIn, c.KeyMatches = &console.SignedIn{
			Service: service, Grants: o.granted, Members: []console.Member{
				{Email: "ada@example.com", Grant: console.Grant{Account: "demo", Manage: true}},
				{Email: "eve@example.com", Grant: console.Grant{Account: "other"}},
				{Email: "root@example.com", Grant: console.Grant{Manage: true}},
			},
		}, nil
	}}, set...)...)
	return n, o
}

// begin has a browser sign in up to where the organization sends it back to.
func (b *browser) begin(
	o *organization, email string, verified bool, back string,
) (callback string) {
	b.t.Helper()
	o.QueueUser(&mockoidc.MockUser{Subject: "of " + email, Email: email, EmailVerified: verified})
	link := b.firstLink("/console/sign-in?return="+url.QueryEscape(back), b.base+`/login[^"]*`)
	to := b.get(strings.TrimPrefix(link, b.base)).is(303).to
	response, err := b.http.Get(to)
	require.NoError(b.t, err)
	require.NoError(b.t, response.Body.Close())
	require.Equal(b.t, http.StatusFound, response.StatusCode)
	callback = response.Header.Get("Location")
	require.True(b.t, strings.HasPrefix(callback, b.base+"/login/callback?"), callback)
	return strings.TrimPrefix(callback, b.base)
}

// by is the browser of a signed-in operator.
func (n *node) by(o *organization, email string) *browser {
	n.t.Helper()
	b := n.browser()
	b.get(b.begin(o, email, true, "")).is(303)
	return b
}

// TestOperatorsSignIn: from a page to the organization and back to the page, in a session of its
// own, whatever the browser had before.
func TestOperatorsSignIn(t *testing.T) {
	n, o := named(t)
	o.grant("ops@example.com", console.Grant{Manage: true})
	thief := n.by(o, "ops@example.com")
	planted := thief.cookies()
	require.Contains(t, planted, "tollgate-operator-session=")

	b := n.browser()
	at, err := url.Parse(n.base)
	require.NoError(t, err)
	b.jar.SetCookies(at, thief.jar.Cookies(at)) // fixation
	thief.jar.SetCookies(at, nil)
	to := n.browser().get("/console/cluster").is(303).to
	require.Equal(t, "/console/sign-in?return=%2Fconsole%2Fcluster", to)
	p := n.browser().get(to).is(200, `id="provider"`, "/login?return=%2Fconsole%2Fcluster")
	safe(t, p)
	require.NotContains(t, p.body, "Admin key")
	b.get(b.begin(o, "ops@example.com", true, "/console/cluster")).is(303)
	require.NotContains(t, b.cookies(), strings.SplitN(planted, "=", 2)[1])
	b.get("/console/cluster").is(200, "ops@example.com", `id="backup"`)
	n.browser().do("GET", "/console", map[string]string{"Cookie": planted}, nil).is(303)

	callback := b.begin(o, "ops@example.com", true, "//evil.example")
	require.Equal(t, "/", b.get(callback).is(303).to)
	callback = b.begin(o, "ops@example.com", true, "/console/cluster")
	require.Equal(t, "/console/cluster", b.get(callback).is(303).to)
	b.get(callback).is(401, "already finished")

	// Everything that they change is recorded as theirs.
	b.furnish()
	b.get("/console/changes").is(200, "ops@example.com")
	require.NotContains(t, b.get("/console/changes").body, "admin-key")
	held := b.cookies()
	require.Equal(t, "/console/sign-in", b.send("/console/sign-out",
		b.fill("/console", url.Values{})).is(303).to)
	require.Empty(t, b.cookies())
	n.browser().do("GET", "/console", map[string]string{"Cookie": held}, nil).is(303)
}

// TestWhoIsNoOperator: other people get a message, and are not signed in.
func TestWhoIsNoOperator(t *testing.T) {
	n, o := named(t)
	o.grant("ops@example.com", console.Grant{})
	html := map[string]string{"Accept": "text/html"}
	for why, row := range map[string]struct {
		email, says string
		verified    bool
	}{
		"no mapping":   {"eve@example.com", "You are not an operator", true},
		"not verified": {"ops@example.com", "has not verified your e-mail", false},
	} {
		b := n.browser()
		p := b.do("GET", b.begin(o, row.email, row.verified, ""), html, nil).is(403, row.says, "<h1>")
		require.Contains(t, p.header.Get("Content-Security-Policy"), "default-src 'none'", why)
		require.Empty(t, b.cookies(), why)
		b.get("/console").is(303)
	}
}

// TestRemovedOperators: an operator removed from the configuration is out at the next request; new
// grants count at once, too.
func TestRemovedOperators(t *testing.T) {
	n, o := named(t)
	o.grant("ops@example.com", console.Grant{Manage: true})
	b := n.by(o, "ops@example.com")
	form := b.fill("/console", fields("name", "demo"))
	o.grant("ops@example.com", console.Grant{})
	b.send("/console/accounts", form).is(403, "You may look, not change")
	o.grant("ops@example.com")
	require.Equal(t, "/console/sign-in", b.get("/console").is(303).to)
	b.get("/console/cluster").is(303)
	b.get("/console/cluster/live").is(401)
	b.send("/console/accounts", form).is(401, "Nothing was changed")
	require.Empty(t, n.Machine.Accounts())
}

// TestOtherSessionsAreNothing: one of the workspaces' pages is not good here, and no text is.
func TestOtherSessionsAreNothing(t *testing.T) {
	n, o := named(t)
	o.grant("ops@example.com", console.Grant{Manage: true})
	held := n.by(o, "ops@example.com").cookies()
	token := server.MintKey(server.KeyPrefixSession)
	n.tenants.Do(t, workspace.KindSignIn, &workspace.SignIn{
		ID: [16]byte{9}, Issuer: o.Issuer(), Subject: "of ops@example.com", Email: "ops@example.com",
		Session: console.HashOf(token), Surface: workspace.SurfaceWorkspaces,
	})
	_, good := n.tenants.Machine.Session(console.HashOf(token), workspace.SurfaceWorkspaces,
		time.Now().UnixMilli())
	require.True(t, good)
	for _, cookie := range []string{
		"tollgate-operator-session=" + token, "tollgate-session=" + token,
		strings.Replace(held, "operator-session", "session", 1),
		"tollgate-operator-session=x", "tollgate-operator-session=",
	} {
		for _, path := range []string{"/console", "/console/cluster"} {
			n.browser().do("GET", path, map[string]string{"Cookie": cookie}, nil).is(303)
		}
	}
	n.browser().do("GET", "/console", map[string]string{"Cookie": held}, nil).is(200)
}

// TestScopesAndLevels: an operator of one account sees it and nothing else, not even whether others
// exist; a viewer changes nothing; changes are recorded with their operator.
func TestScopesAndLevels(t *testing.T) {
	n, o := named(t)
	const who = "ops@example.com"
	o.grant(who, console.Grant{Manage: true})
	b := n.by(o, who)
	b.furnish()
	b.submit("/console", "/console/accounts", fields("name", "other"))
	b.get("/console/changes").is(200, who)
	o.grant(who, console.Grant{Account: "demo", Manage: true})
	b.get("/console").is(200, "demo", who)
	require.NotContains(t, b.get("/console").body, "other")
	index, _ := n.Machine.StateHash()
	token := b.fill("/console", url.Values{})
	for _, r := range n.pages.Rows() {
		for _, name := range []string{"other", "nothing"} {
			path := filled(r.Path, map[string]string{
				"{account}": name, "{environment}": "sandbox", "{customer}": "anna",
			})
			if !r.Cluster && !r.Account {
				continue
			}
			if r.Method == "GET" {
				b.get(path).is(403, "This is not yours to see")
			} else {
				b.send(path, token).is(403, "This is not yours to see")
			}
		}
	}
	b.get("/console/accounts/demo/sandbox/customers/anna").is(200, `id="subscribe"`)
	o.grant(who, console.Grant{Account: "demo"})
	for _, r := range n.pages.Rows() {
		path := filled(r.Path, map[string]string{"{account}": "demo", "{environment}": "sandbox"})
		if r.Method == "POST" && !r.Harmless && !r.Cluster {
			b.send(path, token).is(403, "You may look, not change")
		}
	}
	p := b.get("/console/accounts/demo/sandbox/customers/anna").is(200)
	require.Equal(t, 1, strings.Count(p.body, `method="post"`), "only the way out: %s", p.body)
	b.get("/console/accounts/demo/sandbox/catalog").is(200, "readonly")
	o.grant(who, console.Grant{})
	for _, r := range n.pages.Rows() {
		if r.Method == "POST" && r.Cluster {
			b.send(filled(r.Path, nil), token).is(403, "You may look, not change")
		}
	}
	after, _ := n.Machine.StateHash()
	require.Equal(t, index, after)
	const settings = "/console/accounts/demo/live/settings"
	p = b.get(settings).is(200, "Members of this account", "ada@example.com", "root@example.com")
	safe(t, p)
	require.NotContains(t, p.body, "eve@example.com")
	o.grant(who, console.Grant{Account: "demo", Manage: true})
	p = b.get(settings).is(200, "ada@example.com", "only they see who they are")
	require.NotContains(t, p.body, "root@example.com")
	b.send("/console/sign-out", token).is(303)
	b.get("/console").is(303)
}

// TestSeveralGrants: each account has the level that its own line says.
func TestSeveralGrants(t *testing.T) {
	n, o := named(t)
	const who = "ops@example.com"
	o.grant(who, console.Grant{Manage: true})
	b := n.by(o, who)
	for _, name := range []string{"alpha", "beta", "gamma"} {
		b.submit("/console", "/console/accounts", fields("name", name))
	}
	o.grant(who, console.Grant{Account: "alpha", Manage: true}, console.Grant{Account: "beta"},
		console.Grant{Account: "nothing"})
	p := b.get("/console").is(200, "alpha", "beta")
	require.NotContains(t, p.body, "gamma")
	require.NotContains(t, p.body, `id="create-account"`)
	form := b.fill("/console", fields("document", catalog, "action", "apply"))
	at := func(name string) string { return "/console/accounts/" + name + "/sandbox/catalog" }
	b.send(at("alpha"), form).is(303)
	b.send(at("beta"), form).is(403, "You may look, not change")
	b.get(at("beta")).is(200, "readonly")
	b.get(at("gamma")).is(403)
	b.get(at("nothing")).is(404)
	_, known := n.Machine.Environment("gamma", billing.EnvironmentSandbox)
	require.True(t, known)
}

// TestWhoIsSignedInSeesTheClusterWithoutALeader: this node's own pages, and what it last knew.
func TestWhoIsSignedInSeesTheClusterWithoutALeader(t *testing.T) {
	n, o := named(t)
	o.grant("ops@example.com", console.Grant{Manage: true})
	b := n.by(o, "ops@example.com")
	form := b.fill("/console", fields("name", "demo"))
	n.tenants.NoLeader.Store(true)
	n.NoLeader.Store(true)
	b.get("/console/cluster").is(200, "nobody leads", "ops@example.com")
	b.get("/console/cluster/live").is(200, "nobody leads")
	b.get("/console/node").is(200)
	p := b.get("/console").is(200, `id="old"`, "ops@example.com")
	require.NotContains(t, p.body, `id="create-account"`)
	require.NotContains(t, p.body, `id="sign-out"`)
	b.send("/console/accounts", form).is(503, "majority")
	b.send("/console/sign-out", form).is(503, "majority")
	require.NotEmpty(t, b.cookies())
	n.browser().get("/console/cluster").is(303)
	n.tenants.NoLeader.Store(false)
	n.NoLeader.Store(false)
	b.get("/console").is(200)
}

// TestACutOffNodeForgetsSessions: 15 minutes after it heard from the others, since the session may
// have been ended elsewhere; once it hears from them again, it knows.
func TestACutOffNodeForgetsSessions(t *testing.T) {
	n, o := named(t)
	o.grant("ops@example.com", console.Grant{Manage: true})
	b := n.by(o, "ops@example.com")
	n.tenants.NoLeader.Store(true)
	n.NoLeader.Store(true)
	n.tenants.Stale.Store(int64(15 * time.Minute))
	b.get("/console/cluster").is(200, "nobody leads")
	n.tenants.Stale.Store(int64(15*time.Minute + time.Second))
	for _, path := range []string{"/console/cluster", "/console/node", "/console/cluster/live"} {
		require.NotContains(t, b.get(path).is(503).body, "nobody leads")
	}
	b.get("/console").is(503)
	n.tenants.Stale.Store(0)
	n.tenants.NoLeader.Store(false)
	n.NoLeader.Store(false)
	b.get("/console/cluster").is(200, "nobody leads")
}

// TestTheKeyIsNoSecondWayIn: unless the configuration allows it.
func TestTheKeyIsNoSecondWayIn(t *testing.T) {
	n, _ := named(t)
	b := n.browser()
	b.send("/console/sign-in", fields("key", n.key)).is(405)
	require.Empty(t, b.cookies())
}

// TestTheKeyWhenNobodyCanSignInByName: it opens a session without a leader, which goes before one
// that there was, and ends with it.
func TestTheKeyWhenNobodyCanSignInByName(t *testing.T) {
	var key string
	n, o := named(t, func(n *node, c *console.Config) {
		key = n.key
		c.KeyMatches = func(text []byte) bool { return string(text) == key }
	})
	n.browser().get("/console/sign-in").is(200, `id="provider"`, `id="sign-in"`, "Admin key")
	o.grant("ops@example.com", console.Grant{})
	b := n.by(o, "ops@example.com")
	b.get("/console/cluster").is(200, "ops@example.com")
	n.tenants.NoLeader.Store(true)
	n.NoLeader.Store(true)
	b.send("/console/sign-in", fields("key", key, "return", "/console/cluster")).is(303)
	b.get("/console/cluster").is(200, "admin key", `id="backup"`)
	n.tenants.NoLeader.Store(false)
	n.NoLeader.Store(false)
	b.send("/console/sign-out", b.fill("/console", url.Values{})).is(303)
	require.Empty(t, b.cookies(), "both have ended")
}

// TestSecureCookies: behind a proxy that ends TLS the listener sees http; the configuration knows.
func TestSecureCookies(t *testing.T) {
	const public = "https://ops.tollgate.example"
	n := start(t, func(_ *node, c *console.Config) { c.PublicURL = public })
	b := n.browser()
	p := b.do("POST", "/console/sign-in", map[string]string{
		"Origin": public, "Sec-Fetch-Site": "same-origin",
	}, fields("key", n.key)).is(303)
	require.Contains(t, strings.ToLower(p.header.Get("Set-Cookie")), "; secure")
	b.send("/console/sign-in", fields("key", "x")).is(401) // also at the node's own address
	b.do("POST", "/console/sign-in", map[string]string{"Origin": "https://tollgate.example"},
		fields("key", n.key)).is(403, "another site")
	p = start(t).browser().get("/console/sign-in").is(200)
	require.Empty(t, p.header.Get("Set-Cookie"))
	n = start(t)
	p = n.browser().send("/console/sign-in", fields("key", n.key)).is(303)
	require.NotContains(t, strings.ToLower(p.header.Get("Set-Cookie")), "secure")
}
