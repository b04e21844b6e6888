package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
	"tollgate/engine/wire"
)

// MaxFlows is how many flows a workspace saves, archived ones included.
const MaxFlows = 10_000

// FlowDocument is what a flow says. The server has validated it.
type FlowDocument struct {
	Name            string `wire:"1"`
	URL             string `wire:"2"`
	Task            string `wire:"3"`
	SuccessCriteria string `wire:"4"`
	// Access is public or test_account.
	Access string `wire:"5"`
	// VerificationURL is empty where a flow has no verification.
	VerificationURL      string `wire:"6"`
	VerificationStatus   uint32 `wire:"7"`
	VerificationContains string `wire:"8"`
	// Credential is empty, bearer, token or x-api-key.
	Credential string `wire:"9"`
	// Agent is the name of a configured agent; empty is the default one.
	Agent string `wire:"10"`
	// Host is where a run signs in with test credentials: that of URL, where Access is
	// test_account. Servers that know of no test credentials leave it empty.
	Host string `wire:"11"`
}

// Called is what a verification call without, or with a wrong key came to.
type Called uint8

// What it came to.
const (
	CalledUnknown  Called = 0 // not made, or no answer that says anything
	CalledRefused  Called = 1
	CalledAccepted Called = 2
	// CalledUnclear: another answer than the right one, which counts as a refusal only where the
	// real key gets the right one.
	CalledUnclear Called = 3
)

// shut reports whether who was answered so did not get in.
func (c Called) shut() bool { return c == CalledRefused || c == CalledUnclear }

// WatchState is whether a flow passes.
type WatchState uint8

// The states of a watch.
const (
	WatchUnknown WatchState = 0 // never passed under its current setup
	WatchPassing WatchState = 1
	WatchFailing WatchState = 2
)

// String is the state's name in the API.
func (s WatchState) String() string { return [...]string{"unknown", "passing", "failing"}[s] }

// flow is a saved test. Its document is a blob of the same row.
type flow struct {
	ID         [16]byte `wire:"1"`
	Workspace  uint32   `wire:"2"`
	Before     uint32   `wire:"3"`
	Version    uint32   `wire:"4"`
	CreatedAt  int64    `wire:"5"`
	ChangedAt  int64    `wire:"6"`
	ArchivedAt int64    `wire:"7"`
	// Open is the run that has not finished; 0 is none.
	Open uint32 `wire:"8"`
	// Issues is the flow's newest issue.
	Issues uint32 `wire:"9"`
	// SignupConfirmed: its owner said that an agent may sign up there.
	SignupConfirmed bool `wire:"10"`
	// What was found when the quote was read, of the version Preflight.
	Preflight   uint32     `wire:"11"`
	NoKey       Called     `wire:"12"`
	WrongKey    Called     `wire:"13"`
	AlreadyTrue bool       `wire:"14"`
	PreflightAt int64      `wire:"15"`
	Watch       WatchState `wire:"16"`
	// Misses are runs in a row that were carried through and did not pass.
	Misses  uint8 `wire:"17"`
	WatchAt int64 `wire:"18"`
	// What the engine needs of the document.
	Verified       bool `wire:"19"`
	WithCredential bool `wire:"20"`
	TestAccount    bool `wire:"21"`
	// Alert is what its owner wants to hear of its watch; 0 is nothing that was ever set.
	Alert uint32 `wire:"130"`
	// Schedule is when its runs begin by themselves; 0 is one that never did.
	Schedule uint32 `wire:"141"`
	// base is the text that those of its runs are packed behind. It is not state.
	base place
}

// SaveFlow creates a flow, or replaces the document of one: a new version, unless nothing but the
// name is another. The same document again is the same success again.
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
	if row == 0 && x.flowTaken(c.ID) {
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
		ID: c.ID, Workspace: c.Workspace, Before: w.Flows, CreatedAt: t.Stamp, WatchAt: t.Stamp,
		Version: 1,
	}
	x.flowBy.Insert(x.idHash(&f.ID), row)
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

// restart makes a new version of another document.
func (f *flow) restart(before, d *FlowDocument) {
	f.Version++
	if before.URL != d.URL || before.VerificationURL != d.VerificationURL ||
		before.Credential != d.Credential {
		f.SignupConfirmed = false
	}
}

// describe keeps what this machine needs of the document.
func (f *flow) describe(d *FlowDocument) {
	f.Verified, f.WithCredential = d.VerificationURL != "", d.Credential != ""
	f.TestAccount = d.Access == "test_account"
}

