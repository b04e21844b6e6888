package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
	"tollgate/engine/wire"
)

const (
	// SessionMS is how long a session lasts at most, IdleMS how long without being used, in
	// milliseconds. A use within SessionNoticedMS of the one before is not noted, so a session may
	// end so much earlier.
	SessionMS        = 7 * dayMS
	IdleMS           = 12 * hourMS
	SessionNoticedMS = 10 * minuteMS
	// MaxSessions is how many one group keeps at most, ended ones of seven days included.
	MaxSessions = 500_000
)

// Surface is what a session is for. One is not good for another.
type Surface uint8

// The surfaces.
const (
	SurfaceWorkspaces Surface = 1 // the workspace API and the pages of owners
	SurfaceOperations Surface = 2 // the pages of operators
)

// session is what a person, or an agent, signed in for.
type session struct {
	Hash      [32]byte `wire:"1"` // SHA-256 of the token
	Person    uint32   `wire:"2"` // 0: whoever had the admin key
	Surface   Surface  `wire:"3"`
	Workspace uint32   `wire:"4"` // that a person has chosen; 0 is the newest
	CreatedAt int64    `wire:"5"`
	UsedAt    int64    `wire:"6"`
	ClosedAt  int64    `wire:"7"`
}

// ends is when a session ends unless it is used before.
func (r *session) ends() int64 { return min(r.UsedAt+IdleMS, r.CreatedAt+SessionMS) }

// sessionKey is what the ring has a session under.
func sessionKey(hash *[32]byte) [16]byte { return [16]byte(hash[:16]) }

// sessionRow finds a session that has not ended at an instant; 0 when there is none.
func (x *people) sessionRow(hash *[32]byte, now int64) uint32 {
	row := x.sessions.Find(sessionKey(hash), now-SessionMS)
	if row == 0 {
		return 0
	}
	r := x.sessions.Table.Read(row)
	if r.Hash != *hash || r.ClosedAt != 0 || now >= r.ends() {
		return 0
	}
	if p, ok := x.person(r.Person); !ok || r.CreatedAt < p.EndedAt {
		return 0
	}
	return row
}

// closeSession ends a session; what is none, or has ended, is left alone.
func (x *people) closeSession(t *machine.Turn, hash *[32]byte) {
	if row := x.sessionRow(hash, t.Stamp); row != 0 {
		x.sessions.Table.Write(row).ClosedAt = t.Stamp
		t.Fold(uint64(row))
	}
}

// SignIn opens a session for whom an issuer has named: somebody new, or known by Issuer and
// Subject. An agent without a workspace gets one, which nobody has claimed; its links follow the
// owner whom its issuer names now. The same Session again is the same success again. The reply is
// a SignInReply, that of OutcomeSignInLimit and OutcomeSignupLimited a RetryReply.
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
		w.Fail("a sign-in of nobody, or with a text that is too long")
	}
}

// SignInReply says who has signed in.
type SignInReply struct {
	Person uint32   `wire:"1"` // the row
	ID     [16]byte `wire:"2"`
	Agent  bool     `wire:"3"`
	// Link is where an agent stands with its owner; LinkNone where it has none.
	Link LinkStatus `wire:"4"`
}

// signUp is the signup that a new agent's workspace counts as.
func (c *SignIn) signUp() *SignUp {
	return &SignUp{Source: c.Source, Wider: c.Wider, Network: c.Network}
}

// needsWorkspace reports whether an agent has no workspace of its own, or none any more.
func (x *people) needsWorkspace(p *person) bool {
	return p.Agent && (p.Own == 0 || x.workspaces.Read(p.Own).GoneAt != 0)
}

// refused says why nobody may sign in so; OutcomeDone when they may. p is a copy, rolled.
func (c *SignIn) refused(x *people, t *machine.Turn, row uint32, p *person) engine.Outcome {
	switch {
	case row == 0 && x.persons.Len() >= MaxPersons:
		return engine.OutcomePersonsFull
	case c.Agent && !p.Agent:
		return engine.OutcomeActorChanged
	case x.sessions.Full():
		return engine.OutcomeSessionsFull
	case p.SignIns >= MaxSignInsPerDay:
		t.Answer(&RetryReply{ResetsAt: nextDay(t.Stamp), Limit: MaxSignInsPerDay})
		return engine.OutcomeSignInLimit
	}
	if !x.needsWorkspace(p) || c.Surface != SurfaceWorkspaces {
		return engine.OutcomeDone
	}
	if x.workspaceRow(c.Workspace) != 0 {
		return engine.OutcomeIDsContradict
	}
	return c.signUp().allowed(&x.spaces, t)
}

