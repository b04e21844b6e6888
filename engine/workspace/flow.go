package workspace

import (
	"tollgate/engine"
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

func (c *SaveFlow) apply(t *turn) engine.Outcome {
	if row := t.flowRow(c.Workspace, c.ID); c.Document.VerificationURL == "" && t.scheduled(row) {
		return engine.OutcomeFlowOptions
	}
	return c.save(t)
}

func (c *SaveFlow) save(t *turn) engine.Outcome {
	w, ok := t.workspace(c.Workspace)
	if !ok {
		return engine.OutcomeRecordUnknown
	}
	text := wire.Encode(nil, &c.Document)
	row := t.flowRow(c.Workspace, c.ID)
	if row != 0 && string(t.flowTexts.Read(row).Bytes) == string(text) {
		return engine.OutcomeDone
	}
	if (row != 0) != c.Replace {
		return engine.OutcomeRecordUnknown
	}
	if row != 0 && t.flows.Read(row).Open != 0 {
		return engine.OutcomeFlowBusy
	}
	if row == 0 && t.flowTaken(c.ID) {
		return engine.OutcomeIDsContradict
	}
	more, full := len(text)+flowRowBytes, engine.OutcomeNone
	if row != 0 {
		more = len(text) - len(t.flowTexts.Read(row).Bytes)
		full = t.room(c.Workspace, more)
	} else {
		full = t.anotherFlow(c.Workspace, more)
	}
	if full != engine.OutcomeDone {
		return full
	}

	if row != 0 {
		t.rooms.hold(c.Workspace, more)
	}
	switch {
	case row == 0:
		t.rooms.add(c.Workspace, more)
		row = t.addFlow(c, &w)
	case t.renamed(row, c.Document):
	default:
		t.changeFlow(c, row)
	}
	f := t.flows.Write(row)
	f.ChangedAt = t.Stamp
	f.describe(&c.Document)
	t.flowTexts.Write(row).Bytes = text
	t.Fold(uint64(row)<<32 | uint64(f.Version))
	return engine.OutcomeDone
}

func (t *turn) addFlow(c *SaveFlow, w *workspace) uint32 {
	row, f := t.flows.Append()
	t.flowTexts.Append()
	*f = flow{
		ID: c.ID, Workspace: c.Workspace, Before: w.Flows, CreatedAt: t.Stamp, WatchAt: t.Stamp,
		Version: 1,
	}
	t.flowBy.Insert(t.idHash(&f.ID), row)
	t.workspaces.Write(c.Workspace).Flows = row
	t.rooms.of[c.Workspace].flows++
	return row
}

// renamed reports whether a document differs from a flow's in its name only: what was found,
// confirmed and shown of the flow still holds.
func (t *turn) renamed(row uint32, d FlowDocument) bool {
	before := t.document(row)
	d.Name = before.Name
	return d == before
}

// changeFlow makes ready for another document, a new version: a changed setup restarts a passing
// watch, and what its owner confirmed was for the product that it named.
func (t *turn) changeFlow(c *SaveFlow, row uint32) {
	before, f := t.document(row), t.flows.Write(row)
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
func (s *state) flowTaken(id [16]byte) bool {
	is := func(row uint32) bool { return s.flows.Read(row).ID == id }
	return s.flowBy.Find(s.idHash(&id), is) != 0
}

// ArchiveFlow takes a flow out of lists for good, and forgets its document, its alerts and its
// schedule; its runs stay.
type ArchiveFlow struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
}

func (c *ArchiveFlow) apply(t *turn) engine.Outcome {
	row := t.flowRow(c.Workspace, c.ID)
	if row == 0 {
		return engine.OutcomeRecordUnknown
	}
	if t.flows.Read(row).Open != 0 {
		return engine.OutcomeFlowBusy
	}
	t.flows.Write(row).ArchivedAt = t.Stamp
	t.forgetAlert(row)
	t.schedule(row, 0)
	text := t.flowTexts.Write(row)
	t.rooms.hold(c.Workspace, -len(text.Bytes))
	text.Bytes = nil
	t.Fold(uint64(row))
	return engine.OutcomeDone
}

// ConfirmSignup reports whether an agent may sign up at a flow's product: for a person.
type ConfirmSignup struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
}

func (c *ConfirmSignup) apply(t *turn) engine.Outcome {
	row := t.flowRow(c.Workspace, c.ID)
	if row == 0 {
		return engine.OutcomeRecordUnknown
	}
	t.flows.Write(row).SignupConfirmed = true
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

func (c *NotePreflight) apply(t *turn) engine.Outcome {
	row := t.flowRow(c.Workspace, c.ID)
	if row == 0 {
		return engine.OutcomeRecordUnknown
	}
	if t.flows.Read(row).Version != c.Version {
		return engine.OutcomeQuoteChanged
	}
	f := t.flows.Write(row)
	f.Preflight, f.NoKey, f.WrongKey = c.Version, c.NoKey, c.WrongKey
	f.AlreadyTrue, f.PreflightAt = c.AlreadyTrue, t.Stamp
	t.Fold(uint64(row))
	if f.Schedule != 0 && t.schedules.Read(f.Schedule).Asked {
		t.try(f.Schedule, false)
	}
	return engine.OutcomeDone
}

// flowRow finds a flow of a workspace that is not archived; 0 when there is none.
func (s *state) flowRow(workspace uint32, id [16]byte) uint32 {
	row := s.anyFlow(workspace, id)
	if row == 0 || s.flows.Read(row).ArchivedAt != 0 {
		return 0
	}
	return row
}

// anyFlow finds a flow of a workspace, archived or not; 0 when there is none.
func (s *state) anyFlow(workspace uint32, id [16]byte) uint32 {
	row := s.flowBy.Find(s.idHash(&id), func(row uint32) bool { return s.flows.Read(row).ID == id })
	if row == 0 || s.flows.Read(row).Workspace != workspace {
		return 0
	}
	return row
}

// document decodes a flow's document.
func (s *state) document(row uint32) (d FlowDocument) {
	decodeBlob(s.flowTexts.Read(row).Bytes, &d)
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
func (s *state) unready(f *flow, d *FlowDocument, agent bool) Unready {
	switch {
	case !agent:
		return UnreadyNoAgent
	case !f.Verified:
		return UnreadyVerificationMissing
	case f.WithCredential && (f.Preflight != f.Version || !f.NoKey.shut() || !f.WrongKey.shut()):
		return UnreadyVerificationOpen
	case !s.enters(f, d):
		return UnreadyTestAccessMissing
	case f.WithCredential && !f.SignupConfirmed:
		return UnreadySignupNotConfirmed
	}
	return UnreadyNot
}