// flowTaken reports whether some workspace has a flow of this id, archived or not.
func (x *flowStore) flowTaken(id [16]byte) bool {
	is := func(row uint32) bool { return x.flows.Read(row).ID == id }
	return x.flowBy.Find(x.idHash(&id), is) != 0
}

// ArchiveFlow takes a flow out of lists for good, and forgets its document, its alerts and its
// schedule; its runs stay.
type ArchiveFlow struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
}

func (c *ArchiveFlow) apply(x *runner, t *machine.Turn) engine.Outcome {
	row := x.flowRow(c.Workspace, c.ID)
	if row == 0 {
		return engine.OutcomeRecordUnknown
	}
	if x.flows.Read(row).Open != 0 {
		return engine.OutcomeFlowBusy
	}
	x.flows.Write(row).ArchivedAt = t.Stamp
	x.forgetAlert(t, row)
	x.schedule(t, row, 0)
	text := x.flowTexts.Write(row)
	x.rooms.hold(c.Workspace, -len(text.Bytes))
	text.Bytes = nil
	t.Fold(uint64(row))
	return engine.OutcomeDone
}

// ConfirmSignup reports whether an agent may sign up at a flow's product: for a person.
type ConfirmSignup struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
}

func (c *ConfirmSignup) apply(x *flowStore, t *machine.Turn) engine.Outcome {
	row := x.flowRow(c.Workspace, c.ID)
	if row == 0 {
		return engine.OutcomeRecordUnknown
	}
	x.flows.Write(row).SignupConfirmed = true
	t.Fold(uint64(row))
	return engine.OutcomeDone
}

// NotePreflight keeps what the verification answered when a quote was read. Of another version
// than the present one it changes nothing.
type NotePreflight struct {
	Workspace   uint32   `wire:"1"`
	ID          [16]byte `wire:"2"`
	Version     uint32   `wire:"3"`
	NoKey       Called   `wire:"4"`
	WrongKey    Called   `wire:"5"`
	AlreadyTrue bool     `wire:"6"`
}

func (c *NotePreflight) apply(x *runner, t *machine.Turn) engine.Outcome {
	row := x.flowRow(c.Workspace, c.ID)
	if row == 0 {
		return engine.OutcomeRecordUnknown
	}
	if x.flows.Read(row).Version != c.Version {
		return engine.OutcomeQuoteChanged
	}
	f := x.flows.Write(row)
	f.Preflight, f.NoKey, f.WrongKey = c.Version, c.NoKey, c.WrongKey
	f.AlreadyTrue, f.PreflightAt = c.AlreadyTrue, t.Stamp
	t.Fold(uint64(row))
	if f.Schedule != 0 && x.schedules.Read(f.Schedule).Asked {
		x.try(t, f.Schedule, false)
	}
	return engine.OutcomeDone
}

// flowRow finds a flow of a workspace that is not archived; 0 when there is none.
func (x *tables) flowRow(workspace uint32, id [16]byte) uint32 {
	row := x.anyFlow(workspace, id)
	if row == 0 || x.flows.Read(row).ArchivedAt != 0 {
		return 0
	}
	return row
}

// anyFlow finds a flow of a workspace, archived or not; 0 when there is none.
func (x *tables) anyFlow(workspace uint32, id [16]byte) uint32 {
	row := x.flowBy.Find(x.idHash(&id), func(row uint32) bool { return x.flows.Read(row).ID == id })
	if row == 0 || x.flows.Read(row).Workspace != workspace {
		return 0
	}
	return row
}

// document decodes a flow's document.
func (x *tables) document(row uint32) (d FlowDocument) {
	decodeBlob(x.flowTexts.Read(row).Bytes, &d)
	return d
}

// decodeBlob reads what this machine has encoded itself, or checked at restore.
func decodeBlob(b []byte, v wire.Fielder) {
	if err := wire.Decode(b, v); err != nil {
		panic("workspace: a blob of the state does not decode: " + err.Error())
	}
}

// Unready says why no agent can run a flow.
type Unready uint8

// The reasons, in the order in which they are looked at.
const (
	UnreadyNot                 Unready = 0
	UnreadyNoAgent             Unready = 1
	UnreadyVerificationMissing Unready = 2
	UnreadyVerificationOpen    Unready = 3
	UnreadySignupNotConfirmed  Unready = 4
	UnreadyTestAccessMissing   Unready = 5
)

// String is the reason's name in the API; empty for UnreadyNot.
func (u Unready) String() string {
	return [...]string{
		"", "no_agent", "verification_missing", "verification_open", "signup_not_confirmed",
		"test_access_missing",
	}[u]
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
