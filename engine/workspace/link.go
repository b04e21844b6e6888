package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
	"tollgate/engine/wire"
)

const (
	// MaxWaitingLinks is how many agents may wait for one person's answer: the next one is not
	// asked for, and asks again when it signs in again.
	MaxWaitingLinks = 20
	// maxAsks is how many links a person was ever asked for, maxOwners how many owners an agent
	// ever had; beyond it no more are asked for.
	maxAsks   = 1000
	maxOwners = 100
)

// LinkStatus is where an agent stands with the person whom its issuer names as its owner.
type LinkStatus uint8

// The statuses.
const (
	LinkNone     LinkStatus = 0
	LinkWaiting  LinkStatus = 1
	LinkApproved LinkStatus = 2
	LinkDeclined LinkStatus = 3
	LinkRemoved  LinkStatus = 4
)

// String is the status's name in the API; empty for LinkNone.
func (s LinkStatus) String() string {
	return [...]string{"", "waiting", "approved", "declined", "removed"}[s]
}

// link is an agent's request to work in a workspace of its owner's, and what became of it. There is
// one for each pair of them: it is asked for once.
type link struct {
	ID            [16]byte   `wire:"1"`
	Agent         uint32     `wire:"2"`
	Owner         uint32     `wire:"3"` // persons
	BeforeOfAgent uint32     `wire:"4"`
	BeforeOfOwner uint32     `wire:"5"`
	Status        LinkStatus `wire:"6"`
	Workspace     uint32     `wire:"7"` // the owner's, once it was approved
	AskedAt       int64      `wire:"8"`
	AnsweredAt    int64      `wire:"9"`
}

// linkOf is the link of an agent with the person of a verified address: the one that there is, or a
// new one, where that person may be asked. 0 is none.
func (x *people) linkOf(t *machine.Turn, row uint32, p *person, email string) uint32 {
	number := x.emailBy[Address(email)]
	if email == "" || number == 0 {
		return 0
	}
	owners := 0
	for l := p.Links; l != 0; l = x.links.Read(l).BeforeOfAgent {
		if x.links.Read(l).Owner == number {
			return l
		}
		owners++
	}
	owner := x.persons.Read(number)
	if owner.Waiting >= MaxWaitingLinks || owner.Asks >= maxAsks || owners >= maxOwners {
		return 0
	}
	next, l := x.links.Append()
	*l = link{
		ID: LinkID(p.ID, number, t.Stamp), Agent: row, Owner: number,
		BeforeOfAgent: p.Links, BeforeOfOwner: owner.Asked, Status: LinkWaiting, AskedAt: t.Stamp,
	}
	p.Links = next
	owner = x.persons.Write(number)
	owner.Asked, owner.Asks, owner.Waiting = next, owner.Asks+1, owner.Waiting+1
	t.Fold(uint64(next))
	return next
}

// LinkID is the id of the link that an agent, by id, asks the person of a row for at an instant.
func LinkID(agent [16]byte, owner uint32, stamp int64) [16]byte {
	return derivedID(agent, labelLink, uint64(owner), stamp)
}

// AnswerLink is a person's word about an agent that asks to work in one of their workspaces:
// approved (also after another answer), declined, or removed again. The same answer again is the
// same success again.
type AnswerLink struct {
	Person uint32     `wire:"1"`
	ID     [16]byte   `wire:"2"`
	Answer LinkStatus `wire:"3"`
	// Workspace is the row of the one that an approved agent works in.
	Workspace uint32 `wire:"4"`
}

func (c *AnswerLink) bounds(w *wire.Codec) {
	if w.Decoding() && (c.Answer < LinkApproved || c.Answer > LinkRemoved) {
		w.Fail("an answer of %d", c.Answer)
	}
}

func (c *AnswerLink) apply(x *people, t *machine.Turn) engine.Outcome {
	row := x.linkAsked(c.Person, c.ID)
	if row == 0 {
		return engine.OutcomeRecordUnknown
	}
	l := *x.links.Read(row)
	switch {
	case c.Answer == LinkApproved && !x.ownedBy(c.Workspace, c.Person):
		return engine.OutcomeRecordUnknown
	case c.Answer == l.Status && (c.Answer != LinkApproved || c.Workspace == l.Workspace):
		return engine.OutcomeDone
	case c.Answer == LinkDeclined && l.Status != LinkWaiting,
		c.Answer == LinkRemoved && l.Status != LinkApproved:
		return engine.OutcomeLinkAnswered
	}

	if l.Status == LinkWaiting {
		x.persons.Write(c.Person).Waiting--
	}
	if l.Status, l.AnsweredAt = c.Answer, t.Stamp; c.Answer == LinkApproved {
		l.Workspace = c.Workspace
	}
	*x.links.Write(row) = l
	t.Fold(uint64(row)<<8 | uint64(c.Answer))
	return engine.OutcomeDone
}

// linkAsked finds a link that a person was asked for; 0 when there is none.
func (x *people) linkAsked(person uint32, id [16]byte) uint32 {
	p, _ := x.person(person)
	row := p.Asked
	for row != 0 && x.links.Read(row).ID != id {
		row = x.links.Read(row).BeforeOfOwner
	}
	return row
}

// LinkView is an agent that asks, or asked, to work in a workspace of its owner's.
type LinkView struct {
	ID     [16]byte
	Status LinkStatus
	// Agent is who asks.
	Agent               PersonView
	Workspace           [16]byte // zero until it was approved
	AskedAt, AnsweredAt int64
}

// Links lists the agents that a person was asked about, newest first; more reports whether there
// are others behind.
func (m *Machine) Links(person uint32, p Page) (views []LinkView, more bool) {
	s := m.state.Load()
	s.mu.RLock()
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
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	row := s.linkAsked(person, id)
	if row == 0 {
		return v, false
	}
	return s.linkView(row), true
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
