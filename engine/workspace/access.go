package workspace

import (
	"slices"
	"strings"

	"tollgate/engine"
)

// Bounds of test credentials.
const (
	// MaxTestAccess is for how many hosts a workspace may store some.
	MaxTestAccess = 50
	// MaxTestAccessBytes is how long those of one host may be, before they are sealed.
	MaxTestAccessBytes = 1 << 10
	maxSealedAccess    = MaxTestAccessBytes + 64
	maxAccessHost      = 300
	accessRowBytes     = 100
)

// access is what a run signs in with at a host. A row without a host is free for another one of its
// workspace.
type access struct {
	Workspace uint32 `wire:"1"`
	Before    uint32 `wire:"2"`
	Host      string `wire:"3"`
	Sealed    []byte `wire:"4"`
	SetAt     int64  `wire:"5"`
}

func (a *access) bytes() int { return accessRowBytes + len(a.Host) + len(a.Sealed) }

// SetTestAccess stores what runs sign in with at a host, in place of what was stored for it. It is
// for a person.
type SetTestAccess struct {
	Workspace uint32 `wire:"1"`
	// Host is as FlowDocument.Host has it.
	Host string `wire:"2"`
	// Sealed is sealed by the server: this machine cannot read it.
	Sealed []byte `wire:"3"`
}

func (c *SetTestAccess) apply(t *turn) engine.Outcome {
	w, ok := t.workspace(c.Workspace)
	switch {
	case !ok:
		return engine.OutcomeRecordUnknown
	case !w.claimed():
		return engine.OutcomePersonRequired
	case c.Host == "" || len(c.Host) > maxAccessHost || len(c.Sealed) == 0 ||
		len(c.Sealed) > maxSealedAccess:
		return engine.OutcomeTooLarge
	}
	row := t.accessRow(c.Workspace, c.Host)
	if row == 0 {
		if len(t.accesses(c.Workspace)) >= MaxTestAccess {
			return engine.OutcomeTestAccessLimit
		}
		row = t.accessRow(c.Workspace, "") // one that is free
	}
	next, before := access{Host: c.Host, Sealed: c.Sealed}, 0
	if row != 0 {
		before = t.access.Read(row).bytes()
	}
	if full := t.room(c.Workspace, next.bytes()-before); full != engine.OutcomeDone {
		return full
	}

	if row == 0 {
		row, _ = t.access.Append()
		*t.access.Write(row) = access{Workspace: c.Workspace, Before: w.Access}
		t.workspaces.Write(c.Workspace).Access = row
		t.rooms.hold(c.Workspace, accessRowBytes)
	}
	t.setAccess(row, c.Host, c.Sealed)
	return engine.OutcomeDone
}

// setAccess writes what is stored, or that nothing is.
func (t *turn) setAccess(row uint32, host string, sealed []byte) {
	a := t.access.Write(row)
	before := a.bytes()
	a.Host, a.Sealed, a.SetAt = host, sealed, t.Stamp
	t.rooms.hold(a.Workspace, a.bytes()-before)
	t.Fold(uint64(row)<<32 | uint64(len(sealed)))
}

// RemoveTestAccess forgets what runs sign in with at a host. It is for a person.
type RemoveTestAccess struct {
	Workspace uint32 `wire:"1"`
	Host      string `wire:"2"`
}

func (c *RemoveTestAccess) apply(t *turn) engine.Outcome {
	_, ok := t.workspace(c.Workspace)
	row := t.accessRow(c.Workspace, c.Host)
	if !ok || c.Host == "" || row == 0 {
		return engine.OutcomeRecordUnknown
	}
	t.setAccess(row, "", nil)
	return engine.OutcomeDone
}

// forgetAccess lets go of all that a workspace has stored.
func (t *turn) forgetAccess(newest uint32) {
	for row := newest; row != 0; row = t.access.Read(row).Before {
		t.setAccess(row, "", nil)
	}
}

// accessRow finds what is stored for a host, or a row that is free; 0 when there is none.
func (s *state) accessRow(workspace uint32, host string) uint32 {
	if !s.owned(workspace) {
		return 0
	}
	row := s.workspaces.Read(workspace).Access
	for row != 0 && s.access.Read(row).Host != host {
		row = s.access.Read(row).Before
	}
	return row
}

// accesses are the rows of a workspace that hold something.
func (s *state) accesses(workspace uint32) (rows []uint32) {
	for row := s.workspaces.Read(workspace).Access; row != 0; row = s.access.Read(row).Before {
		if s.access.Read(row).Host != "" {
			rows = append(rows, row)
		}
	}
	return rows
}

// enters reports whether a flow needs no test credentials, or that they are stored.
func (s *state) enters(f *flow, d *FlowDocument) bool {
	return !f.TestAccount || d.Host != "" && s.accessRow(f.Workspace, d.Host) != 0
}

// AccessView says for which host test credentials are stored, and since when.
type AccessView struct {
	Host  string
	SetAt int64
}

// TestAccesses are the hosts for which a workspace has stored test credentials, by name.
func (m *Machine) TestAccesses(workspace uint32) (views []AccessView) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.owned(workspace) {
		return nil
	}
	for _, row := range s.accesses(workspace) {
		a := s.access.Read(row)
		views = append(views, AccessView{Host: a.Host, SetAt: a.SetAt})
	}
	slices.SortFunc(views, func(a, b AccessView) int { return strings.Compare(a.Host, b.Host) })
	return views
}

// TestAccess is what a workspace's runs sign in with at a host, sealed; nil when nothing is stored.
func (m *Machine) TestAccess(workspace uint32, host string) []byte {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	row := s.accessRow(workspace, host)
	if row == 0 || host == "" {
		return nil
	}
	return slices.Clone(s.access.Read(row).Sealed)
}
