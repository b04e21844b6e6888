package workspaceapi

import (
	"crypto/sha256"

	"tollgate/engine"
	"tollgate/engine/fair"
	"tollgate/engine/workspace"
	"tollgate/server"
)

// authenticate finds whom the request's key speaks for, and whether its scopes cover the route.
func (b *base) authenticate(x *server.Exchange) *server.Fault {
	unknown := no("invalid_key")
	key, ok := server.PresentedKey(x.Ctx)
	if ok && server.KeyPrefix(key) == server.KeyPrefixSession {
		return b.authenticateSession(x, key)
	}
	if len(key) == 0 && x.Route.SignedIn {
		return no("sign_in_required")
	}
	if !ok || !server.WellFormedKey(key) || server.KeyPrefix(key) != server.KeyPrefixWorkspace {
		return unknown
	}
	hash := sha256.Sum256(key)
	principal, known := b.machine.Authenticate(hash)
	if stale, _ := server.Consistency(x); known && !stale { // a stale read does not wait
		b.noteUse(&principal, hash)
	}
	if !known || x.Route.Method != "GET" {
		// It may have been made or revoked on another node a moment ago. Reads look again, with the
		// memory that they answer from: see current.
		if !b.fresh() {
			return no("workspace_busy")
		}
		if principal, known = b.machine.Authenticate(hash); !known {
			return b.gone(hash, unknown)
		}
	}
	*tenant(x) = principal
	if scopes := workspace.Scopes(x.Route.Scopes); principal.Scopes&scopes == 0 {
		needed := scopes.Names()[0]
		f := no("insufficient_scope").Saying("The key lacks the scope " + needed + ".")
		f.More = func(j *server.JSON) { j.Text("scope", needed) }
		return f
	}
	return nil
}

// authenticateSession finds who is signed in by the token that a request bears.
func (b *base) authenticateSession(x *server.Exchange, token []byte) *server.Fault {
	hash := sha256.Sum256(token)
	v, known := b.session(hash)
	if stale, _ := server.Consistency(x); !stale && (!known || x.Route.Method != "GET") {
		// It may have been opened or ended on another node a moment ago.
		if !b.fresh() {
			return no("workspace_busy")
		}
		v, known = b.session(hash)
	}
	if !known || !server.WellFormedKey(token) {
		return no("sign_in_required")
	}
	if x.Route.Method != "GET" {
		origin, one := server.SoleHeader(x.Ctx, "Origin")
		if !one || string(origin) != b.origin() {
			return no("origin_not_allowed")
		}
	}
	if v.Agent && !x.Route.Agents {
		return no("person_required")
	}
	if v.Principal.Workspace == 0 && !x.Route.NoWorkspace {
		f := no("sign_in_required")
		f.More = func(j *server.JSON) { j.Text("reason", "no_workspace") }
		f.Message = "You work in no workspace yet. Open one (POST /v1/workspaces), or claim one " +
			"(POST /v1/claims)."
		if v.Agent {
			f.Message = "Your workspace was removed, since it was not used. Sign in again to get another."
		}
		return f
	}
	b.noteSession(&v, hash)
	who := asker(x)
	who.Principal, who.Session = v.Principal, hash
	who.Person, who.Agent = v.Person, v.Agent
	return nil
}

// origin is where changes by a session must come from.
func (b *base) origin() string {
	if b.signIn != nil {
		return b.signIn.Origin()
	}
	return b.publicURL
}

// gone says of a key that does not work that its workspace was removed, and why, where it was.
func (b *base) gone(hash [32]byte, unknown *server.Fault) *server.Fault {
	reason := ""
	switch b.machine.GoneKey(hash) {
	case workspace.GoneUnused:
		reason = "workspace_unused"
		unknown.Message = "The workspace of this key was removed: it was unclaimed, and " +
			"not used for as long as such a workspace is kept. Sign up again."
	case workspace.GoneOperator:
		reason = "workspace_removed"
		unknown.Message = "The operator has removed the workspace of this key, which was unclaimed."
	default:
		return unknown
	}
	unknown.More = func(j *server.JSON) { j.Text("reason", reason) }
	return unknown
}

// noteUse notes the use of a key, or of a session (the zero hash), which keeps an unclaimed
// workspace from counting as unused. It is one entry in an hour, and the request does not wait for
// it; where that fails a later one does it.
func (b *base) noteUse(p *workspace.Principal, key [32]byte) {
	if p.NoteFrom == 0 || b.now() < p.NoteFrom {
		return
	}
	ws, id := p.Workspace, p.ID
	b.used.Begin(ws, func() {
		flow := FlowOf(ws, 0)
		r := b.propose(flow, workspace.KindNoteUse, &workspace.NoteUse{Workspace: ws, Key: key})
		if r.Outcome != engine.OutcomeDone {
			b.log.Debug("the use of a workspace is not noted",
				"workspace", idText(markWorkspace, id), "outcome", r.Outcome)
		}
	})
}

// noteSession keeps a session, and the workspace that it works in, from counting as unused.
func (b *base) noteSession(v *workspace.SessionView, hash [32]byte) {
	if b.now() >= v.NoteFrom {
		flow := FlowOf(v.Principal.Workspace, v.Person)
		b.sessions.Begin(hash, func() {
			r := b.propose(flow, workspace.KindNoteSession, &workspace.NoteSession{Session: hash})
			if r.Outcome != engine.OutcomeDone {
				b.log.Debug("the use of a session is not noted", "outcome", r.Outcome)
			}
		})
	}
	b.noteUse(&v.Principal, [32]byte{})
}

// Caller is whom a key or session of the workspace API speaks for.
type Caller struct {
	workspace.Principal
	// Session is the SHA-256 of the token of who is signed in.
	Session [32]byte
	// Once is the key of a page's form, which is carried out once; zero of a program's request.
	Once [16]byte
	// Shown is what a page showed of a purchase; zero of a program's request.
	Shown Shown
}

// Shown is what a buyer was shown of a purchase, which is refused as quote_changed where either
// differs now: its price, and whether it has to be approved. Without a price nothing was shown.
type Shown struct {
	Cents    uint32
	Approval bool
}

// Reset implements server.Caller.
func (c *Caller) Reset() { *c = Caller{} }

// Flow is the workspace's, or the person's.
func (c *Caller) Flow() fair.Flow { return FlowOf(c.Workspace, c.Person) }

// Flows of requests that no account of the billing API makes.
const (
	flowWorkspaces fair.Flow = 1 << 30
	flowPersons    fair.Flow = 1 << 29
)

// FlowOf is the flow of a workspace; of a person who works in none (row 0), that person's; 0 of
// neither.
func FlowOf(ws, person uint32) fair.Flow {
	switch {
	case ws != 0:
		return flowWorkspaces | fair.Flow(ws)
	case person != 0:
		return flowPersons | fair.Flow(person)
	}
	return 0
}

// asker is who asks; a row on the operators' listener has none.
func asker(x *server.Exchange) *Caller {
	c, ok := x.Caller.(*Caller)
	if !ok {
		c = new(Caller)
	}
	return c
}

// tenant is whom the request's key or session speaks for.
func tenant(x *server.Exchange) *workspace.Principal { return &asker(x).Principal }

// person reports whether a person asks, and neither a key nor an agent.
func person(x *server.Exchange) bool { return tenant(x).Person != 0 && !tenant(x).Agent }
