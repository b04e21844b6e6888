package workspace

import "tollgate/engine"

// person is somebody who has signed in: a person, or an agent, for good.
type person struct {
	PersonView
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
	// Asked is the newest link that a person was asked for, Asks their number.
	Asked uint32 `wire:"14"`
	Asks  uint32 `wire:"15"`
	// Of the day.
	Day     uint32 `wire:"17"`
	SignIns uint32 `wire:"18"`
	Acted   uint32 `wire:"19"`
}

// PersonView is a person or an agent who has signed in.
//
//schema:answer workspaceapi LinkedAgent
//schema:part
type PersonView struct {
	ID   [16]byte `wire:"1" json:"id" id:"markPerson"`
	Name string   `wire:"5" json:"name" rule:"null,min=1"`
	// Email was verified by the issuer; empty when it was not, or another person has it now.
	Email string `wire:"4" json:"email" rule:"null,min=1"`
	// Issuer and Subject name the person and never change.
	Issuer     string `wire:"2"`
	Subject    string `wire:"3" json:"subject" rule:"min=1"`
	Agent      bool   `wire:"6"`
	CreatedAt  int64  `wire:"7"`
	SignedInAt int64  `wire:"8"`
	// Waiting is how many agents wait for this person's answer.
	Waiting uint32 `wire:"16"`
}

// roll begins the day of an instant; on a copy, so that a refusal changes nothing.
func (p *person) roll(stamp int64) {
	if day := dayOf(stamp); day != p.Day {
		p.Day, p.SignIns, p.Acted = day, 0, 0
	}
}

// session is what a person, or an agent, signed in for.
type session struct {
	Hash      [32]byte `wire:"1"` // SHA-256 of the token
	Person    uint32   `wire:"2"` // 0: an operator with the admin key
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

// LinkStatus is how an agent is linked to the person whom its issuer names as its owner.
//
//schema:enum
type LinkStatus uint8

// The statuses.
const (
	LinkNone     LinkStatus = 0
	LinkWaiting  LinkStatus = 1 // waiting
	LinkApproved LinkStatus = 2 // approved
	LinkDeclined LinkStatus = 3 // declined
	LinkRemoved  LinkStatus = 4 // removed
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

// actRow is something that an owner did, or an operator for them.
type actRow struct {
	actFacts
	Workspace uint32      `wire:"2"`
	Before    uint32      `wire:"3"`
	Kind      engine.Kind `wire:"6"`
	Person    uint32      `wire:"10"` // who did it; 0 for an operator
}

// actFacts are the fields that the row of an act and its view have in common.
//
//schema:part
type actFacts struct {
	ID      [16]byte    `wire:"1" json:"id" id:"markAct"`
	At      int64       `wire:"4" json:"at" as:"time"`
	Actor   string      `wire:"5" json:"actor" rule:"min=1"`
	Subject [16]byte    `wire:"7"` // the purchase or flow; zero is none
	Note    string      `wire:"8" json:"note,omitzero" rule:"min=1"`
	Changes []ActChange `wire:"9" json:"changes"`
}

// ActChange is a value that an act changed.
//
//schema:answer workspaceapi ActChange
type ActChange struct {
	Name   string `wire:"1" json:"name" rule:"min=1"`
	Before string `wire:"2" json:"before"`
	After  string `wire:"3" json:"after"`
}
