package workspace

import (
	"slices"
	"strings"

	"tollgate/engine"
	"tollgate/engine/machine"
)

// Flow finds a flow of a workspace that is not archived.
func (m *Machine) Flow(workspace uint32, id [16]byte) (FlowView, bool) {
	s := m.read()
	defer s.mu.RUnlock()
	return shown(s.flowRow(workspace, id), s.flowView)
}

// Flows lists a workspace's flows; more reports whether there are others behind them.
func (m *Machine) Flows(workspace uint32, p Page) (views []FlowView, more bool) {
	s := m.read()
	defer s.mu.RUnlock()
	w, _ := s.workspace(workspace)
	flows := chainOf(&s.flows, workspace, w.Flows, s.flowView)
	flows.hidden = func(row uint32) bool { return s.flows.Read(row).ArchivedAt != 0 }
	return list(&p, flows)
}

// RunView is one run.
//
//schema:answer workspaceapi Run
type RunView struct {
	ID      [16]byte   `json:"id" id:"markRun"`
	Kind    RunKind    `json:"kind"`
	Flow    [16]byte   `json:"flowId" rule:"null" id:"markFlow"` // zero is none
	Status  RunStatus  `json:"status"`
	Outcome RunOutcome `json:"outcome" rule:"null" as:"text"`
	RunText
	Agent     Agent `json:"agent" in:"after=step" rule:"null" ref:"Agent"` // the zero Agent is none
	RunCharge `json:"charge" in:"after=agent" ref:"Charge"`
	// Scheduled is the instant of its flow's schedule that has begun it; 0 is none.
	Scheduled   int64 `json:"scheduled,omitzero" as:"flag"`
	CreatedAt   int64 `json:"createdAt" as:"time"`
	StartedAt   int64 `json:"startedAt" rule:"null" as:"time"`
	FinishedAt  int64 `json:"finishedAt" rule:"null" as:"time"`
	FlowVersion uint32
	Token       uint32
	Workspace   uint32
}

// Waits reports whether the run waits for a person.
func (v *RunView) Waits() bool { return v.Status == RunWaiting }

// RunCharge is what pays for a run.
//
//schema:answer workspaceapi Charge
type RunCharge struct {
	Charge      ChargeKind  `json:"kind"`
	ChargeState ChargeState `json:"state" rule:"null" as:"text"`
	Cents       uint32      `json:"cents"`
	Credits     uint32      `json:"credits"`
}

func (x *runner) runView(row uint32) RunView {
	r := x.runs.Read(row)
	v := RunView{
		RunText: x.runs.Text(row), ID: r.ID, FlowVersion: r.FlowVersion,
		Agent: ParseAgent(x.agentName(r.Agent)),
		Kind:  r.Kind, Status: r.Status, Outcome: r.Outcome, Token: r.Token,
		RunCharge: RunCharge{r.Charge, r.ChargeState, r.Cents, r.Credits},
		CreatedAt: r.CreatedAt, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
		Workspace: r.Workspace, Scheduled: r.Scheduled,
	}
	if r.Flow != 0 {
		v.Flow = x.flows.Read(r.Flow).ID
	}
	return v
}

// Run finds a run of a workspace.
func (m *Machine) Run(workspace uint32, id [16]byte) (RunView, bool) {
	s := m.read()
	defer s.mu.RUnlock()
	return shown(s.runRow(workspace, id), s.runView)
}

// Runs lists a workspace's runs; more reports whether there are others behind them.
func (m *Machine) Runs(workspace uint32, p Page) (views []RunView, more bool) {
	s := m.read()
	defer s.mu.RUnlock()
	w, _ := s.workspace(workspace)
	return list(&p, chain[RunView]{
		newest: w.Runs,
		before: func(row uint32) uint32 { return s.runs.Row(row).Before },
		find:   func(id [16]byte) uint32 { return s.runRow(workspace, id) },
		view:   s.runView,
	})
}

