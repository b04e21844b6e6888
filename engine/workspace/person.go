package workspace

import (
	"hash/maphash"
	"slices"
	"strings"

	"tollgate/engine"
	"tollgate/engine/machine"
)

const (
	// MaxPersons is how many persons and agents one group knows at most.
	MaxPersons = 200_000
	// MaxSignInsPerDay is how often one of them may sign in within a UTC day, MaxActsPerDay how
	// often one may act as an owner.
	MaxSignInsPerDay = 50
	MaxActsPerDay    = 1000
	// MaxOpened is how many workspaces a person may have and still open one.
	MaxOpened = 20
)

// Longest texts of a person, in bytes.
const (
	MaxIssuer  = 512
	MaxSubject = 255
	MaxEmail   = 254
	MaxName    = 200
)

// person is somebody who has signed in: a person, or an agent, for good.
type person struct {
	ID      [16]byte `wire:"1"`
	Issuer  string   `wire:"2"`
	Subject string   `wire:"3"` // who says so, and how they name them; never change
	// Email was verified by the issuer; empty when it was not, or somebody else has it by now.
	Email      string `wire:"4"`
	Name       string `wire:"5"`
	Agent      bool   `wire:"6"`
	CreatedAt  int64  `wire:"7"`
	SignedInAt int64  `wire:"8"`
	// EndedAt is when all sessions were ended; those from before are void.
	EndedAt int64 `wire:"9"`
	// Own is the workspace that an agent got when it signed in first.
	Own uint32 `wire:"10"`
	// Owned is the newest workspace that a person owns; a workspace knows the one before it.
	Owned uint32 `wire:"11"`
	// Links is the newest link of an agent, Link the one in force: of the owner whom its issuer
	// named when it signed in last.
	Links uint32 `wire:"12"`
	Link  uint32 `wire:"13"`
	// Asked is the newest link that a person was asked for, Asks their number, Waiting how many
	// wait for an answer.
	Asked   uint32 `wire:"14"`
	Asks    uint32 `wire:"15"`
	Waiting uint32 `wire:"16"`
	// Of the day.
	Day     uint32 `wire:"17"`
	SignIns uint32 `wire:"18"`
	Acted   uint32 `wire:"19"`
}

// roll begins the day of an instant; on a copy, so that a refusal changes nothing.
func (p *person) roll(stamp int64) {
	if day := dayOf(stamp); day != p.Day {
		p.Day, p.SignIns, p.Acted = day, 0, 0
	}
}

// subjectHash is where the index has a person.
func (x *people) subjectHash(issuer, subject string) uint64 {
	return maphash.String(x.seed, issuer+"\n"+subject)
}

// personRow finds who has signed in as an issuer's subject; 0 when nobody has.
func (x *people) personRow(issuer, subject string) uint32 {
	return x.personBy.Find(x.subjectHash(issuer, subject), func(row uint32) bool {
		p := x.persons.Read(row)
		return p.Issuer == issuer && p.Subject == subject
	})
}

// person copies a person by row; false when there is none.
func (x *spaces) person(row uint32) (p person, ok bool) {
	if row == 0 || row > x.persons.Len() {
		return p, false
	}
	return *x.persons.Read(row), true
}

// ownedBy reports whether a workspace is a person's, and there.
func (x *spaces) ownedBy(workspace, person uint32) bool {
	return x.owned(workspace) && person != 0 && x.workspaces.Read(workspace).Person == person &&
		x.workspaces.Read(workspace).GoneAt == 0
}

// Address is how e-mail addresses are compared: without the case of ASCII letters, and of no
// others. Unicode's lower case makes ASCII letters of others, so that an address of another domain
// would be somebody's of this one; and it differs between builds.
func Address(email string) string {
	folded := []byte(email)
	for i, c := range folded {
		if c >= 'A' && c <= 'Z' {
			folded[i] = c + 'a' - 'A'
		}
	}
	return string(folded)
}

// hold makes an address a person's, who has it from now on in place of whoever had it, and gives
// them the workspaces that an operator has claimed for it.
func (x *people) hold(t *machine.Turn, row uint32, p *person, email string) {
	if old := Address(p.Email); p.Email != "" && x.emailBy[old] == row && old != Address(email) {
		delete(x.emailBy, old)
	}
	p.Email = email
	if email == "" {
		return
	}
	if other := x.emailBy[Address(email)]; other != 0 && other != row {
		x.persons.Write(other).Email = ""
	}
	x.emailBy[Address(email)] = row
	promised := x.promised[Address(email)]
	slices.Sort(promised) // the order after a restore
	for _, number := range promised {
		x.give(t, number, x.workspaces.Write(number), row, p)
	}
	delete(x.promised, Address(email))
}

// give makes a workspace a person's; p is the person's row, w the workspace's.
func (x *spaces) give(t *machine.Turn, number uint32, w *workspace, row uint32, p *person) {
	w.Person, w.OwnedBefore, p.Owned = row, p.Owned, number
	t.Fold(uint64(number)<<32 | uint64(row))
}

// promise notes that a workspace is whose who signs in with an address: an operator claimed it.
func (x *spaces) promise(number uint32, owner string) {
	if strings.Contains(owner, "@") {
		x.promised[Address(owner)] = append(x.promised[Address(owner)], number)
	}
}

