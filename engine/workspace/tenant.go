package workspace

import (
	"tollgate/engine"
	"tollgate/engine/wire"
)

// workspace is one workspace: its balance, its sums of the present month and day, and the newest of
// each of its lists.
type workspace struct {
	ID                   [16]byte
	Label                string // ≤ 80 characters
	Owner                string // who claimed it; empty while nobody has
	Claim                [32]byte
	CreatedAt, ClaimedAt int64
	// The newest row of each list; a row knows the one before it.
	Keys, Flows, Runs, Purchases, Issues, Notifications, Transactions, Acts uint32
	Ledger                                                                  ledger
	// Network is where it was signed up from: the first address of a /48, or of a /24 as IPv6 maps
	// IPv4; zero is not known.
	Network [16]byte
	// UsedAt is the newest use of its keys that was noted while it had no owner. GoneAt is when it was
	// removed.
	UsedAt, GoneAt int64
	// Person is its owner, once they have signed in; OwnedBefore is the workspace that was theirs
	// before it.
	Person, OwnedBefore uint32
	// Access is the newest of its test credentials.
	Access uint32
	// base is the text that those of its flows are packed behind. It is no state.
	base place
}

// Fields states the row's fields.
func (s *workspace) Fields(w *wire.Codec) {
	w.ID(1, &s.ID)
	w.String(2, &s.Label)
	w.String(3, &s.Owner)
	w.Hash(4, &s.Claim)
	w.Int(5, &s.CreatedAt)
	w.Int(6, &s.ClaimedAt)
	wire.Uint(w, 7, &s.Keys)
	wire.Uint(w, 8, &s.Flows)
	wire.Uint(w, 9, &s.Runs)
	wire.Uint(w, 10, &s.Purchases)
	wire.Uint(w, 11, &s.Issues)
	wire.Uint(w, 12, &s.Notifications)
	wire.Uint(w, 13, &s.Transactions)
	w.Message(14, &s.Ledger)
	wire.Uint(w, 25, &s.Acts)
	w.ID(36, &s.Network)
	w.Int(37, &s.UsedAt)
	w.Int(38, &s.GoneAt)
	wire.Uint(w, 50, &s.Person)
	wire.Uint(w, 51, &s.OwnedBefore)
	wire.Uint(w, 141, &s.Access)
}

func (s *workspace) claimed() bool { return s.ClaimedAt != 0 }

// ClaimWorkspace gives an unclaimed workspace to a person: by its claim code, or by its id for an
// operator. A code works once. Person is who has signed in; an operator names an Owner alone, whose
// it becomes when they sign in. The reply is a ClaimReply.
type ClaimWorkspace struct {
	Code   [32]byte // SHA-256 of the code; zero for an operator
	ID     [16]byte // of the operator's workspace; zero with a code
	Owner  string
	Person uint32
}

// Fields states the command's fields.
func (c *ClaimWorkspace) Fields(w *wire.Codec) {
	w.Hash(1, &c.Code)
	w.ID(2, &c.ID)
	w.String(3, &c.Owner)
	wire.Uint(w, 4, &c.Person)
}

// ClaimReply names the workspace that was claimed.
type ClaimReply struct{ ID [16]byte }

// Fields states the reply's fields.
func (r *ClaimReply) Fields(w *wire.Codec) { w.ID(1, &r.ID) }

func (c *ClaimWorkspace) apply(t *turn) engine.Outcome {
	row := t.workspaceRow(c.ID)
	if c.Code != ([32]byte{}) {
		row = t.claimRow(&c.Code)
	}
	s, ok := t.workspace(row)
	if !ok {
		return engine.OutcomeRecordUnknown
	}
	if s.claimed() {
		if s.Owner == c.Owner && c.Code == ([32]byte{}) {
			t.answer(&ClaimReply{ID: s.ID})
			return engine.OutcomeDone
		}
		return engine.OutcomeRecordUnknown
	}

	t.adopt(row, &s, c.Owner, c.Person)
	*t.workspaces.Write(row) = s
	t.answer(&ClaimReply{ID: s.ID})
	return engine.OutcomeDone
}

// adopt makes an unclaimed workspace its owner's, and its claim code void. Where person is 0, it is
// whose who has signed in with the owner's address, or does so later.
func (t *turn) adopt(row uint32, s *workspace, owner string, person uint32) {
	if s.claimed() {
		return
	}
	if s.Claim != ([32]byte{}) {
		t.claimByHash.Remove(secretHash(&s.Claim), row)
	}
	t.rooms.adopt(row)
	s.Claim, s.Owner, s.ClaimedAt = [32]byte{}, owner, t.stamp
	if person == 0 {
		person = t.emailBy[Address(owner)]
	}
	if person == 0 {
		t.promise(row, owner)
	} else {
		t.give(row, s, person, t.persons.Write(person))
	}
	t.fold(uint64(row))
}

// workspaceRow finds a workspace by id, one that was removed too; 0 when there is none.
func (s *state) workspaceRow(id [16]byte) uint32 {
	return s.workspaceBy.Find(s.idHash(&id), func(row uint32) bool {
		return s.workspaces.Read(row).ID == id
	})
}

// workspace copies a workspace by row; false when there is none, or none any more.
func (s *state) workspace(row uint32) (w workspace, ok bool) {
	if !s.owned(row) || s.workspaces.Read(row).GoneAt != 0 {
		return w, false
	}
	return *s.workspaces.Read(row), true
}
