package identity_test

import (
	"context"
	"crypto/tls"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"tollgate/bench/servertest"
	"tollgate/engine"
	"tollgate/engine/workspace"
	"tollgate/examples/devidp"
	"tollgate/server"
	"tollgate/server/identity"
	"tollgate/server/provider/fetch"
)

// site is a Service over a real machine and a real listener, with two pages of its own: /me shows
// the session and its form token; POST /change accepts a form.
type site struct {
	*servertest.Workspaces
	t   *testing.T
	url string
	web *http.Client
}

func open(t *testing.T, set func(*identity.Config)) *site {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &site{
		Workspaces: servertest.NewWorkspaces(), t: t,
		url: "http://" + ln.Addr().String(),
	}
	web, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		AllowHosts:   []string{"127.0.0.1:*"},
	})
	require.NoError(t, err)
	c := identity.Config{
		Machine: s.Machine, Proposer: s, Reader: s, PublicURL: s.url, Web: web, Development: true,
		Surface: workspace.SurfaceWorkspaces, Key: [32]byte{7}, Now: s.Now,
	}
	set(&c)
	service, err := identity.New(c)
	require.NoError(t, err)
	table, err := server.NewTable(append(service.Routes(), pages(service)...), server.TableConfig{
		AnyMedia: true,
	})
	require.NoError(t, err)
	srv := server.Serve(ln, table.Serve, server.DefaultLimits())
	s.web = s.browser()
	t.Cleanup(func() {
		s.web.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(t, srv.Shutdown(ctx))
		web.Close()
	})
	return s
}

func pages(service *identity.Service) []server.Route {
	return []server.Route{
		{
			Method: "GET", Path: "/me", Operation: "me", Handle: func(x *server.Exchange) {
				n, err := service.Session(x.Ctx)
				if err != nil {
					x.Bare(401, "text/plain", []byte(err.Error()))
					return
				}
				kind := "person"
				if n.Agent {
					kind = "agent"
				}
				x.Bare(200, "text/plain", []byte(kind+" "+n.Email+" "+n.FormToken()))
			},
		},
		{
			Method: "POST", Path: "/change", Operation: "change", Handle: func(x *server.Exchange) {
				n, err := service.Session(x.Ctx)
				if err != nil {
					x.Bare(401, "text/plain", []byte(err.Error()))
					return
				}
				form, fault := service.Form(x, n)
				if fault != nil {
					x.Refuse(fault)
					return
				}
				x.Bare(200, "text/plain", form.Peek("what"))
			},
		},
	}
}

// browser is a new browser: it keeps cookies and follows no redirects.
func (s *site) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	require.NoError(s.t, err)
	return &http.Client{
		Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
		Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}},
	}
}

// answer is a response to a browser.
type answer struct {
	status   int
	location string
	body     string
	header   http.Header
}

func (s *site) get(web *http.Client, target string, headers ...string) answer {
	s.t.Helper()
	return s.do(web, "GET", target, nil, headers...)
}

func (s *site) do(web *http.Client, method, target string, form url.Values, headers ...string,
) answer {
	s.t.Helper()
	if strings.HasPrefix(target, "/") {
		target = s.url + target
	}
	r, err := http.NewRequest(method, target, strings.NewReader(form.Encode()))
	require.NoError(s.t, err)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	a, err := web.Do(r)
	require.NoError(s.t, err)
	body, err := io.ReadAll(a.Body)
	require.NoError(s.t, err)
	require.NoError(s.t, a.Body.Close())
	return answer{a.StatusCode, a.Header.Get("Location"), string(body), a.Header}
}

// cookies are those that a browser has of the site, by name.
func (s *site) cookies(web *http.Client) map[string]string {
	u, err := url.Parse(s.url)
	require.NoError(s.t, err)
	all := map[string]string{}
	for _, c := range web.Jar.Cookies(u) {
		all[c.Name] = c.Value
	}
	return all
}

const mailboxKey = "the-mailbox-key"

