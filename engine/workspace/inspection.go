package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
	"tollgate/engine/wire"
)

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
func (x *runner) inspectable(t *machine.Turn, w *workspace, kind RunKind, bytes int,
) engine.Outcome {
	l, price := &w.Ledger, uint64(x.inspectionPrice(kind))
	switch {
	case l.Inspected >= MaxInspectionsPerDay:
		t.Answer(&RetryReply{ResetsAt: DayEnd(t.Stamp), Limit: MaxInspectionsPerDay})
		return engine.OutcomeRunLimit
	case price > l.CreditsLeft:
		t.Answer(&CreditsReply{Required: price, Balance: l.CreditsLeft})
		return engine.OutcomeCreditsShort
	case x.requests.Full():
		return engine.OutcomeKeysFull
	}
	return x.another(t, x.workspaces.find(w.ID), bytes)
}

// AddInspectionPart brings the next part of a document; the last part completes the run. Repeating
// a part succeeds and changes nothing.
type AddInspectionPart struct {
	Run [16]byte `wire:"1"`
	// From is how many bytes of the document come before Part.
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
