package workspace

import (
	"strings"

	"tollgate/engine"
	"tollgate/engine/machine"
)

// Scopes is a set of what an API key may do. None includes another.
type Scopes uint8

// The scopes.
const (
	ScopeRead  Scopes = 1
	ScopeWrite Scopes = 2
	ScopeRun   Scopes = 4
	ScopesAll  Scopes = ScopeRead | ScopeWrite | ScopeRun
)

var scopeNames = [...]struct {
	scope Scopes
	name  string
}{{ScopeRead, "read"}, {ScopeWrite, "write"}, {ScopeRun, "run"}}

// Names are the names of the scopes in the set.
func (s Scopes) Names() []string {
	var names []string
	for _, n := range scopeNames {
		if s&n.scope != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

// String is the names with spaces between, as OAuth writes scopes.
func (s Scopes) String() string { return strings.Join(s.Names(), " ") }

// ParseScope is the scope of a name.
func ParseScope(name string) (s Scopes, ok bool) {
	for _, n := range scopeNames {
		if n.name == name {
			return n.scope, true
		}
	}
	return 0, false
}

// key is an API key.
type key struct {
	ID        [16]byte `wire:"1"`
	Hash      [32]byte `wire:"2"`
	Workspace uint32   `wire:"3"`
	Before    uint32   `wire:"4"` // the workspace's key before this one
	Scopes    Scopes   `wire:"5"`
	CreatedAt int64    `wire:"6"`
	RevokedAt int64    `wire:"7"`
}

func (x *spaces) addKey(t *machine.Turn, workspace uint32, k key) {
	w := x.workspaces.Write(workspace)
	row, r := x.keys.Append()
	k.Workspace, k.Before, k.CreatedAt = workspace, w.Keys, t.Stamp
	*r, w.Keys = k, row
	x.keyByHash.Insert(secretHash(&k.Hash), row)
	t.Fold(uint64(row))
}

// keyOf finds a key by its SHA-256; 0 when there is none.
func (x *spaces) keyOf(hash *[32]byte) uint32 {
	return x.keyByHash.Find(secretHash(hash), func(row uint32) bool {
		return x.keys.Read(row).Hash == *hash
	})
}

// RevokeKey ends an API key for good. Revoking a revoked key is the same success again.
type RevokeKey struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
}

func (c *RevokeKey) apply(x *spaces, t *machine.Turn) engine.Outcome {
	w, ok := x.workspace(c.Workspace)
	if !ok {
		return engine.OutcomeRecordUnknown
	}
	for row := w.Keys; row != 0; row = x.keys.Read(row).Before {
		if x.keys.Read(row).ID == c.ID {
			x.revoke(t, row)
			return engine.OutcomeDone
		}
	}
	return engine.OutcomeRecordUnknown
}

func (x *spaces) revoke(t *machine.Turn, row uint32) {
	if x.keys.Read(row).RevokedAt == 0 {
		x.keys.Write(row).RevokedAt = t.Stamp
		t.Fold(uint64(row))
	}
}

// RotateKeys revokes all keys of a workspace and adds one with all scopes: for its owner. The same
// new key again is the same success again.
type RotateKeys struct {
	Workspace uint32   `wire:"1"`
	KeyID     [16]byte `wire:"2"`
	KeyHash   [32]byte `wire:"3"`
}

func (c *RotateKeys) apply(x *spaces, t *machine.Turn) engine.Outcome {
	w, ok := x.workspace(c.Workspace)
	if !ok {
		return engine.OutcomeRecordUnknown
	}
	if row := x.keyOf(&c.KeyHash); row != 0 {
		if k := x.keys.Read(row); k.Workspace == c.Workspace && k.ID == c.KeyID {
			return engine.OutcomeDone
		}
		return engine.OutcomeIDsContradict
	}

	for row := w.Keys; row != 0; row = x.keys.Read(row).Before {
		x.revoke(t, row)
	}
	x.addKey(t, c.Workspace, key{ID: c.KeyID, Hash: c.KeyHash, Scopes: ScopesAll})
	return engine.OutcomeDone
}

// Principal is whom a key speaks for.
type Principal struct {
	// Workspace is the workspace's row; 0 is nobody.
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

// Authenticate finds whom the API key with this SHA-256 speaks for; false when there is no such
// key or it was revoked.
func (m *Machine) Authenticate(hash [32]byte) (Principal, bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	row := s.keyOf(&hash)
	if row == 0 || s.keys.Read(row).RevokedAt != 0 {
		return Principal{}, false
	}
	k := s.keys.Read(row)
	p := s.principal(k.Workspace)
	p.KeyID, p.Scopes = k.ID, k.Scopes
	return p, true
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
