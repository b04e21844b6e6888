package identity

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"

	"github.com/gofrs/uuid/v5"

	"tollgate/engine"
	"tollgate/engine/wire"
	state "tollgate/engine/workspace"
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
	found := func(about string) []server.Response {
		return []server.Response{{
			Status: 303, About: about, Bare: true, Data: server.TextSchema(1, 0),
			Media: "text/plain; charset=utf-8",
		}}
	}
	to := server.Param{
		In: "query", Name: "return", Schema: server.TextSchema(0, 512),
		About: "the local path to continue to; / for anything else",
	}
	text := func(name string, most int) server.Param {
		return server.Param{In: "query", Name: name, Schema: server.TextSchema(0, most)}
	}
	routes := []server.Route{
		{
			Method: "GET", Path: LoginPath, Operation: "signInPerson", Summary: "Sign in: a person",
			Handle: s.login(false), Params: []server.Param{to}, Responses: found("To the issuer"),
		},
		{
			Method: "GET", Path: callbackPath, Operation: "finishSignIn",
			Summary: "Where issuers send browsers back to", Handle: s.callback,
			Params: []server.Param{
				text("code", 4096), text("state", 512), text("iss", 512), text("error", 512),
			},
			Responses: found("Signed in, with the session's cookie"),
		},
		{
			Method: "POST", Path: logoutPath, Operation: "signOut",
			Summary: "Sign out: a form with _token, and all=1 for every session; or a bearer",
			Handle:  s.logout, Limit: 4096, Media: []string{"application/x-www-form-urlencoded"},
			Responses: found("Signed out, on all nodes"),
		},
	}
	if s != nil && s.config.Surface == state.SurfaceOperations {
		return routes // agents cannot operate
	}
	return append(routes, server.Route{
		Method: "GET", Path: agentPath, Operation: "signIn", Summary: "Agent identity sign-in",
		Handle: s.login(true), Params: []server.Param{to}, Responses: found("To the issuer"),
	})
}

