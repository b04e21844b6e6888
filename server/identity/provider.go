package identity

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"tollgate/engine/workspace"
)

const (
	// issuerTimeout bounds the time that a sign-in waits for its issuer.
	issuerTimeout = 10 * time.Second
	// describedFor is how long an issuer's description is valid, describedAgain the pause before a
	// failed one is read again. Its keys are read again when a token names one that is not known.
	describedFor   = time.Hour
	describedAgain = 2 * time.Second
)

var (
	// errIssuer: the issuer does not answer, or not as one does.
	errIssuer = errors.New("identity: invalid answer of the issuer")
	// errRefused means that the issuer's answer failed verification.
	errRefused = errors.New("identity: the sign-in failed verification")
)

// provider is an issuer of identities.
type provider struct {
	config    *Config
	issuer    Issuer
	redirect  string
	scopes    []string
	client    *http.Client
	mu        sync.Mutex
	described *description
	failed    time.Time
}

// description is what an issuer publishes about itself.
type description struct {
	provider *oidc.Provider
	oauth    oauth2.Config
	verifier *oidc.IDTokenVerifier
	// names reports whether its answers name it (RFC 9207).
	names bool
	at    time.Time
}

// newProvider makes a provider; nil if none is configured.
func newProvider(c *Config, issuer Issuer, redirect string, scopes []string) *provider {
	if issuer.URL == "" {
		return nil
	}
	return &provider{
		config: c, issuer: issuer, redirect: redirect, scopes: scopes, client: client(c.Web),
	}
}

// DevelopmentMark is the member of its description, and the claim in its tokens, by which the
// provider of `tollgate dev` declares that it authenticates no one.
const DevelopmentMark = "tollgate_development_only"

// published are the members of a description that go-oidc does not read.
type published struct {
	Names       bool     `json:"authorization_response_iss_parameter_supported"`
	Methods     []string `json:"token_endpoint_auth_methods_supported"`
	Development bool     `json:"tollgate_development_only"`
}

// describe returns the issuer's description, which is read anew from time to time. If that fails,
// the old one stays valid.
func (p *provider) describe(ctx context.Context) (*description, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.described != nil && now.Sub(p.described.at) < describedFor ||
		!p.failed.IsZero() && now.Sub(p.failed) < describedAgain {
		if p.described == nil {
			return nil, errIssuer
		}
		return p.described, nil
	}
	d, err := p.read(ctx)
	if err != nil {
		p.failed = now
		p.config.Log.Warn("an identity provider's description cannot be read", "issuer", p.issuer.URL,
			"error", err)
		if p.described != nil && !errors.Is(err, errRefused) {
			return p.described, nil
		}
		return nil, err
	}
	d.at, p.failed = now, time.Time{}
	p.described = d
	return d, nil
}

// read reads a description. Keys are asked for later, when ctx has ended.
func (p *provider) read(ctx context.Context) (*description, error) {
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.issuer.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errIssuer, err)
	}
	var more published
	if err := found.Claims(&more); err != nil {
		return nil, fmt.Errorf("%w: %w", errIssuer, err)
	}
	if more.Development && !p.config.Development {
		return nil, fmt.Errorf("%w: it is the provider of `tollgate dev`, which authenticates no one: "+
			"configure another", errRefused)
	}
	endpoint := found.Endpoint()
	if endpoint.AuthURL == "" || endpoint.TokenURL == "" {
		return nil, fmt.Errorf("%w: it has no endpoints", errIssuer)
	}
	endpoint.AuthStyle = oauth2.AuthStyleInHeader // the default where it is not stated
	if p.issuer.ClientSecret == "" || slices.Contains(more.Methods, "client_secret_post") {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return &description{
		provider: found, names: more.Names,
		oauth: oauth2.Config{
			ClientID: p.issuer.ClientID, ClientSecret: p.issuer.ClientSecret, Endpoint: endpoint,
			RedirectURL: p.redirect, Scopes: p.scopes,
		},
		verifier: found.Verifier(&oidc.Config{ClientID: p.issuer.ClientID, Now: p.config.Now}),
	}, nil
}

// begin is where a browser is sent to sign in.
func (p *provider) begin(ctx context.Context, a *attempt) (string, error) {
	d, err := p.describe(ctx)
	if err != nil {
		return "", err
	}
	return d.oauth.AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)),
		nil
}

// subject is the person or agent that an issuer named.
type subject struct {
	id, email, name, ownerEmail string
	agent                       bool
}

// claims are those of tokens and userinfo. Verified is true, or "true" as some issuers write it.
type claims struct {
	ActorType     string `json:"actor_type"`
	Email         string `json:"email"`
	Verified      any    `json:"email_verified"`
	Name          string `json:"name"`
	Owner         string `json:"owner_email"`
	OwnerVerified any    `json:"owner_email_verified"`
	Party         string `json:"azp"`
	Development   bool   `json:"tollgate_development_only"`
}