// indexPersons rebuilds their indexes, and those of links, after a restore.
func (x *people) indexPersons() {
	for row := uint32(1); row <= x.persons.Len(); row++ {
		p := x.persons.Read(row)
		x.personBy.Insert(x.subjectHash(p.Issuer, p.Subject), row)
		if p.Email != "" && !p.Agent {
			x.emailBy[Address(p.Email)] = row
		}
	}
	for row := uint32(1); row <= x.workspaces.Len(); row++ {
		if w := x.workspaces.Read(row); w.claimed() && w.Person == 0 && w.GoneAt == 0 {
			x.promise(row, w.Owner)
		}
	}
	x.sessions.Reindex()
}

// consistentPersons says, after a restore, that rows name rows that are there.
func (x *people) consistentPersons() bool {
	persons, spaces, links := x.persons.Len(), x.workspaces.Len(), x.links.Len()
	for row := uint32(1); row <= persons; row++ {
		p := x.persons.Read(row)
		if p.Own > spaces || p.Owned > spaces || p.Links > links || p.Link > links ||
			p.Asked > links {
			return false
		}
	}
	for row := uint32(1); row <= spaces; row++ {
		w := x.workspaces.Read(row)
		if w.Person > persons || w.OwnedBefore > spaces || w.OwnedBefore == row {
			return false
		}
	}
	for row := uint32(1); row <= links; row++ {
		l := x.links.Read(row)
		if l.Agent == 0 || l.Agent > persons || l.Owner == 0 || l.Owner > persons ||
			l.BeforeOfAgent >= row || l.BeforeOfOwner >= row || l.Workspace > spaces ||
			l.Status < LinkWaiting || l.Status > LinkRemoved {
			return false
		}
	}
	return x.sessions.Consistent()
}

// OpenWorkspace makes a workspace that a person owns from the start. The same ID again is the same
// success again.
type OpenWorkspace struct {
	Person uint32   `wire:"1"`
	ID     [16]byte `wire:"2"`
	Label  string   `wire:"3"` // ≤ 80 characters
}

func (c *OpenWorkspace) apply(x *people, t *machine.Turn) engine.Outcome {
	p, ok := x.person(c.Person)
	if !ok || p.Agent {
		return engine.OutcomePersonRequired
	}
	if row := x.workspaceRow(c.ID); row != 0 {
		if x.ownedBy(row, c.Person) {
			return engine.OutcomeDone
		}
		return engine.OutcomeIDsContradict
	}
	owned := 0
	for row := p.Owned; row != 0 && owned < MaxOpened; row = x.workspaces.Read(row).OwnedBefore {
		owned++
	}
	if owned >= MaxOpened {
		return engine.OutcomeOwnedLimit
	}

	row, w := x.openWorkspace(t, workspace{ID: c.ID, Label: c.Label})
	x.adopt(t, row, w, p.Email, c.Person)
	return engine.OutcomeDone
}

// openWorkspace adds a workspace that nobody has claimed yet.
func (x *spaces) openWorkspace(t *machine.Turn, w workspace) (row uint32, added *workspace) {
	w.CreatedAt, w.Ledger.CapCents = t.Stamp, x.policy.DefaultCapCents
	row, added = x.workspaces.Append()
	*added = w
	x.rooms.open(added)
	x.due.add(x.unusedEnd(added), dueWorkspace, row)
	x.workspaceBy.Insert(x.idHash(&added.ID), row)
	if added.Claim != ([32]byte{}) {
		x.claimByHash.Insert(secretHash(&added.Claim), row)
	}
	return row, added
}

// PersonView is a person or an agent who has signed in.
type PersonView struct {
	ID                    [16]byte
	Issuer, Subject       string
	Email, Name           string
	Agent                 bool
	CreatedAt, SignedInAt int64
	// Waiting is how many agents wait for this person's answer.
	Waiting uint32
}

// Person is a person by row; false when there is none.
func (m *Machine) Person(row uint32) (v PersonView, ok bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.personView(row)
}

func (x *people) personView(row uint32) (v PersonView, ok bool) {
	p, ok := x.person(row)
	return PersonView{
		ID: p.ID, Issuer: p.Issuer, Subject: p.Subject, Email: p.Email, Name: p.Name,
		Agent: p.Agent, CreatedAt: p.CreatedAt, SignedInAt: p.SignedInAt, Waiting: p.Waiting,
	}, ok
}

// OwnedView is a workspace in its owner's list.
type OwnedView struct {
	Row                  uint32
	ID                   [16]byte
	Label                string
	CreatedAt, ClaimedAt int64
}

// Owned lists the workspaces that a person owns, those that became theirs last first; more says
// that there are others behind.
func (m *Machine) Owned(row uint32, p Page) (views []OwnedView, more bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	owner, _ := s.person(row)
	return list(&p, chain[OwnedView]{
		newest: owner.Owned,
		before: func(row uint32) uint32 { return s.workspaces.Read(row).OwnedBefore },
		find: func(id [16]byte) uint32 {
			if number := s.workspaceRow(id); s.ownedBy(number, row) {
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

// ClaimRow is the workspace that a claim code with this SHA-256 hands over; 0 when there is none.
func (m *Machine) ClaimRow(code [32]byte) uint32 {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.claimRow(&code)
}

func (x *tables) claimRow(code *[32]byte) uint32 {
	return x.claimByHash.Find(secretHash(code), func(row uint32) bool {
		return x.workspaces.Read(row).Claim == *code
	})
}
