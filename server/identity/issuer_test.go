package identity_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/oauth2-proxy/mockoidc"
	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server/identity"
)

// TestAnotherProvider: one that is not ours, and signs otherwise.
func TestAnotherProvider(t *testing.T) {
	m, err := mockoidc.Run()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Shutdown()) })
	s := open(t, func(c *identity.Config) {
		c.Development = false
		c.Persons = identity.Issuer{URL: m.Issuer(), ClientID: m.ClientID, ClientSecret: m.ClientSecret}
	})
	m.QueueUser(&mockoidc.MockUser{
		Subject: "1", Email: "ada@acme.example", EmailVerified: true,
	})
	callback := s.get(s.web, s.get(s.web, "/login?return=/me").location).location
	kept := s.cookies(s.web)["tollgate-sign-in"]
	require.Equal(t, "/me", s.get(s.web, callback).location)
	require.True(t, strings.HasPrefix(s.get(s.web, "/me").body, "person ada@acme.example "))
	a := s.get(s.browser(), callback, "Cookie", "tollgate-sign-in="+kept)
	require.Equal(t, 401, a.status, "the code was used")

	m.QueueUser(&mockoidc.MockUser{Subject: "2", Email: "eve@acme.example"})
	eve := s.browser()
	callback = s.get(eve, s.get(eve, "/login").location).location
	require.Equal(t, 303, s.get(eve, callback).status)
	require.True(t, strings.HasPrefix(s.get(eve, "/me").body, "person  "), "an unverified address is none")

	m.QueueError(&mockoidc.ServerError{Code: 500, Error: mockoidc.InternalServerError})
	a = s.get(eve, "/login", "Accept", "text/html")
	require.Equal(t, 303, a.status)
	a = s.get(eve, a.location)
	require.Equal(t, 500, a.status)
}

// issuer is a provider with injectable faults.
type issuer struct {
	*httptest.Server
	key  *ecdsa.PrivateKey
	kid  string
	down atomic.Bool
	// claims and header change the next ID token.
	claims func(map[string]any)
	sign   func(map[string]any) string
	// described changes the description.
	described func(map[string]any)
	nonce     string
	// userinfo is its answer about the subject.
	userinfo map[string]any
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{claims: func(map[string]any) {}, described: func(map[string]any) {}}
	i.rotate(t)
	i.Server = httptest.NewServer(i)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) rotate(t *testing.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	i.key, i.kid = key, i.kid+"k"
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if i.down.Load() {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	answer := map[string]any{}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		answer = map[string]any{
			"issuer":                                i.URL,
			"authorization_endpoint":                i.URL + "/authorize",
			"token_endpoint":                        i.URL + "/token",
			"jwks_uri":                              i.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"ES256", "none", "HS256"},
		}
		i.described(answer)
	case "/keys":
		answer["keys"] = []jose.JSONWebKey{{Key: i.key.Public(), KeyID: i.kid, Algorithm: "ES256", Use: "sig"}}
	case "/userinfo":
		answer = i.userinfo
	case "/token":
		claims := map[string]any{
			"iss": i.URL, "sub": "1", "aud": "us", "nonce": i.nonce, "iat": time.Now().Unix(),
			"exp": time.Now().Add(time.Minute).Unix(), "email": "ada@acme.example", "email_verified": true,
		}
		i.claims(claims)
		token := ""
		if i.sign != nil {
			token = i.sign(claims)
		} else {
			token = i.signed(jose.ES256, jose.JSONWebKey{Key: i.key, KeyID: i.kid}, claims)
		}
		answer = map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": token}
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		panic(err)
	}
}

func (i *issuer) signed(alg jose.SignatureAlgorithm, key any, claims map[string]any) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, nil)
	if err != nil {
		panic(err)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		panic(err)
	}
	return text
}

// callback begins a sign-in and returns the path of the issuer's redirect.
func (i *issuer) callback(s *site, web *http.Client) string {
	s.t.Helper()
	return i.callbackOf(s, web, "/login")
}

