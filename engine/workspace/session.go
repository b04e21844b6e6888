package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
	"tollgate/engine/wire"
)

// SignIn opens a session for the person or agent whom an issuer has named: a new one, or one known
// by Issuer and Subject. An agent without a workspace gets an unclaimed one; its links follow the
// owner whom its issuer names now. Repeating it with the same Session succeeds and changes nothing.
// The reply is a SignInReply, that of OutcomeSignInLimit and OutcomeSignupLimited a RetryReply.
type SignIn struct {
	ID      [16]byte `wire:"1"` // of somebody new
	Issuer  string   `wire:"2"`
	Subject string   `wire:"3"`
	// Email was verified by the issuer; empty is none. OwnerEmail is that of an agent's owner.
	Email      string   `wire:"4"`
	Name       string   `wire:"5"`
	OwnerEmail string   `wire:"6"`
	Agent      bool     `wire:"7"`
	Session    [32]byte `wire:"8"` // SHA-256 of the token
	// Replaces is the session that the same browser had before: it ends.
	Replaces [32]byte `wire:"9"`
	Surface  Surface  `wire:"10"`
	// Workspace is the id of a new agent's workspace; Source, Wider and Network are as SignUp has
	// them.
	Workspace [16]byte `wire:"11"`
	Source    [16]byte `wire:"12"`
	Wider     [16]byte `wire:"13"`
	Network   [16]byte `wire:"14"`
}

func (c *SignIn) bounds(w *wire.Codec) {
	if w.Decoding() && (c.Issuer == "" || c.Subject == "" || len(c.Issuer) > MaxIssuer ||
		len(c.Subject) > MaxSubject || len(c.Email) > MaxEmail || len(c.OwnerEmail) > MaxEmail ||
		len(c.Name) > MaxName || c.Surface < SurfaceWorkspaces || c.Surface > SurfaceOperations) {
		w.Fail("a sign-in without a name, or with a text that is too long")
	}
}

// SignInReply says who has signed in.
type SignInReply struct {
	Person uint32   `wire:"1"` // the row
	ID     [16]byte `wire:"2"`
	Agent  bool     `wire:"3"`
	// Link is how an agent is linked to its owner; LinkNone if it has none.
	Link LinkStatus `wire:"4"`
}

// signUp is the signup that a new agent's workspace counts as.
func (c *SignIn) signUp() *SignUp {
	return &SignUp{Source: c.Source, Wider: c.Wider, Network: c.Network}
}

// refused says why this sign-in is refused; OutcomeDone when it is not. p is a copy, rolled.
func (c *SignIn) refused(x *people, t *machine.Turn, row uint32, p *person) engine.Outcome {
	switch {
	case row == 0 && x.persons.Len() >= MaxPersons:
		return engine.OutcomePersonsFull
	case c.Agent && !p.Agent:
		return engine.OutcomeActorChanged
	case x.sessions.Full():
		return engine.OutcomeSessionsFull
	case p.SignIns >= MaxSignInsPerDay:
		t.Answer(&RetryReply{ResetsAt: DayEnd(t.Stamp), Limit: MaxSignInsPerDay})
		return engine.OutcomeSignInLimit
	}
	if !x.needsWorkspace(p) || c.Surface != SurfaceWorkspaces {
		return engine.OutcomeDone
	}
	if x.workspaces.find(c.Workspace) != 0 {
		return engine.OutcomeIDsContradict
	}
	return c.signUp().allowed(&x.spaces, t)
}