// login sends a browser to an issuer.
func (s *Service) login(agents bool) func(*server.Exchange) {
	return func(x *server.Exchange) {
		hold(x)
		if !s.Configured() || agents && s.agents == nil {
			s.fail(x, faultNotConfigured)
			return
		}
		p := s.persons
		if agents {
			p = s.agents
		}
		a, err := newAttempt(s.config.Now(), LocalPath(string(x.Ctx.QueryArgs().Peek("return"))), agents)
		if err != nil {
			x.Refuse(server.FaultInternal)
			return
		}
		ctx, done, ok := s.ask()
		if !ok {
			s.fail(x, faultBusy)
			return
		}
		defer done()
		to, err := p.begin(ctx, a)
		if err == nil {
			err = s.keep(x.Ctx, a)
		}
		if err != nil {
			s.unbelieved(x, p, err)
			return
		}
		redirect(x, to)
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

// unbelieved answers a sign-in that its issuer did not carry through.
func (s *Service) unbelieved(x *server.Exchange, p *provider, err error) {
	s.config.Log.Warn("a sign-in failed", "issuer", p.issuer.URL, "request_id", string(x.RequestID()),
		"error", err)
	if errors.Is(err, errIssuer) || errors.Is(err, context.DeadlineExceeded) {
		s.fail(x, faultIssuer)
		return
	}
	s.fail(x, faultRefused)
}

// callback is where an issuer sends a browser back to.
func (s *Service) callback(x *server.Exchange) {
	hold(x)
	if !s.Configured() {
		s.fail(x, faultNotConfigured)
		return
	}
	query := x.Ctx.QueryArgs()
	a := s.kept(x.Ctx)
	s.setCookie(x.Ctx, s.cookieName(attemptCookie), "", 0) // it is good once
	if a == nil || subtle.ConstantTimeCompare(query.Peek("state"), []byte(a.State)) != 1 {
		s.fail(x, faultAttempt)
		return
	}
	p := s.persons
	if a.Agents {
		p = s.agents
	}
	code := string(query.Peek("code"))
	if p == nil || code == "" || query.Has("error") {
		s.fail(x, faultDeclined)
		return
	}
	ctx, done, ok := s.ask()
	if !ok {
		s.fail(x, faultBusy)
		return
	}
	defer done()
	who, err := p.finish(ctx, a, code, string(query.Peek("iss")))
	switch {
	case err != nil:
		s.unbelieved(x, p, err)
	case a.Agents && !who.agent:
		s.fail(x, faultNoAgent)
	case s.config.Surface == state.SurfaceOperations && who.agent:
		s.fail(x, faultAgentOperates)
	case s.config.Allow != nil && !s.config.Allow(p.issuer.URL, who.email):
		s.config.Log.Warn("sign-in refused: not an operator", "issuer", p.issuer.URL,
			"verified", who.email != "", "request_id", string(x.RequestID()))
		if who.email == "" {
			s.fail(x, faultNotVerified)
			return
		}
		s.fail(x, faultNotAllowed)
	default:
		s.signIn(x, a, p, &who)
	}
}

// signIn opens the session.
func (s *Service) signIn(x *server.Exchange, a *attempt, p *provider, who *subject) {
	token, err := server.MintKey(server.KeyPrefixSession)
	if err != nil {
		x.Refuse(server.FaultInternal)
		return
	}
	c := &state.SignIn{
		ID: mint(), Issuer: p.issuer.URL, Subject: who.id, Email: who.email, Name: who.name,
		OwnerEmail: who.ownerEmail, Agent: who.agent, Session: hashOf(token), Surface: s.config.Surface,
		Workspace: mint(),
	}
	if old := s.cookie(x.Ctx, sessionCookie); old != "" {
		c.Replaces = hashOf(old)
	}
	c.Source, c.Wider, c.Network = server.Sources(server.ClientAddress(x.Ctx, s.config.Proxies))
	r := s.propose(state.KindSignIn, c)
	switch {
	case r.Outcome != engine.OutcomeDone:
		s.refuse(x, r)
	case !s.fresh():
		s.fail(x, faultBusy)
	default:
		s.setCookie(x.Ctx, s.cookieName(sessionCookie), token, sessionLife)
		redirect(x, a.Return)
	}
}

// refuse answers a sign-in that the log refused.
func (s *Service) refuse(x *server.Exchange, r engine.Result) {
	var limit state.RetryReply
	switch r.Outcome {
	case engine.OutcomeActorChanged:
		s.fail(x, faultActor)
	case engine.OutcomeSignupOff:
		s.fail(x, faultSignupOff)
	case engine.OutcomeNetworkFull:
		s.fail(x, faultNetworkFull)
	case engine.OutcomePersonsFull, engine.OutcomeSessionsFull:
		s.config.Log.Error("sign-ins are refused: the limit of persons or sessions is reached",
			"outcome", r.Outcome)
		s.fail(x, faultFull)
	case engine.OutcomeSignInLimit, engine.OutcomeSignupLimited:
		f := faultLimit
		if wire.Decode(r.Value, &limit) == nil {
			f = f.Retry(int(max(1, (limit.ResetsAt-s.now()+999)/1000)))
		}
		s.fail(x, f)
	default:
		s.fail(x, faultBusy)
	}
}

// logout ends the session of a form, or of a bearer.
func (s *Service) logout(x *server.Exchange) {
	hold(x)
	if s == nil {
		s.fail(x, faultNotConfigured)
		return
	}
	c := &state.EndSession{}
	if bearer, ok := server.PresentedKey(x.Ctx); ok {
		if string(x.Ctx.Request.Header.Peek("Origin")) != s.origin {
			s.fail(x, faultOrigin)
			return
		}
		c.Session = sha256.Sum256(bearer)
	} else {
		n, err := s.Session(x.Ctx)
		switch {
		case errors.Is(err, ErrBusy):
			s.fail(x, faultBusy)
			return
		case err != nil: // it has ended already
			s.setCookie(x.Ctx, s.cookieName(sessionCookie), "", 0)
			redirect(x, "/")
			return
		}
		form, fault := s.Form(x, n)
		if fault != nil {
			s.fail(x, fault)
			return
		}
		c.Session, c.All = n.Hash(), string(form.Peek("all")) == "1"
	}
	if r := s.propose(state.KindEndSession, c); r.Outcome != engine.OutcomeDone {
		s.fail(x, faultBusy)
		return
	}
	s.setCookie(x.Ctx, s.cookieName(sessionCookie), "", 0)
	redirect(x, "/")
}

// hold keeps our address out of others' logs.
func hold(x *server.Exchange) {
	x.Ctx.Response.Header.Set("Referrer-Policy", "no-referrer")
}

func redirect(x *server.Exchange, to string) {
	x.Ctx.Response.Header.Set("Location", to)
	x.Bare(303, "text/plain; charset=utf-8", []byte("See "+to+"\n"))
}

// mint makes a time-ordered id.
func mint() [16]byte { return [16]byte(uuid.Must(uuid.NewV7())) }
