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
	Keys, Flows, Runs, Purchases, Issues, Notifications, Transactions uint32
	Ledger                                                            ledger
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
}

func (s *workspace) claimed() bool { return s.ClaimedAt != 0 }

// SignUp creates a workspace with one key, without a person. Only hashes of the key and of the
// claim code are known here. The same ids again are the same success again. The reply of
// OutcomeSignupLimited is a RetryReply.
type SignUp struct {
	ID, KeyID [16]byte
	KeyHash   [32]byte // SHA-256 of the whole key
	ClaimHash [32]byte // SHA-256 of the whole claim code
	Scopes    Scopes
	Label     string // ≤ 80 characters
	// Source is a hash of the caller's address (IPv6: of its /64).
	Source [16]byte
}

// Fields states the command's fields.
func (c *SignUp) Fields(w *wire.Codec) {
	w.ID(1, &c.ID)
	w.ID(2, &c.KeyID)
	w.Hash(3, &c.KeyHash)
	w.Hash(4, &c.ClaimHash)
	wire.Uint(w, 5, &c.Scopes)
	w.String(6, &c.Label)
	w.ID(7, &c.Source)
}

// RetryReply says when a limit ends, in milliseconds since 1970 UTC.
type RetryReply struct {
	ResetsAt int64
	Limit    uint32
}

// Fields states the reply's fields.
func (r *RetryReply) Fields(w *wire.Codec) {
	w.Int(1, &r.ResetsAt)
	wire.Uint(w, 2, &r.Limit)
}

func (c *SignUp) apply(t *turn) engine.Outcome {
	if row := t.workspaceRow(c.ID); row != 0 {
		if k := t.keyOf(&c.KeyHash); k != 0 && t.keys.Read(k).Workspace == row {
			return engine.OutcomeDone
		}
		return engine.OutcomeIDsContradict
	}
	if t.keyOf(&c.KeyHash) != 0 {
		return engine.OutcomeIDsContradict
	}
	if t.policy.SignupsPerHour == 0 {
		return engine.OutcomeSignupOff
	}
	known := t.sources.find(c.Source, t.stamp-hourMS)
	if known != 0 {
		if s := t.sources.table.Read(known); s.Count >= t.policy.SignupsPerHour {
			t.answer(&RetryReply{ResetsAt: s.At + hourMS, Limit: t.policy.SignupsPerHour})
			return engine.OutcomeSignupLimited
		}
	} else if t.sources.full() {
		return engine.OutcomeKeysFull
	}

	if known != 0 {
		t.sources.table.Write(known).Count++
	} else {
		t.sources.keep(signups{Source: c.Source, At: t.stamp, Count: 1})
	}
	row, s := t.workspaces.Append()
	*s = workspace{
		ID: c.ID, Label: c.Label, Claim: c.ClaimHash, CreatedAt: t.stamp,
		Ledger: ledger{CapCents: t.policy.DefaultCapCents},
	}
	t.workspaceBy.Insert(t.idHash(&s.ID), row)
	t.claimByHash.Insert(secretHash(&s.Claim), row)
	t.addKey(row, key{ID: c.KeyID, Hash: c.KeyHash, Scopes: c.Scopes})
	t.fold(uint64(row))
	return engine.OutcomeDone
}

// ClaimWorkspace gives an unclaimed workspace to a person: by its claim code, or by its id for an
// operator. A code works once. The reply is a ClaimReply.
type ClaimWorkspace struct {
	Code  [32]byte // SHA-256 of the code; zero for an operator
	ID    [16]byte // of the operator's workspace; zero with a code
	Owner string
}

// Fields states the command's fields.
func (c *ClaimWorkspace) Fields(w *wire.Codec) {
	w.Hash(1, &c.Code)
	w.ID(2, &c.ID)
	w.String(3, &c.Owner)
}

// ClaimReply names the workspace that was claimed.
type ClaimReply struct{ ID [16]byte }

// Fields states the reply's fields.
func (r *ClaimReply) Fields(w *wire.Codec) { w.ID(1, &r.ID) }

func (c *ClaimWorkspace) apply(t *turn) engine.Outcome {
	row := t.workspaceRow(c.ID)
	if c.Code != ([32]byte{}) {
		row = t.claimByHash.Find(secretHash(&c.Code), func(row uint32) bool {
			return t.workspaces.Read(row).Claim == c.Code
		})
	}
	if row == 0 {
		return engine.OutcomeRecordUnknown
	}
	s := *t.workspaces.Read(row)
	if s.claimed() {
		if s.Owner == c.Owner && c.Code == ([32]byte{}) {
			t.answer(&ClaimReply{ID: s.ID})
			return engine.OutcomeDone
		}
		return engine.OutcomeRecordUnknown
	}

	t.adopt(row, &s, c.Owner)
	*t.workspaces.Write(row) = s
	t.answer(&ClaimReply{ID: s.ID})
	return engine.OutcomeDone
}

// adopt makes an unclaimed workspace its owner's, and its claim code void.
func (t *turn) adopt(row uint32, s *workspace, owner string) {
	if s.claimed() {
		return
	}
	t.claimByHash.Remove(secretHash(&s.Claim), row)
	s.Claim, s.Owner, s.ClaimedAt = [32]byte{}, owner, t.stamp
	t.fold(uint64(row))
}

// workspaceRow finds a workspace by id; 0 when there is none.
func (s *state) workspaceRow(id [16]byte) uint32 {
	return s.workspaceBy.Find(s.idHash(&id), func(row uint32) bool {
		return s.workspaces.Read(row).ID == id
	})
}

// workspace copies a workspace by row; false when there is none.
func (s *state) workspace(row uint32) (w workspace, ok bool) {
	if row == 0 || row > s.workspaces.Len() {
		return w, false
	}
	return *s.workspaces.Read(row), true
}
