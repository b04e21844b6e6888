package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
)

// RemoveWorkspace removes a workspace that nobody has claimed: for an operator. Of one that is
// claimed it is OutcomeWorkspaceClaimed.
type RemoveWorkspace struct {
	Workspace uint32 `wire:"1"`
}

func (c *RemoveWorkspace) apply(x *people, t *machine.Turn) engine.Outcome {
	w, ok := x.workspace(c.Workspace)
	if !ok {
		return engine.OutcomeRecordUnknown
	}
	if w.claimed() {
		return engine.OutcomeWorkspaceClaimed
	}
	x.remove(t, c.Workspace)
	return engine.OutcomeDone
}