func (c *SignIn) apply(x *people, t *machine.Turn) engine.Outcome {
	row := x.personRow(c.Issuer, c.Subject)
	p := person{PersonView: PersonView{
		ID: c.ID, Issuer: c.Issuer, Subject: c.Subject, Agent: c.Agent, CreatedAt: t.Stamp,
	}}
	if row != 0 {
		p = *x.persons.Read(row)
	}
	if known := x.sessions.Newest(new(sessionKey(&c.Session))); known != 0 {
		if row == 0 || x.sessions.Table.Read(known).Person != row {
			return engine.OutcomeIDsContradict
		}
		t.Answer(x.signedIn(row, &p))
		return engine.OutcomeDone
	}
	p.roll(t.Stamp)
	if refused := c.refused(x, t, row, &p); refused != engine.OutcomeDone {
		return refused
	}

	if row == 0 {
		row, _ = x.persons.Append()
		x.personBy.Insert(x.subjectHash(c.Issuer, c.Subject), row)
	}
	p.Name, p.SignedInAt = c.Name, t.Stamp
	p.SignIns++
	if p.Agent {
		p.Email = c.Email
		if c.Surface == SurfaceWorkspaces {
			c.settle(x, t, row, &p)
		}
	} else {
		x.hold(t, row, &p, c.Email)
	}
	*x.persons.Write(row) = p
	x.closeSession(t, &c.Replaces)
	x.openSession(t, session{Hash: c.Session, Person: row, Surface: c.Surface})
	t.Answer(x.signedIn(row, &p))
	return engine.OutcomeDone
}

// settle gives an agent a workspace of its own, and the link that is in force.
func (c *SignIn) settle(x *people, t *machine.Turn, row uint32, p *person) {
	if x.needsWorkspace(p) {
		x.countSignup(t, c.signUp())
		p.Own, _ = x.openWorkspace(t, workspace{
			ID: c.Workspace, Label: agentLabel(p), Network: c.Network,
		})
		t.Fold(uint64(p.Own))
	}
	p.Link = x.linkOf(t, row, p, c.OwnerEmail)
}

// agentLabel is what an agent's own workspace is called.
func agentLabel(p *person) string {
	label := []rune("agent " + p.Name)
	return string(label[:min(len(label), 80)])
}

func (x *people) signedIn(row uint32, p *person) *SignInReply {
	r := &SignInReply{Person: row, ID: p.ID, Agent: p.Agent}
	if p.Link != 0 {
		r.Link = x.links.Read(p.Link).Status
	}
	return r
}

// EndSession ends a session, or all sessions of its person with All. Ending a session that is
// unknown or has ended succeeds and changes nothing.
type EndSession struct {
	Session [32]byte `wire:"1"`
	All     bool     `wire:"2"`
}

func (c *EndSession) apply(x *people, t *machine.Turn) engine.Outcome {
	row := x.sessionRow(&c.Session, t.Stamp)
	if row == 0 {
		return engine.OutcomeDone
	}
	if c.All {
		x.persons.Write(x.sessions.Table.Read(row).Person).EndedAt = t.Stamp
	}
	x.closeSession(t, &c.Session)
	return engine.OutcomeDone
}

// NoteSession records the use of a session. Within SessionNoticedMS of the previous use it changes
// nothing.
type NoteSession struct {
	Session [32]byte `wire:"1"`
}

func (c *NoteSession) apply(x *people, t *machine.Turn) engine.Outcome {
	row := x.sessionRow(&c.Session, t.Stamp)
	if row == 0 {
		return engine.OutcomeSessionUnknown
	}
	if t.Stamp >= x.sessions.Table.Read(row).UsedAt+SessionNoticedMS {
		x.sessions.Table.Write(row).UsedAt = t.Stamp
		t.Fold(uint64(row))
	}
	return engine.OutcomeDone
}

// ChooseWorkspace makes one of a person's workspaces the one that a session works in.
type ChooseWorkspace struct {
	Session [32]byte `wire:"1"`
	ID      [16]byte `wire:"2"`
}

func (c *ChooseWorkspace) apply(x *people, t *machine.Turn) engine.Outcome {
	row := x.sessionRow(&c.Session, t.Stamp)
	if row == 0 {
		return engine.OutcomeSessionUnknown
	}
	number := x.workspaces.find(c.ID)
	if !x.ownedBy(number, x.sessions.Table.Read(row).Person) {
		return engine.OutcomeRecordUnknown
	}
	x.sessions.Table.Write(row).Workspace = number
	t.Fold(uint64(number))
	return engine.OutcomeDone
}