func (i *issuer) callbackOf(s *site, web *http.Client, path string) string {
	s.t.Helper()
	a := s.get(web, path)
	require.Equal(s.t, 303, a.status, a.body)
	to, err := url.Parse(a.location)
	require.NoError(s.t, err)
	require.Equal(s.t, "S256", to.Query().Get("code_challenge_method"))
	i.nonce = to.Query().Get("nonce")
	return "/login/callback?code=c&state=" + to.Query().Get("state")
}

// TestForgedTokensAreRefused: none of them signs in, and all give the same message.
func TestForgedTokensAreRefused(t *testing.T) {
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	none := func(claims map[string]any) string {
		text, err := json.Marshal(claims)
		require.NoError(t, err)
		encode := base64.RawURLEncoding.EncodeToString
		return encode([]byte(`{"alg":"none"}`)) + "." + encode(text) + "."
	}
	i := newIssuer(t)
	s := open(t, func(c *identity.Config) {
		c.Persons = identity.Issuer{URL: i.URL, ClientID: "us", ClientSecret: "s"}
	})
	require.Equal(t, 303, s.get(s.web, i.callback(s, s.web)).status)
	for name, lie := range map[string]func(){
		"nonce":    func() { i.claims = func(c map[string]any) { c["nonce"] = "other" } },
		"no nonce": func() { i.claims = func(c map[string]any) { delete(c, "nonce") } },
		"iss":      func() { i.claims = func(c map[string]any) { c["iss"] = "https://evil.example" } },
		"aud":      func() { i.claims = func(c map[string]any) { c["aud"] = "others" } },
		"two aud":  func() { i.claims = func(c map[string]any) { c["aud"] = []string{"us", "others"} } },
		"another azp": func() {
			i.claims = func(c map[string]any) { c["aud"], c["azp"] = []string{"us", "x"}, "x" }
		},
		"one aud, another azp": func() { i.claims = func(c map[string]any) { c["azp"] = "x" } },
		"expired":              func() { i.claims = func(c map[string]any) { c["exp"] = time.Now().Unix() - 1 } },
		"no subject":           func() { i.claims = func(c map[string]any) { delete(c, "sub") } },
		"long subject":         func() { i.claims = func(c map[string]any) { c["sub"] = strings.Repeat("x", 300) } },
		"alg none":             func() { i.sign = none },
		"another key": func() {
			i.sign = func(c map[string]any) string {
				return i.signed(jose.ES256, jose.JSONWebKey{Key: other, KeyID: i.kid}, c)
			}
		},
		"a shared secret": func() {
			i.sign = func(c map[string]any) string {
				return i.signed(jose.HS256, []byte(strings.Repeat("s", 32)), c)
			}
		},
		"no token":    func() { i.sign = func(map[string]any) string { return "" } },
		"development": func() { i.claims = func(c map[string]any) { c["tollgate_development_only"] = "x" } },
	} {
		t.Run(name, func(t *testing.T) {
			i.claims, i.sign = func(map[string]any) {}, nil
			lie()
			web := s.browser()
			a := s.get(web, i.callback(s, web), "Accept", "text/html")
			require.Equal(t, 401, a.status)
			require.Contains(t, a.body, "failed verification")
			require.NotContains(t, s.cookies(web), "tollgate-session")
		})
	}
	i.claims, i.sign = func(map[string]any) {}, nil
	i.rotate(t)
	web := s.browser()
	require.Equal(t, 303, s.get(web, i.callback(s, web)).status, "a new key of the issuer's")
	i.claims = func(c map[string]any) { c["aud"], c["azp"] = []string{"us", "x"}, "us" }
	require.Equal(t, 303, s.get(web, i.callback(s, web)).status, "for us and others")
	require.Equal(t, 401, s.get(web, i.callback(s, web)+"&iss=https%3A%2F%2Fevil.example").status)
	i.claims = func(c map[string]any) { c["actor_type"] = "agent" }
	require.Equal(t, 401, s.get(web, i.callback(s, web)).status, "a person who is an agent now")
}

