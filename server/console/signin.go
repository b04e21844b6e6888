package console

import (
	"errors"
	"net/url"

	"tollgate/server"
	"tollgate/server/console/page"
	"tollgate/server/identity"
)

// SignedIn are operators who sign in through the service of package identity. Their sessions are in
// the log: good on every node, and ended on every node.
type SignedIn struct {
	Service *identity.Service
	// Grants returns the permissions of a verified address; it is called at each request. None
	// means no operator.
	Grants func(issuer, email string) []Grant
	// Members are all who are named, for the settings' page.
	Members []Member
}

// Member is an operator who is named, with one of their permissions.
type Member struct {
	Email string
	Grant
}

// members are the operators of an account and, where whole says so, those of the whole cluster, who
// may see it, too.
func (s *SignedIn) members(account string, whole bool) (list []Member) {
	if s == nil {
		return nil
	}
	for _, m := range s.Members {
		if m.Account == account || m.Account == "" && whole {
			list = append(list, m)
		}
	}
	return list
}

// Operator finds the session of a request's cookie.
func (s *SignedIn) Operator(x *server.Exchange, local bool) (Operator, error) {
	find := s.Service.Session
	if local {
		find = s.Service.Remembered
	}
	n, err := find(x.Ctx)
	switch {
	case errors.Is(err, identity.ErrBusy):
		return Operator{}, ErrBusy
	case err != nil:
		return Operator{}, ErrSignedOut
	}
	grants := s.Grants(n.Issuer, n.Email)
	if len(grants) == 0 {
		return Operator{}, ErrSignedOut
	}
	return Operator{Name: n.Email, Grants: grants, Token: n.FormToken()}, nil
}

// SignOut ends the session of a request on all nodes.
func (s *SignedIn) SignOut(x *server.Exchange) error { return s.Service.End(x.Ctx) }

// signInPath is the page with the ways to sign in.
const signInPath = Root + "/sign-in"

// doors makes the ways in, and returns the routes that lead through them.
func (s *Console) doors() []server.Route {
	open := func(method, name string, handle func(*server.Exchange)) server.Route {
		return server.Route{
			Method: method, Path: signInPath, Operation: "console " + name,
			Access: server.AccessOpen, Limit: formLimit, Media: page.FormMedia, Handle: handle,
		}
	}
	routes := []server.Route{
		open("GET", "sign in", func(x *server.Exchange) {
			s.showSignIn(x, 200, string(x.Ctx.QueryArgs().Peek("return")), nil)
		}),
	}
	if s.config.KeyMatches != nil {
		secure := len(s.config.PublicURL) > 5 && s.config.PublicURL[:5] == "https"
		keys := NewKeySessions(s.config.KeyMatches, s.config.Now, secure)
		// First: an operator who used the key despite a session wanted more than it allows.
		s.operators = append(s.operators, keys)
		routes = append(routes, open("POST", "open session", s.openSession(keys)))
	}
	if s.config.SignedIn != nil {
		s.operators = append(s.operators, s.config.SignedIn)
	}
	return routes
}

// openSession lets the admin key in.
func (s *Console) openSession(keys *KeySessions) func(*server.Exchange) {
	return func(x *server.Exchange) {
		fields, fault := s.site.Fields(x)
		if fault == nil {
			fault = keys.open(x, fields.Get("key"))
		}
		if fault != nil {
			s.config.Log.Warn("a sign-in to the operators' pages failed", "why", fault.Code,
				"address", x.Ctx.RemoteIP().String())
			s.showSignIn(x, fault.Status, fields.Get("return"), fault)
			return
		}
		s.config.Log.Info("the admin key opened a session of the operators' pages",
			"address", x.Ctx.RemoteIP().String())
		to := fields.Get("return")
		if !localPath(to) {
			to = Root
		}
		s.site.Redirect(x, to)
	}
}

// signInData are the ways in that the page shows.
type signInData struct {
	// Provider is where to sign in by name, empty where that is off; Key reports whether the admin
	// key may.
	Provider string
	Key      bool
	Return   string
}

func (s *Console) showSignIn(x *server.Exchange, status int, back string, fault *server.Fault) {
	if !localPath(back) {
		back = ""
	}
	data := signInData{Key: s.config.KeyMatches != nil, Return: back}
	if s.config.SignedIn != nil {
		// At the public address: the provider sends the browser back to no other.
		data.Provider = s.config.PublicURL + identity.LoginPath
		if back != "" {
			data.Provider += "?return=" + url.QueryEscape(back)
		}
	}
	v := page.View{Page: "sign-in", Title: "Sign in", Plain: true, Data: data}
	if fault != nil {
		v.Notice = &page.Notice{Tone: page.Problem, Title: fault.Message, Detail: fault.Detail}
	}
	s.site.Show(x, status, &v)
}
