package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
	"tollgate/engine/wire"
)

// Bounds of what an inspection or an assessment keeps.
const (
	// MaxDocumentBytes is the most that a document takes, as it is kept: compressed.
	MaxDocumentBytes = 1 << 20
	// MaxPartBytes is the most that one command carries of it, so that entries stay small.
	MaxPartBytes = 32 << 10
	// MaxInspectionsPerDay is per workspace and UTC day, assessments included.
	MaxInspectionsPerDay = 100
	// A document has at most MaxFindings findings; a name in one has at most maxFindingName bytes,
	// a quote MaxQuoteBytes, the host MaxHostBytes.
	MaxFindings    = 20
	maxFindingName = 64
	MaxQuoteBytes  = 300
	MaxHostBytes   = 261 // 255 and a port
	// uploadMS is how long the next part of a document may take.
	uploadMS = 60_000
	// inspectionRowBytes is what a row takes, its part of the indexes included.
	inspectionRowBytes = 200
)

// Finding is what one rule says: what later inspections of the same host are compared with.
type Finding struct {
	// Field is where it stands in the document, Verdict and Rule are what it says.
	Field   string `wire:"1"`
	Verdict string `wire:"2"`
	Rule    string `wire:"3"`
	// Quote is from what it rests on.
	Quote string `wire:"4"`
}

// findings are those of one document.
type findings struct {
	All []Finding `wire:"1"`
}

// inspection is what was read of a host: its document is the blob of the same row.
type inspection struct {
	// Run is the row of its run.
	Run       uint32 `wire:"1"`
	Workspace uint32 `wire:"2"`
	// Before is the workspace's inspection of this host before this one, whatever came of it;
	// Previous is the one that it was compared with.
	Before   uint32 `wire:"3"`
	Previous uint32 `wire:"4"`
	// Size is how long the document is; 0 once it was dropped.
	Size uint32  `wire:"5"`
	Kind RunKind `wire:"6"`
	Host string  `wire:"7"`
	// Findings are encoded.
	Findings []byte `wire:"8"`
}

// bytes is what the row and its document take, or will take.
func (i *inspection) bytes() int {
	return inspectionRowBytes + len(i.Host) + len(i.Findings) + int(i.Size)
}

func (i *inspection) found() (f findings) {
	decodeBlob(i.Findings, &f)
	return f
}

// hostKey names what inspections of one host in one workspace are found by.
type hostKey struct {
	workspace uint32
	host      string
}

// SaveInspection saves what an inspection, or an assessment, came to: the run, and its document or
// the first part of it. Where that is all of it the run is completed, and its credits are spent;
// else they are reserved, and AddInspectionPart brings the rest. Order of refusals: the flow is
// unknown · the key was used for another request (for this one: Done, the same run) · the day's
// inspections · credits · the workspace is full. The reply is a RunReply; of refusals a RetryReply,
// a CreditsReply or a FullReply. The same ID again is the same success again.
type SaveInspection struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
	Kind      RunKind  `wire:"3"` // RunInspection or RunAssessment
	// Key and Body are hashes as StartRun has them; the zero key is none.
	Key  [16]byte `wire:"4"`
	Body [16]byte `wire:"5"`
	// Flow is the saved test that it is about; zero is none.
	Flow [16]byte `wire:"6"`
	// Host is whose earlier inspections it is compared with.
	Host     string    `wire:"7"`
	Findings []Finding `wire:"8"`
	// BeganAt is when the first fetch began, by the server's clock.
	BeganAt int64 `wire:"9"`
	// Size is how long the whole document is, Part its first bytes.
	Size uint32 `wire:"10"`
	Part []byte `wire:"11"`
}

func (c *SaveInspection) bounds(w *wire.Codec) {
	if w.Decoding() && c.Kind != RunInspection && c.Kind != RunAssessment {
		w.Fail("an inspection does not save a run of kind %d", c.Kind)
	}
}

// fits reports whether the command is within the bounds.
func (c *SaveInspection) fits() bool {
	ok := len(c.Part) > 0 && len(c.Part) <= MaxPartBytes && c.Size >= uint32(len(c.Part)) &&
		c.Size <= MaxDocumentBytes && len(c.Host) <= MaxHostBytes && len(c.Findings) <= MaxFindings
	for i := range c.Findings {
		f := &c.Findings[i]
		ok = ok && len(f.Field) <= maxFindingName && len(f.Verdict) <= maxFindingName &&
			len(f.Rule) <= maxFindingName && len(f.Quote) <= MaxQuoteBytes
	}
	return ok
}

