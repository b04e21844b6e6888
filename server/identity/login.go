package identity

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"

	"github.com/gofrs/uuid/v5"

	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server"
)

// LoginPath is where people begin to sign in; it takes the path to continue to as ?return=.
const LoginPath = "/login"

const (
	agentPath    = "/login/identity"
	callbackPath = "/login/callback"
	logoutPath   = "/logout"
)

// Routes are those by which people and agents sign in and out. Without an issuer they answer 503
// authentication_not_configured.
func (s *Service) Routes() []server.Route {
	row := func(method, path, operation, summary, about string,
		handle func(*server.Exchange) *server.Fault, params ...server.Param,
	) server.Route {
		r := server.Row(method, path, operation, summary, server.AccessOpen, s.answering(handle),
			server.Asks(params...))
		r.Responses = []server.Response{{
			Status: 303, About: about, Bare: true, Data: server.TextSchema(1, 0),
			Media: "text/plain; charset=utf-8",
		}}
		return r
	}
	text := func(name string, maximum int) server.Param {
		return server.InQuery(name, server.TextSchema(0, maximum), "")
	}
	to := text("return", 512)
	to.About = "the local path to continue to; / for anything else"
	logout := row("POST", logoutPath, "signOut",
		"Sign out: a form with _token, and all=1 for every session; or a bearer",
		"Signed out, on all nodes", s.logout)
	logout.Limit, logout.Media = 4096, []string{"application/x-www-form-urlencoded"}
	routes := []server.Route{
		row("GET", LoginPath, "signInPerson", "Sign in: a person", "To the issuer", s.login(false), to),
		row("GET", callbackPath, "finishSignIn", "Where issuers send browsers back to",
			"Signed in, with the session's cookie", s.callback,
			text("code", 4096), text("state", 512), text("iss", 512), text("error", 512)),
		logout,
	}
	if s != nil && s.config.Surface == workspace.SurfaceOperations {
		return routes // agents cannot operate
	}
	return append(routes, row("GET", agentPath, "signIn", "Agent identity sign-in", "To the issuer",
		s.login(true), to))
}

// answering shows what a handler refuses, and keeps our address out of others' logs.
func (s *Service) answering(
	handle func(*server.Exchange) *server.Fault,
) func(*server.Exchange) *server.Fault {
	return func(x *server.Exchange) *server.Fault {
		x.Ctx.Response.Header.Set("Referrer-Policy", "no-referrer")
		if fault := handle(x); fault != nil {
			s.fail(x, fault)
		}
		return nil
	}
}

// login sends a browser to an issuer.
func (s *Service) login(agents bool) func(*server.Exchange) *server.Fault {
	return func(x *server.Exchange) *server.Fault {
		if !s.Configured() || agents && s.agents == nil {
			return faultNotConfigured
		}
		p := s.persons
		if agents {
			p = s.agents
		}
		a := newAttempt(s.config.Now(), LocalPath(string(x.Ctx.QueryArgs().Peek("return"))), agents)
		ctx, done, ok := s.ask()
		if !ok {
			return faultBusy
		}
		defer done()
		to, err := p.begin(ctx, a)
		if err == nil {
			err = s.keep(x.Ctx, a)
		}
		if err != nil {
			return s.unbelieved(x, p, err)
		}
		return redirect(x, to)
	}
}

// ask takes a slot among the sign-ins that wait for an issuer.
func (s *Service) ask() (ctx context.Context, done func(), ok bool) {
	select {
	case s.asking <- struct{}{}:
	default:
		return nil, nil, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), issuerTimeout)
	return ctx, func() { cancel(); <-s.asking }, true
}

// unbelieved refuses a sign-in that its issuer did not carry through.
func (s *Service) unbelieved(x *server.Exchange, p *provider, err error) *server.Fault {
	s.config.Log.Warn("a sign-in failed", "issuer", p.issuer.URL, "request_id", string(x.RequestID()),
		"error", err)
	if errors.Is(err, errIssuer) || errors.Is(err, context.DeadlineExceeded) {
		return faultIssuer
	}
	return faultRefused
}

