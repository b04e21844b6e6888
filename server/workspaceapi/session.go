package workspaceapi

import (
	"crypto/sha256"

	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/form"
)

// sessionRoutes are about who is signed in, and what only they do.
func (m *Members) sessionRoutes() []server.Route {
	session := gives(200, "The session", server.Must("session", server.FreeObject()))
	return append(m.signIn.Routes(),
		row("GET", "/v1/session", "getSession", "Who is signed in, and where they work", read,
			m.getSession, agents, anywhere, current, session),
		row("PATCH", "/v1/session", "chooseWorkspace", "Work in another of one's workspaces: a person",
			anyScope, m.chooseWorkspace, anywhere, takes(server.Must("workspace", text)), session),
		row("POST", "/v1/workspaces", "openWorkspace", "Open a workspace of one's own: a person",
			anyScope, m.openWorkspace, anywhere, takes(server.Must("label", server.TextSchema(1, maxLabel))),
			gives(201, "Opened, and the one to work in", server.Must("workspace", text),
				server.Must("claimed", server.BoolSchema))),
		row("GET", "/v1/workspaces", "listWorkspaces", "One's workspaces: a person", read,
			m.listOwned, anywhere, current, listedFree("workspaces")),
		row("GET", "/v1/links", "listLinks", "Agents that ask, or asked, to work here: a person", read,
			m.listLinks, anywhere, current, listedFree("links")),
		row("POST", "/v1/links/{id}", "answerLink",
			"Let an agent work in one's workspace, or not: a person", anyScope, of(markLink, m.answerLink),
			anywhere, takes(server.Must("answer", server.EnumSchema("approve", "decline", "remove")),
				server.May("workspace", text)),
			gives(200, "Answered", server.Must("link", server.FreeObject()))),
		row("POST", "/v1/keys/rotate", "rotateKeys", "Replace all keys: a person", anyScope, m.rotateKeys,
			signedIn, gives(200, "The one key that works; shown once", server.Must("key", text))),
		row("POST", "/v1/claims", "claimWorkspace", "Take ownership: a person", anyScope,
			m.claimWorkspace, anywhere, takes(server.Must("code", text)),
			gives(200, "Theirs now, and the one to work in", server.Must("workspace", text),
				server.Must("claimed", server.BoolSchema))),
	)
}

// listedFree is listed for records without a schema of their own.
func listedFree(name string) func(*server.Route) {
	return func(r *server.Route) {
		listed(name, "")(r)
		r.Responses[len(r.Responses)-1].Data.Properties[0].Schema = server.ArrayOf(server.FreeObject())
	}
}

// choosing makes a workspace the one that the request's session works in.
func choosing(x *server.Exchange, id [16]byte) engine.Record {
	return engine.Record{
		Kind:    workspace.KindChooseWorkspace,
		Payload: wire.Encode(nil, &workspace.ChooseWorkspace{Session: asker(x).Session, ID: id}),
	}
}

func (m *Members) getSession(x *server.Exchange) *server.Fault {
	return one(m.base, x, "session", 200, func() (workspace.SessionView, bool) {
		return m.session(asker(x).Session)
	}, writeSession)
}

func writeSession(j *server.JSON, v *workspace.SessionView) {
	j.Open('{')
	j.Text("id", idText(markPerson, v.PersonID))
	kind := "person"
	if v.Agent {
		kind = "agent"
	}
	j.Text("kind", kind)
	textOrNull(j, "email", v.Email)
	textOrNull(j, "name", v.Name)
	idOrNull(j, "workspace", markWorkspace, v.Principal.ID)
	if v.Agent {
		textOrNull(j, "link", v.Link.String())
	}
	j.Time("createdAt", v.CreatedAt)
	j.Time("expiresAt", v.EndsAt)
	j.Close('}')
}

func (m *Members) chooseWorkspace(x *server.Exchange) *server.Fault {
	b := open(x, false)
	id, ok := parseID(markWorkspace, b.text("workspace", 1, 64))
	b.refuse(!ok, "invalid_field", "workspace")
	if refused := b.close(); refused != nil {
		return refused
	}
	hash := asker(x).Session
	if fault := m.do(x, workspace.KindChooseWorkspace,
		&workspace.ChooseWorkspace{Session: hash, ID: id}); fault != nil {
		return fault
	}
	if v, ok := m.session(hash); ok { // where it works from now on, in this request too
		tenant(x).Workspace, tenant(x).ID = v.Principal.Workspace, v.Principal.ID
	}
	return m.getSession(x)
}

