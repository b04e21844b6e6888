package console

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/ascii"
	"tollgate/server/console/page"
)

// Operator is a signed-in operator with their permissions.
type Operator struct {
	// Name is shown, and recorded for what they change: an e-mail address. An admin key's session
	// has none, and is recorded as the key is.
	Name string
	// Grants are their permissions.
	Grants []Grant
	// Token is the session's form token; see page.TokenOf.
	Token string
}

// Grant is what an operator may see, and whether they may change it.
type Grant struct {
	// Account is the one account's name; empty is the whole cluster, its accounts included.
	Account string
	// Manage reports whether they may change; otherwise they may look.
	Manage bool
}

// on returns the permission for an account, or for the whole cluster ("").
func (o *Operator) on(account string) (look, manage bool) {
	for _, g := range o.Grants {
		if g.Account == "" || g.Account == account {
			look, manage = true, manage || g.Manage
		}
	}
	return look, manage
}

// Operators identifies the sender of a request: SignedIn by an identity provider, KeySessions by
// the admin key.
type Operators interface {
	// Operator finds the session of a request: ErrSignedOut when there is none, ErrBusy when this
	// node cannot look it up. A local page is about this node alone and works without a leader: its
	// session is looked up locally, too.
	Operator(x *server.Exchange, local bool) (Operator, error)
	// SignOut ends the session of a request, if it has one, and takes its cookie away. After an
	// error it goes on.
	SignOut(x *server.Exchange) error
}

var (
	// ErrSignedOut means that the sender is not signed in.
	ErrSignedOut = errors.New("console: not signed in")
	// ErrBusy means that this node cannot look up sessions.
	ErrBusy = errors.New("console: no quorum can be reached")
)

// doors are the ways in. With a session of both, the first counts.
type doors []Operators

// Operator asks one after the other.
func (d doors) Operator(x *server.Exchange, local bool) (who Operator, err error) {
	failed := ErrSignedOut
	for _, door := range d {
		if who, err = door.Operator(x, local); err == nil {
			return who, nil
		}
		if errors.Is(err, ErrBusy) {
			failed = err
		}
	}
	return Operator{}, failed
}

// SignOut ends the sessions of all.
func (d doors) SignOut(x *server.Exchange) (err error) {
	for _, door := range d {
		err = errors.Join(err, door.SignOut(x))
	}
	return err
}

// visit is one request of an operator who may make it.
type visit struct {
	console *Console
	x       *server.Exchange
	who     Operator
	// manage reports whether they may change what the page shows.
	manage bool
	// stale reports whether the page is shown as this node last knew it, since no majority of the
	// cluster can be reached: nothing can be changed.
	stale bool
	// account and environment are the path's, env the environment's number.
	account, environment string
	env                  uint32
	// fields are the form's.
	fields url.Values
	// notice is shown at the top of the page, status is the answer's (200 when 0).
	notice *page.Notice
	status int
	// fault is the first that kept what the page shows from being read; see need.
	fault *server.Fault
	// wrong are the problems of the form's fields.
	wrongs []page.Wrong
}

var environments = map[string]billing.EnvironmentKind{
	"live": billing.EnvironmentLive, "sandbox": billing.EnvironmentSandbox,
}

var (
	faultSignedOut = server.NewFault(401, "sign_in_required", "You are signed out").With(
		"Nothing was changed. Sign in, and send the form again.")
	faultReach = server.NewFault(403, "access_denied", "This is not yours to see").With(
		"Your sign-in is for another part of this cluster. Its administrator can widen it.")
	faultManage = server.NewFault(403, "view_only", "You may look, not change").With(
		"Nothing was changed. The administrator of your sign-in can let you manage.")
	faultStillIn = server.NewFault(503, "unavailable", "You are still signed in").With(
		"The end of a session has to be known to all nodes. Sign out again in a moment.").Retry(1)
	faultPlace = server.FaultNotFound.With(
		"There is no such account or environment. The list of accounts names them all.")
)

// enter finds out who asks, and whether they may; nil when it is answered.
func (s *Console) enter(x *server.Exchange, r *row) *visit {
	who, err := s.operators.Operator(x, r.local)
	stale := r.ages() && (errors.Is(err, ErrBusy) ||
		err == nil && !server.Current(s.config.Reader, readTimeout))
	if stale && err != nil {
		who, err = s.operators.Operator(x, true)
	}
	switch {
	case errors.Is(err, ErrSignedOut):
		s.askToSignIn(x, r)
		return nil
	case err != nil:
		x.Refuse(server.FaultConsistency)
		return nil
	}
	v := &visit{console: s, x: x, who: who, stale: stale}
	if fault := v.admit(r); fault != nil {
		x.Refuse(fault)
		return nil
	}
	return v
}

func (s *Console) askToSignIn(x *server.Exchange, r *row) {
	if r.method != "GET" || r.live {
		x.Refuse(faultSignedOut)
		return
	}
	to := signInPath
	if at := string(x.Ctx.Request.Header.RequestURI()); at != Root && localPath(at) {
		to += "?return=" + url.QueryEscape(at)
	}
	s.site.Redirect(x, to)
}

// localPath reports whether a text is the address of one of the pages, and of nothing else.
func localPath(text string) bool {
	return ascii.Visible(text, 1023) && !strings.Contains(text, `\`) &&
		(text == Root || strings.HasPrefix(text, Root+"/") || strings.HasPrefix(text, Root+"?"))
}

// admit makes the checks in their order: form, scope, level.
func (v *visit) admit(r *row) (fault *server.Fault) {
	if r.method == "POST" {
		if v.fields, fault = v.console.site.Form(v.x, v.who.Token); fault != nil {
			return fault
		}
	} else if r.asks {
		// Unreadable fields are left out; the form reports them as missing.
		v.fields, _ = url.ParseQuery(string(v.x.Ctx.QueryArgs().QueryString()))
		v.fields.Del(sureField)
	}
	if r.reach >= reachAccount {
		v.account = string(v.x.Param(0))
	}
	var look bool
	look, v.manage = v.who.on(v.account)
	v.manage = v.manage && !v.stale
	switch {
	case r.reach != reachAny && !look:
		return faultReach // the same whether there is such an account or not
	case (r.method == "POST" || r.asks) && !v.manage && !r.harmless:
		return faultManage
	case r.reach < reachAccount:
		return nil
	}
	_, known := v.console.account(v.account)
	switch {
	case !known:
		return faultPlace
	case r.reach == reachAccount:
		return nil
	}
	v.environment = string(v.x.Param(1))
	kind, named := environments[v.environment]
	if v.env, known = v.console.config.Machine.Environment(v.account, kind); !named || !known {
		return faultPlace
	}
	return nil
}

// readTimeout bounds how long a page waits for this node to be current.
const readTimeout = 2 * time.Second

// account finds an account by its name, also one that was made on another node a moment ago.
func (s *Console) account(name string) (billing.AccountView, bool) {
	account, known := s.config.Machine.Account(name)
	if !known && server.Fresh(s.config.Reader, time.Now().Add(readTimeout)) {
		account, known = s.config.Machine.Account(name)
	}
	return account, known
}
