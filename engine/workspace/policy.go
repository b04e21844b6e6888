package workspace

import "strings"

// SetPolicy brings the settings that decide results into the log. All of them are replaced.
type SetPolicy struct {
	// SignupsPerHour is per address and hour; 0 turns signup off.
	SignupsPerHour uint32 `wire:"1"`
	// RunsPerDay is per workspace and UTC day, FreeRunsPerDay for all workspaces together,
	// FreeRunsPerMonth per claimed workspace and UTC month.
	RunsPerDay       uint32 `wire:"2"`
	FreeRunsPerDay   uint32 `wire:"3"`
	FreeRunsPerMonth uint32 `wire:"4"`
	// RunCents is the price of a hosted run in US cents, DefaultCapCents and MaxCapCents the
	// monthly spending cap.
	RunCents        uint32 `wire:"5"`
	DefaultCapCents uint32 `wire:"6"`
	MaxCapCents     uint32 `wire:"7"`
	// What inspections, evaluations and runs cost in credits; 0 is not metered.
	CreditsInspection uint32 `wire:"8"`
	CreditsEvaluation uint32 `wire:"9"`
	CreditsRun        uint32 `wire:"10"`
	// QueueLimit is how many runs may wait for a worker, and QueueMS how long; WallMS is how long a
	// run may have a worker, HumanMS how long it may wait for a person.
	QueueLimit uint32 `wire:"11"`
	QueueMS    int64  `wire:"12"`
	WallMS     int64  `wire:"13"`
	HumanMS    int64  `wire:"14"`
	// LocalRunsPerDay is what the older local tool may report per workspace and UTC day.
	LocalRunsPerDay uint32 `wire:"15"`
	// UnclaimedMS is how long an unclaimed workspace is kept after its last use, at least 8 days; 0 is
	// forever. EmptyMS is for one in which nothing was ever saved.
	UnclaimedMS int64 `wire:"26"`
	EmptyMS     int64 `wire:"27"`
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

// Agent is a configured agent, which can run flows. Commands and rows have it as text.
//
//schema:answer workspaceapi Agent
type Agent struct {
	Kind    string `json:"kind" rule:"min=1"`
	Name    string `json:"name" rule:"min=1"`
	Version string `json:"version"`
}

// ParseAgent is the agent of a text that String returned; the empty text is that of none.
func ParseAgent(text string) (a Agent) {
	name, rest, _ := strings.Cut(text, " ")
	kind, version, _ := strings.Cut(rest, " ")
	return Agent{Name: name, Kind: kind, Version: version}
}

// String is the agent as text: name, kind and version; empty of none.
func (a Agent) String() string {
	if a == (Agent{}) {
		return ""
	}
	return a.Name + " " + a.Kind + " " + a.Version
}

// Idle reports whether the agent is the one that does nothing. A run of it never costs anything.
func (a Agent) Idle() bool { return a.Kind == "nop" }

// Price is what a run by an agent costs, in US cents and in credits.
func (c *SetPolicy) Price(agent Agent) (cents, credits uint32) {
	if agent.Idle() {
		return 0, 0
	}
	return c.RunCents, c.CreditsRun
}
