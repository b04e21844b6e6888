package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
	"tollgate/engine/page"
	"tollgate/engine/wire"
)

// runner is runs, inspections and schedules.
type runner struct {
	flowStore
	// offered are the configured agents, "name kind version", the default one first.
	offered []string
	// firstQueued and lastQueued are the runs that wait for a worker, oldest first; queued is their
	// number, running that of runs with a worker.
	firstQueued, lastQueued uint32
	queued, running         uint32
	documents               *page.Table[page.SummedBlob] // row = inspection row
	inspectedBy             map[hostKey]uint32           // the newest
	// asking are the schedules whose runs begin once a preflight is noted; no state.
	asking waiting
}

func (x *runner) open() {
	x.money.open()
	x.documents = page.NewSummedBlobTable(x.store, tableDocuments)
	x.inspectedBy = map[hostKey]uint32{}
}

// begin reserves what pays for a run and queues it; w's ledger has been rolled. The key is that of
// the request that has made it; zero is none.
func (x *runner) begin(t *machine.Turn, w *workspace, r run, kind ChargeKind, key, body [16]byte) {
	w.Ledger.Started++
	x.reserve(t, w, &r, kind)
	row := x.addRun(t, w, r, RunText{})
	x.flows.Write(r.Flow).Open = row
	x.keepRequest(t, key, body, madeRun, row)
	*x.workspaces.Write(r.Workspace) = *w
	x.enqueue(t, row)
}

// admits reports whether a run may begin of a flow that an agent can run; paid is what choose said.
func (x *runner) admits(t *machine.Turn, w *workspace, f *flow, paid engine.Outcome,
) engine.Outcome {
	switch {
	case f.Open != 0:
		return engine.OutcomeFlowBusy
	case w.Ledger.Started >= x.policy.RunsPerDay:
		t.Answer(&RetryReply{ResetsAt: DayEnd(t.Stamp), Limit: x.policy.RunsPerDay})
		return engine.OutcomeRunLimit
	case x.room(t, f.Workspace, runRowBytes) != engine.OutcomeDone:
		return engine.OutcomeWorkspaceFull
	case paid != engine.OutcomeDone:
		return paid
	case x.queued >= x.policy.QueueLimit:
		return engine.OutcomeRunnerBusy
	}
	return engine.OutcomeDone
}

// addRun appends a run to its workspace's list.
func (x *runner) addRun(t *machine.Turn, w *workspace, r run, text RunText) uint32 {
	r.Before = w.Runs
	encoded := wire.Encode(nil, &text)
	row := x.runs.Append(&r, encoded)
	w.Runs = row
	x.rooms.add(r.Workspace, runRowBytes+len(encoded))
	t.Fold(uint64(row))
	return row
}

// runRow finds a run of a workspace; 0 when there is none.
func (x *runner) runRow(workspace uint32, id [16]byte) uint32 {
	row := x.runOf(id)
	if row == 0 || x.runs.Row(row).Workspace != workspace {
		return 0
	}
	return row
}

// runOf finds a run of any workspace; 0 when there is none.
func (x *runner) runOf(id [16]byte) uint32 {
	row := x.runs.Find(&id)
	if row == 0 || x.rooms.of[x.runs.Row(row).Workspace].gone {
		return 0
	}
	return row
}

// enqueue puts a run behind the others that wait for a worker.
func (x *runner) enqueue(t *machine.Turn, row uint32) {
	x.dropFinished()
	r := x.runs.Write(row)
	r.Status, r.Next, r.Due = RunQueued, 0, t.Stamp+x.policy.QueueMS
	x.due.add(r.Due, dueRun, row)
	if x.lastQueued == 0 {
		x.firstQueued = row
	} else {
		x.runs.Write(x.lastQueued).Next = row
	}
	x.lastQueued = row
	x.queued++
}

// dropFinished takes runs off the queue's front that ended while they waited. Those further back
// stay until they come to the front.
func (x *runner) dropFinished() {
	for x.firstQueued != 0 && x.runs.Read(x.firstQueued).Status != RunQueued {
		x.dropFirst()
	}
}

