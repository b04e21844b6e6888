package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
)

// StartLocalRun counts a run that the older local tool reports. The same id again is the same
// success again. The reply of OutcomeRunLimit is a RetryReply.
type StartLocalRun struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
}

func (c *StartLocalRun) apply(x *runner, t *machine.Turn, row uint32) engine.Outcome {
	w := *x.workspaces.Read(row)
	if x.runRow(c.Workspace, c.ID) != 0 {
		return engine.OutcomeDone
	}
	w.Ledger.roll(t.Stamp)
	if w.Ledger.Local >= x.policy.LocalRunsPerDay {
		t.Answer(&RetryReply{ResetsAt: DayEnd(t.Stamp), Limit: x.policy.LocalRunsPerDay})
		return engine.OutcomeRunLimit
	}
	if full := x.another(t, c.Workspace, runRowBytes); full != engine.OutcomeDone {
		return full
	}

	w.Ledger.Local++
	x.addRun(t, &w, run{
		ID: c.ID, Workspace: c.Workspace, Kind: RunLocal, Status: RunRunning, CreatedAt: t.Stamp,
		StartedAt: t.Stamp,
	}, RunText{})
	*x.workspaces.Write(c.Workspace) = w
	return engine.OutcomeDone
}

// FinishLocalRun notes the result of a local run. The first report counts.
type FinishLocalRun struct {
	Workspace uint32     `wire:"1"`
	ID        [16]byte   `wire:"2"`
	Outcome   RunOutcome `wire:"3"`
}

func (c *FinishLocalRun) apply(x *runner, t *machine.Turn, row uint32) engine.Outcome {
	if r := x.runs.Read(row); r.Kind != RunLocal {
		return engine.OutcomeWrongRunType
	} else if r.Status.Final() {
		return engine.OutcomeDone
	}
	r := x.runs.Write(row)
	r.Status, r.Outcome, r.FinishedAt = RunCompleted, c.Outcome, t.Stamp
	x.runs.End(row)
	t.Fold(uint64(row))
	return engine.OutcomeDone
}
