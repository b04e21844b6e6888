package workspace

import (
	"cmp"

	"tollgate/engine"
	"tollgate/engine/machine"
	"tollgate/engine/wire"
)

// ClaimRun gives the run that has waited longest to a worker, under a lease. The token goes up with
// every worker: it fences what an earlier one still writes. The reply is a ClaimedRun.
type ClaimRun struct {
	Worker  string `wire:"1"` // ≤ 64 bytes
	LeaseMS int64  `wire:"2"`
}

// ClaimedRun is what a worker gets.
type ClaimedRun struct {
	Run   [16]byte `wire:"1"`
	Token uint32   `wire:"2"`
	// LeaseEnd and WallEnd are instants of log time.
	LeaseEnd int64 `wire:"3"`
	WallEnd  int64 `wire:"4"`
	// Answer is what a person answered, sealed; only the worker that goes on with the run gets it.
	Answer []byte `wire:"5"`
}

func (c *ClaimRun) apply(x *runner, t *machine.Turn) engine.Outcome {
	row := x.firstQueued
	for row != 0 && x.runs.Read(row).Status != RunQueued {
		row = x.runs.Read(row).Next
	}
	if row == 0 {
		return engine.OutcomeNothingQueued
	}

	x.dropFinished()
	x.dropFirst()
	r, text := x.runs.Write(row), x.runs.Text(row)
	r.Status, r.Next, r.Token = RunRunning, 0, r.Token+1
	r.WallEnd = t.Stamp + x.policy.WallMS
	if text.WallLeft > 0 {
		r.WallEnd = t.Stamp + text.WallLeft
	}
	r.Due = min(t.Stamp+c.LeaseMS, r.WallEnd)
	r.StartedAt = cmp.Or(r.StartedAt, t.Stamp)
	answer := text.Answer
	text.Worker, text.Answer = c.Worker, nil
	x.writeRunText(row, &text)
	x.due.add(r.Due, dueRun, row)
	x.queued, x.running = x.queued-1, x.running+1
	t.Answer(&ClaimedRun{
		Run: r.ID, Token: r.Token, LeaseEnd: r.Due, WallEnd: r.WallEnd, Answer: answer,
	})
	t.Fold(uint64(row))
	return engine.OutcomeDone
}

// ExtendLease is a worker's heartbeat, with what its agent did since the one before. The reply is a
// ClaimedRun.
type ExtendLease struct {
	Run     [16]byte   `wire:"1"`
	Token   uint32     `wire:"2"`
	LeaseMS int64      `wire:"3"`
	Step    string     `wire:"4"` // ≤ 80 characters; empty leaves it
	Events  []RunEvent `wire:"5"`
}

func (c *ExtendLease) apply(x *runner, t *machine.Turn) engine.Outcome {
	row, outcome := x.held(c.Run, c.Token)
	if outcome != engine.OutcomeDone {
		return outcome
	}
	r := x.runs.Write(row)
	r.Due = min(t.Stamp+c.LeaseMS, r.WallEnd)
	x.due.add(r.Due, dueRun, row)
	x.addEvents(row, c.Step, c.Events)
	t.Answer(&ClaimedRun{Run: r.ID, Token: r.Token, LeaseEnd: r.Due, WallEnd: r.WallEnd})
	t.Fold(uint64(row))
	return engine.OutcomeDone
}

// AwaitPerson frees the worker of a run that needs a person, and keeps what the agent goes on from,
// and what it has used: time, steps and tokens are the run's, and not anew each worker's. A run
// that has waited MaxWaits times ends.
type AwaitPerson struct {
	Run        [16]byte   `wire:"1"`
	Token      uint32     `wire:"2"`
	Question   string     `wire:"3"`
	Checkpoint []byte     `wire:"4"`
	Events     []RunEvent `wire:"5"`
	// Steps and Tokens are what the run's agent has used so far, with all workers together.
	Steps  uint32 `wire:"6"`
	Tokens uint32 `wire:"7"`
}

func (c *AwaitPerson) apply(x *runner, t *machine.Turn) engine.Outcome {
	row, outcome := x.held(c.Run, c.Token)
	if outcome != engine.OutcomeDone {
		return outcome
	}
	x.addEvents(row, "", c.Events)
	if x.runs.Read(row).Token > MaxWaits { // a worker for the start, and one behind each wait
		x.end(t, row, ending{
			status: RunFailed, outcome: OutcomeInconclusive, code: CodeHumanLimit,
			reason: "The agent asked for a person more often than a run may.",
		})
		return engine.OutcomeDone
	}
	r, text := x.runs.Write(row), x.runs.Text(row)
	text.Question, text.Checkpoint = c.Question, c.Checkpoint
	text.WallLeft, text.Steps, text.Tokens = max(1, r.WallEnd-t.Stamp), c.Steps, c.Tokens
	x.writeRunText(row, &text)
	x.leave(r)
	r.Status, r.WallEnd, r.Due = RunWaiting, 0, t.Stamp+x.policy.HumanMS
	x.due.add(r.Due, dueRun, row)
	w := *x.workspaces.Read(r.Workspace)
	x.notify(t, &w, notice{kind: NoticeHandoff, run: r, number: uint64(r.Token)})
	*x.workspaces.Write(r.Workspace) = w
	t.Fold(uint64(row))
	return engine.OutcomeDone
}