// Job is all that a worker needs of a run that it claimed: false when the token is not the
// newest any more.
func (m *Machine) Job(id [16]byte, token uint32) (r RunView, f FlowView, ok bool) {
	s := m.read()
	defer s.mu.RUnlock()
	row := s.runOf(id)
	if !s.holds(row, token) {
		return r, f, false
	}
	return s.runView(row), s.flowView(s.runs.Read(row).Flow), true
}

// Holds reports whether a worker still has the run that it claimed, as far as this node has
// applied.
func (m *Machine) Holds(id [16]byte, token uint32) bool {
	s := m.read()
	defer s.mu.RUnlock()
	return s.holds(s.runOf(id), token)
}

func (x *runner) holds(row, token uint32) bool {
	if row == 0 {
		return false
	}
	r := x.runs.Read(row)
	return r.Token == token && r.Status == RunRunning
}

// Load is how many runs wait for a worker, and how many have one.
func (m *Machine) Load() (queued, running uint32) {
	s := m.read()
	defer s.mu.RUnlock()
	return s.queued, s.running
}

// Agents are the configured agents, as SetAgents has brought them.
func (m *Machine) Agents() []string {
	s := m.read()
	defer s.mu.RUnlock()
	return append([]string(nil), s.offered...)
}

// WantedPreflight is a flow whose instant has come, and whose run begins once it is known what its
// verification answers.
type WantedPreflight struct {
	Schedule, Workspace uint32
	Flow                FlowView
}

// WantedPreflights returns those after schedule after; 0 starts at the first. It returns at most
// limit; next is where to continue, 0 at the end.
func (m *Machine) WantedPreflights(after uint32, limit int) (all []WantedPreflight, next uint32) {
	s := m.read()
	defer s.mu.RUnlock()
	for _, row := range s.asking.behind(after) {
		if len(all) == limit {
			return all, all[limit-1].Schedule
		}
		of := s.schedules.Read(row)
		all = append(all, WantedPreflight{row, of.Workspace, s.flowView(of.Flow)})
	}
	return all, 0
}

// TestAccesses are the hosts for which a workspace has stored test credentials, by name.
func (m *Machine) TestAccesses(workspace uint32) (views []AccessView) {
	s := m.read()
	defer s.mu.RUnlock()
	if !s.owned(workspace) {
		return nil
	}
	for _, row := range s.accesses(workspace) {
		views = append(views, s.access.Read(row).AccessView)
	}
	slices.SortFunc(views, func(a, b AccessView) int { return strings.Compare(a.Host, b.Host) })
	return views
}

// TestAccess is what a workspace's runs sign in with at a host, sealed; nil when nothing is stored.
func (m *Machine) TestAccess(workspace uint32, host string) []byte {
	s := m.read()
	defer s.mu.RUnlock()
	row := s.accessRow(workspace, host)
	if row == 0 || host == "" {
		return nil
	}
	return slices.Clone(s.access.Read(row).Sealed)
}

// InspectionView is what an inspection, or an assessment, came to.
//
//schema:answer workspaceapi Comparison
type InspectionView struct {
	Kind RunKind
	// Document is whole, as it was brought; it must not be changed.
	Document []byte
	// Previous is the run that it was compared with, zero is none; Changes are what differs.
	Previous [16]byte `json:"previousRunId" id:"markRun"`
	Changes  []Change `json:"changes"`
}

// Inspection finds the document of a run of a workspace that is completed.
func (m *Machine) Inspection(workspace uint32, run [16]byte) (v InspectionView, ok bool) {
	s := m.read()
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

// Inspectable reports whether a workspace could save an inspection, or an assessment, now: what
// SaveInspection would refuse is refused before anything is fetched. The reply is as there.
func (m *Machine) Inspectable(workspace uint32, kind RunKind, now int64) engine.Result {
	s := m.read()
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
