package owner

import (
	"cmp"
	"errors"

	"tollgate/server"
	"tollgate/server/identity"
)

// SignedIn finds sessions of the service of package identity.
type SignedIn struct{ Service *identity.Service }

// Visitor finds the session of a request's cookie.
func (s SignedIn) Visitor(x *server.Exchange) (Visitor, error) {
	n, err := s.Service.Session(x.Ctx)
	switch {
	case errors.Is(err, identity.ErrSignIn):
		return Visitor{}, ErrSignedOut
	case err != nil:
		return Visitor{}, ErrBusy
	}
	return Visitor{
		Person: n.Person, Agent: n.Agent, Name: cmp.Or(n.Email, n.Name, "signed in"),
		Token: n.FormToken(), Session: n.Hash(), Workspace: n.Principal.Workspace,
	}, nil
}
