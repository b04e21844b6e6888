package workspace

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	state "tollgate/engine/workspace"
	"tollgate/server"
)

// wantedSchedule is what a flow's body says of its schedule.
type wantedSchedule struct {
	// given reports whether it is to be set, or taken away where hours is 0.
	given bool
	hours uint32
}

// schedule reads when a flow's runs are to begin by themselves: its owner decides that. Null takes
// away what is there, and is nothing where there is none.
func (b *body) schedule(x *server.Exchange, scheduled bool) (w wantedSchedule) {
	switch {
	case b.taken("schedule"):
		w.given = scheduled
	case b.given("schedule"):
		w.given = true
	}
	if w.given && !person(x) {
		r := no("person_required")
		b.fail(&r)
		return w
	}
	inner := b.inner("schedule")
	if inner == nil {
		return w
	}
	w.hours = uint32(inner.number("everyHours", 1, state.MaxScheduleHours))
	if refused := inner.close(); refused != nil {
		b.fail(refused)
	}
	return w
}

// saveFlow saves a flow, and its schedule with it: both, or nothing.
func (f *Flows) saveFlow(x *server.Exchange, c *state.SaveFlow, changed bool, w wantedSchedule,
) bool {
	if !w.given {
		_, ok := f.do(x, state.KindSaveFlow, c)
		return ok
	}
	_, ok := f.actAsOwner(x, c.Workspace, state.KindScheduleFlow, &state.ScheduleFlow{
		Workspace: c.Workspace, Flow: c.ID, EveryHours: w.hours, Save: changed, Replace: c.Replace,
		Document: c.Document,
	})
	return ok
}

func writeSchedule(j *server.JSON, v *state.FlowView) {
	if v.EveryHours == 0 {
		return
	}
	j.Object("schedule")
	j.Uint("everyHours", uint64(v.EveryHours))
	j.Time("nextAt", v.NextRunAt)
	j.Close('}')
}

// scheduleBody states the schedule in a flow's body, scheduleSchema that in a flow.
func scheduleBody() *server.Schema {
	return server.OrNull(server.Object(
		server.Must("everyHours", server.IntSchema(1, state.MaxScheduleHours))))
}

func scheduleSchema() *server.Schema {
	return server.Object(server.Must("everyHours", server.IntSchema(1, state.MaxScheduleHours)),
		server.Must("nextAt", server.TimeSchema))
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

// assistant does for schedules what the state machine may not: it says which agents are
// configured, and asks products what a flow's verification answers before its run begins. When a
// run begins is the machine's alone, so a leader that comes later begins none a second time.
type assistant struct {
	flows *Flows
	slots chan struct{}
	busy  sync.WaitGroup
	after uint32

	mu sync.Mutex
	// asking are the schedules whose flows are being asked about, or were a moment ago: until when
	// to let them be, zero while they are under way.
	asking map[uint32]time.Time
}

// KeepSchedules helps schedules while leads says so, until ctx ends, and returns once nothing is
// under way any more.
func (f *Flows) KeepSchedules(ctx context.Context, leads func() bool) {
	s := &assistant{
		flows: f, slots: make(chan struct{}, scheduleSlots), asking: map[uint32]time.Time{},
	}
	defer s.busy.Wait()
	tick := time.NewTicker(scheduleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if leads() {
			f.offerAgents()
			s.round()
		}
	}
}

// offerAgents brings the configured agents into the log where it knows others.
func (f *Flows) offerAgents() {
	c := &state.SetAgents{Agents: make([]string, 0, len(f.agents))}
	for _, agent := range f.agents {
		c.Agents = append(c.Agents, agent.String())
	}
	if slices.Equal(c.Agents, f.machine.Agents()) {
		return
	}
	r := f.propose(0, state.KindSetAgents, c)
	f.log.Info("agents for schedules proposed", "agents", len(c.Agents), "outcome", r.Outcome)
}

// round asks about the flows whose runs wait for it.
func (s *assistant) round() {
	if s.flows.verifier == nil {
		return // their runs begin with what is known
	}
	wanted, next := s.flows.machine.WantedPreflights(s.after, scheduleBatch)
	s.after = next
	for i := range wanted {
		if !s.take(wanted[i].Schedule) {
			continue
		}
		s.busy.Go(func() {
			s.flows.preflight(wanted[i].Workspace, &wanted[i].Flow)
			s.mu.Lock()
			s.asking[wanted[i].Schedule] = time.Now().Add(scheduleAgain)
			s.mu.Unlock()
			<-s.slots
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.asking, func(_ uint32, until time.Time) bool {
		return !until.IsZero() && time.Now().After(until)
	})
}

// take claims a schedule and a slot for it; false where it is under way, or there is no slot.
func (s *assistant) take(schedule uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.asking[schedule]; known {
		return false
	}
	select {
	case s.slots <- struct{}{}:
	default:
		return false
	}
	s.asking[schedule] = time.Time{}
	return true
}

// unverified is the refusal of a schedule for a flow that nothing verifies.
func unverified() refusal {
	r := *badField("invalid_flow_options", "schedule")
	r.message = "A flow whose runs begin by a schedule needs a verification. Nothing was changed."
	return r
}
