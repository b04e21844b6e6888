package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
)

// workspace is one workspace: its balance, its sums of the present month and day, and the newest of
// each of its lists.
type workspace struct {
	ID        [16]byte `wire:"1"`
	Label     string   `wire:"2"` // ≤ 80 characters
	Owner     string   `wire:"3"` // who claimed it; empty if unclaimed
	Claim     [32]byte `wire:"4"`
	CreatedAt int64    `wire:"5"`
	ClaimedAt int64    `wire:"6"`
	// The newest row of each list; a row knows the one before it.
	Keys          uint32 `wire:"7"`
	Flows         uint32 `wire:"8"`
	Runs          uint32 `wire:"9"`
	Purchases     uint32 `wire:"10"`
	Issues        uint32 `wire:"11"`
	Notifications uint32 `wire:"12"`
	Transactions  uint32 `wire:"13"`
	Acts          uint32 `wire:"25"`
	Ledger        ledger `wire:"14"`
	// Network is where it was signed up from: the first address of a /48, or of a /24 as IPv6 maps
	// IPv4; zero is not known.
	Network [16]byte `wire:"36"`
	// UsedAt is the newest use of its keys that was noted while it had no owner. GoneAt is when it
	// was removed.
	UsedAt int64 `wire:"37"`
	GoneAt int64 `wire:"38"`
	// Person is its owner, once they have signed in; OwnedBefore is the workspace that was theirs
	// before it.
	Person      uint32 `wire:"50"`
	OwnedBefore uint32 `wire:"51"`
	// Access is the newest of its test credentials.
	Access uint32 `wire:"141"`
	// base is the text that those of its flows are packed behind. It is not state.
	base place
}

func (s *workspace) claimed() bool { return s.ClaimedAt != 0 }

// ClaimWorkspace gives an unclaimed workspace to a person: by its claim code, or by its id for an
// operator. A code works once. Person is who has signed in; an operator names an Owner alone, whose
// it becomes when they sign in. The reply is a ClaimReply.
type ClaimWorkspace struct {
	Code   [32]byte `wire:"1"` // SHA-256 of the code; zero for an operator
	ID     [16]byte `wire:"2"` // of the operator's workspace; zero with a code
	Owner  string   `wire:"3"`
	Person uint32   `wire:"4"`
}

// ClaimReply names the workspace that was claimed.
type ClaimReply struct {
	ID [16]byte `wire:"1"`
}

func (c *ClaimWorkspace) apply(x *spaces, t *machine.Turn) engine.Outcome {
	row := x.workspaceRow(c.ID)
	if c.Code != ([32]byte{}) {
		row = x.claimRow(&c.Code)
	}
	s, ok := x.workspace(row)
	if !ok {
		return engine.OutcomeRecordUnknown
	}
	if s.claimed() {
		if s.Owner == c.Owner && c.Code == ([32]byte{}) {
			t.Answer(&ClaimReply{ID: s.ID})
			return engine.OutcomeDone
		}
		return engine.OutcomeRecordUnknown
	}

	x.adopt(t, row, &s, c.Owner, c.Person)
	*x.workspaces.Write(row) = s
	t.Answer(&ClaimReply{ID: s.ID})
	return engine.OutcomeDone
}

// adopt makes an unclaimed workspace its owner's, and its claim code void. Where person is 0, it is
// whose who has signed in with the owner's address, or does so later.
func (x *spaces) adopt(t *machine.Turn, row uint32, s *workspace, owner string, person uint32) {
	if s.claimed() {
		return
	}
	if s.Claim != ([32]byte{}) {
		x.claimByHash.Remove(secretHash(&s.Claim), row)
	}
	x.rooms.adopt(row)
	s.Claim, s.Owner, s.ClaimedAt = [32]byte{}, owner, t.Stamp
	if person == 0 {
		person = x.emailBy[Address(owner)]
	}
	if person == 0 {
		x.promise(row, owner)
	} else {
		x.give(t, row, s, person, x.persons.Write(person))
	}
	t.Fold(uint64(row))
}

// workspaceRow finds a workspace by id, one that was removed too; 0 when there is none.
func (x *tables) workspaceRow(id [16]byte) uint32 {
	return x.workspaceBy.Find(x.idHash(&id), func(row uint32) bool {
		return x.workspaces.Read(row).ID == id
	})
}

// workspace copies a workspace by row; false when there is none, or none any more.
func (x *tables) workspace(row uint32) (w workspace, ok bool) {
	if !x.owned(row) || x.workspaces.Read(row).GoneAt != 0 {
		return w, false
	}
	return *x.workspaces.Read(row), true
}