// finish exchanges the code that a browser brought, and verifies the issuer's answer.
func (p *provider) finish(ctx context.Context, a *attempt, code, issuer string) (subject, error) {
	d, err := p.describe(ctx)
	if err != nil {
		return subject{}, err
	}
	if issuer == "" && d.names || issuer != "" && issuer != p.issuer.URL {
		return subject{}, fmt.Errorf("%w: the answer is another issuer's", errRefused)
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := d.oauth.Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		var refused *oauth2.RetrieveError
		if errors.As(err, &refused) && refused.Response != nil && refused.Response.StatusCode < 500 {
			return subject{}, fmt.Errorf("%w: no token for the code: %s", errRefused, refused.ErrorCode)
		}
		return subject{}, fmt.Errorf("%w: the token endpoint", errIssuer)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return subject{}, fmt.Errorf("%w: no ID token", errRefused)
	}
	verified, err := d.verifier.Verify(ctx, raw)
	if err != nil {
		return subject{}, fmt.Errorf("%w: %w", errRefused, err)
	}
	if subtle.ConstantTimeCompare([]byte(verified.Nonce), []byte(a.Nonce)) != 1 {
		return subject{}, fmt.Errorf("%w: the nonce is another sign-in's", errRefused)
	}
	return p.subject(ctx, d, token, verified)
}

// subject reads the claims of a token that was verified, and asks for those that it lacks.
func (p *provider) subject(ctx context.Context, d *description, token *oauth2.Token,
	verified *oidc.IDToken,
) (subject, error) {
	var c claims
	if err := verified.Claims(&c); err != nil {
		return subject{}, fmt.Errorf("%w: malformed claims", errRefused)
	}
	switch {
	case c.Party != p.issuer.ClientID && (c.Party != "" || len(verified.Audience) > 1):
		return subject{}, fmt.Errorf("%w: the token is another party's", errRefused)
	case c.Development && !p.config.Development:
		return subject{}, fmt.Errorf("%w: the token is of `tollgate dev`", errRefused)
	}
	if p.lacks(&c) && d.provider.UserInfoEndpoint() != "" {
		var more claims
		info, err := d.provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
		if err != nil {
			return subject{}, fmt.Errorf("%w: the userinfo endpoint", errIssuer)
		}
		if info.Subject != verified.Subject || info.Claims(&more) != nil {
			return subject{}, fmt.Errorf("%w: userinfo is about another subject", errRefused)
		}
		c.fill(&more)
	}
	s := subject{id: verified.Subject, agent: c.ActorType == "agent", name: plain(c.Name)}
	if truth(c.Verified) {
		s.email = mailbox(c.Email)
	}
	if truth(c.OwnerVerified) {
		s.ownerEmail = mailbox(c.Owner)
	}
	if s.id == "" || len(s.id) > workspace.MaxSubject {
		return subject{}, fmt.Errorf("%w: no subject, or one that is too long", errRefused)
	}
	return s, nil
}

// lacks reports whether userinfo is needed. With an issuer that names agents it always is: an agent
// whose token omits the claim would be taken for a person.
func (p *provider) lacks(c *claims) bool {
	agents := p.issuer.URL == p.config.Agents.URL
	return c.Email == "" || agents && (c.ActorType == "" || c.Owner == "")
}

// fill adds the claims of userinfo that the token lacks. The verified flag comes with its address.
func (c *claims) fill(more *claims) {
	if c.Email == "" {
		c.Email, c.Verified = more.Email, more.Verified
	}
	if c.Owner == "" {
		c.Owner, c.OwnerVerified = more.Owner, more.OwnerVerified
	}
	c.ActorType = cmp.Or(c.ActorType, more.ActorType)
	c.Name = cmp.Or(c.Name, more.Name)
}

func truth(v any) bool { return v == true || v == "true" }

// mailbox is an e-mail address; empty where the text is none.
func mailbox(text string) string {
	at := 0
	for _, r := range text {
		if r <= ' ' || r == 0x7f || unicode.Is(unicode.C, r) {
			return ""
		}
		if r == '@' {
			at++
		}
	}
	if at != 1 || len(text) > workspace.MaxEmail || !utf8.ValidString(text) {
		return ""
	}
	return text
}

// plain is a name without what cannot be shown, cut to its length.
func plain(text string) string {
	var out []rune
	size := 0
	for _, r := range text {
		if unicode.Is(unicode.C, r) || r == utf8.RuneError {
			continue
		}
		if size += utf8.RuneLen(r); size > workspace.MaxName {
			break
		}
		out = append(out, r)
	}
	return string(out)
}