// local is a provider of `tollgate dev`.
func local(t *testing.T, callback string, now func() time.Time) (*devidp.Provider, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	base := "http://" + ln.Addr().String()
	p, err := devidp.New(devidp.Config{
		URL: base, MailboxKey: mailboxKey, Callbacks: []string{callback}, Now: now,
	})
	require.NoError(t, err)
	srv := &http.Server{Handler: p, ReadHeaderTimeout: time.Second}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	t.Cleanup(func() {
		require.NoError(t, srv.Close())
		<-done
	})
	return p, base
}

// openLocal is a site with the local provider as issuer of people and agents.
func openLocal(t *testing.T, change ...func(*identity.Config)) (*site, *devidp.Provider, string) {
	t.Helper()
	var p *devidp.Provider
	var base string
	s := open(t, func(c *identity.Config) {
		p, base = local(t, c.PublicURL+"/login/callback", c.Now)
		c.Persons = identity.Issuer{URL: base + devidp.PersonsPath, ClientID: devidp.ClientID}
		c.Agents = identity.Issuer{URL: base + devidp.AgentsPath, ClientID: devidp.ClientID}
		for _, set := range change {
			set(c)
		}
	})
	return s, p, base
}

var formTarget = regexp.MustCompile(`action="([^"]*)"`)

// begin has a browser sign in up to the callback, which it returns.
func (s *site) begin(web *http.Client, base, email, path string) (callback string) {
	s.t.Helper()
	a := s.get(web, path)
	require.Equal(s.t, 303, a.status, a.body)
	a = s.get(web, a.location)
	require.Equal(s.t, 200, a.status, a.body)
	require.Contains(s.t, a.body, "For trying things out on this machine only")
	action := html.UnescapeString(formTarget.FindStringSubmatch(a.body)[1])
	a = s.do(web, "POST", base+action, url.Values{"email": {email}})
	require.Equal(s.t, 303, a.status, a.body)
	return a.location
}

// signIn has a browser sign in as a person.
func (s *site) signIn(web *http.Client, base, email string) answer {
	s.t.Helper()
	a := s.get(web, s.begin(web, base, email, "/login?return=/me"))
	require.Equal(s.t, 303, a.status, a.body)
	return a
}

// TestAPersonSignsIn: the whole way, with a fresh token each time, up to the end of the session.
func TestAPersonSignsIn(t *testing.T) {
	s, p, base := openLocal(t)
	require.Equal(t, 401, s.get(s.web, "/me").status)
	require.Equal(t, "/me", s.signIn(s.web, base, "ada@acme.example").location)
	first := s.cookies(s.web)
	require.Len(t, first, 1, "the attempt's cookie is deleted")
	token := first["tollgate-session"]
	require.True(t, strings.HasPrefix(token, server.KeyPrefixSession))
	me := s.get(s.web, "/me")
	require.True(t, strings.HasPrefix(me.body, "person ada@acme.example "), me.body)
	require.NotContains(t, me.body, token)

	require.NoError(t, p.Rotate()) // the issuer signs with another key from now on
	s.signIn(s.web, base, "ada@acme.example")
	second := s.cookies(s.web)["tollgate-session"]
	require.NotEqual(t, token, second, "each sign-in has a token of its own")
	require.Equal(t, 401, s.get(s.browser(), "/me", "Cookie", "tollgate-session="+token).status,
		"the one before has ended")

	form := strings.Fields(s.get(s.web, "/me").body)[2]
	require.Equal(t, 403, s.do(s.web, "POST", "/logout", url.Values{identity.FormField: {"x"}}).status)
	require.Equal(t, 200, s.get(s.web, "/me").status)
	out := s.do(s.web, "POST", "/logout", url.Values{identity.FormField: {form}})
	require.Equal(t, 303, out.status)
	require.Empty(t, s.cookies(s.web))
	require.Equal(t, 401, s.get(s.browser(), "/me", "Cookie", "tollgate-session="+second).status)
	require.Equal(t, 303, s.do(s.web, "POST", "/logout", nil).status, "again it is the same")
}

