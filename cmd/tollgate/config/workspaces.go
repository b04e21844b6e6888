package config

import (
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Workspaces are the settings of the workspace API.
type Workspaces struct {
	// SignupsPerHour is how many workspaces one address may make in an hour (0 turns signup off),
	// RunsPerDay how many hosted runs a workspace has in a UTC day, FreeRunsPerDay how many free
	// ones all workspaces have together. They decide results, so the leader proposes its own.
	SignupsPerHour int `yaml:"signupsPerHour"`
	RunsPerDay     int `yaml:"runsPerDay"`
	FreeRunsPerDay int `yaml:"freeRunsPerDay"`
	// UnclaimedDays is how long an unclaimed workspace is kept after its last use, 8 to 3,650 days, 0
	// forever; EmptyHours is for one in which nothing was ever saved, 1 to 8,760 hours and no longer.
	// They decide results, too.
	UnclaimedDays int `yaml:"unclaimedDays"`
	EmptyHours    int `yaml:"emptyHours"`
	// Credits are prices in credits, which operators grant. They decide results, too.
	Credits Credits `yaml:"credits"`
	// Payments is none, sandbox (the built-in provider, which moves no money) or stripe; the same
	// on each node, and so is Stripe.
	Payments string `yaml:"payments"`
	Stripe   Stripe `yaml:"stripe"`
	// Agents are the names of the agents that run flows, the default one first: http, nop, or one
	// of Commands or Models. None means no hosted runs.
	Agents []string `yaml:"agents"`
	// Models are agents whose steps a language model chooses; the same on each node.
	Models []AgentModel `yaml:"models"`
	// Commands are agents that are local programs; the same on each node.
	Commands []AgentCommand `yaml:"commands"`
	// Workers is how many runs go on at a time on the node that leads.
	Workers int `yaml:"workers"`
	// Lease is how long a run stays a worker's that is not heard of, 1 to 10 min, or 2 s and more
	// where all nodes are on one machine; then the run counts as lost and its charge is returned.
	Lease time.Duration `yaml:"lease"`
	// Contact is where more runs can be asked for; empty is the feedback route.
	Contact string `yaml:"contact"`
}

// Credits are what things cost in credits, 0 to 1,000,000; 0 is not metered.
type Credits struct {
	Inspection int `yaml:"inspection"`
	Evaluation int `yaml:"evaluation"`
	Run        int `yaml:"run"`
}

// AgentCommand is an agent that is a local program, which speaks the protocol of exec agents.
type AgentCommand struct {
	// Name is 1–32 of a-z, 0-9 and '-'; Version is part of each quote: another one changes it.
	Name    string   `yaml:"name"`
	Version string   `yaml:"version"`
	Command []string `yaml:"command" secret:"true"`
	// Limits are what it may use.
	Limits AgentLimits `yaml:"limits"`
}

// AgentLimits are what each process of an agent may use, on Linux; -1 means no limit.
type AgentLimits struct {
	// MemoryMiB is of data that it writes to, 2,048 when 0; FileMiB of one file, 1,024 when 0.
	MemoryMiB int `yaml:"memoryMiB"`
	FileMiB   int `yaml:"fileMiB"`
	// OpenFiles is how many, 1,024 when 0. Processes is of all processes and threads of the node's
	// user, the node's among them; no limit when 0.
	OpenFiles int `yaml:"openFiles"`
	Processes int `yaml:"processes"`
}

// OrDefaults are the limits with their defaults, where 0 means no limit.
func (l AgentLimits) OrDefaults() AgentLimits {
	for limit, usual := range map[*int]int{
		&l.MemoryMiB: 2048, &l.FileMiB: 1024, &l.OpenFiles: 1024, &l.Processes: -1,
	} {
		if *limit == 0 {
			*limit = usual
		}
		*limit = max(0, *limit)
	}
	return l
}

func (l AgentLimits) valid() bool {
	return min(l.MemoryMiB, l.FileMiB, l.OpenFiles, l.Processes) >= -1
}

// Stripe is the account at Stripe that purchases of runs are paid to.
type Stripe struct {
	// BaseURL is Stripe's API when it is not the usual one.
	BaseURL string `yaml:"baseUrl"`
	// SecretKey is sk_… or rk_…, WebhookSecret the whsec_… of the endpoint /pay/workspace-webhook.
	// Live says which of Stripe's modes they belong to.
	SecretKey     string `yaml:"secretKey" secret:"true"`
	WebhookSecret string `yaml:"webhookSecret" secret:"true"`
	Live          bool   `yaml:"live"`
}

// The built-in agents: one that follows what a product publishes, and one that does nothing.
const (
	AgentHTTP = "http"
	AgentNop  = "nop"
)

// How purchases of runs can be paid.
const (
	PaymentsNone    = "none"
	PaymentsSandbox = "sandbox"
	PaymentsStripe  = "stripe"
)

// AgentModel is an agent whose steps a language model chooses, behind an endpoint.
type AgentModel struct {
	// Name and Version are as those of AgentCommand.
	Name    string `yaml:"name"`
	Version string `yaml:"version"`
	// Dialect is openai or anthropic; URL is what requests are posted to, with its path.
	Dialect string `yaml:"dialect"`
	URL     string `yaml:"url"`
	// Model is its name at the endpoint.
	Model string `yaml:"model"`
	// KeyFile is a file that holds the endpoint's key; empty where it needs none.
	KeyFile string `yaml:"keyFile"`
	// AllowNetworks are private networks in which the endpoint may be, as those of Outbound, and
	// for its requests alone.
	AllowNetworks []string `yaml:"allowNetworks"`
	// Steps is how often it is asked in one run, Tokens how many tokens that costs; 30 and 200,000
	// when 0.
	Steps  int `yaml:"steps"`
	Tokens int `yaml:"tokens"`
}

func (m *AgentModel) valid(known map[string]bool) bool {
	for _, network := range m.AllowNetworks {
		if _, err := netip.ParsePrefix(network); err != nil {
			return false
		}
	}
	u, err := url.Parse(m.URL)
	return nodeName.MatchString(m.Name) && !known[m.Name] && validVersion(m.Version) &&
		(m.Dialect == "openai" || m.Dialect == "anthropic") && m.Model != "" && err == nil &&
		(u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil &&
		m.Steps >= 0 && m.Steps <= 1000 && m.Tokens >= 0 && m.Tokens <= 100_000_000
}

// validVersion reports whether a text can stand in an agent's name, kind and version.
func validVersion(text string) bool {
	return text != "" && len(text) <= 32 && !strings.ContainsAny(text, " \t\n")
}

// maxCredits is the highest price in credits.
const maxCredits = 1_000_000

func (w *Workspaces) validate(complain complainer) {
	const maxCount = 1_000_000_000
	complain.within("workspaces.signupsPerHour", w.SignupsPerHour, 0, maxCount)
	complain.within("workspaces.runsPerDay", w.RunsPerDay, 0, maxCount)
	complain.within("workspaces.freeRunsPerDay", w.FreeRunsPerDay, 0, maxCount)
	if w.UnclaimedDays != 0 && (w.UnclaimedDays < 8 || w.UnclaimedDays > 3650) {
		complain("workspaces.unclaimedDays: %d: want 8 to 3650, since a purchase waits 7 days for its "+
			"owner, or 0 to keep unclaimed workspaces forever", w.UnclaimedDays)
	}
	switch {
	case w.EmptyHours < 1 || w.EmptyHours > 8760:
		complain("workspaces.emptyHours: %d: want 1 to 8760", w.EmptyHours)
	case w.UnclaimedDays != 0 && w.EmptyHours > 24*w.UnclaimedDays:
		// Its instant would move back with the first thing that is saved, which no replica looks
		// at.
		complain("workspaces.emptyHours: %d: want no more than unclaimedDays, %d hours", w.EmptyHours,
			24*w.UnclaimedDays)
	}
	complain.within("workspaces.credits.inspection", w.Credits.Inspection, 0, maxCredits)
	complain.within("workspaces.credits.evaluation", w.Credits.Evaluation, 0, maxCredits)
	complain.within("workspaces.credits.run", w.Credits.Run, 0, maxCredits)
	switch w.Payments {
	case PaymentsNone, PaymentsSandbox:
		complain.when(w.Stripe != (Stripe{}), "workspaces.stripe: is for workspaces.payments: stripe")
	case PaymentsStripe:
		complain.when(w.Stripe.SecretKey == "" || w.Stripe.WebhookSecret == "",
			"workspaces.stripe: want secretKey and webhookSecret")
	default:
		complain("workspaces.payments: %q: want none, sandbox or stripe", w.Payments)
	}
	known := map[string]bool{AgentHTTP: true, AgentNop: true}
	for i, c := range w.Commands {
		if !nodeName.MatchString(c.Name) || known[c.Name] || len(c.Command) == 0 || c.Command[0] == "" ||
			!validVersion(c.Version) || !c.Limits.valid() {
			complain("workspaces.commands[%d]: want a name of its own, a version and a command, and "+
				"limits of -1 or more", i)
		}
		known[c.Name] = true
	}
	for i := range w.Models {
		m := &w.Models[i]
		if !m.valid(known) {
			complain("workspaces.models[%d]: want a name of its own, a version, a dialect (openai or "+
				"anthropic), a url and a model; allowNetworks such as 10.0.0.0/8", i)
		}
		known[m.Name] = true
	}
	for _, name := range w.Agents {
		complain.when(!known[name],
			"workspaces.agents: %q: want http, nop, or the name of a command or a model", name)
	}
	complain.within("workspaces.workers", w.Workers, 1, 1000)
}