// TestAgentsOperateNothing: also one that its issuer calls so no more.
func TestAgentsOperateNothing(t *testing.T) {
	i := newIssuer(t)
	s := open(t, func(c *identity.Config) {
		c.Surface = workspace.SurfaceOperations
		c.Persons = identity.Issuer{URL: i.URL, ClientID: "us"}
		c.Allow = func(string, string) bool { return true }
	})
	i.claims = func(c map[string]any) { c["actor_type"] = "agent" }
	a := s.get(s.web, i.callback(s, s.web), "Accept", "text/html")
	require.Equal(t, 403, a.status)
	require.Contains(t, a.body, "Only people operate")
	require.Empty(t, s.cookies(s.web))

	results := make([]engine.Result, 1)
	s.Propose(time.Now(), []engine.Record{{Kind: workspace.KindSignIn, Payload: wire.Encode(nil,
		&workspace.SignIn{
			ID: [16]byte{1}, Issuer: i.URL, Subject: "1", Email: "ada@acme.example", Agent: true,
			Session: [32]byte{1}, Surface: workspace.SurfaceWorkspaces, Workspace: [16]byte{2},
		})}}, results)
	require.Equal(t, engine.OutcomeDone, results[0].Outcome)
	i.claims = func(map[string]any) {}
	s.get(s.web, i.callback(s, s.web))
	require.Equal(t, 401, s.get(s.web, "/me").status)
}

// TestAnIssuerThatIsDown: signing in fails with a message; sessions stay valid.
func TestAnIssuerThatIsDown(t *testing.T) {
	i := newIssuer(t)
	i.down.Store(true)
	s := open(t, func(c *identity.Config) { c.Persons = identity.Issuer{URL: i.URL, ClientID: "us"} })
	a := s.get(s.web, "/login", "Accept", "text/html")
	require.Equal(t, 503, a.status)
	require.Contains(t, a.body, "does not answer")
	require.NotEmpty(t, a.header.Get("Retry-After"))
	i.down.Store(false)
	require.Eventually(t, func() bool { return s.get(s.web, "/login").status == 303 },
		20*time.Second, 50*time.Millisecond, "it is asked again")
	require.Equal(t, 303, s.get(s.web, i.callback(s, s.web)).status)
	web := s.browser()
	callback := i.callback(s, web)
	i.down.Store(true)
	require.Equal(t, 503, s.get(web, callback).status)
	require.Equal(t, 200, s.get(s.web, "/me").status)
}

// TestAnotherIssuersAnswer: where an issuer announces that its answers name it, one that does not
// is refused.
func TestAnotherIssuersAnswer(t *testing.T) {
	i := newIssuer(t)
	i.described = func(d map[string]any) { d["authorization_response_iss_parameter_supported"] = true }
	s := open(t, func(c *identity.Config) { c.Persons = identity.Issuer{URL: i.URL, ClientID: "us"} })
	require.Equal(t, 401, s.get(s.web, i.callback(s, s.web)).status)
	require.Equal(t, 303, s.get(s.web, i.callback(s, s.web)+"&iss="+url.QueryEscape(i.URL)).status)
	wrong := newIssuer(t)
	wrong.described = func(d map[string]any) { d["issuer"] = i.URL }
	s = open(t, func(c *identity.Config) { c.Persons = identity.Issuer{URL: wrong.URL, ClientID: "us"} })
	require.Equal(t, 503, s.get(s.web, "/login").status, "a description of another issuer")
}

