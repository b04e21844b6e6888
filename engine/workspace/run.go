package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
	"tollgate/engine/wire"
)

// RunKind is what a run is of.
type RunKind uint8

// The kinds of runs.
const (
	RunHosted     RunKind = 1
	RunInspection RunKind = 2
	RunAssessment RunKind = 3
	RunRequest    RunKind = 4
	RunLocal      RunKind = 5
)

// String is the kind's name in the API.
func (k RunKind) String() string {
	return [...]string{"", "hosted", "inspection", "assessment", "request", "local"}[k]
}

// RunStatus is how far a run has come.
type RunStatus uint8

// The statuses.
const (
	RunQueued    RunStatus = 1
	RunRunning   RunStatus = 2
	RunWaiting   RunStatus = 3 // for a person
	RunCompleted RunStatus = 4
	RunFailed    RunStatus = 5
	RunCancelled RunStatus = 6
)

// String is the status's name in the API.
func (s RunStatus) String() string {
	return [...]string{
		"", "queued", "running", "waiting_for_human", "completed", "failed", "cancelled",
	}[s]
}

// Final reports whether nothing more happens to the run.
func (s RunStatus) Final() bool { return s >= RunCompleted }

// RunOutcome is what a finished run says about the product.
type RunOutcome uint8

// The outcomes.
const (
	OutcomeOpen         RunOutcome = 0
	OutcomePassed       RunOutcome = 1
	OutcomeBlocked      RunOutcome = 2
	OutcomeInconclusive RunOutcome = 3
)

// String is the outcome's name in the API; empty while there is none.
func (o RunOutcome) String() string {
	return [...]string{"", "passed", "blocked", "inconclusive"}[o]
}

// Reason codes of runs that the service could not carry through.
const (
	CodeWorkerLost   = "worker_lost"
	CodeWallTimeout  = "wall_timeout"
	CodeQueueTimeout = "queue_timeout"
	CodeHumanTimeout = "human_timeout"
	CodeHumanLimit   = "human_limit"
)

// MaxWaits is how often one run may wait for a person.
const MaxWaits = 5

// run is one run. What it has to say is a blob of the same row.
type run struct {
	ID          [16]byte `wire:"1"`
	Workspace   uint32   `wire:"2"`
	Before      uint32   `wire:"3"`
	Flow        uint32   `wire:"4"`
	FlowVersion uint32   `wire:"5"`
	// Next is the run behind it in the queue.
	Next uint32 `wire:"6"`
	// Agent numbers the agent's name, kind and version.
	Agent uint32 `wire:"7"`
	// Token counts the workers that had the run; writes of an earlier one are refused.
	Token       uint32      `wire:"8"`
	Kind        RunKind     `wire:"9"`
	Status      RunStatus   `wire:"10"`
	Outcome     RunOutcome  `wire:"11"`
	Charge      ChargeKind  `wire:"12"`
	ChargeState ChargeState `wire:"13"`
	Credits     uint32      `wire:"14"`
	Cents       uint32      `wire:"15"`
	CreatedAt   int64       `wire:"16"`
	StartedAt   int64       `wire:"17"`
	FinishedAt  int64       `wire:"18"`
	// Due is when the run ends by itself: queue, lease, wall or person's limit. WallEnd is when its
	// worker's time is over.
	Due     int64 `wire:"19"`
	WallEnd int64 `wire:"20"`
	// Scheduled is the instant of its flow's schedule that has begun it; 0 is none.
	Scheduled int64 `wire:"21"`
}

// What a run's texts hold at most; longer ones are cut by the server before they are proposed.
const (
	MaxRunEvents     = 50
	MaxEventBytes    = 300
	MaxReasonBytes   = 600
	MaxCheckpoint    = 8 << 10
	MaxAnswer        = 4 << 10 // sealed
	MaxQuestionBytes = 1200
	MaxCalls         = 8
)

// RunText is what a run has to say.
type RunText struct {
	Code   string `wire:"1"`
	Reason string `wire:"2"`
	Step   string `wire:"3"`
	// Proof is run or standing, of a run that passed.
	Proof     string     `wire:"4"`
	Calls     []Call     `wire:"5"`
	Events    []RunEvent `wire:"6"`
	Question  string     `wire:"7"`
	Worker    string     `wire:"8"`
	DecidedAt int64      `wire:"9"`
	// Checkpoint is what an agent goes on from; it holds no credential and goes when the run ends.
	Checkpoint []byte `wire:"10"`
	// Answer is a person's, sealed, until a worker goes on with the run.
	Answer []byte `wire:"11"`
	// Of a run that has waited for a person: WallLeft is what is left of the time that a run may
	// have workers, in milliseconds, Steps and Tokens are what its agent has used so far.
	WallLeft int64  `wire:"12"`
	Steps    uint32 `wire:"13"`
	Tokens   uint32 `wire:"14"`
}

// Call is one call of a verification.
type Call struct {
	// Case is none, wrong, real, or plain.
	Case    string `wire:"1"`
	Status  uint32 `wire:"2"`
	Refused bool   `wire:"3"`
	Matched bool   `wire:"4"`
	// Note says what else was seen: a caching header, a redirect, no answer.
	Note string `wire:"5"`
}

// RunEvent is one thing that an agent said it did.
type RunEvent struct {
	At   int64  `wire:"1"`
	Text string `wire:"2"`
}

