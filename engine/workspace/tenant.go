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

// NoteUse records the use of a key of an unclaimed workspace. Within NoticedMS of the previous use
// it changes nothing, nor does it where workspaces are kept forever or this one is claimed.
type NoteUse struct {
	Workspace uint32 `wire:"1"`
}

func (c *NoteUse) apply(x *spaces, t *machine.Turn, row uint32) engine.Outcome {
	w := *x.workspaces.Read(row)
	if w.claimed() || x.policy.UnclaimedMS == 0 || t.Stamp < x.usedAt(&w)+NoticedMS {
		return engine.OutcomeDone
	}
	x.workspaces.Write(c.Workspace).UsedAt = t.Stamp
	t.Fold(uint64(c.Workspace))
	return engine.OutcomeDone
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