// TestUserinfoFillsIn: claims that the token lacks come from userinfo, about the same subject. An
// address counts as verified only by the source that names it; userinfo can name an agent.
func TestUserinfoFillsIn(t *testing.T) {
	i := newIssuer(t)
	i.described = func(d map[string]any) { d["userinfo_endpoint"] = i.URL + "/userinfo" }
	s := open(t, func(c *identity.Config) {
		c.Persons = identity.Issuer{URL: i.URL, ClientID: "us"}
		c.Agents = c.Persons
	})
	me := func(claims, userinfo map[string]any) string {
		t.Helper()
		i.claims = func(c map[string]any) {
			for _, name := range []string{"email", "email_verified"} {
				delete(c, name)
			}
			for name, value := range claims {
				c[name] = value
			}
		}
		i.userinfo = userinfo
		web := s.browser()
		if a := s.get(web, i.callback(s, web)); a.status != 303 {
			return a.body
		}
		return s.get(web, "/me").body
	}
	verified := map[string]any{"sub": "1", "email": "ada@acme.example", "email_verified": true}
	require.True(t, strings.HasPrefix(me(map[string]any{"email_verified": true},
		map[string]any{"sub": "1", "email": "eve@acme.example"}), "person  "),
		"the token verifies another address")
	require.True(t, strings.HasPrefix(me(map[string]any{"email": "eve@acme.example"}, verified),
		"person  "), "userinfo verifies another address")
	require.True(t, strings.HasPrefix(me(nil, verified), "person ada@acme.example "))
	require.Contains(t, me(nil, map[string]any{"sub": "2", "email": "ada@acme.example"}),
		"failed verification")
	require.True(t, strings.HasPrefix(me(
		map[string]any{"sub": "bot", "email": "bot@acme.example", "email_verified": true},
		map[string]any{"sub": "bot", "actor_type": "agent"}), "agent "))
	require.True(t, strings.HasPrefix(me(
		map[string]any{"sub": "b2", "actor_type": "agent", "email": "b2@acme.example"},
		map[string]any{
			"sub": "b2", "owner_email": "ada@acme.example", "owner_email_verified": true,
		}), "agent "))
	ada, _ := s.Machine.Links(1, workspace.Page{Limit: 5})
	require.Len(t, ada, 1, "its owner, whom userinfo names, is asked")
}

// TestAnAttemptGrowsOld: after 15 minutes a sign-in is over, also where its code and its token
// would still be good.
func TestAnAttemptGrowsOld(t *testing.T) {
	i := newIssuer(t)
	i.claims = func(c map[string]any) { c["exp"] = time.Now().Add(time.Hour).Unix() }
	s := open(t, func(c *identity.Config) { c.Persons = identity.Issuer{URL: i.URL, ClientID: "us"} })
	callback := i.callback(s, s.web)
	s.Later(14 * time.Minute)
	require.Equal(t, 303, s.get(s.web, callback).status)
	late := s.browser()
	callback = i.callback(s, late)
	s.Later(15*time.Minute + time.Second)
	a := s.get(late, callback)
	require.Equal(t, 401, a.status)
	require.Contains(t, a.body, "took longer than 15 minutes")
}

// TestPeopleAreNoAgents: only agents, by the issuer's claim, sign in as one; an agent stays one,
// even where a later token omits the claim.
func TestPeopleAreNoAgents(t *testing.T) {
	i := newIssuer(t)
	s := open(t, func(c *identity.Config) {
		c.Persons = identity.Issuer{URL: i.URL, ClientID: "us"}
		c.Agents = c.Persons
	})
	a := s.get(s.web, i.callbackOf(s, s.web, "/login/identity"), "Accept", "text/html")
	require.Equal(t, 401, a.status)
	require.Contains(t, a.body, "People sign in at /login")
	require.NotContains(t, s.cookies(s.web), "tollgate-session")
	for _, actor := range []any{"Agent", "person", "", nil, true, 1} {
		i.claims = func(c map[string]any) { c["sub"], c["actor_type"] = "bot", actor }
		a = s.get(s.web, i.callbackOf(s, s.web, "/login/identity"))
		require.Equal(t, 401, a.status, "actor_type %v", actor)
	}
	i.claims = func(c map[string]any) { c["sub"], c["actor_type"] = "bot", "agent" }
	require.Equal(t, 303, s.get(s.web, i.callbackOf(s, s.web, "/login/identity")).status)
	i.claims = func(c map[string]any) { c["sub"] = "bot" }
	require.Equal(t, 303, s.get(s.web, i.callback(s, s.web)).status)
	require.True(t, strings.HasPrefix(s.get(s.web, "/me").body, "agent "), "for good")
}
