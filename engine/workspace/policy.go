package workspace

import (
	"strings"

	"tollgate/engine"
	"tollgate/engine/wire"
)

// SetPolicy brings the settings that decide results into the log. All of them are replaced.
type SetPolicy struct {
	// SignupsPerHour is per address and hour; 0 turns signup off.
	SignupsPerHour uint32
	// RunsPerDay is per workspace and UTC day, FreeRunsPerDay for all workspaces together,
	// FreeRunsPerMonth per claimed workspace and UTC month.
	RunsPerDay, FreeRunsPerDay, FreeRunsPerMonth uint32
	// RunCents is the price of a hosted run in US cents, DefaultCapCents and MaxCapCents the
	// monthly spending cap.
	RunCents, DefaultCapCents, MaxCapCents uint32
	// What inspections, evaluations and runs cost in credits; 0 is not metered.
	CreditsInspection, CreditsEvaluation, CreditsRun uint32
	// QueueLimit is how many runs may wait for a worker, and QueueMS how long; WallMS is how long a
	// run may have a worker, HumanMS how long it may wait for a person.
	QueueLimit               uint32
	QueueMS, WallMS, HumanMS int64
	// LocalRunsPerDay is what the older local tool may report per workspace and UTC day.
	LocalRunsPerDay uint32
	// UnclaimedMS is how long a workspace that nobody has claimed is kept after its last use, at
	// least 8 days; 0 is for ever. EmptyMS is for one in which nothing was ever saved.
	UnclaimedMS, EmptyMS int64
}

// DefaultPolicy is what holds before the first SetPolicy. Unclaimed workspaces are kept until then.
func DefaultPolicy() SetPolicy {
	return SetPolicy{
		SignupsPerHour: 10, RunsPerDay: 10, FreeRunsPerDay: 50, FreeRunsPerMonth: 5,
		RunCents: 500, DefaultCapCents: 5000, MaxCapCents: 20_000,
		QueueLimit: 100, QueueMS: 10 * minuteMS, WallMS: 15 * minuteMS, HumanMS: dayMS,
		LocalRunsPerDay: 10,
	}
}

// Fields states the command's fields.
func (c *SetPolicy) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &c.SignupsPerHour)
	wire.Uint(w, 2, &c.RunsPerDay)
	wire.Uint(w, 3, &c.FreeRunsPerDay)
	wire.Uint(w, 4, &c.FreeRunsPerMonth)
	wire.Uint(w, 5, &c.RunCents)
	wire.Uint(w, 6, &c.DefaultCapCents)
	wire.Uint(w, 7, &c.MaxCapCents)
	wire.Uint(w, 8, &c.CreditsInspection)
	wire.Uint(w, 9, &c.CreditsEvaluation)
	wire.Uint(w, 10, &c.CreditsRun)
	wire.Uint(w, 11, &c.QueueLimit)
	w.Int(12, &c.QueueMS)
	w.Int(13, &c.WallMS)
	w.Int(14, &c.HumanMS)
	wire.Uint(w, 15, &c.LocalRunsPerDay)
	w.Int(26, &c.UnclaimedMS)
	w.Int(27, &c.EmptyMS)
}

func (c *SetPolicy) apply(t *turn) engine.Outcome {
	before := t.policy
	t.policy = *c
	if before.UnclaimedMS != c.UnclaimedMS || before.EmptyMS != c.EmptyMS {
		t.scheduleUnclaimed(before.UnclaimedMS == 0)
	}
	t.fold(uint64(c.RunCents))
	return engine.OutcomeDone
}

// Idle says that an agent, "name kind version", is the one that does nothing. A run of it never
// costs anything.
func Idle(agent string) bool { return strings.Contains(agent, " nop ") }

// Price is what a run by an agent costs, in US cents and in credits.
func (c *SetPolicy) Price(agent string) (cents, credits uint32) {
	if Idle(agent) {
		return 0, 0
	}
	return c.RunCents, c.CreditsRun
}

// Policy is what holds now.
func (m *Machine) Policy() SetPolicy {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.policy
}