// ResumeRun lets a run that waits for a person go on: it waits for a worker again, at the price
// that was quoted. Agent is the configured agent as StartRun has it; another one than the run
// began with cannot go on.
type ResumeRun struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
	Agent     string   `wire:"3"`
	// Answer is what the person answered, sealed by the server: this machine cannot read it, and
	// forgets it when a worker goes on with the run. ≤ MaxAnswer bytes.
	Answer []byte `wire:"4"`
}

func (c *ResumeRun) bounds(w *wire.Codec) {
	if w.Decoding() && len(c.Answer) > MaxAnswer {
		w.Fail("an answer of %d bytes", len(c.Answer))
	}
}

func (c *ResumeRun) apply(x *runner, t *machine.Turn, row uint32) engine.Outcome {
	r := x.runs.Read(row)
	if r.Kind != RunHosted {
		return engine.OutcomeWrongRunType
	}
	d := x.document(r.Flow)
	switch {
	case r.Status != RunWaiting:
		return engine.OutcomeCannotResume
	case x.agentName(r.Agent) != c.Agent || x.flows.Read(r.Flow).Version != r.FlowVersion ||
		!x.enters(x.flows.Read(r.Flow), &d):
		return engine.OutcomeResumeUnavailable
	case x.queued >= x.policy.QueueLimit:
		return engine.OutcomeRunnerBusy
	}
	if len(c.Answer) > 0 {
		text := x.runs.Text(row)
		text.Answer = c.Answer
		x.writeRunText(row, &text)
	}
	x.enqueue(t, row)
	t.Fold(uint64(row))
	return engine.OutcomeDone
}

// CancelRun ends a hosted run, or a usability request, that has not finished, and returns its
// charge.
type CancelRun struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
	Kind      RunKind  `wire:"3"`
}

func (c *CancelRun) apply(x *runner, t *machine.Turn, row uint32) engine.Outcome {
	if x.runs.Read(row).Kind != c.Kind {
		return engine.OutcomeWrongRunType
	}
	if x.runs.Read(row).Status.Final() {
		return engine.OutcomeCannotCancel
	}
	x.end(t, row, ending{status: RunCancelled})
	return engine.OutcomeDone
}

// FinishRun is a worker's final report. A completed run was verified: passed and blocked runs are
// charged, inconclusive ones are not. A failed run could not be carried through. Repeating the
// command succeeds and changes nothing.
type FinishRun struct {
	Run     [16]byte   `wire:"1"`
	Token   uint32     `wire:"2"`
	Status  RunStatus  `wire:"3"` // RunCompleted or RunFailed
	Outcome RunOutcome `wire:"4"`
	// Code, Reason and Step say why and where it was blocked or failed.
	Code   string     `wire:"5"`
	Reason string     `wire:"6"`
	Step   string     `wire:"7"`
	Proof  string     `wire:"8"`
	Calls  []Call     `wire:"9"`
	Events []RunEvent `wire:"10"`
}

func (c *FinishRun) bounds(w *wire.Codec) {
	if w.Decoding() && c.Status != RunCompleted && c.Status != RunFailed {
		w.Fail("a run does not finish as %d", c.Status)
	}
	if w.Decoding() && (c.Outcome == OutcomeOpen || c.Outcome > OutcomeInconclusive ||
		c.Status == RunFailed && c.Outcome != OutcomeInconclusive) {
		w.Fail("a run does not come to %d", c.Outcome)
	}
}

func (c *FinishRun) apply(x *runner, t *machine.Turn) engine.Outcome {
	row, outcome := x.held(c.Run, c.Token)
	if outcome == engine.OutcomeFenced {
		r := x.runs.Read(x.runOf(c.Run))
		if r.Token == c.Token && r.Status == c.Status && r.Outcome == c.Outcome {
			return engine.OutcomeDone
		}
	}
	if outcome != engine.OutcomeDone {
		return outcome
	}
	x.addEvents(row, c.Step, c.Events)
	x.end(t, row, ending{
		status: c.Status, outcome: c.Outcome, code: c.Code, reason: c.Reason, proof: c.Proof,
		calls: c.Calls,
	})
	return engine.OutcomeDone
}
