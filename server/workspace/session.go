package workspace

import (
	"cmp"
	"crypto/sha256"

	"tollgate/engine"
	"tollgate/engine/wire"
	state "tollgate/engine/workspace"
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
	token, _ := server.PresentedKey(x.Ctx)
	return engine.Record{
		Kind:    state.KindChooseWorkspace,
		Payload: wire.Encode(nil, &state.ChooseWorkspace{Session: sha256.Sum256(token), ID: id}),
	}
}

func (m *Members) getSession(x *server.Exchange) *server.Fault {
	token, _ := server.PresentedKey(x.Ctx)
	return one(m.base, x, "session", 200, func() (state.SessionView, bool) {
		return m.session(sha256.Sum256(token))
	}, writeSession)
}

func writeSession(j *server.JSON, v *state.SessionView) {
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
	token, _ := server.PresentedKey(x.Ctx)
	hash := sha256.Sum256(token)
	if fault := m.do(x, state.KindChooseWorkspace,
		&state.ChooseWorkspace{Session: hash, ID: id}); fault != nil {
		return fault
	}
	if v, ok := m.session(hash); ok { // where it works from now on, in this request too
		tenant(x).Workspace, tenant(x).ID = v.Principal.Workspace, v.Principal.ID
	}
	return m.getSession(x)
}

// CheckLabel says what is wrong with the name of a workspace; nil is nothing.
func CheckLabel(label string) *server.Fault {
	if wrong, ok := checkVisible(label, 1, maxLabel); !ok {
		return wrongField(wrong.Of("label"))
	}
	return nil
}

func (m *Members) openWorkspace(x *server.Exchange) *server.Fault {
	b := open(x, false)
	c := &state.OpenWorkspace{
		Person: tenant(x).Person, ID: mint(), Label: b.text("label", 1, maxLabel),
	}
	fault := b.close()
	if fault == nil {
		fault = m.do(x, state.KindOpenWorkspace, c, choosing(x, c.ID))
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
		func(_ uint32, p state.Page) ([]state.OwnedView, bool) {
			return m.machine.Owned(tenant(x).Person, p)
		},
		writeOwnedWorkspace, func(v *state.OwnedView) [16]byte { return v.ID })
}

func (m *Members) listLinks(x *server.Exchange) *server.Fault {
	return list(m.base, x, "links", markLink, func(_ uint32, p state.Page) ([]state.LinkView, bool) {
		return m.machine.Links(tenant(x).Person, p)
	}, writeLink, func(v *state.LinkView) [16]byte { return v.ID })
}

func (m *Members) answerLink(x *server.Exchange, id [16]byte) *server.Fault {
	b := open(x, false)
	answer, known := map[string]state.LinkStatus{
		"approve": state.LinkApproved, "decline": state.LinkDeclined, "remove": state.LinkRemoved,
	}[b.text("answer", 1, 20)]
	if !known {
		b.mistake("answer", form.NotAllowed("approve", "decline", "remove"))
	}
	c := &state.AnswerLink{
		Person: tenant(x).Person, ID: id, Answer: answer, Workspace: m.chosen(x, b),
	}
	fault := b.close()
	if fault == nil {
		fault = m.do(x, state.KindAnswerLink, c)
	}
	if fault != nil {
		return fault
	}
	return one(m.base, x, "link", 200, func() (state.LinkView, bool) {
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
	hash := sha256.Sum256([]byte(code))
	number := uint32(0)
	if server.KeyPrefix([]byte(code)) == server.KeyPrefixClaim && server.WellFormedKey([]byte(code)) {
		number = m.machine.ClaimRow(hash)
	}
	account, known := m.machine.Account(number, m.now())
	if number == 0 || !known {
		return no("not_found")
	}
	who, _ := m.machine.Person(tenant(x).Person)
	c := &state.ClaimWorkspace{
		Code: hash, Owner: cmp.Or(who.Email, idText(markPerson, who.ID)), Person: tenant(x).Person,
	}
	fault := m.actAsOwner(x, number, state.KindClaimWorkspace, c, choosing(x, account.ID))
	if fault != nil {
		return fault
	}
	return answerOwned(x, 200, account.ID)
}

func (m *Members) rotateKeys(x *server.Exchange) *server.Fault {
	if fault := fieldless(x); fault != nil {
		return fault
	}
	key := server.MintKey(server.KeyPrefixWorkspace)
	c := &state.RotateKeys{
		Workspace: tenant(x).Workspace, KeyID: mint(), KeyHash: sha256.Sum256([]byte(key)),
	}
	if fault := m.actAsOwner(x, c.Workspace, state.KindRotateKeys, c); fault != nil {
		return fault
	}
	return x.BareObject(200, func(j *server.JSON) { j.Text("key", key) })
}

// RotateKeys revokes all keys of the decision's workspace and returns the one that works from now
// on; it is shown once. Where the form was sent before, its key is gone, and the text is empty.
func (m *Members) RotateKeys(d *Decision) (string, *server.Fault) {
	key := server.MintKey(server.KeyPrefixWorkspace)
	c := &state.RotateKeys{
		Workspace: d.Workspace, KeyID: mint(), KeyHash: sha256.Sum256([]byte(key)),
	}
	if fault := m.decideAs(d, state.KindRotateKeys, c, ""); fault != nil {
		return "", fault
	}
	if _, works := m.machine.Authenticate(c.KeyHash); !works {
		return "", nil
	}
	return key, nil
}

// Claim gives the workspace of a claim code to the person who decides, and lets their session work
// there. A code works once: the same form again is told of what it did.
func (m *Members) Claim(d *Decision, code string) *server.Fault {
	hash := sha256.Sum256([]byte(code))
	number := m.machine.ClaimRow(hash)
	if was := m.decided(d); number == 0 && m.machine.Owns(was, d.Person) {
		return m.choose(d, was)
	}
	if _, known := m.machine.Account(number, m.now()); number == 0 || !known {
		return server.NewFault(404, "not_found", "No workspace has this claim code").With(
			"Nothing was changed. A code works once; look for a missing or a wrong character.")
	}
	claim := *d
	claim.Workspace = number
	fault := m.Decide(&claim, state.KindClaimWorkspace, &state.ClaimWorkspace{
		Code: hash, Owner: d.Name, Person: d.Person,
	})
	// Sent twice at once, the code was used by the other one when this one came into the log.
	if fault != nil && (!m.fresh() || !m.machine.Owns(m.decided(d), d.Person)) {
		return fault
	}
	return m.choose(d, number)
}

// choose lets the session of the person who decides work in a workspace.
func (b *base) choose(d *Decision, number uint32) *server.Fault {
	account, _ := b.machine.Account(number, b.now())
	return b.Order(d.flow(), state.KindChooseWorkspace, &state.ChooseWorkspace{
		Session: d.Session, ID: account.ID,
	})
}
