package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
)

// SetTestAccess stores what runs sign in with at a host, in place of what was stored for it. It is
// for a person.
type SetTestAccess struct {
	Workspace uint32 `wire:"1"`
	// Host is as FlowDocument.Host has it.
	Host string `wire:"2"`
	// Sealed is sealed by the server: this machine cannot read it.
	Sealed []byte `wire:"3"`
}

func (c *SetTestAccess) apply(x *flowStore, t *machine.Turn) engine.Outcome {
	w, ok := x.workspace(c.Workspace)
	switch {
	case !ok:
		return engine.OutcomeRecordUnknown
	case !w.claimed():
		return engine.OutcomePersonRequired
	case c.Host == "" || len(c.Host) > maxAccessHost || len(c.Sealed) == 0 ||
		len(c.Sealed) > maxSealedAccess:
		return engine.OutcomeTooLarge
	}
	row := x.accessRow(c.Workspace, c.Host)
	if row == 0 {
		if len(x.accesses(c.Workspace)) >= MaxTestAccess {
			return engine.OutcomeTestAccessLimit
		}
		row = x.accessRow(c.Workspace, "") // one that is free
	}
	next, before := access{AccessView: AccessView{Host: c.Host}, Sealed: c.Sealed}, 0
	if row != 0 {
		before = x.access.Read(row).bytes()
	}
	if full := x.room(t, c.Workspace, next.bytes()-before); full != engine.OutcomeDone {
		return full
	}

	if row == 0 {
		row, _ = x.access.Append()
		*x.access.Write(row) = access{Workspace: c.Workspace, Before: w.Access}
		x.workspaces.Write(c.Workspace).Access = row
		x.rooms.hold(c.Workspace, accessRowBytes)
	}
	x.setAccess(t, row, c.Host, c.Sealed)
	return engine.OutcomeDone
}

// setAccess writes what is stored, or that nothing is.
func (x *flowStore) setAccess(t *machine.Turn, row uint32, host string, sealed []byte) {
	a := x.access.Write(row)
	before := a.bytes()
	a.Host, a.Sealed, a.SetAt = host, sealed, t.Stamp
	x.rooms.hold(a.Workspace, a.bytes()-before)
	t.Fold(uint64(row)<<32 | uint64(len(sealed)))
}

// RemoveTestAccess forgets what runs sign in with at a host. It is for a person.
type RemoveTestAccess struct {
	Workspace uint32 `wire:"1"`
	Host      string `wire:"2"`
}

func (c *RemoveTestAccess) apply(x *flowStore, t *machine.Turn) engine.Outcome {
	_, ok := x.workspace(c.Workspace)
	row := x.accessRow(c.Workspace, c.Host)
	if !ok || c.Host == "" || row == 0 {
		return engine.OutcomeRecordUnknown
	}
	x.setAccess(t, row, "", nil)
	return engine.OutcomeDone
}

// forgetAccess lets go of all that a workspace has stored.
func (x *flowStore) forgetAccess(t *machine.Turn, newest uint32) {
	for row := newest; row != 0; row = x.access.Read(row).Before {
		x.setAccess(t, row, "", nil)
	}
}

// accessRow finds what is stored for a host, or a row that is free; 0 when there is none.
func (x *flowStore) accessRow(workspace uint32, host string) uint32 {
	if !x.owned(workspace) {
		return 0
	}
	row := x.workspaces.Read(workspace).Access
	for row != 0 && x.access.Read(row).Host != host {
		row = x.access.Read(row).Before
	}
	return row
}

// accesses are the rows of a workspace that hold something.
func (x *flowStore) accesses(workspace uint32) (rows []uint32) {
	for row := x.workspaces.Read(workspace).Access; row != 0; row = x.access.Read(row).Before {
		if x.access.Read(row).Host != "" {
			rows = append(rows, row)
		}
	}
	return rows
}

// enters reports whether a flow needs no test credentials, or that they are stored.
func (x *flowStore) enters(f *flow, d *FlowDocument) bool {
	return !f.TestAccount || d.Host != "" && x.accessRow(f.Workspace, d.Host) != 0
}

// flowStore is saved tests, and what their runs sign in with.
type flowStore struct{ money }
