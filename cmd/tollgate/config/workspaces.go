package config

import "strings"

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
	// Agents are the names of the agents that run flows, the default one first: nop, or one of
	// Commands.
	Agents []string `yaml:"agents"`
	// Commands are agents that are local programs; the same on each node.
	Commands []AgentCommand `yaml:"commands"`
	// Workers is how many runs go on at a time on the node that leads.
	Workers int `yaml:"workers"`
	// Contact is where more runs can be asked for; empty is the feedback route.
	Contact string `yaml:"contact"`
}

// AgentCommand is an agent that is a local program, which speaks the protocol of exec agents.
type AgentCommand struct {
	// Name is 1–32 of a-z, 0-9 and '-'; Version is part of each quote: another one changes it.
	Name    string   `yaml:"name"`
	Version string   `yaml:"version"`
	Command []string `yaml:"command"`
}

// How purchases of runs can be paid.
const (
	PaymentsNone    = "none"
	PaymentsSandbox = "sandbox"
)

func defaultWorkspaces() Workspaces {
	return Workspaces{
		SignupsPerHour: 10, RunsPerDay: 10, FreeRunsPerDay: 50, Payments: PaymentsNone,
		Agents: []string{}, Commands: []AgentCommand{}, Workers: 4,
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
	known := map[string]bool{"nop": true}
	for i, c := range w.Commands {
		if !nodeName.MatchString(c.Name) || known[c.Name] || len(c.Command) == 0 || c.Command[0] == "" ||
			strings.ContainsAny(c.Version, " \t\n") || c.Version == "" || len(c.Version) > 32 {
			complain("workspaces.commands[%d]: want a name of its own, a version and a command", i)
		}
		known[c.Name] = true
	}
	for _, name := range w.Agents {
		if !known[name] {
			complain("workspaces.agents: %q: want nop, or the name of a command", name)
		}
	}
	if w.Workers < 1 || w.Workers > 1000 {
		complain("workspaces.workers: %d: want 1 to 1000", w.Workers)
	}
}
