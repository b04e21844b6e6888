package config

// Workspaces are the settings of the workspace API.
type Workspaces struct {
	// SignupsPerHour is how many workspaces one address may make in an hour (0 turns signup off),
	// RunsPerDay how many hosted runs a workspace has in a UTC day, FreeRunsPerDay how many free
	// ones all workspaces have together. They decide results, so the leader proposes its own.
	SignupsPerHour int `yaml:"signupsPerHour"`
	RunsPerDay     int `yaml:"runsPerDay"`
	FreeRunsPerDay int `yaml:"freeRunsPerDay"`
	// Payments is none, or sandbox: the built-in provider, which moves no money.
	Payments string `yaml:"payments"`
	// Agents are the names of the agents that run flows, the default one first.
	Agents []string `yaml:"agents"`
	// Workers is how many runs go on at a time on the node that leads.
	Workers int `yaml:"workers"`
	// Contact is where more runs can be asked for; empty is the feedback route.
	Contact string `yaml:"contact"`
}

// How purchases of runs can be paid.
const (
	PaymentsNone    = "none"
	PaymentsSandbox = "sandbox"
)

func defaultWorkspaces() Workspaces {
	return Workspaces{
		SignupsPerHour: 10, RunsPerDay: 10, FreeRunsPerDay: 50, Payments: PaymentsNone,
		Agents: []string{}, Workers: 4,
	}
}

func (w *Workspaces) validate(complain func(format string, args ...any)) {
	const most = 1_000_000_000
	for name, n := range map[string]int{
		"signupsPerHour": w.SignupsPerHour, "runsPerDay": w.RunsPerDay,
		"freeRunsPerDay": w.FreeRunsPerDay,
	} {
		if n < 0 || n > most {
			complain("workspaces.%s: %d: want 0 to %d", name, n, most)
		}
	}
	if w.Payments != PaymentsNone && w.Payments != PaymentsSandbox {
		complain("workspaces.payments: %q: want none or sandbox", w.Payments)
	}
	for _, name := range w.Agents {
		if name != "nop" {
			complain("workspaces.agents: %q: want nop", name)
		}
	}
	if w.Workers < 1 || w.Workers > 1000 {
		complain("workspaces.workers: %d: want 1 to 1000", w.Workers)
	}
}