func (c *SaveInspection) apply(x *runner, t *machine.Turn) engine.Outcome {
	w, ok := x.workspace(c.Workspace)
	if !ok {
		return engine.OutcomeRecordUnknown
	}
	flowRow := uint32(0)
	if c.Flow != ([16]byte{}) {
		if flowRow = x.flowRow(c.Workspace, c.Flow); flowRow == 0 {
			return engine.OutcomeRecordUnknown
		}
	}
	if made, outcome := x.replay(c.Key, c.Body); outcome != engine.OutcomeNone {
		t.Answer(&RunReply{ID: made, Repeated: true})
		return outcome
	}
	if x.runRow(c.Workspace, c.ID) != 0 {
		t.Answer(&RunReply{ID: c.ID, Repeated: true})
		return engine.OutcomeDone
	}
	if !c.fits() {
		return engine.OutcomeTooLarge
	}
	w.Ledger.roll(t.Stamp)
	i := inspection{
		Workspace: c.Workspace, Size: c.Size, Kind: c.Kind, Host: c.Host,
		Findings: wire.Encode(nil, &findings{c.Findings}),
	}
	if o := x.inspectable(t, &w, c.Kind, runRowBytes+i.bytes()); o != engine.OutcomeDone {
		return o
	}

	began := min(max(c.BeganAt, t.Stamp-hourMS), t.Stamp)
	r := run{
		ID: c.ID, Workspace: c.Workspace, Flow: flowRow, Kind: c.Kind, Status: RunRunning,
		Credits: x.inspectionPrice(c.Kind), CreatedAt: began, StartedAt: began, Due: t.Stamp + uploadMS,
	}
	if flowRow != 0 {
		r.FlowVersion = x.flows.Read(flowRow).Version
	}
	w.Ledger.Inspected++
	if r.Credits > 0 {
		r.ChargeState = ChargeReserved
		x.moveCredits(t, &w, &r, transactionReserve)
	}
	i.Run = x.addRun(t, &w, r, RunText{})
	x.due.add(r.Due, dueRun, i.Run)
	row := x.addInspection(t, i, c.Part)
	x.keepRequest(t, c.Key, c.Body, madeRun, i.Run)
	*x.workspaces.Write(c.Workspace) = w
	if len(c.Part) == int(c.Size) {
		x.completeInspection(t, row)
	}
	t.Answer(&RunReply{ID: c.ID})
	return engine.OutcomeDone
}

// addInspection appends an inspection and what there is of its document.
func (x *runner) addInspection(t *machine.Turn, i inspection, part []byte) uint32 {
	row, next := x.inspections.Append()
	_, blob := x.documents.Append()
	if i.Kind == RunInspection {
		key := hostKey{i.Workspace, i.Host}
		i.Before = x.inspectedBy[key]
		x.inspectedBy[key] = row
	}
	*next = i
	blob.Set(append([]byte(nil), part...))
	x.rooms.hold(i.Workspace, i.bytes())
	x.inspectionBy[i.Run] = row
	t.Fold(uint64(row))
	return row
}

// inspectable reports whether a workspace, whose ledger has been rolled, may save an inspection of
// so many bytes; 0 bytes ask before the size is known. It changes nothing.
func (x *runner) inspectable(t *machine.Turn, w *workspace, kind RunKind, bytes int) engine.Outcome {
	l, price := &w.Ledger, uint64(x.inspectionPrice(kind))
	switch {
	case l.Inspected >= MaxInspectionsPerDay:
		t.Answer(&RetryReply{ResetsAt: nextDay(t.Stamp), Limit: MaxInspectionsPerDay})
		return engine.OutcomeRunLimit
	case price > l.CreditsLeft:
		t.Answer(&CreditsReply{Required: price, Balance: l.CreditsLeft})
		return engine.OutcomeCreditsShort
	case x.requests.Full():
		return engine.OutcomeKeysFull
	}
	return x.another(t, x.workspaceRow(w.ID), bytes)
}

func (x *runner) inspectionPrice(kind RunKind) uint32 {
	if kind == RunAssessment {
		return x.policy.CreditsEvaluation
	}
	return x.policy.CreditsInspection
}

// neverWhole reports whether a run is an inspection's, or an assessment's, that has failed: it was
// given back, and whoever sends the request again means another one.
func (x *tables) neverWhole(row uint32) bool {
	r := x.runs.Read(row)
	return x.inspectionBy[row] != 0 && r.Status.Final() && r.Status != RunCompleted
}

// Inspectable reports whether a workspace could save an inspection, or an assessment, now: what
// SaveInspection would refuse is refused before anything is fetched. The reply is as there.
func (m *Machine) Inspectable(workspace uint32, kind RunKind, now int64) engine.Result {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	w, ok := s.workspace(workspace)
	if !ok {
		return engine.Result{Outcome: engine.OutcomeRecordUnknown}
	}
	t := machine.Turn{Stamp: max(now, s.log.Stamp())}
	w.Ledger.roll(t.Stamp)
	outcome := s.inspectable(&t, &w, kind, inspectionRowBytes)
	return engine.Result{Outcome: outcome, Value: t.Reply}
}

