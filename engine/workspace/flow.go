package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
	"tollgate/engine/wire"
)

// SaveFlow creates a flow, or replaces its document: a new version, unless only the name differs.
// Saving the same document again succeeds and changes nothing.
type SaveFlow struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
	// Replace reports whether the flow exists.
	Replace  bool         `wire:"3"`
	Document FlowDocument `wire:"4"`
}

func (c *SaveFlow) apply(x *flowStore, t *machine.Turn) engine.Outcome {
	if row := x.flowRow(c.Workspace, c.ID); c.Document.VerificationURL == "" && x.scheduled(row) {
		return engine.OutcomeFlowOptions
	}
	return c.save(x, t)
}

func (c *SaveFlow) save(x *flowStore, t *machine.Turn) engine.Outcome {
	w, ok := x.workspace(c.Workspace)
	if !ok {
		return engine.OutcomeRecordUnknown
	}
	text := wire.Encode(nil, &c.Document)
	row := x.flowRow(c.Workspace, c.ID)
	if row != 0 && string(x.flowTexts.Read(row).Bytes) == string(text) {
		return engine.OutcomeDone
	}
	if (row != 0) != c.Replace {
		return engine.OutcomeRecordUnknown
	}
	if row != 0 && x.flows.Read(row).Open != 0 {
		return engine.OutcomeFlowBusy
	}
	if row == 0 && x.flows.find(c.ID) != 0 { // of another workspace, or archived
		return engine.OutcomeIDsContradict
	}
	more, full := len(text)+flowRowBytes, engine.OutcomeNone
	if row != 0 {
		more = len(text) - len(x.flowTexts.Read(row).Bytes)
		full = x.room(t, c.Workspace, more)
	} else {
		full = x.anotherFlow(t, c.Workspace, more)
	}
	if full != engine.OutcomeDone {
		return full
	}

	if row != 0 {
		x.rooms.hold(c.Workspace, more)
	}
	switch {
	case row == 0:
		x.rooms.add(c.Workspace, more)
		row = x.addFlow(t, c, &w)
	case x.renamed(row, c.Document):
	default:
		x.changeFlow(t, c, row)
	}
	f := x.flows.Write(row)
	f.ChangedAt = t.Stamp
	f.describe(&c.Document)
	x.flowTexts.Write(row).Bytes = text
	t.Fold(uint64(row)<<32 | uint64(f.Version))
	return engine.OutcomeDone
}

func (x *flowStore) addFlow(t *machine.Turn, c *SaveFlow, w *workspace) uint32 {
	row, f := x.flows.Append()
	x.flowTexts.Append()
	*f = flow{
		ID: c.ID, Workspace: c.Workspace, Before: w.Flows,
		flowFacts: flowFacts{CreatedAt: t.Stamp, WatchAt: t.Stamp, Version: 1},
	}
	x.flows.index(row)
	x.workspaces.Write(c.Workspace).Flows = row
	x.rooms.of[c.Workspace].flows++
	return row
}

// renamed reports whether a document differs from a flow's in its name only: what was found,
// confirmed and shown of the flow still holds.
func (x *flowStore) renamed(row uint32, d FlowDocument) bool {
	before := x.document(row)
	d.Name = before.Name
	return d == before
}

// changeFlow makes ready for another document, a new version: a changed setup restarts a passing
// watch, and what its owner confirmed was for the product that it named.
func (x *flowStore) changeFlow(t *machine.Turn, c *SaveFlow, row uint32) {
	before, f := x.document(row), x.flows.Write(row)
	f.restart(&before, &c.Document)
	if f.Misses = 0; f.Watch == WatchPassing {
		f.Watch, f.WatchAt = WatchUnknown, t.Stamp
	}
}

// ConfirmSignup confirms that an agent may sign up at a flow's product. It is for a person.
type ConfirmSignup struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
}

func (c *ConfirmSignup) apply(x *flowStore, t *machine.Turn, row uint32) engine.Outcome {
	x.flows.Write(row).SignupConfirmed = true
	t.Fold(uint64(row))
	return engine.OutcomeDone
}

// unready says why no agent can run the flow. A signup that was not confirmed comes last: approving
// a purchase confirms it.
func (x *flowStore) unready(f *flow, d *FlowDocument, agent bool) Unready {
	switch {
	case !agent:
		return UnreadyNoAgent
	case !f.Verified:
		return UnreadyVerificationMissing
	case f.WithCredential && (f.Preflight != f.Version || !f.NoKey.shut() || !f.WrongKey.shut()):
		return UnreadyVerificationOpen
	case !x.enters(f, d):
		return UnreadyTestAccessMissing
	case f.WithCredential && !f.SignupConfirmed:
		return UnreadySignupNotConfirmed
	}
	return UnreadyNot
}

// FlowView is a saved test.
//
//schema:answer workspaceapi Flow
type FlowView struct {
	ID [16]byte `json:"id" id:"markFlow"`
	FlowDocument
	// EveryHours is the time between the runs that begin by themselves, 0 is none; NextRunAt is
	// when the next one does.
	EveryHours uint32 `json:"schedule.everyHours" in:"whole" rule:"min=1,max=168"`
	NextRunAt  int64  `json:"schedule.nextAt" as:"time"`
	flowFacts
	// Open is the run that has not finished; zero is none.
	Open [16]byte `json:"openRun" in:"after=signupConfirmed" rule:"null" id:"markRun"`
	// Preflighted reports whether what the preflight found belongs to this version; else it is left
	// out.
	Preflighted bool
	// Unready is why no agent can run it; UnreadyNot when there is an agent that can.
	Unready Unready
}

func (x *flowStore) flowView(row uint32) FlowView {
	f := x.flows.Read(row)
	v := FlowView{
		ID: f.ID, FlowDocument: x.document(row), flowFacts: f.flowFacts,
		Preflighted: f.Preflight == f.Version,
	}
	v.Unready = x.unready(f, &v.FlowDocument, true)
	if f.Schedule != 0 {
		of := x.schedules.Read(f.Schedule)
		v.EveryHours, v.NextRunAt = of.EveryHours, of.At
	}
	if !v.Preflighted {
		v.NoKey, v.WrongKey, v.AlreadyTrue, v.PreflightAt = CalledUnknown, CalledUnknown, false, 0
	}
	if f.Open != 0 {
		v.Open = x.runs.Row(f.Open).ID
	}
	return v
}

// PreflightAged reports whether a flow's verification must be called before the flow is quoted, or
// before a scheduled run of it begins: because it was never called in this version, or its answer
// is old, or the answer let a stranger in or was unclear and is not from a moment ago.
func (v *FlowView) PreflightAged(now int64) bool {
	life := int64(PreflightLifeMS)
	if !v.NoKey.shut() || v.Credential != "" && !v.WrongKey.shut() {
		life = PreflightDoubtMS
	}
	return v.VerificationURL != "" && (!v.Preflighted || now-v.PreflightAt >= life)
}

// scheduled reports whether a flow's runs begin by themselves; row 0 means no flow.
func (x *flowStore) scheduled(row uint32) bool {
	if row == 0 || x.flows.Read(row).Schedule == 0 {
		return false
	}
	return x.schedules.Read(x.flows.Read(row).Schedule).EveryHours != 0
}