func (x *runner) dropFirst() {
	x.runs.End(x.firstQueued) // if it has not ended, nothing comes of it
	if x.firstQueued = x.runs.Read(x.firstQueued).Next; x.firstQueued == 0 {
		x.lastQueued = 0
	}
}

// leave counts a run out of the status that it has.
func (x *runner) leave(r *run) {
	switch r.Status {
	case RunQueued:
		if r.Kind == RunHosted {
			x.queued--
		}
	case RunRunning:
		if r.Kind == RunHosted {
			x.running--
		}
	}
}

type ending struct {
	status              RunStatus
	outcome             RunOutcome
	code, reason, proof string
	calls               []Call
}

// end is the one place where runs end: status, charge, flow, watch, issues and notifications.
func (x *runner) end(t *machine.Turn, row uint32, e ending) {
	r := x.runs.Write(row)
	if r.Status != RunQueued || r.Kind != RunHosted { // else dropFirst says when it leaves the queue
		x.runs.End(row)
	}
	x.leave(r)
	r.Status, r.Outcome, r.FinishedAt, r.Due, r.WallEnd = e.status, e.outcome, t.Stamp, 0, 0
	text := x.runs.Text(row)
	text.Code, text.Reason, text.Proof, text.Calls = e.code, e.reason, e.proof, e.calls
	text.Question, text.Checkpoint, text.Answer = "", nil, nil
	text.WallLeft, text.Steps, text.Tokens = 0, 0, 0
	if e.status == RunCompleted && r.Kind == RunHosted {
		text.DecidedAt = t.Stamp
	}
	x.writeRunText(row, &text)
	x.dropFinished()
	if r.Kind == RunHosted {
		w := *x.workspaces.Read(r.Workspace)
		w.Ledger.roll(t.Stamp)
		x.settle(t, &w, r, e.outcome == OutcomePassed || e.outcome == OutcomeBlocked)
		x.flows.Write(r.Flow).Open = 0
		if r.ChargeState == ChargeReturned {
			x.notify(t, &w, notice{kind: NoticeRunReturned, run: r})
		}
		if e.status == RunCompleted {
			x.judge(t, &w, r, &text)
		}
		*x.workspaces.Write(r.Workspace) = w
	}
	if inspected := x.inspectionBy[row]; inspected != 0 {
		x.settleInspection(t, inspected, r)
	}
	t.Fold(uint64(row)<<8 | uint64(r.ChargeState))
}

// runDue ends a run whose time is over.
func (x *runner) runDue(t *machine.Turn, row uint32) {
	e := ending{status: RunFailed, outcome: OutcomeInconclusive}
	switch r := x.runs.Read(row); r.Status {
	case RunQueued:
		e.code, e.reason = CodeQueueTimeout, "No worker was free in time."
	case RunWaiting:
		e.code, e.reason = CodeHumanTimeout, "Nobody helped in time."
	default:
		e.code, e.reason = CodeWorkerLost, "The worker that ran it was lost."
		if r.Due == r.WallEnd {
			e.code, e.reason = CodeWallTimeout, "It took too long."
		}
	}
	x.end(t, row, e)
}

// addEvents adds to what a run has to say; the newest MaxRunEvents events are kept.
func (x *runner) addEvents(row uint32, step string, events []RunEvent) {
	if step == "" && len(events) == 0 {
		return
	}
	text := x.runs.Text(row)
	if step != "" {
		text.Step = step
	}
	text.Events = append(text.Events, events...)
	text.Events = text.Events[max(0, len(text.Events)-MaxRunEvents):]
	x.writeRunText(row, &text)
}

// held finds the run that a worker holds with a token.
func (x *runner) held(id [16]byte, token uint32) (uint32, engine.Outcome) {
	row := x.runOf(id)
	if row == 0 {
		return 0, engine.OutcomeRecordUnknown
	}
	if r := x.runs.Read(row); r.Status != RunRunning || r.Token != token {
		return 0, engine.OutcomeFenced
	}
	return row, engine.OutcomeDone
}

// completeInspection ends the run of a document that is whole, and compares it with the newest one
// of its host before it.
func (x *runner) completeInspection(t *machine.Turn, row uint32) {
	i := x.inspections.Write(row)
	for before, n := i.Before, 0; before != 0 && i.Previous == 0 && n < maxBefore; n++ {
		b := x.inspections.Read(before)
		if x.runs.Read(b.Run).Status == RunCompleted {
			i.Previous = before
		}
		before = b.Before
	}
	x.end(t, i.Run, ending{status: RunCompleted})
}