// AddInspectionPart brings the next part of a document; with the last one the run is completed. A
// part that is there already is the same success again.
type AddInspectionPart struct {
	Run [16]byte `wire:"1"`
	// From is how many bytes of the document stand before Part.
	From uint32 `wire:"2"`
	Part []byte `wire:"3"`
}

func (c *AddInspectionPart) apply(x *runner, t *machine.Turn) engine.Outcome {
	runRow := x.runOf(c.Run)
	row := x.inspectionBy[runRow]
	if row == 0 {
		return engine.OutcomeRecordUnknown
	}
	size := x.inspections.Read(row).Size
	have := x.documents.Read(row).Bytes()
	to := uint64(c.From) + uint64(len(c.Part))
	switch {
	case size > 0 && to <= uint64(len(have)):
		return engine.OutcomeDone
	case x.runs.Read(runRow).Status != RunRunning:
		return engine.OutcomeFenced
	case int(c.From) != len(have) || len(c.Part) == 0 || to > uint64(size):
		return engine.OutcomeIDsContradict
	case len(c.Part) > MaxPartBytes:
		return engine.OutcomeTooLarge
	}

	whole := make([]byte, 0, to)
	x.documents.Write(row).Set(append(append(whole, have...), c.Part...))
	r := x.runs.Write(runRow)
	r.Due = t.Stamp + uploadMS
	x.due.add(r.Due, dueRun, runRow)
	t.Fold(to)
	if to == uint64(size) {
		x.completeInspection(t, row)
	}
	return engine.OutcomeDone
}

// maxBefore bounds the walk over a host's inspections that were never whole.
const maxBefore = 100

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

// Change is a rule that says something else than at the time before.
type Change struct{ Before, After Finding }

// changesOf are the fields whose verdict is another one, in the order of the newer document.
func changesOf(before, after []Finding) (changes []Change) {
	for _, now := range after {
		for _, then := range before {
			if then.Field == now.Field && then.Verdict != now.Verdict {
				changes = append(changes, Change{then, now})
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

// InspectionView is what an inspection, or an assessment, came to.
type InspectionView struct {
	Kind RunKind
	// Document is whole, as it was brought; it must not be changed.
	Document []byte
	// Previous is the run that it was compared with, zero is none; Changes are what differs.
	Previous [16]byte
	Changes  []Change
}

// Inspection finds the document of a run of a workspace that is completed.
func (m *Machine) Inspection(workspace uint32, run [16]byte) (v InspectionView, ok bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	runRow := s.runRow(workspace, run)
	row := s.inspectionBy[runRow]
	if row == 0 || s.runs.Read(runRow).Status != RunCompleted {
		return v, false
	}
	i := s.inspections.Read(row)
	v = InspectionView{Kind: i.Kind, Document: s.documents.Read(row).Bytes()}
	if i.Previous != 0 {
		previous := s.inspections.Read(i.Previous)
		v.Previous = s.runs.Row(previous.Run).ID
		v.Changes = changesOf(previous.found().All, i.found().All)
	}
	return v, true
}

// consistentInspections reports whether inspections name rows that are there, and are no longer
// than what they announced.
func (x *runner) consistentInspections() bool {
	if x.documents.Len() != x.inspections.Len() {
		return false
	}
	for row := uint32(1); row <= x.inspections.Len(); row++ {
		i := x.inspections.Read(row)
		if i.Before >= row || i.Previous >= row || !x.owned(i.Workspace) || i.Run == 0 ||
			i.Run > x.runs.Len() || x.runs.Read(i.Run).Kind != i.Kind ||
			len(x.documents.Read(row).Bytes()) > int(i.Size) ||
			wire.Decode(i.Findings, &findings{}) != nil {
			return false
		}
	}
	return true
}

// indexInspections rebuilds their indexes, after a restore.
func (x *runner) indexInspections() {
	for row := uint32(1); row <= x.inspections.Len(); row++ {
		i := x.inspections.Read(row)
		if x.rooms.of[i.Workspace].gone {
			continue
		}
		x.inspectionBy[i.Run] = row
		if i.Kind == RunInspection {
			x.inspectedBy[hostKey{i.Workspace, i.Host}] = row
		}
	}
}

// countInspections counts what they take into the rooms of their workspaces.
func (x *spaces) countInspections(r *rooms) {
	for row := uint32(1); row <= x.inspections.Len(); row++ {
		i := x.inspections.Read(row)
		r.hold(i.Workspace, i.bytes())
	}
}