func (m *Members) openWorkspace(x *server.Exchange) *server.Fault {
	b := open(x, false)
	c := &workspace.OpenWorkspace{
		Person: tenant(x).Person, ID: asker(x).newID(), Label: b.text("label", 1, maxLabel),
	}
	fault := b.close()
	if fault == nil {
		fault = m.do(x, workspace.KindOpenWorkspace, c, choosing(x, c.ID))
	}
	if fault != nil {
		return fault
	}
	return answerOwned(x, 201, c.ID)
}

func answerOwned(x *server.Exchange, status int, id [16]byte) *server.Fault {
	return x.BareObject(status, func(j *server.JSON) {
		j.Text("workspace", idText(markWorkspace, id))
		j.Bool("claimed", true)
	})
}

func (m *Members) listOwned(x *server.Exchange) *server.Fault {
	return list(m.base, x, "workspaces", markWorkspace,
		func(_ uint32, p workspace.Page) ([]workspace.OwnedView, bool) {
			return m.machine.Owned(tenant(x).Person, p)
		},
		writeOwnedWorkspace, func(v *workspace.OwnedView) [16]byte { return v.ID })
}

func (m *Members) listLinks(x *server.Exchange) *server.Fault {
	return list(m.base, x, "links", markLink,
		func(_ uint32, p workspace.Page) ([]workspace.LinkView, bool) {
			return m.machine.Links(tenant(x).Person, p)
		}, writeLink, func(v *workspace.LinkView) [16]byte { return v.ID })
}

func (m *Members) answerLink(x *server.Exchange, id [16]byte) *server.Fault {
	b := open(x, false)
	answer, known := map[string]workspace.LinkStatus{
		"approve": workspace.LinkApproved, "decline": workspace.LinkDeclined,
		"remove": workspace.LinkRemoved,
	}[b.text("answer", 1, 20)]
	if !known {
		b.mistake("answer", form.NotAllowed("approve", "decline", "remove"))
	}
	c := &workspace.AnswerLink{
		Person: tenant(x).Person, ID: id, Answer: answer, Workspace: m.chosen(x, b),
	}
	fault := b.close()
	if fault == nil {
		fault = m.do(x, workspace.KindAnswerLink, c)
	}
	if fault != nil {
		return fault
	}
	return one(m.base, x, "link", 200, func() (workspace.LinkView, bool) {
		return m.machine.Link(tenant(x).Person, id)
	}, writeLink)
}

func (m *Members) claimWorkspace(x *server.Exchange) *server.Fault {
	b := open(x, false)
	code := b.text("code", 1, 100)
	if refused := b.close(); refused != nil {
		return refused
	}
	if !m.fresh() {
		return no("workspace_busy")
	}
	c := &workspace.ClaimWorkspace{
		Code: sha256.Sum256([]byte(code)), Owner: m.ownerName(x), Person: tenant(x).Person,
	}
	number := m.machine.ClaimRow(c.Code)
	if was := m.actedOn(asker(x)); number == 0 && m.machine.Owns(was, c.Person) {
		number = was // the same form again: its code is used
	}
	account, known := m.machine.Account(number, m.now())
	if number == 0 || !known {
		return no("not_found").Saying("No workspace has this claim code. A code works once; look for a " +
			"missing or a wrong character. Nothing was changed.")
	}
	fault := m.actAsOwner(x, number, workspace.KindClaimWorkspace, c, choosing(x, account.ID))
	// Sent twice at once, the code was used by the other one when this one came into the log. What
	// the form did with another code is another workspace's.
	if fault != nil && (!m.fresh() || m.actedOn(asker(x)) != number ||
		!m.machine.Owns(number, c.Person)) {
		return fault
	}
	return answerOwned(x, 200, account.ID)
}

func (m *Members) rotateKeys(x *server.Exchange) *server.Fault {
	if fault := fieldless(x); fault != nil {
		return fault
	}
	key := server.MintKey(server.KeyPrefixWorkspace)
	c := &workspace.RotateKeys{
		Workspace: tenant(x).Workspace, KeyID: mint(), KeyHash: sha256.Sum256([]byte(key)),
	}
	if fault := m.actOnce(x, c.Workspace, workspace.KindRotateKeys, c, ""); fault != nil {
		return fault
	}
	if _, works := m.machine.Authenticate(c.KeyHash); !works && asker(x).repeatable() {
		key = "" // the form was sent before, and its key shown then
	}
	return x.BareObject(200, func(j *server.JSON) { j.Text("key", key) })
}