func (c *SignIn) apply(x *people, t *machine.Turn) engine.Outcome {
	row := x.personRow(c.Issuer, c.Subject)
	p := person{ID: c.ID, Issuer: c.Issuer, Subject: c.Subject, Agent: c.Agent, CreatedAt: t.Stamp}
	if row != 0 {
		p = *x.persons.Read(row)
	}
	if known := x.sessions.Newest(ptr(sessionKey(&c.Session))); known != 0 {
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
		p.Own, _ = x.openWorkspace(t, workspace{ID: c.Workspace, Label: agentLabel(p), Network: c.Network})
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

func (x *people) openSession(t *machine.Turn, r session) {
	r.CreatedAt, r.UsedAt = t.Stamp, t.Stamp
	x.sessions.Keep(r)
	t.Fold(x.sessions.To)
}

func ptr[T any](v T) *T { return &v }

// EndSession ends a session, and all of its person where All says so. One that has ended, or never
// was, is the same success.
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

// NoteSession reports whether a session was used. Within SessionNoticedMS of the use before it
// changes nothing.
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
	number := x.workspaceRow(c.ID)
	if !x.ownedBy(number, x.sessions.Table.Read(row).Person) {
		return engine.OutcomeRecordUnknown
	}
	x.sessions.Table.Write(row).Workspace = number
	t.Fold(uint64(number))
	return engine.OutcomeDone
}

// SessionView is a session that has not ended.
type SessionView struct {
	// Person is the row of who signed in; 0 for an operator who had the admin key.
	Person      uint32
	PersonID    [16]byte
	Agent       bool
	Issuer      string
	Email, Name string
	Surface     Surface
	CreatedAt   int64
	// EndsAt is when it ends unless it is used before; NoteFrom from when on its next use is to be
	// noted.
	EndsAt, NoteFrom int64
	// Principal is the workspace that it works in; its Workspace is 0 where there is none.
	Principal Principal
	// Link is where an agent stands with its owner.
	Link LinkStatus
}

// Session finds the session of a token with this SHA-256 that has not ended at an instant of log
// time; false when there is none.
func (m *Machine) Session(hash [32]byte, surface Surface, now int64) (v SessionView, ok bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	row := s.sessionRow(&hash, max(now, s.log.Stamp()))
	if row == 0 || s.sessions.Table.Read(row).Surface != surface {
		return v, false
	}
	r := s.sessions.Table.Read(row)
	p, _ := s.person(r.Person)
	v = SessionView{
		Person: r.Person, PersonID: p.ID, Agent: p.Agent, Issuer: p.Issuer, Email: p.Email,
		Name: p.Name, Surface: r.Surface, CreatedAt: r.CreatedAt, EndsAt: r.ends(),
		NoteFrom: r.UsedAt + SessionNoticedMS,
	}
	if p.Link != 0 {
		v.Link = s.links.Read(p.Link).Status
	}
	if number := s.workspaceOf(r, &p); number != 0 {
		v.Principal = s.principal(number)
		v.Principal.Person, v.Principal.Agent, v.Principal.Scopes = r.Person, p.Agent, ScopesAll
	}
	return v, true
}

// workspaceOf is the workspace that a session works in: an agent's that its owner has given it, or
// its own; a person's that was chosen, or the newest. 0 is none.
func (x *people) workspaceOf(r *session, p *person) uint32 {
	switch {
	case r.Surface != SurfaceWorkspaces:
		return 0
	case !p.Agent && x.ownedBy(r.Workspace, r.Person):
		return r.Workspace
	case !p.Agent:
		return p.Owned
	}
	if p.Link != 0 {
		if l := x.links.Read(p.Link); l.Status == LinkApproved && x.ownedBy(l.Workspace, l.Owner) {
			return l.Workspace
		}
	}
	if p.Own != 0 && x.workspaces.Read(p.Own).GoneAt == 0 {
		return p.Own
	}
	return 0
}
