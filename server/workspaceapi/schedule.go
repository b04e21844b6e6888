package workspaceapi

import (
	"context"
	"slices"
	"time"

	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/leader"
)

// wantedSchedule is what a flow's body says of its schedule.
type wantedSchedule struct {
	// given reports whether it is to be set, or taken away where hours is 0.
	given bool
	hours uint32
}

// schedule reads when a flow's runs are to begin by themselves: its owner decides that. Null takes
// away what is there, and is nothing if there is none.
func (b *body) schedule(x *server.Exchange, scheduled bool) (w wantedSchedule) {
	switch {
	case b.taken("schedule"):
		w.given = scheduled
	case b.given("schedule"):
		w.given = true
	}
	if w.given && !person(x) {
		b.fail(no("person_required"))
		return w
	}
	inner := b.inner("schedule")
	if inner == nil {
		return w
	}
	w.hours = uint32(inner.number("everyHours", 1, workspace.MaxScheduleHours))
	if refused := inner.close(); refused != nil {
		b.fail(refused)
	}
	return w
}

// saveFlow saves a flow, and its schedule with it: both, or nothing.
func (f *Flows) saveFlow(x *server.Exchange, c *workspace.SaveFlow, changed bool, w wantedSchedule,
) *server.Fault {
	if !w.given {
		return f.do(x, workspace.KindSaveFlow, c)
	}
	return f.actAsOwner(x, c.Workspace, workspace.KindScheduleFlow, &workspace.ScheduleFlow{
		Workspace: c.Workspace, Flow: c.ID, EveryHours: w.hours, Save: changed, Replace: c.Replace,
		Document: c.Document,
	})
}

// scheduleBody states the schedule in a flow's body.
func scheduleBody() *server.Schema {
	return server.OrNull(server.Object(
		server.Must("everyHours", server.IntSchema(1, workspace.MaxScheduleHours))))
}

// How the leader helps schedules: how often it looks, how many products it asks at a time, and how
// many flows it looks at in a round.
const (
	scheduleEvery = 200 * time.Millisecond
	scheduleSlots = 8
	scheduleBatch = 100
	// scheduleAgain is the pause before a product is asked again whose answer was not noted.
	scheduleAgain = 5 * time.Second
)

// KeepSchedules does for schedules what the state machine may not, while this node leads and until
// ctx ends: it says which agents are configured, and asks products what a flow's verification
// answers before its run begins. When a run begins is the machine's alone, so a leader that comes
// later begins none a second time.
func (f *Flows) KeepSchedules(ctx context.Context, leads func() (uint64, bool)) {
	after, slots := uint32(0), leader.Slots(scheduleSlots)
	loop := leader.Loop[uint32, *workspace.WantedPreflight]{
		Leads: leads, Every: scheduleEvery,
		Take: func(*workspace.WantedPreflight) (func(), bool) { return slots.Take() },
		Due: func(_ func(uint32) bool, offer func(uint32, *workspace.WantedPreflight)) {
			f.offerAgents()
			var wanted []workspace.WantedPreflight
			if f.verifier != nil { // else runs begin with what is known
				wanted, after = f.machine.WantedPreflights(after, scheduleBatch)
			}
			for i := range wanted {
				offer(wanted[i].Schedule, &wanted[i])
			}
		},
		Do: func(_ context.Context, _ uint32, w *workspace.WantedPreflight, _ int) (time.Duration,
			bool,
		) {
			f.preflight(w.Workspace, &w.Flow)
			return scheduleAgain, false
		},
	}
	loop.Run(ctx)
}

// offerAgents brings the configured agents into the log where it knows others.
func (f *Flows) offerAgents() {
	c := &workspace.SetAgents{Agents: make([]string, 0, len(f.agents))}
	for _, agent := range f.agents {
		c.Agents = append(c.Agents, agent.String())
	}
	if slices.Equal(c.Agents, f.machine.Agents()) {
		return
	}
	r := f.propose(0, workspace.KindSetAgents, c)
	f.log.Info("agents for schedules proposed", "agents", len(c.Agents), "outcome", r.Outcome)
}

// unverified is the refusal of a schedule for a flow that nothing verifies.
func unverified() *server.Fault {
	return badField("invalid_flow_options", "schedule").
		Saying("A flow whose runs begin by a schedule needs a verification. Nothing was changed.")
}
