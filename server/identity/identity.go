// Package identity lets people and agents sign in: an OpenID Connect relying party over the
// sessions of the workspace state machine. See DESIGN.md.
package identity

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/provider/fetch"
	"tollgate/server/vault"
)

// Config is what a Service needs from the node that runs it.
type Config struct {
	Machine  *workspace.Machine
	Proposer server.Proposer
	Reader   server.Reader
	// PublicURL is where the pages are reached from outside, http(s)://host without a path: the
	// issuers send browsers back there, and cookies are secure where it is https.
	PublicURL string
	// Origin is where changes may come from; empty is PublicURL's.
	Origin string
	// Surface is the part of the service that sessions are valid for.
	Surface workspace.Surface
	// Persons and Agents are their issuers. One without a URL is off.
	Persons, Agents Issuer
	// Web is the guarded client by which issuers are reached.
	Web *fetch.Client
	// Key seals the sign-in that a browser keeps; the same on every node.
	Key [32]byte
	// Development allows the provider of `tollgate dev`, which authenticates no one.
	Development bool
	// Allow reports who may sign in, and stay signed in; nil allows everyone.
	Allow func(issuer, email string) bool
	// Proxies are the networks of proxies that are trusted to report a caller's address.
	Proxies []netip.Prefix
	// Now is the node's clock; time.Now when nil.
	Now func() time.Time
	// WriteTimeout is how long a command may take (5 s when 0), ReadTimeout how long a read may
	// wait for a leader (2 s when 0).
	WriteTimeout, ReadTimeout time.Duration
	Log                       *slog.Logger
}

// Issuer is an OpenID Connect provider and our credentials there.
type Issuer struct {
	URL, ClientID, ClientSecret string
}

// Service signs people and agents in. A nil Service is one without an issuer. Safe for concurrent
// use.
type Service struct {
	config          Config
	origin          string
	persons, agents *provider
	attempts        *vault.Vault
	// asking bounds the sign-ins that wait for an issuer.
	asking chan struct{}
	notes  server.Notes[[32]byte]
}

// attemptPurpose derives the key under which sign-ins that are under way are sealed.
const attemptPurpose = "tollgate sign-in attempts"

// maxAsking is how many sign-ins wait for an issuer at a time.
const maxAsking = 32

// New makes a Service. It does not ask the issuers anything yet.
func New(c Config) (*Service, error) {
	if c.Machine == nil || c.Proposer == nil || c.Reader == nil || c.Web == nil || c.Surface == 0 {
		return nil, errors.New("identity: Machine, Proposer, Reader, Web and Surface must be set")
	}
	base, err := url.Parse(c.PublicURL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("identity: PublicURL %q is not http(s)://host", c.PublicURL)
	}
	own := originOf(base)
	c.PublicURL = own
	s := &Service{config: c, origin: own, asking: make(chan struct{}, maxAsking)}
	if c.Origin != "" {
		pages, err := url.Parse(c.Origin)
		if err != nil || pages.Host == "" {
			return nil, fmt.Errorf("identity: Origin %q is not http(s)://host", c.Origin)
		}
		s.origin = originOf(pages)
	}
	if s.config.Now == nil {
		s.config.Now = time.Now
	}
	s.config.WriteTimeout = cmp.Or(s.config.WriteTimeout, 5*time.Second)
	s.config.ReadTimeout = cmp.Or(s.config.ReadTimeout, 2*time.Second)
	s.config.Log = cmp.Or(s.config.Log, slog.Default())
	s.attempts = vault.New(c.Key, attemptPurpose)
	redirect := s.config.PublicURL + callbackPath
	s.persons = newProvider(&s.config, c.Persons, redirect, []string{"openid", "profile", "email"})
	s.agents = newProvider(&s.config, c.Agents, redirect,
		[]string{"openid", "profile", "email", "owner_profile", "owner_email"})
	return s, nil
}

// originOf is an address's origin as browsers write it: in lower case, and without the port that
// its scheme has anyway. Written otherwise, no form would ever come from it.
func originOf(u *url.URL) string {
	host := strings.ToLower(u.Host)
	if port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]; port != "" {
		host = strings.TrimSuffix(host, port)
	}
	return u.Scheme + "://" + host
}

// Origin is where changes by a session must come from: scheme://host, with a port where it is not
// the scheme's.
func (s *Service) Origin() string {
	if s == nil {
		return ""
	}
	return s.origin
}

// Configured reports whether people can sign in.
func (s *Service) Configured() bool { return s != nil && s.persons != nil }

func (s *Service) now() int64 { return s.config.Machine.Clock(s.config.Now().UnixMilli()) }

// fresh waits until this node has applied everything acknowledged anywhere.
func (s *Service) fresh() bool {
	return server.Fresh(s.config.Reader, time.Now().Add(s.config.ReadTimeout))
}

// propose brings a command into the log.
func (s *Service) propose(kind engine.Kind, c wire.Fielder) engine.Result {
	records := []engine.Record{
		{Kind: kind, Payload: wire.Encode(nil, c), Flow: server.SignInFlow},
	}
	results := make([]engine.Result, 1)
	s.config.Proposer.Propose(time.Now().Add(s.config.WriteTimeout), records, results)
	return results[0]
}

// hashOf is the hash by which the log knows a token.
func hashOf(token string) [32]byte { return sha256.Sum256([]byte(token)) }
