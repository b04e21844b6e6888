package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
)

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

// check returns what prevents a run of a flow, in the documented order. An unconfirmed signup does
// not prevent it if approving its payment confirms the signup.
func (c *StartRun) check(x *runner, t *machine.Turn, w *workspace, row uint32) (
	ChargeKind, engine.Outcome,
) {
	f := x.flows.Read(row)
	cents, credits := x.policy.Price(ParseAgent(c.Agent))
	if c.FlowVersion != f.Version || c.Cents != cents || c.Credits != credits {
		return 0, engine.OutcomeQuoteChanged
	}
	d := x.document(row)
	reason := x.unready(f, &d, c.Agent != "")
	kind, paid := x.choose(t, w, ParseAgent(c.Agent))
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

// RequestRun saves a usability request that waits for its setup: no agent, no charge. Repeating it
// with the same id succeeds and changes nothing.
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
		t.Answer(&RetryReply{ResetsAt: DayEnd(t.Stamp), Limit: maxRequestsPerDay})
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
