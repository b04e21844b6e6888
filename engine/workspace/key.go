package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
)

// RevokeKey ends an API key for good. Revoking a revoked key succeeds and changes nothing.
type RevokeKey struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
}

func (c *RevokeKey) apply(x *spaces, t *machine.Turn, row uint32) engine.Outcome {
	w := *x.workspaces.Read(row)
	for row := w.Keys; row != 0; row = x.keys.Read(row).Before {
		if x.keys.Read(row).ID == c.ID {
			x.revoke(t, row)
			return engine.OutcomeDone
		}
	}
	return engine.OutcomeRecordUnknown
}

// RotateKeys revokes all keys of a workspace and adds one with all scopes. It is for the owner.
// Repeating it with the same new key succeeds and changes nothing.
type RotateKeys struct {
	Workspace uint32   `wire:"1"`
	KeyID     [16]byte `wire:"2"`
	KeyHash   [32]byte `wire:"3"`
}

func (c *RotateKeys) apply(x *spaces, t *machine.Turn, row uint32) engine.Outcome {
	w := *x.workspaces.Read(row)
	if row := x.keyOf(&c.KeyHash); row != 0 {
		if k := x.keys.Read(row); k.Workspace == c.Workspace && k.ID == c.KeyID {
			return engine.OutcomeDone
		}
		return engine.OutcomeIDsContradict
	}

	for row := w.Keys; row != 0; row = x.keys.Read(row).Before {
		x.revoke(t, row)
	}
	x.addKey(t, c.Workspace, key{KeyView: KeyView{ID: c.KeyID, Scopes: ScopesAll}, Hash: c.KeyHash})
	return engine.OutcomeDone
}

// Principal is whom a key speaks for.
type Principal struct {
	// Workspace is the workspace's row; 0 is none.
	Workspace uint32
	ID        [16]byte
	KeyID     [16]byte
	Scopes    Scopes
	Claimed   bool
	// NoteFrom is the instant from which on its next use is to be noted, in milliseconds since
	// 1970: see NoteUse. 0 is never.
	NoteFrom int64
	// Person is the row of who signed in, 0 for a key; Agent reports whether it is not a person.
	Person uint32
	Agent  bool
}

// principal is whom somebody speaks for who works in a workspace.
func (x *spaces) principal(workspace uint32) Principal {
	w := x.workspaces.Read(workspace)
	p := Principal{Workspace: workspace, ID: w.ID, Claimed: w.claimed()}
	if !w.claimed() && x.policy.UnclaimedMS != 0 {
		p.NoteFrom = x.usedAt(w) + NoticedMS
	}
	return p
}