// TestCookies: as a browser must have them, to keep them from scripts and from other sites.
func TestCookies(t *testing.T) {
	s, _, base := openLocal(t)
	a := s.get(s.web, s.begin(s.web, base, "ada@acme.example", "/login"))
	for _, c := range a.header.Values("Set-Cookie") {
		require.Contains(t, c, "HttpOnly")
		require.Contains(t, c, "SameSite=Lax")
		require.Contains(t, c, "path=/")
		require.NotContains(t, strings.ToLower(c), "domain")
	}
	require.Equal(t, "no-store", a.header.Get("Cache-Control"))
	secure, _, _ := openLocal(t, func(c *identity.Config) { c.PublicURL = "https://tollgate.example" })
	set := secure.get(secure.web, "/login").header.Get("Set-Cookie")
	require.True(t, strings.HasPrefix(set, "__Host-tollgate-sign-in="), set)
	require.Contains(t, set, "; secure")
	operators, _, _ := openLocal(t, func(c *identity.Config) {
		c.Surface = workspace.SurfaceOperations
	})
	set = operators.get(operators.web, "/login").header.Get("Set-Cookie")
	require.True(t, strings.HasPrefix(set, "tollgate-operator-sign-in="), set)
}

// TestNoOpenRedirect: after signing in a browser continues to a path of ours, whatever was
// requested.
func TestNoOpenRedirect(t *testing.T) {
	s, _, base := openLocal(t)
	for asked, want := range map[string]string{
		"/approve/x?a=b": "/approve/x?a=b", "": "/", "//evil.example": "/", "https://evil.example": "/",
		`/\evil.example`: "/", "/\t/evil.example": "/", "javascript:alert(1)": "/", "evil": "/",
		"/a\r\nSet-Cookie: x=y": "/", "/" + strings.Repeat("a", 600): "/",
	} {
		to := s.begin(s.web, base, "ada@acme.example", "/login?return="+url.QueryEscape(asked))
		require.Equal(t, want, s.get(s.web, to).location, asked)
	}
}

// TestAttemptsAreOfOneBrowser: a callback is good in the browser that began it, once, in time.
func TestAttemptsAreOfOneBrowser(t *testing.T) {
	s, _, base := openLocal(t)
	mine, other := s.browser(), s.browser()
	callback := s.begin(mine, base, "ada@acme.example", "/login")
	refused := func(web *http.Client, to, why string) {
		t.Helper()
		a := s.get(web, to, "Accept", "text/html,*/*")
		require.Equal(t, 401, a.status, why)
		require.Contains(t, a.body, "sign_in_required", why)
		require.Contains(t, a.header.Get("Content-Security-Policy"), "default-src 'none'")
		require.NotContains(t, s.cookies(web), "tollgate-session", why)
	}
	refused(other, callback, "a browser without a sign-in")
	s.begin(other, base, "eve@acme.example", "/login")
	refused(other, callback, "another browser's state: eve would be signed in as ada")

	kept := s.cookies(mine)["tollgate-sign-in"]
	require.Equal(t, 303, s.get(mine, callback).status)
	refused(s.browser(), callback, "again")
	a := s.get(s.browser(), callback, "Cookie", "tollgate-sign-in="+kept)
	require.Equal(t, 401, a.status, "again, with the cookie kept: the code is used")

	late := s.browser()
	callback = s.begin(late, base, "ada@acme.example", "/login")
	s.Later(16 * time.Minute)
	refused(late, callback, "too late")
	a = s.get(s.browser(), callback, "Cookie", "tollgate-sign-in=AAAA"+kept[4:])
	require.Equal(t, 401, a.status, "a cookie that was tampered with")
	turned := s.browser()
	callback = s.begin(turned, base, "ada@acme.example", "/login")
	u, err := url.Parse(callback)
	require.NoError(t, err)
	q := u.Query()
	q.Set("iss", "https://evil.example")
	u.RawQuery = q.Encode()
	refused(turned, u.String(), "another issuer's answer")
	s.begin(turned, base, "ada@acme.example", "/login")
	refused(turned, "/login/callback?error=access_denied", "without a state")
}