// StartRun checks, reserves and queues a hosted run in one command. Order of refusals: the flow is
// unknown · the key was used for another request (for this one: Done, the same run) · the quote
// has changed · no agent can run it · the flow is busy · the day's runs · the workspace is full ·
// credits and payment · the day's free runs · the queue. Only a run that was started uses up the
// key. The reply is a RunReply; of refusals an UnreadyReply, a RetryReply, a FullReply or a
// CreditsReply.
type StartRun struct {
	Workspace uint32   `wire:"1"`
	Flow      [16]byte `wire:"2"`
	ID        [16]byte `wire:"3"`
	// Key and Body are hashes: of workspace, route and Idempotency-Key, and of the input.
	Key  [16]byte `wire:"4"`
	Body [16]byte `wire:"5"`
	// What was quoted.
	FlowVersion uint32 `wire:"6"`
	Cents       uint32 `wire:"7"`
	Credits     uint32 `wire:"8"`
	// Agent is "name kind version" of the agent that is to run it; empty when there is none.
	Agent string `wire:"9"`
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

func (c *StartRun) apply(x *runner, t *machine.Turn) engine.Outcome {
	w, ok := x.workspace(c.Workspace)
	flowRow := x.flowRow(c.Workspace, c.Flow)
	if !ok || flowRow == 0 {
		return engine.OutcomeRecordUnknown
	}
	if made, outcome := x.replay(c.Key, c.Body); outcome != engine.OutcomeNone {
		t.Answer(&RunReply{ID: made, Repeated: true})
		return outcome
	}
	f := x.flows.Read(flowRow)
	w.Ledger.roll(t.Stamp)
	kind, outcome := c.check(x, t, &w, flowRow)
	if outcome != engine.OutcomeDone {
		return outcome
	}
	if x.runRow(c.Workspace, c.ID) != 0 {
		return engine.OutcomeIDsContradict
	}

	r := run{
		ID: c.ID, Workspace: c.Workspace, Flow: flowRow, FlowVersion: f.Version, Kind: RunHosted,
		Agent: x.agent(c.Agent), CreatedAt: t.Stamp,
	}
	x.begin(t, &w, r, kind, c.Key, c.Body)
	t.Answer(&RunReply{ID: c.ID})
	return engine.OutcomeDone
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

// check is what stands between a flow and a run of it, in the documented order. A signup that was
// not confirmed lets the start go on to its payment where approving that confirms it.
func (c *StartRun) check(x *runner, t *machine.Turn, w *workspace, row uint32) (ChargeKind, engine.Outcome) {
	f := x.flows.Read(row)
	if cents, credits := x.policy.Price(c.Agent); c.FlowVersion != f.Version || c.Cents != cents ||
		c.Credits != credits {
		return 0, engine.OutcomeQuoteChanged
	}
	d := x.document(row)
	reason := x.unready(f, &d, c.Agent != "")
	kind, paid := x.choose(t, w, c.Agent)
	if reason == UnreadySignupNotConfirmed && paid == engine.OutcomePaymentRequired &&
		x.confirms(w, row) {
		reason = UnreadyNot
	}
	if reason != UnreadyNot {
		t.Answer(&UnreadyReply{Reason: reason})
		return 0, engine.OutcomeExecutionUnavailable
	}
	if refused := x.admits(t, w, f, paid); refused != engine.OutcomeDone {
		return 0, refused
	}
	if x.requests.Full() {
		return 0, engine.OutcomeKeysFull
	}
	return kind, engine.OutcomeDone
}

// admits reports whether a run may begin of a flow that an agent can run; paid is what choose said.
func (x *runner) admits(t *machine.Turn, w *workspace, f *flow, paid engine.Outcome) engine.Outcome {
	switch {
	case f.Open != 0:
		return engine.OutcomeFlowBusy
	case w.Ledger.Started >= x.policy.RunsPerDay:
		t.Answer(&RetryReply{ResetsAt: nextDay(t.Stamp), Limit: x.policy.RunsPerDay})
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

// RequestRun saves a usability request that waits for its setup: no agent, no charge. The same id
// again is the same success again.
type RequestRun struct {
	Workspace uint32   `wire:"1"`
	Flow      [16]byte `wire:"2"`
	ID        [16]byte `wire:"3"`
}

// maxRequestsPerDay bounds the usability requests of a workspace in a UTC day.
const maxRequestsPerDay = 100

func (c *RequestRun) apply(x *runner, t *machine.Turn) engine.Outcome {
	w, ok := x.workspace(c.Workspace)
	flowRow := x.flowRow(c.Workspace, c.Flow)
	if !ok || flowRow == 0 {
		return engine.OutcomeRecordUnknown
	}
	if x.runRow(c.Workspace, c.ID) != 0 {
		return engine.OutcomeDone
	}
	w.Ledger.roll(t.Stamp)
	if w.Ledger.Requests >= maxRequestsPerDay {
		t.Answer(&RetryReply{ResetsAt: nextDay(t.Stamp), Limit: maxRequestsPerDay})
		return engine.OutcomeRunLimit
	}
	if full := x.another(t, c.Workspace, runRowBytes); full != engine.OutcomeDone {
		return full
	}

	w.Ledger.Requests++
	x.addRun(t, &w, run{
		ID: c.ID, Workspace: c.Workspace, Flow: flowRow, FlowVersion: x.flows.Read(flowRow).Version,
		Kind: RunRequest, Status: RunQueued, CreatedAt: t.Stamp,
	}, RunText{})
	*x.workspaces.Write(c.Workspace) = w
	return engine.OutcomeDone
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

func (x *runner) runText(row uint32) RunText { return x.runs.Text(row) }
