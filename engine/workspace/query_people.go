package workspace

import "slices"

// Person is a person by row; false when there is none.
func (m *Machine) Person(row uint32) (v PersonView, ok bool) {
	s := m.read()
	defer s.mu.RUnlock()
	return s.personView(row)
}

func (x *people) personView(row uint32) (v PersonView, ok bool) {
	p, ok := x.person(row)
	return p.PersonView, ok
}

// OwnedView is a workspace in its owner's list.
//
//schema:answer workspaceapi OwnedWorkspace
type OwnedView struct {
	Row       uint32
	ID        [16]byte `json:"id" id:"markWorkspace"`
	Label     string   `json:"label" rule:"min=1"`
	CreatedAt int64    `json:"createdAt" as:"time"`
	ClaimedAt int64    `json:"claimedAt" as:"time"`
}

// Owned lists the workspaces that a person owns, those that became theirs last first; more
// reports whether there are others behind.
func (m *Machine) Owned(row uint32, p Page) (views []OwnedView, more bool) {
	s := m.read()
	defer s.mu.RUnlock()
	owner, _ := s.person(row)
	return list(&p, chain[OwnedView]{
		newest: owner.Owned,
		before: func(row uint32) uint32 { return s.workspaces.Read(row).OwnedBefore },
		find: func(id [16]byte) uint32 {
			if number := s.workspaces.find(id); s.ownedBy(number, row) {
				return number
			}
			return 0
		},
		view: func(row uint32) OwnedView {
			w := s.workspaces.Read(row)
			return OwnedView{row, w.ID, w.Label, w.CreatedAt, w.ClaimedAt}
		},
	})
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
	// Principal is the workspace that it works in; its Workspace is 0 if there is none.
	Principal Principal
	// Link is how an agent is linked to its owner.
	Link LinkStatus
}

// Session finds the session of a token with this SHA-256 that has not ended at an instant of log
// time; false when there is none.
func (m *Machine) Session(hash [32]byte, surface Surface, now int64) (v SessionView, ok bool) {
	s := m.read()
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

// LinkView is an agent that asks, or asked, to work in a workspace of its owner's.
//
//schema:answer workspaceapi Link
type LinkView struct {
	ID     [16]byte   `json:"id" id:"markLink"`
	Status LinkStatus `json:"status"`
	// Agent is who asks.
	Agent PersonView `json:"agent"`
	// Workspace is zero until it was approved.
	Workspace  [16]byte `json:"workspace" rule:"null" id:"markWorkspace"`
	AskedAt    int64    `json:"createdAt" as:"time"`
	AnsweredAt int64    `json:"answeredAt" rule:"null" as:"time"`
}

// Links lists the agents that a person was asked about, newest first; more reports whether there
// are others behind.
func (m *Machine) Links(person uint32, p Page) (views []LinkView, more bool) {
	s := m.read()
	defer s.mu.RUnlock()
	owner, _ := s.person(person)
	return list(&p, chain[LinkView]{
		newest: owner.Asked,
		before: func(row uint32) uint32 { return s.links.Read(row).BeforeOfOwner },
		find:   func(id [16]byte) uint32 { return s.linkAsked(person, id) },
		view:   s.linkView,
	})
}

// Link is an agent that a person was asked about; false when there is no such link of theirs.
func (m *Machine) Link(person uint32, id [16]byte) (v LinkView, ok bool) {
	s := m.read()
	defer s.mu.RUnlock()
	return shown(s.linkAsked(person, id), s.linkView)
}

func (x *people) linkView(row uint32) LinkView {
	l := x.links.Read(row)
	v := LinkView{ID: l.ID, Status: l.Status, AskedAt: l.AskedAt, AnsweredAt: l.AnsweredAt}
	v.Agent, _ = x.personView(l.Agent)
	if l.Workspace != 0 {
		v.Workspace = x.workspaces.Read(l.Workspace).ID
	}
	return v
}

// ActView is something that an owner did, or an operator for them.
//
//schema:answer workspaceapi Act
type ActView struct {
	actFacts
	// Action is its name: claim, approve, deny, cancel, confirm_signup, set_billing, rotate_keys,
	// grant_credits, retry_refund, remove, set_alerts, rotate_alert_secret, test_alert,
	// schedule_flow, set_test_access, remove_test_access.
	Action string `json:"action" in:"after=actor" rule:"min=1"`
	// About is Subject as text; the server writes it.
	About string `json:"subject,omitzero" in:"after=action" rule:"min=1"`
	// Person is the owner who did it; zero for an operator.
	Person [16]byte
	Email  string
}

// Acts lists what was done for a workspace's owner, also to one that was removed; more
// reports whether there are others behind.
func (m *Machine) Acts(number uint32, p Page) (views []ActView, more bool) {
	s := m.read()
	defer s.mu.RUnlock()
	var w workspace
	if s.owned(number) {
		w = *s.workspaces.Read(number)
	}
	return list(&p, chain[ActView]{
		newest: w.Acts,
		before: func(row uint32) uint32 { return s.actRows.Read(row).Before },
		find: func(id [16]byte) uint32 {
			row := w.Acts
			for row != 0 && s.actRows.Read(row).ID != id {
				row = s.actRows.Read(row).Before
			}
			return row
		},
		view: s.actView,
	})
}

// OperatorAct is an act of an operator, among those for all workspaces.
type OperatorAct struct {
	ActView
	// Number counts all acts of the group, from 1, in log order; those of owners are left out.
	Number uint32
	// Workspace is whose it was for.
	Workspace [16]byte
}

// OperatorActs lists what operators did for all workspaces, newest first, with numbers below before
// (0: all): at most limit of them, and it looks at no more than scan acts. next is what to ask for
// the next page with; 0 when there is none.
func (m *Machine) OperatorActs(before uint32, limit, scan int) (list []OperatorAct, next uint32) {
	s := m.read()
	defer s.mu.RUnlock()
	row := s.actRows.Len() + 1
	if before != 0 {
		row = min(row, before)
	}
	for ; row > 1 && scan > 0 && len(list) < limit; scan-- {
		row--
		if a := s.actRows.Read(row); a.Person == 0 {
			list = append(list, OperatorAct{
				ActView: s.actView(row), Number: row, Workspace: s.workspaces.Read(a.Workspace).ID,
			})
		}
	}
	if row > 1 {
		next = row
	}
	return list, next
}

func (x *state) actView(row uint32) ActView {
	a := x.actRows.Read(row)
	by, _ := x.person(a.Person)
	v := ActView{
		actFacts: a.actFacts, Action: registry[a.Kind].act, Person: by.ID, Email: by.Email,
	}
	v.Changes = slices.Clone(v.Changes)
	return v
}