// TestForms: only those of this session, from a page of ours.
func TestForms(t *testing.T) {
	s, _, base := openLocal(t)
	s.signIn(s.web, base, "ada@acme.example")
	eve := s.browser()
	s.signIn(eve, base, "eve@acme.example")
	token := func(web *http.Client) string { return strings.Fields(s.get(web, "/me").body)[2] }
	send := func(csrf string, headers ...string) int {
		form := url.Values{identity.FormField: {csrf}, "what": {"it"}}
		return s.do(s.web, "POST", "/change", form, headers...).status
	}
	mine := token(s.web)
	require.Equal(t, 200, send(mine))
	require.Equal(t, 200, send(mine, "Origin", s.url, "Sec-Fetch-Site", "same-origin"))
	require.Equal(t, 403, send(""))
	require.Equal(t, 403, send(token(eve)), "of another session")
	require.Equal(t, 403, send(mine, "Origin", "https://evil.example"))
	require.Equal(t, 403, send(mine, "Origin", "null"))
	require.Equal(t, 403, send(mine, "Sec-Fetch-Site", "cross-site"))
	require.Equal(t, 403, send(mine, "Sec-Fetch-Site", "same-site"))
}

// TestOperators: people may sign in as long as the settings allow them.
func TestOperators(t *testing.T) {
	allowed := "ada@acme.example"
	s, _, base := openLocal(t, func(c *identity.Config) {
		c.Surface = workspace.SurfaceOperations
		c.Allow = func(_, email string) bool { return email == allowed }
	})
	a := s.get(s.web, s.begin(s.web, base, "eve@acme.example", "/login"))
	require.Equal(t, 403, a.status)
	require.Empty(t, s.cookies(s.web))
	s.signIn(s.web, base, allowed)
	require.Equal(t, 200, s.get(s.web, "/me").status)
	allowed = "nobody@acme.example"
	require.Equal(t, 401, s.get(s.web, "/me").status, "the settings have changed")
	require.Equal(t, 404, s.get(s.web, "/login/identity").status, "agents cannot operate")
}

// TestSignInsThatTheLogRefuses: each page has the reason, and whether waiting helps.
func TestSignInsThatTheLogRefuses(t *testing.T) {
	for outcome, row := range map[engine.Outcome]struct {
		status     int
		retry, why string
	}{
		engine.OutcomeNetworkFull:  {429, "3600", "made from this network"},
		engine.OutcomeSessionsFull: {503, "3600", "limit of people or sessions"},
		engine.OutcomePersonsFull:  {503, "3600", "limit of people or sessions"},
		engine.OutcomeSignupOff:    {503, "3600", "cannot get a workspace"},
		engine.OutcomeActorChanged: {401, "", "an agent now"},
		engine.OutcomeUnavailable:  {503, "1", "busy"},
	} {
		s, _, base := openLocal(t)
		s.Before(func(engine.Kind) engine.Outcome { return outcome })
		a := s.get(s.web, s.begin(s.web, base, "ada@acme.example", "/login"), "Accept", "text/html")
		require.Equal(t, row.status, a.status, outcome)
		require.Equal(t, row.retry, a.header.Get("Retry-After"), outcome)
		require.Contains(t, a.body, row.why, outcome)
		require.Contains(t, a.body, "ou are not signed in", outcome)
		require.Empty(t, s.cookies(s.web), outcome)
	}
}

