package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
)

// RemoveWorkspace removes an unclaimed workspace. It is for an operator. For a claimed one it is
// OutcomeWorkspaceClaimed.
type RemoveWorkspace struct {
	Workspace uint32 `wire:"1"`
}

func (c *RemoveWorkspace) apply(x *people, t *machine.Turn, row uint32) engine.Outcome {
	w := *x.workspaces.Read(row)
	if w.claimed() {
		return engine.OutcomeWorkspaceClaimed
	}
	x.remove(t, c.Workspace)
	return engine.OutcomeDone
}
