package console

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"tollgate/server"
	"tollgate/server/console/page"
)

// How long a session lasts, and how many there may be.
const (
	sessionIdle = 12 * time.Hour
	sessionMost = 7 * 24 * time.Hour
	maxSessions = 1000
	// Tries to sign in of one address.
	signInTries  = 10
	signInWindow = time.Minute
)

// KeySessions are sessions that the admin key opens, for a cluster whose operators have no identity
// provider, or one that is down. They are in this node's memory, and only the hashes of their
// tokens are: a node that starts again has forgotten them, and other nodes never knew them, which
// costs signing in once more. Safe for concurrent use.
type KeySessions struct {
	matches func(key []byte) bool
	now     func() time.Time
	secure  bool
	tries   *server.RateLimiter

	mu   sync.Mutex
	held map[[32]byte]*keySession
}

type keySession struct{ began, used time.Time }

// NewKeySessions makes an empty set. secure means that the pages are reached by https, which a
// listener behind a proxy cannot see: cookies then need it.
func NewKeySessions(
	matches func(key []byte) bool, now func() time.Time, secure bool,
) *KeySessions {
	return &KeySessions{
		matches: matches, now: now, secure: secure, held: map[[32]byte]*keySession{},
		tries: server.NewRateLimiter(
			server.RateLimit{Requests: signInTries, Window: signInWindow}, now),
	}
}

// Operator finds a request's session. The key allows everything. Each node knows its own sessions,
// with a leader or without.
func (k *KeySessions) Operator(x *server.Exchange, _ bool) (Operator, error) {
	token := string(x.Ctx.Request.Header.Cookie(cookieName(x)))
	if token == "" {
		return Operator{}, ErrSignedOut
	}
	hash, now := sha256.Sum256([]byte(token)), k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	session := k.held[hash]
	if session == nil {
		return Operator{}, ErrSignedOut
	}
	if session.ended(now) {
		delete(k.held, hash)
		return Operator{}, ErrSignedOut
	}
	session.used = now
	return Operator{Grants: []Grant{{Manage: true}}, Token: page.TokenOf(token)}, nil
}

func (s *keySession) ended(now time.Time) bool {
	return now.Sub(s.used) >= sessionIdle || now.Sub(s.began) >= sessionMost
}

// open begins a session for the holder of the key: always a new one, whatever cookie they sent.
func (k *KeySessions) open(x *server.Exchange, key string) *server.Fault {
	address, ok := netip.AddrFromSlice(x.Ctx.RemoteIP())
	if !ok {
		address = netip.IPv6Unspecified()
	}
	if fault := k.tries.Take(x, address.As16()); fault != nil {
		return fault.With("Too many tries to sign in from this address. Wait a minute, then try again.")
	}
	if !k.matches([]byte(strings.TrimSpace(key))) {
		return faultKey
	}
	var drawn [32]byte
	rand.Read(drawn[:]) // never fails
	token, now := base64.RawURLEncoding.EncodeToString(drawn[:]), k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.makeRoom(now)
	k.held[sha256.Sum256([]byte(token))] = &keySession{began: now, used: now}
	k.setCookie(x, token, int(sessionMost/time.Second))
	return nil
}

var faultKey = server.NewFault(401, "invalid_key", "This is not the admin key").With(
	"An admin key begins with sk_admin_. tollgate dev writes it to its folder and prints it at the " +
		"start; elsewhere the administrator of the cluster has it.")

// makeRoom drops ended sessions, and where there are too many the one that was used longest ago.
func (k *KeySessions) makeRoom(now time.Time) {
	if len(k.held) < maxSessions {
		return
	}
	var oldest [32]byte
	var at time.Time
	for hash, session := range k.held {
		if session.ended(now) {
			delete(k.held, hash)
		} else if at.IsZero() || session.used.Before(at) {
			oldest, at = hash, session.used
		}
	}
	if len(k.held) >= maxSessions {
		delete(k.held, oldest)
	}
}

// SignOut ends a request's session.
func (k *KeySessions) SignOut(x *server.Exchange) error {
	hash := sha256.Sum256(x.Ctx.Request.Header.Cookie(cookieName(x)))
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.held, hash)
	k.setCookie(x, "", -1)
	return nil
}

// cookieName has the port in it, since browsers give a cookie to every port of a host: nodes of one
// machine would sign each other out.
func cookieName(x *server.Exchange) string {
	host := string(x.Ctx.Request.Header.Host())
	port := ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		port = host[i+1:]
	}
	for _, c := range []byte(port) {
		if c < '0' || c > '9' {
			port = ""
		}
	}
	return "tollgate_operator" + port
}

func (k *KeySessions) setCookie(x *server.Exchange, value string, seconds int) {
	var c fasthttp.Cookie
	c.SetKey(cookieName(x))
	c.SetValue(value)
	c.SetPath(Root)
	c.SetHTTPOnly(true)
	c.SetSecure(k.secure || x.TLS())
	c.SetSameSite(fasthttp.CookieSameSiteStrictMode)
	c.SetMaxAge(seconds)
	if seconds < 0 {
		c.SetExpire(fasthttp.CookieExpireDelete)
	}
	x.Ctx.Response.Header.SetCookie(&c)
}