// maxBefore bounds the walk over a host's inspections that were never whole.
const maxBefore = 100

// settleInspection follows the end of an inspection's run: its credits, its document where that was
// never whole, and a notification where rules say something else than at the time before.
func (x *runner) settleInspection(t *machine.Turn, row uint32, r *run) {
	i := x.inspections.Read(row)
	w := *x.workspaces.Read(r.Workspace)
	w.Ledger.roll(t.Stamp)
	commit := r.Status == RunCompleted
	if r.ChargeState == ChargeReserved {
		kind := transactionCommit
		if r.ChargeState = ChargeCommitted; !commit {
			r.ChargeState, kind = ChargeReturned, transactionRelease
		}
		x.moveCredits(t, &w, r, kind)
	}
	switch {
	case !commit:
		i = x.inspections.Write(row)
		x.rooms.hold(i.Workspace, -i.bytes())
		i.Size, i.Findings = 0, nil
		x.rooms.hold(i.Workspace, i.bytes())
		x.documents.Write(row).Set(nil)
	case i.Previous != 0:
		previous := x.inspections.Read(i.Previous)
		changes := changesOf(previous.found().All, i.found().All)
		if kind := judgeChanges(changes); kind != 0 {
			x.notify(t, &w, notice{kind: kind, run: r})
		}
	}
	*x.workspaces.Write(r.Workspace) = w
}

// forgetInspection drops what the inspection of a run has read, and that it was made.
func (x *runner) forgetInspection(runRow uint32) {
	row := x.inspectionBy[runRow]
	if row == 0 {
		return
	}
	i := x.inspections.Write(row)
	delete(x.inspectionBy, runRow)
	delete(x.inspectedBy, hostKey{i.Workspace, i.Host})
	x.rooms.hold(i.Workspace, -i.bytes())
	i.Size, i.Findings, i.Host = 0, nil, ""
	x.rooms.hold(i.Workspace, i.bytes())
	x.documents.Write(row).Set(nil)
}

// RunReply names the run that a request made, now or before.
type RunReply struct {
	ID       [16]byte `wire:"1"`
	Repeated bool     `wire:"2"`
}

// UnreadyReply is the reply of OutcomeExecutionUnavailable.
type UnreadyReply struct {
	Reason Unready `wire:"1"`
}

// Change is a rule that says something else than at the time before.
//
//schema:answer workspaceapi VerdictChange
type Change struct {
	Field  string  `json:"field" rule:"min=1"`
	Before Finding `json:"before"`
	After  Finding `json:"after"`
}

// changesOf are the fields whose verdict is another one, in the order of the newer document.
func changesOf(before, after []Finding) (changes []Change) {
	for _, now := range after {
		for _, then := range before {
			if then.Field == now.Field && then.Verdict != now.Verdict {
				changes = append(changes, Change{now.Field, then, now})
			}
		}
	}
	return changes
}

// ranks order the verdicts that say something; unknown, and what is not a verdict, says nothing.
var ranks = map[string]int{"no": 1, "partial": 2, "yes": 3}

// burdens are fields whose yes is the worse verdict: callers need what they needed not before.
var burdens = map[string]bool{"authentication.requirement": true}

// judgeChanges says what changes are notified as: a regression where any verdict is worse,
// recovered where some are better and none is worse, 0 where nothing can be said.
func judgeChanges(changes []Change) (kind NoticeKind) {
	for i := range changes {
		before, after := ranks[changes[i].Before.Verdict], ranks[changes[i].After.Verdict]
		if burdens[changes[i].After.Field] {
			before, after = after, before
		}
		switch {
		case before == 0 || after == 0:
		case after < before:
			return NoticeRegression
		default:
			kind = NoticeRecovered
		}
	}
	return kind
}

func (x *runner) inspectionPrice(kind RunKind) uint32 {
	if kind == RunAssessment {
		return x.policy.CreditsEvaluation
	}
	return x.policy.CreditsInspection
}