// TestUsesAreNotedBesideTheRequest: none waits for the log, one note at a time is pending for a
// session, and a noted use keeps the session.
func TestUsesAreNotedBesideTheRequest(t *testing.T) {
	s, _, base := openLocal(t)
	s.signIn(s.web, base, "ada@acme.example")
	let, came := make(chan struct{}), make(chan struct{}, 100)
	s.Before(func(kind engine.Kind) engine.Outcome {
		if kind == workspace.KindNoteSession {
			came <- struct{}{}
			<-let
		}
		return engine.OutcomeDone
	})
	s.Later(11 * time.Hour)
	for range 5 {
		require.Equal(t, 200, s.get(s.web, "/me").status)
	}
	<-came
	require.Empty(t, came, "one at a time")
	close(let)
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(s.Entries(), func(kinds []engine.Kind) bool {
			return kinds[0] == workspace.KindNoteSession
		})
	}, 10*time.Second, time.Millisecond)
	s.Later(11 * time.Hour)
	require.Equal(t, 200, s.get(s.web, "/me").status, "it was used 11 hours ago")
}

// TestSessionFixation: a token that an attacker put into the browser is never used for its session,
// neither one that was never issued, nor one of their own, which ends.
func TestSessionFixation(t *testing.T) {
	s, _, base := openLocal(t)
	eve := s.browser()
	s.signIn(eve, base, "eve@acme.example")
	hers := s.cookies(eve)["tollgate-session"]
	made := server.MintKey(server.KeyPrefixSession)
	u, err := url.Parse(s.url)
	require.NoError(t, err)
	for _, planted := range []string{made, hers, "x"} {
		victim := s.browser()
		victim.Jar.SetCookies(u, []*http.Cookie{{Name: "tollgate-session", Value: planted}})
		s.signIn(victim, base, "ada@acme.example")
		require.NotEqual(t, planted, s.cookies(victim)["tollgate-session"])
		require.True(t, strings.HasPrefix(s.get(victim, "/me").body, "person ada@acme.example "))
		a := s.get(s.browser(), "/me", "Cookie", "tollgate-session="+planted)
		require.Equal(t, 401, a.status, "the planted session has ended: %s", a.body)
	}
}

// TestAddressesAsBrowsersWriteThem: however the public address is written, cookies are secure over
// https, and forms come from it.
func TestAddressesAsBrowsersWriteThem(t *testing.T) {
	for written, want := range map[string]string{
		"HTTPS://Tollgate.Example:443/": "https://tollgate.example",
		"https://tollgate.example:8443": "https://tollgate.example:8443",
		"http://LOCALHOST:80":           "http://localhost",
	} {
		var service *identity.Service
		s := open(t, func(c *identity.Config) {
			c.PublicURL = written
			made, err := identity.New(*c)
			require.NoError(t, err)
			service = made
		})
		require.Equal(t, want, service.Origin())
		require.Equal(t, 503, s.get(s.web, "/login").status)
	}
	secure, _, _ := openLocal(t, func(c *identity.Config) { c.PublicURL = "HTTPS://Tollgate.Example" })
	set := secure.get(secure.web, "/login").header.Get("Set-Cookie")
	require.True(t, strings.HasPrefix(set, "__Host-tollgate-sign-in="), set)
	var pages string
	open(t, func(c *identity.Config) {
		c.Origin = "https://Pages.example:443"
		made, err := identity.New(*c)
		require.NoError(t, err)
		pages = made.Origin()
	})
	require.Equal(t, "https://pages.example", pages)
}

// TestNotConfigured: without an issuer signing in fails with a message.
func TestNotConfigured(t *testing.T) {
	var none *identity.Service
	_, err := none.Session(&fasthttp.RequestCtx{})
	require.ErrorIs(t, err, identity.ErrSignIn)
	s := open(t, func(*identity.Config) {})
	for _, path := range []string{"/login", "/login/identity", "/login/callback"} {
		a := s.get(s.web, path)
		require.Equal(t, 503, a.status)
		require.Contains(t, a.body, "authentication_not_configured")
		require.Equal(t, "3600", a.header.Get("Retry-After"))
	}
}

// TestTheDevelopmentProviderIsRefused: by a node that is not in development.
func TestTheDevelopmentProviderIsRefused(t *testing.T) {
	s, _, _ := openLocal(t, func(c *identity.Config) { c.Development = false })
	a := s.get(s.web, "/login", "Accept", "text/html")
	require.Equal(t, 401, a.status)
	require.Contains(t, a.body, "failed verification")
}
