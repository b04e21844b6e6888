package workspace

import (
	"strconv"

	"tollgate/engine"
	"tollgate/engine/machine"
)

// skipOf is the reason by which a start is refused.
func skipOf(o engine.Outcome) Skip {
	switch o {
	case engine.OutcomeDone:
		return SkipNot
	case engine.OutcomeFlowBusy:
		return SkipBusy
	case engine.OutcomeRunLimit:
		return SkipRunLimit
	case engine.OutcomeWorkspaceFull:
		return SkipFull
	case engine.OutcomeCreditsShort:
		return SkipCreditsShort
	case engine.OutcomeFreeCapacity:
		return SkipFreeCapacity
	case engine.OutcomeRunnerBusy:
		return SkipRunnerBusy
	}
	return SkipPayment
}

// SetAgents brings the configured agents into the log, the default one first: by them this machine
// knows who runs a flow whose instant has come. All of them are replaced.
type SetAgents struct {
	Agents []string `wire:"1"`
} // "name kind version"; MaxAgentsBytes in all

// MaxAgentsBytes bounds the agents that are configured, with 8 bytes for each.
const MaxAgentsBytes = 32 << 10

func (c *SetAgents) apply(x *runner, t *machine.Turn) engine.Outcome {
	size := 0
	for _, agent := range c.Agents {
		size += len(agent) + 8
	}
	if size > MaxAgentsBytes {
		return engine.OutcomeTooLarge
	}
	x.offered = append([]string(nil), c.Agents...)
	t.Fold(uint64(len(c.Agents)))
	return engine.OutcomeDone
}

// agentFor is the agent that runs a flow; empty when none is configured.
func (x *runner) agentFor(name string) string {
	for _, agent := range x.offered {
		if name == "" || ParseAgent(agent).Name == name {
			return agent
		}
	}
	return ""
}

// ScheduleFlow lets a flow's runs begin by themselves, from now on every so many hours; 0 ends
// that. With Save it saves the flow before, as SaveFlow does: both, or nothing. It is for a person.
// The same hours again change no instant. A flow that no agent can run now is
// OutcomeScheduleUnavailable, with an UnreadyReply.
type ScheduleFlow struct {
	Workspace  uint32   `wire:"1"`
	Flow       [16]byte `wire:"2"`
	EveryHours uint32   `wire:"3"`
	Save       bool     `wire:"4"`
	// Replace and Document are as those of SaveFlow.
	Replace  bool         `wire:"5"`
	Document FlowDocument `wire:"6"`
}

func (c *ScheduleFlow) apply(x *runner, t *machine.Turn) engine.Outcome {
	w, ok := x.workspace(c.Workspace)
	row := x.flowRow(c.Workspace, c.Flow)
	switch {
	case !ok || row == 0 && !c.Save:
		return engine.OutcomeRecordUnknown
	case !w.claimed():
		return engine.OutcomePersonRequired
	}
	if refused := c.possible(x, t, row); refused != engine.OutcomeDone {
		return refused
	}
	if c.Save {
		save := &SaveFlow{
			Workspace: c.Workspace, ID: c.Flow, Replace: c.Replace, Document: c.Document,
		}
		if refused := save.save(&x.flowStore, t); refused != engine.OutcomeDone {
			return refused
		}
		row = x.flowRow(c.Workspace, c.Flow)
	}
	x.schedule(t, row, c.EveryHours)
	return engine.OutcomeDone
}

// possible reports whether the flow, as it will be, can have the schedule; row 0 is a new flow.
func (c *ScheduleFlow) possible(x *runner, t *machine.Turn, row uint32) engine.Outcome {
	if c.EveryHours == 0 {
		return engine.OutcomeDone
	}
	f, d := flow{Workspace: c.Workspace, flowFacts: flowFacts{Version: 1}}, c.Document
	if row != 0 {
		before := x.document(row)
		if f = *x.flows.Read(row); !c.Save {
			d = before
		} else if d != before && !x.renamed(row, d) {
			f.restart(&before, &d)
		}
	}
	f.describe(&d)
	reason := x.unready(&f, &d, x.agentFor(d.Agent) != "")
	switch {
	case c.EveryHours > MaxScheduleHours || !f.Verified:
		return engine.OutcomeFlowOptions
	case reason != UnreadyNot:
		t.Answer(&UnreadyReply{Reason: reason})
		return engine.OutcomeScheduleUnavailable
	case x.scheduled(row):
		return engine.OutcomeDone
	case x.rooms.of[c.Workspace].schedules >= MaxSchedules:
		return engine.OutcomeScheduleLimit
	}
	return x.room(t, c.Workspace, scheduleRowBytes)
}