// callback is where an issuer sends a browser back to.
func (s *Service) callback(x *server.Exchange) *server.Fault {
	if !s.Configured() {
		return faultNotConfigured
	}
	query := x.Ctx.QueryArgs()
	a := s.kept(x.Ctx)
	s.setCookie(x.Ctx, s.cookieName(attemptCookie), "", 0) // it is good once
	if a == nil || subtle.ConstantTimeCompare(query.Peek("state"), []byte(a.State)) != 1 {
		return faultAttempt
	}
	p := s.persons
	if a.Agents {
		p = s.agents
	}
	code := string(query.Peek("code"))
	if p == nil || code == "" || query.Has("error") {
		return faultDeclined
	}
	ctx, done, ok := s.ask()
	if !ok {
		return faultBusy
	}
	defer done()
	who, err := p.finish(ctx, a, code, string(query.Peek("iss")))
	switch {
	case err != nil:
		return s.unbelieved(x, p, err)
	case a.Agents && !who.agent:
		return faultNoAgent
	case s.config.Surface == workspace.SurfaceOperations && who.agent:
		return faultAgentOperates
	case s.config.Allow != nil && !s.config.Allow(p.issuer.URL, who.email):
		s.config.Log.Warn("sign-in refused: not an operator", "issuer", p.issuer.URL,
			"verified", who.email != "", "request_id", string(x.RequestID()))
		if who.email == "" {
			return faultNotVerified
		}
		return faultNotAllowed
	}
	return s.signIn(x, a, p, &who)
}

// signIn opens the session.
func (s *Service) signIn(x *server.Exchange, a *attempt, p *provider, who *subject) *server.Fault {
	token := server.MintKey(server.KeyPrefixSession)
	c := &workspace.SignIn{
		ID: mint(), Issuer: p.issuer.URL, Subject: who.id, Email: who.email, Name: who.name,
		OwnerEmail: who.ownerEmail, Agent: who.agent, Session: hashOf(token), Surface: s.config.Surface,
		Workspace: mint(),
	}
	if old := s.cookie(x.Ctx, sessionCookie); old != "" {
		c.Replaces = hashOf(old)
	}
	c.Source, c.Wider, c.Network = server.Sources(server.ClientAddress(x.Ctx, s.config.Proxies))
	r := s.propose(workspace.KindSignIn, c)
	switch {
	case r.Outcome != engine.OutcomeDone:
		return s.refusal(r)
	case !s.fresh():
		return faultBusy
	}
	s.setCookie(x.Ctx, s.cookieName(sessionCookie), token, sessionLife)
	return redirect(x, a.Return)
}

// refusal is the answer to a sign-in that the log refused.
func (s *Service) refusal(r engine.Result) *server.Fault {
	fault := server.PageFault(r.Outcome)
	switch r.Outcome {
	case engine.OutcomePersonsFull, engine.OutcomeSessionsFull:
		s.config.Log.Error("sign-ins are refused: the limit of persons or sessions is reached",
			"outcome", r.Outcome)
	case engine.OutcomeSignInLimit, engine.OutcomeSignupLimited:
		var limit workspace.RetryReply
		if wire.Decode(r.Value, &limit) == nil {
			return fault.Retry(int(max(1, (limit.ResetsAt-s.now()+999)/1000)))
		}
	}
	return cmp.Or(fault, faultBusy)
}

// logout ends the session of a form, or of a bearer.
func (s *Service) logout(x *server.Exchange) *server.Fault {
	if s == nil {
		return faultNotConfigured
	}
	c := &workspace.EndSession{}
	if bearer, ok := server.PresentedKey(x.Ctx); ok {
		if string(x.Ctx.Request.Header.Peek("Origin")) != s.origin {
			return faultOrigin
		}
		c.Session = sha256.Sum256(bearer)
	} else {
		n, err := s.Session(x.Ctx)
		switch {
		case errors.Is(err, ErrBusy):
			return faultBusy
		case err != nil: // it has ended already
			s.setCookie(x.Ctx, s.cookieName(sessionCookie), "", 0)
			return redirect(x, "/")
		}
		form, fault := s.Form(x, n)
		if fault != nil {
			return fault
		}
		c.Session, c.All = n.Hash(), string(form.Peek("all")) == "1"
	}
	if r := s.propose(workspace.KindEndSession, c); r.Outcome != engine.OutcomeDone {
		return faultBusy
	}
	s.setCookie(x.Ctx, s.cookieName(sessionCookie), "", 0)
	return redirect(x, "/")
}

func redirect(x *server.Exchange, to string) *server.Fault {
	x.Ctx.Response.Header.Set("Location", to)
	return x.Bare(303, "text/plain; charset=utf-8", []byte("See "+to+"\n"))
}

// mint makes a time-ordered id.
func mint() [16]byte { return [16]byte(uuid.Must(uuid.NewV7())) }
