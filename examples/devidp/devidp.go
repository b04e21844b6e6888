// Package devidp is the identity provider of `tollgate dev`: OpenID Connect for persons and for
// agents, on loopback, which believes whatever name it is told. It says so in its description, its
// tokens and on its pages, and a node that is not in development refuses it. See DESIGN.md.
package devidp

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// The paths of the two issuers below the provider's address.
const (
	PersonsPath = "/persons"
	AgentsPath  = "/agents"
)

// ClientID is how nodes name themselves. They have no secret: the code challenge binds a code to
// who began the sign-in.
const ClientID = "tollgate-dev"

// How long things last.
const (
	codeLife    = time.Minute
	tokenLife   = 5 * time.Minute
	waitingLife = 5 * time.Minute // of an auth_token
)

// Bounds of what is kept in memory.
const (
	maxCodes   = 1000
	maxWaiting = 1000
)

// Config is what a Provider needs.
type Config struct {
	// URL is where the provider is reached: http://host:port.
	URL string
	// MailboxKey is the key of every mailbox: who has it may approve sign-ins of agents.
	MailboxKey string
	// Callbacks are the addresses that browsers may be sent back to.
	Callbacks []string
	// Suggested are the addresses that the persons' form proposes, by callback: an operator's on the
	// way to the operators' pages.
	Suggested map[string]string
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Provider is the identity provider. Safe for concurrent use.
type Provider struct {
	config Config
	mux    *http.ServeMux

	mu      sync.Mutex
	key     jose.JSONWebKey
	old     []jose.JSONWebKey
	codes   map[string]*grant
	waiting map[string]*waiting // by auth_token
	tokens  map[string]*grant   // access tokens
}

// grant is what a code stands for.
type grant struct {
	request request
	who     identity
	until   time.Time
}

type identity struct {
	subject, email, name string
	agent                bool
	owner                string // e-mail; empty is none
}

// request is what a browser was sent here with.
type request struct {
	issuer, redirect, state, nonce, challenge string
	scopes                                    map[string]bool
}

// New makes a provider with a key of its own.
func New(c Config) (*Provider, error) {
	if c.URL == "" || c.MailboxKey == "" || len(c.Callbacks) == 0 {
		return nil, errors.New("devidp: URL, MailboxKey and Callbacks must be set")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	p := &Provider{
		config: c, mux: http.NewServeMux(), codes: map[string]*grant{},
		waiting: map[string]*waiting{}, tokens: map[string]*grant{},
	}
	if err := p.Rotate(); err != nil {
		return nil, err
	}
	for _, path := range []string{PersonsPath, AgentsPath} {
		p.mux.HandleFunc("GET "+path+"/.well-known/openid-configuration", p.describe(path))
		p.mux.HandleFunc("GET "+path+"/keys", p.keys)
		p.mux.HandleFunc("GET "+path+"/authorize", p.authorize(path))
		p.mux.HandleFunc("POST "+path+"/token", p.exchange(path))
		p.mux.HandleFunc("GET "+path+"/userinfo", p.userinfo)
	}
	p.mux.HandleFunc("POST "+PersonsPath+"/authorize", p.signPerson)
	p.mux.HandleFunc("GET "+AgentsPath+"/waiting", p.wait)
	p.mux.HandleFunc("POST /v0/inboxes/{inbox_id}/authorize", p.approve)
	p.mux.HandleFunc("GET /{$}", p.home)
	return p, nil
}

// ServeHTTP answers a request.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Frame-Options", "DENY")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	p.mux.ServeHTTP(w, r)
}

// Rotate makes a new signing key. Those before stay published.
func (p *Provider) Rotate() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("devidp: make a key: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.key.Key != nil {
		p.old = append(p.old, p.key.Public())
	}
	p.key = jose.JSONWebKey{
		Key: key, KeyID: secret()[:12], Algorithm: string(jose.ES256), Use: "sig",
	}
	return nil
}

