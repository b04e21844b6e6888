package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"tollgate/engine"
	"tollgate/engine/workspace"
	"tollgate/server"
)

var (
	// ErrSignIn means that the caller is not signed in.
	ErrSignIn = errors.New("identity: not signed in")
	// ErrBusy means that this node cannot look up sessions.
	ErrBusy = errors.New("identity: no quorum can be reached")
)

// Session is a signed-in person or agent.
type Session struct {
	workspace.SessionView
	token string
}

// FormField is the name of the field that carries a form's token.
const FormField = "_token"

// FormToken is what each form of this session must carry in FormField. It is valid for this session
// only, and reveals nothing about its token.
func (n *Session) FormToken() string {
	h := hmac.New(sha256.New, []byte(n.token))
	h.Write([]byte("tollgate form"))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// Hash identifies the session in commands.
func (n *Session) Hash() [32]byte { return hashOf(n.token) }

// Session finds the session of a request's cookie. Its error is ErrSignIn or ErrBusy.
func (s *Service) Session(ctx *fasthttp.RequestCtx) (*Session, error) { return s.find(ctx, true) }

// Remembered finds a session in this node's own memory, with or without a leader: only for what
// this node shows of its own memory. A node that has been cut off for rememberedFor finds none: the
// session may have been ended elsewhere.
func (s *Service) Remembered(ctx *fasthttp.RequestCtx) (*Session, error) {
	if s != nil && s.config.Reader.Staleness() > rememberedFor {
		return nil, ErrBusy
	}
	return s.find(ctx, false)
}

// rememberedFor is how long a node that is cut off trusts its sessions.
const rememberedFor = 15 * time.Minute

// find finds a session; must requires everything acknowledged anywhere to be applied.
func (s *Service) find(ctx *fasthttp.RequestCtx, must bool) (*Session, error) {
	if s == nil {
		return nil, ErrSignIn
	}
	token := s.cookie(ctx, sessionCookie)
	if server.KeyPrefix([]byte(token)) != server.KeyPrefixSession ||
		!server.WellFormedKey([]byte(token)) {
		return nil, ErrSignIn
	}
	if must && !s.fresh() {
		return nil, ErrBusy
	}
	view, ok := s.config.Machine.Session(hashOf(token), s.config.Surface, s.now())
	if !ok || !s.allowed(&view) {
		return nil, ErrSignIn
	}
	s.note(&view, hashOf(token))
	return &Session{view, token}, nil
}

// allowed reports whether the session's person may still be signed in.
func (s *Service) allowed(v *workspace.SessionView) bool {
	if s.config.Surface == workspace.SurfaceOperations && v.Agent {
		return false // one that its issuer called so before
	}
	return s.config.Allow == nil || s.config.Allow(v.Issuer, v.Email)
}

// note notes that a session is used, once in a while. The request does not wait for it; where it
// fails a later one does it.
func (s *Service) note(v *workspace.SessionView, hash [32]byte) {
	if s.now() < v.NoteFrom {
		return
	}
	s.notes.Begin(hash, func() {
		r := s.propose(workspace.KindNoteSession, &workspace.NoteSession{Session: hash})
		if r.Outcome != engine.OutcomeDone {
			s.config.Log.Debug("the use of a session is not noted", "outcome", r.Outcome)
		}
	})
}

// End ends the session of a request on all nodes, and deletes its cookie; without a session it does
// nothing. After an error the session may still be there.
func (s *Service) End(ctx *fasthttp.RequestCtx) error {
	token := s.cookie(ctx, sessionCookie)
	if token == "" {
		return nil
	}
	r := s.propose(workspace.KindEndSession, &workspace.EndSession{Session: hashOf(token)})
	if r.Outcome != engine.OutcomeDone {
		return fmt.Errorf("%w: %s", ErrBusy, r.Outcome)
	}
	s.setCookie(ctx, s.cookieName(sessionCookie), "", 0)
	return nil
}

// Form reads a form that a signed-in person sent. It refuses one that another site's page has sent,
// and one without the session's token.
func (s *Service) Form(x *server.Exchange, n *Session) (*fasthttp.Args, *server.Fault) {
	form := &fasthttp.Args{}
	form.ParseBytes(x.Body)
	token := form.Peek(FormField)
	if !s.own(x.Ctx) ||
		subtle.ConstantTimeCompare(token, []byte(n.FormToken())) != 1 {
		return nil, faultOrigin
	}
	return form, nil
}

// own reports whether a request comes from a page of ours, as far as the browser names its origin.
func (s *Service) own(ctx *fasthttp.RequestCtx) bool {
	origin, one := server.SoleHeader(ctx, "Origin")
	if !one || len(origin) > 0 && string(origin) != s.origin {
		return false
	}
	switch string(ctx.Request.Header.Peek("Sec-Fetch-Site")) {
	case "", "same-origin", "none":
		return true
	}
	return false
}

// The cookies.
const (
	sessionCookie = "session"
	attemptCookie = "sign-in"
)

const sessionLife = time.Duration(workspace.SessionMS) * time.Millisecond

// secure reports whether cookies go over https alone.
func (s *Service) secure() bool { return s.config.PublicURL[:5] == "https" }

// cookieName is the name of a cookie here: operators have another one, since a cookie is valid for
// every port of a host. Without https browsers refuse the prefix __Host-.
func (s *Service) cookieName(name string) string {
	full := "tollgate-" + name
	if s.config.Surface == workspace.SurfaceOperations {
		full = "tollgate-operator-" + name
	}
	if s.secure() {
		return "__Host-" + full
	}
	return full
}

func (s *Service) cookie(ctx *fasthttp.RequestCtx, name string) string {
	return string(ctx.Request.Header.Cookie(s.cookieName(name)))
}

// setCookie sets a cookie; an empty one is deleted.
func (s *Service) setCookie(ctx *fasthttp.RequestCtx, name, value string, life time.Duration) {
	c := fasthttp.AcquireCookie()
	defer fasthttp.ReleaseCookie(c)
	c.SetKey(name)
	c.SetValue(value)
	c.SetPath("/")
	c.SetHTTPOnly(true)
	c.SetSecure(s.secure())
	c.SetSameSite(fasthttp.CookieSameSiteLaxMode)
	c.SetMaxAge(int(life / time.Second))
	if value == "" {
		c.SetExpire(fasthttp.CookieExpireDelete)
	}
	ctx.Response.Header.SetCookie(c)
}