// schedule gives a flow its schedule, or takes it away.
func (x *runner) schedule(t *machine.Turn, flow, hours uint32) {
	f := x.flows.Read(flow)
	at := f.Schedule
	if at == 0 {
		if hours == 0 {
			return
		}
		at, _ = x.schedules.Append()
		*x.schedules.Write(at) = schedule{Workspace: f.Workspace, Flow: flow}
		x.flows.Write(flow).Schedule = at
		x.rooms.hold(f.Workspace, scheduleRowBytes)
	}
	s := x.schedules.Write(at)
	if s.EveryHours == hours {
		return
	}
	room := &x.rooms.of[s.Workspace]
	if s.EveryHours != 0 {
		room.schedules--
	}
	*s = schedule{Workspace: s.Workspace, Flow: flow, EveryHours: hours}
	if hours != 0 {
		room.schedules++
		s.At = t.Stamp + s.every()
		s.Due = s.At
		x.due.add(s.Due, dueSchedule, at)
	}
	x.asking.note(at, false)
	t.Fold(uint64(at)<<32 | uint64(hours))
}

// scheduleDue is what happens at a schedule's Due: an instant has come, or the one that is being
// carried out has waited long enough. Of instants that have passed while nothing ran at all, the
// newest alone is carried out.
func (x *runner) scheduleDue(t *machine.Turn, row uint32) {
	s := x.schedules.Write(row)
	fresh := t.Stamp >= s.At
	if fresh {
		s.Trying = s.At + (t.Stamp-s.At)/s.every()*s.every()
		s.At = s.Trying + s.every()
	}
	x.try(t, row, fresh)
}

// try starts the run of a schedule's instant, where it can begin now. mayWait means that the run
// may wait until it is known what the flow's verification answers.
func (x *runner) try(t *machine.Turn, row uint32, mayWait bool) {
	s := x.schedules.Write(row)
	w, f, v := *x.workspaces.Read(s.Workspace), x.flows.Read(s.Flow), x.flowView(s.Flow)
	w.Ledger.roll(t.Stamp)
	agent := x.agentFor(v.Agent)
	kind, skip := x.between(t, &w, f, &v.FlowDocument, agent)
	t.Reply = nil // a refused start has replied, and no request waits for it
	asked := mayWait && v.PreflightAged(t.Stamp) &&
		(skip == SkipNot || skip == Skip(UnreadyVerificationOpen))
	switch {
	case asked:
		s.Due = min(t.Stamp+preflightWaitMS, s.At)
	case skip == SkipNot:
		r := run{
			ID:        derivedID(f.ID, labelScheduled, uint64(s.Trying), t.Stamp),
			Workspace: s.Workspace, Flow: s.Flow, FlowVersion: f.Version, Kind: RunHosted,
			Agent: x.agent(agent), CreatedAt: t.Stamp, Scheduled: s.Trying,
		}
		x.begin(t, &w, r, kind, [16]byte{}, [16]byte{})
		s.Trying, s.Told, s.Due = 0, 0, s.At
	case skip == SkipRunnerBusy:
		x.noteSkip(t, s, skip)
		s.Due = min(t.Stamp+scheduleAgainMS, s.At)
	default:
		x.noteSkip(t, s, skip)
		s.Trying, s.Due = 0, s.At
	}
	s.Asked = asked
	x.asking.note(row, asked)
	x.due.add(s.Due, dueSchedule, row)
	t.Fold(uint64(row)<<32 | uint64(skip))
}

// between returns what prevents a scheduled run of a flow. It never asks for a purchase.
func (x *runner) between(t *machine.Turn, w *workspace, f *flow, d *FlowDocument, agent string) (
	ChargeKind, Skip,
) {
	if reason := x.unready(f, d, agent != ""); reason != UnreadyNot {
		return 0, Skip(reason)
	}
	kind, paid := x.choose(t, w, ParseAgent(agent))
	return kind, skipOf(x.admits(t, w, f, paid))
}

// noteSkip tells a workspace why an instant brought no run: each reason once until one did.
func (x *runner) noteSkip(t *machine.Turn, s *schedule, skip Skip) {
	if s.Told>>skip&1 != 0 {
		return
	}
	s.Told |= 1 << skip
	w := x.workspaces.Write(s.Workspace)
	x.notify(t, w, notice{
		kind: NoticeScheduleSkipped, workspace: s.Workspace, flow: s.Flow, skip: skip,
	})
}

// scheduleValues are what owners change of a flow's schedule, for the record of an act; flow 0 has
// none.
func (x *runner) scheduleValues(flow uint32) ActChange {
	value := ActChange{Name: "scheduleEveryHours"}
	if x.scheduled(flow) {
		hours := x.schedules.Read(x.flows.Read(flow).Schedule).EveryHours
		value.After = strconv.FormatUint(uint64(hours), 10)
	}
	return value
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

func (c *NotePreflight) apply(x *runner, t *machine.Turn, row uint32) engine.Outcome {
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

// ArchiveFlow takes a flow out of lists for good, and forgets its document, its alerts and its
// schedule; its runs stay.
type ArchiveFlow struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
}

func (c *ArchiveFlow) apply(x *runner, t *machine.Turn, row uint32) engine.Outcome {
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