// secret is 32 random bytes as text.
func secret() string {
	var raw [32]byte
	rand.Read(raw[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

func (p *Provider) describe(path string) http.HandlerFunc {
	issuer := p.config.URL + path
	return func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{
			"issuer":                                issuer,
			"authorization_endpoint":                issuer + "/authorize",
			"token_endpoint":                        issuer + "/token",
			"userinfo_endpoint":                     issuer + "/userinfo",
			"jwks_uri":                              issuer + "/keys",
			"response_types_supported":              []string{"code"},
			"grant_types_supported":                 []string{"authorization_code"},
			"subject_types_supported":               []string{"public"},
			"id_token_signing_alg_values_supported": []string{"ES256"},
			"code_challenge_methods_supported":      []string{"S256"},
			"token_endpoint_auth_methods_supported": []string{"none"},
			"scopes_supported": []string{
				"openid", "profile", "email", "owner_profile", "owner_email",
			},
			"authorization_response_iss_parameter_supported": true,
			"tollgate_development_only":                      true,
		})
	}
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	set := jose.JSONWebKeySet{Keys: append([]jose.JSONWebKey{p.key.Public()}, p.old...)}
	p.mu.Unlock()
	answer(w, http.StatusOK, set)
}

// read reads an authorization request; what is wrong with it is not sent anywhere.
func (p *Provider) read(path string, query url.Values) (request, string) {
	r := request{
		issuer: p.config.URL + path, redirect: query.Get("redirect_uri"), state: query.Get("state"),
		nonce: query.Get("nonce"), challenge: query.Get("code_challenge"), scopes: map[string]bool{},
	}
	for scope := range strings.FieldsSeq(query.Get("scope")) {
		r.scopes[scope] = true
	}
	known := false
	for _, callback := range p.config.Callbacks {
		known = known || callback == r.redirect
	}
	switch {
	case !known:
		return r, "redirect_uri is none of this cluster's"
	case query.Get("client_id") != ClientID:
		return r, "client_id is not " + ClientID
	case query.Get("response_type") != "code" || !r.scopes["openid"]:
		return r, "want response_type=code and the scope openid"
	case query.Get("code_challenge_method") != "S256" || len(r.challenge) != 43:
		return r, "want a code challenge (S256)"
	}
	return r, ""
}

// grantTo gives a code for who has signed in, and sends the browser back with it.
func (p *Provider) grantTo(w http.ResponseWriter, r *http.Request, asked request, who identity) {
	code := secret()
	p.mu.Lock()
	if len(p.codes) >= maxCodes {
		clear(p.codes)
	}
	p.codes[code] = &grant{asked, who, p.config.Now().Add(codeLife)}
	p.mu.Unlock()
	back := url.Values{"code": {code}, "state": {asked.state}, "iss": {asked.issuer}}
	http.Redirect(w, r, asked.redirect+"?"+back.Encode(), http.StatusSeeOther)
}

// exchange is the token endpoint. A code is good once.
func (p *Provider) exchange(path string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			refuse(w, http.StatusBadRequest, "invalid_request", "The form cannot be read.")
			return
		}
		p.mu.Lock()
		g := p.codes[r.PostForm.Get("code")]
		delete(p.codes, r.PostForm.Get("code"))
		p.mu.Unlock()
		switch {
		case r.PostForm.Get("grant_type") != "authorization_code":
			refuse(w, http.StatusBadRequest, "unsupported_grant_type", "Want authorization_code.")
		case g == nil || p.config.Now().After(g.until) ||
			g.request.redirect != r.PostForm.Get("redirect_uri") ||
			g.request.issuer != p.config.URL+path ||
			g.request.challenge != challengeOf(r.PostForm.Get("code_verifier")):
			refuse(w, http.StatusBadRequest, "invalid_grant", "The code is unknown, used or too old.")
		default:
			p.issue(w, g)
		}
	}
}

func (p *Provider) issue(w http.ResponseWriter, g *grant) {
	now := p.config.Now()
	claims := p.claims(g)
	for name, value := range map[string]any{
		"iss": g.request.issuer, "aud": ClientID, "iat": now.Unix(), "exp": now.Add(tokenLife).Unix(),
		"nonce": g.request.nonce, "tollgate_development_only": true,
	} {
		claims[name] = value
	}
	p.mu.Lock()
	key := p.key
	p.mu.Unlock()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
		(&jose.SignerOptions{}).WithType("JWT"))
	var token string
	if err == nil {
		token, err = jwt.Signed(signer).Claims(claims).Serialize()
	}
	if err != nil {
		refuse(w, http.StatusInternalServerError, "server_error", err.Error())
		return
	}
	access := secret()
	p.mu.Lock()
	if len(p.tokens) >= maxCodes {
		clear(p.tokens)
	}
	g.until = now.Add(tokenLife)
	p.tokens[access] = g
	p.mu.Unlock()
	answer(w, http.StatusOK, map[string]any{
		"access_token": access, "token_type": "Bearer", "expires_in": int(tokenLife / time.Second),
		"id_token": token,
	})
}

// claims are what the scopes of a sign-in let know.
func (p *Provider) claims(g *grant) map[string]any {
	who, c := &g.who, map[string]any{"sub": g.who.subject}
	if who.agent {
		c["actor_type"] = "agent"
	}
	if g.request.scopes["profile"] {
		c["name"] = who.name
	}
	if g.request.scopes["email"] && who.email != "" {
		c["email"], c["email_verified"] = who.email, true
	}
	if g.request.scopes["owner_email"] && who.owner != "" {
		c["owner_email"], c["owner_email_verified"] = who.owner, true
	}
	if g.request.scopes["owner_profile"] && who.owner != "" {
		c["owner_name"], _, _ = strings.Cut(who.owner, "@")
	}
	return c
}

func (p *Provider) userinfo(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	g := p.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	p.mu.Unlock()
	if g == nil || p.config.Now().After(g.until) {
		refuse(w, http.StatusUnauthorized, "invalid_token", "The token is unknown or too old.")
		return
	}
	answer(w, http.StatusOK, p.claims(g))
}
