package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
)

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
	row := x.workspaces.find(c.ID)
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

func (c *SetPolicy) apply(x *spaces, t *machine.Turn) engine.Outcome {
	before := x.policy
	x.policy = *c
	if before.UnclaimedMS != c.UnclaimedMS || before.EmptyMS != c.EmptyMS {
		if before.UnclaimedMS == 0 { // they were kept forever: time counts from now
			x.expireFrom = t.Stamp
		}
		x.scheduleUnclaimed()
	}
	t.Fold(uint64(c.RunCents))
	return engine.OutcomeDone
}

// NoteUse records the use of a key, and of its workspace while that has no owner. Within NoticedMS
// of the previous use, or of their creation, it changes nothing; of an unclaimed workspace it keeps
// nothing where such are kept forever.
type NoteUse struct {
	Workspace uint32 `wire:"1"`
	// Key is the SHA-256 of the key; zero: of a session.
	Key [32]byte `wire:"2"`
}

func (c *NoteUse) apply(x *spaces, t *machine.Turn, row uint32) engine.Outcome {
	x.noteKey(t, row, &c.Key)
	w := *x.workspaces.Read(row)
	if w.claimed() || x.policy.UnclaimedMS == 0 || t.Stamp < x.usedAt(&w)+NoticedMS {
		return engine.OutcomeDone
	}
	x.workspaces.Write(c.Workspace).UsedAt = t.Stamp
	t.Fold(uint64(c.Workspace))
	return engine.OutcomeDone
}

// noteKey records the use of a workspace's key. Half of NoticedMS is enough, so that nodes whose
// clocks differ from the log's note a use once.
func (x *spaces) noteKey(t *machine.Turn, workspace uint32, hash *[32]byte) {
	row := x.keyOf(hash)
	if row == 0 {
		return
	}
	k := x.keys.Read(row)
	if k.Workspace == workspace && k.RevokedAt == 0 && t.Stamp >= k.noteFrom()-NoticedMS/2 {
		x.keys.Write(row).UsedAt = t.Stamp
		t.Fold(uint64(row) ^ uint64(t.Stamp))
	}
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
	if row := x.workspaces.find(c.ID); row != 0 {
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
