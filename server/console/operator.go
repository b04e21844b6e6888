package console

import (
	"net/url"
	"strings"
	"time"

	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/console/page"
)

// Operator is who is signed in, and what is allowed to them.
type Operator struct {
	// Name is shown, and recorded for what they change: an e-mail address. An admin key's session has
	// none, and is recorded as the key is.
	Name string
	// Account is the id of the one account that they operate; zero for the whole cluster.
	Account [16]byte
	// Manage says that they may change; otherwise they may look.
	Manage bool
	// Token is the session's form token; see page.TokenOf.
	Token string
}

// Operators says who sends a request. Sign-in through an identity provider is another
// implementation than KeySessions: it maps issuer and e-mail to scope and level.
type Operators interface {
	// Operator finds the session of a request; false when there is none, or no more.
	Operator(x *server.Exchange) (Operator, bool)
	// SignInPath is where a person signs in; it takes the page to return to as ?return=.
	SignInPath() string
	// SignOut ends the session of a request and takes its cookie away.
	SignOut(x *server.Exchange)
}

// visit is one request of an operator who may make it.
type visit struct {
	console *Console
	x       *server.Exchange
	who     Operator
	// account and environment are the path's, env the environment's number.
	account, environment string
	env                  uint32
	// fields are the form's.
	fields url.Values
	// notice is what the page says first, status the answer's (200 when 0).
	notice *page.Notice
	status int
}

var environments = map[string]billing.EnvironmentKind{
	"live": billing.EnvironmentLive, "sandbox": billing.EnvironmentSandbox,
}

var (
	faultSignedOut = server.Fault{
		Status: 401, Code: "sign_in_required", Message: "You are signed out",
		Detail: "Nothing was changed. Sign in, and send the form again.",
	}
	faultReach = server.Fault{
		Status: 403, Code: "access_denied", Message: "This is not yours to see",
		Detail: "Your sign-in is for another part of this cluster. Whoever set it up can widen it.",
	}
	faultManage = server.Fault{
		Status: 403, Code: "view_only", Message: "You may look, not change",
		Detail: "Nothing was changed. Whoever set your sign-in up can let you manage.",
	}
	faultPlace = server.FaultNotFound.With(
		"There is no such account or environment. The list of accounts names them all.")
)

// enter finds out who asks, and whether they may; nil when it is answered.
func (s *Console) enter(x *server.Exchange, r *row) *visit {
	who, ok := s.operators.Operator(x)
	if !ok {
		s.askToSignIn(x, r)
		return nil
	}
	v := &visit{console: s, x: x, who: who}
	if fault := v.admit(r); fault != nil {
		x.Refuse(*fault)
		return nil
	}
	return v
}

func (s *Console) askToSignIn(x *server.Exchange, r *row) {
	if r.method != "GET" || r.live {
		x.Refuse(faultSignedOut)
		return
	}
	to := s.operators.SignInPath()
	if at := string(x.Ctx.Request.Header.RequestURI()); at != Root && localPath(at) {
		to += "?return=" + url.QueryEscape(at)
	}
	s.site.Redirect(x, to)
}

// localPath says that a text is the address of one of the pages, and of nothing else.
func localPath(text string) bool {
	return len(text) < 1024 && (text == Root || strings.HasPrefix(text, Root+"/") ||
		strings.HasPrefix(text, Root+"?")) &&
		!strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' })
}

// admit makes the checks in their order: form, level, scope.
func (v *visit) admit(r *row) (fault *server.Fault) {
	if r.method == "POST" {
		if v.fields, fault = v.console.site.Form(v.x, v.who.Token); fault != nil {
			return fault
		}
		if !v.who.Manage && !r.harmless {
			return &faultManage
		}
	}
	everything := v.who.Account == [16]byte{}
	switch r.reach {
	case reachAny:
		return nil
	case reachCluster:
		if !everything {
			return &faultReach
		}
		return nil
	}
	v.account = string(v.x.Param(0))
	account, known := v.console.account(v.account)
	switch {
	case !everything && (!known || account.ID != v.who.Account):
		return &faultReach // the same whether there is such an account or not
	case !known:
		return &faultPlace
	case r.reach == reachAccount:
		return nil
	}
	v.environment = string(v.x.Param(1))
	kind, named := environments[v.environment]
	if v.env, known = v.console.config.Machine.Environment(v.account, kind); !named || !known {
		return &faultPlace
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
