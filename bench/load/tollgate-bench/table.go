package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"time"

	"tollgate/bench/load"
)

// tableCommand measures what the targets are about.
type tableCommand struct {
	Parts    []string `default:"check,ingest,batch,pairs,network,failover,snapshots,scale,runs,flood,pages,usage,recover,engine" enum:"check,ingest,batch,pairs,network,failover,snapshots,scale,large,runs,flood,pages,usage,recover,engine" help:"What to measure; the other rows stay empty. large (1M customers, 50M keys over HTTP; half an hour, 14 GiB of memory, 30 of disk) has to be asked for."`
	Small    bool     `help:"Everything in little, in less than ten minutes. Its figures cannot be recorded."`
	Record   []string `type:"existingfile" placeholder:"FILE" help:"Documents whose rows are replaced by what was measured: docs/speed.md, then README.md, which has an excerpt of it. Refused where others disturbed it."`
	HTML     string   `name:"html" type:"path" placeholder:"FILE" help:"Also write a report with plots, in one file."`
	Again    int      `default:"2" help:"How often a turn of a comparison that others disturbed is measured again."`
	Rounds   int      `default:"5" help:"How often each system is measured, in turns."`
	Large    int      `default:"100000" help:"Customers of snapshots, scale, usage and recover; the targets say a million."`
	Browsers int      `default:"20" help:"Live pages that are open in pages; the target says 20."`
	Runs     int      `default:"500" help:"Hosted runs that go on in runs; the target says 500."`
	LogMiB   int      `name:"log-mib" default:"256" help:"After how much log nodes write snapshots, in the second restart and in snapshots: there at least a MiB for 1,024 customers."`
	Tollgate string   `default:"bin/tollgate" help:"The program of the cluster."`
	loadFlags
}

// noSnapshot is more log, in MiB, than will be written.
const noSnapshot = 1 << 20

// shrink makes everything little.
func (c *tableCommand) shrink() {
	c.Rounds, c.Again, c.Kills, c.Runs, c.LogMiB = 1, 1, 3, 50, 16
	c.Large, c.Customers, c.Events = 20_000, 2000, 200_000
	c.TouchMiB = 512
	// What an open loop owes from its first half second, in which connections are made, is paid by
	// then: with a shorter warm-up it was p99.
	c.Warmup, c.Duration = 1500*time.Millisecond, 2*time.Second
}

// Run measures the parts one after the other. What was refused, or could not run, leaves its rows
// empty, and the table ends with an error that says why.
func (c *tableCommand) Run(ctx context.Context) error {
	if c.Small {
		if len(c.Record) > 0 {
			return errors.New("--small measures too little for a record")
		}
		c.shrink()
	}
	environment, err := load.Surroundings()
	if err != nil {
		return err
	}
	figures := &load.Figures{Environment: environment, Machines: map[string]load.Machine{}}
	var failed []error
	for _, part := range []struct {
		name    string
		measure func(context.Context, *load.Figures) error
	}{
		{"check", c.comparison(load.ScenarioCheck,
			"tollgate-leader", "bare", "bare-epoll", "floor", "redis", "redis-io")},
		{"ingest", c.comparison(load.ScenarioIngest,
			"tollgate-leader", "tollgate", "redis", "redis-io", "bare", "bare-epoll", "floor", "postgres",
			"etcd")},
		{"batch", c.comparison(load.ScenarioBatch,
			"tollgate", "floor", "redis", "redis-io", "redis-100", "redis-1000")},
		{"pairs", c.pairs},
		{"network", c.network},
		{"failover", c.failover},
		{"snapshots", c.snapshots},
		{"scale", c.scale},
		{"large", c.large50M},
		{"runs", c.runs},
		{"flood", c.flood},
		{"pages", c.pages},
		{"usage", c.usage},
		{"recover", c.recover},
		{"engine", c.engine},
	} {
		if !slices.Contains(c.Parts, part.name) || ctx.Err() != nil {
			continue
		}
		fmt.Fprintln(os.Stderr, "measuring", part.name)
		before := load.Read(nil)
		if err = part.measure(ctx, figures); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", part.name, err))
		}
		figures.Machines[part.name] = load.Read(nil).Since(before)
	}
	if c.JSON {
		err = load.JSON(figures, os.Stdout)
	} else {
		err = figures.Print(os.Stdout)
	}
	failed = append(failed, err)
	if c.HTML != "" {
		failed = append(failed, writeHTML(c.HTML, figures))
	}
	for _, file := range c.Record {
		failed = append(failed, record(file, figures))
	}
	return errors.Join(failed...)
}

// rowsFile has all rows; other documents have excerpts of it.
const rowsFile = "docs/speed.md"

// record replaces a document's rows.
func record(file string, figures *load.Figures) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--record: %w", err)
	}
	if load.IsExcerpt(text) {
		var recorded []byte
		if recorded, err = os.ReadFile(rowsFile); err == nil {
			text, err = load.Excerpt(text, recorded)
		}
	} else {
		text, err = figures.Record(text)
	}
	if err == nil {
		err = os.WriteFile(file, text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// comparison measures a scenario on several systems.
func (c *tableCommand) comparison(s load.Scenario, systems ...string,
) func(context.Context, *load.Figures) error {
	return func(ctx context.Context, f *load.Figures) error {
		comparison, err := c.compare(ctx, s, systems...)
		if err == nil {
			f.Comparisons = append(f.Comparisons, comparison)
		}
		return err
	}
}

func (c *tableCommand) compare(ctx context.Context, s load.Scenario, systems ...string,
) (load.Comparison, error) {
	one := compareCommand{
		Scenario: []load.Scenario{s}, Systems: systems, Rounds: c.Rounds, Tollgate: c.Tollgate,
		Again: c.Again, Tools: !c.Small, loadFlags: c.loadFlags,
	}
	return one.compare(ctx)
}

// pairsClients are how many clients reserve and settle at a time.
var pairsClients = []int{1, 10, 50, 200}

// pairs measures reservations with their settlements.
func (c *tableCommand) pairs(ctx context.Context, f *load.Figures) error {
	cluster := &tollgate{name: "tollgate", program: c.Tollgate, via: "all"}
	return cluster.during(ctx, func(target load.Target) error {
		p := load.Pairs{
			Config: c.config(load.ScenarioPairs), Clients: pairsClients, Progress: progress,
		}
		p.Config.Target = target
		report, err := p.Measure(ctx)
		return keep(&f.Pairs, report, err)
	})
}

// network measures single events with a network between the nodes, and without.
func (c *tableCommand) network(ctx context.Context, f *load.Figures) error {
	comparison, err := c.compare(ctx, load.ScenarioIngest, "tollgate", "tollgate-1ms")
	if err == nil {
		f.Network = &comparison
	}
	return err
}

// alone runs a scenario on a cluster of its own; logMiB 0 leaves the default.
func alone[R any](ctx context.Context, c *tableCommand, config load.Config, logMiB int,
	do func(*load.Run, context.Context) (R, error),
) (report *R, err error) {
	cluster := &tollgate{name: "tollgate", program: c.Tollgate, via: "all", logMiB: logMiB}
	err = cluster.during(ctx, func(target load.Target) error {
		config.Target = target
		run, err := load.New(config)
		if err != nil {
			return err
		}
		run.Progress = progress
		figures, err := do(run, ctx)
		return keep(&report, figures, err)
	})
	return report, err
}

// keep notes what was measured without an error.
func keep[R any](to **R, report R, err error) error {
	if err == nil {
		*to = &report
	}
	return err
}

// progress is what measurements say while they go on.
func progress(what string) { fmt.Fprintln(os.Stderr, what) }

func (c *tableCommand) failover(ctx context.Context, f *load.Figures) (err error) {
	config := c.config(load.ScenarioFailover)
	f.Failover, err = alone(ctx, c, config, 0, (*load.Run).Failover)
	return err
}

// large is a scenario with many customers and keys.
func (c *tableCommand) large(scenario load.Scenario) load.Config {
	config := c.config(scenario)
	config.Customers, config.Events = c.Large, cmp.Or(c.Events, recoveredEvents)
	return config
}

// longBatches is how long batches are sent at least where snapshots are a part of what is measured,
// or of its price: a batch each five milliseconds fills the log of --log-mib in about ten seconds.
const longBatches = 40 * time.Second

// least is how long batches are sent at least.
func (c *tableCommand) least(d time.Duration) time.Duration {
	if c.Small {
		return max(d, longBatches/5)
	}
	return max(d, longBatches)
}

func (c *tableCommand) snapshots(ctx context.Context, f *load.Figures) (err error) {
	config := c.large(load.ScenarioSnapshot)
	config.Duration = c.least(config.Duration)
	// A million customers and their keys are a snapshot of 860 MB on each of three nodes: after the
	// default of nodes, a GiB of log, there is time without one.
	f.Snapshot, err = alone(ctx, c, config, max(c.LogMiB, c.Large>>10), (*load.Run).Snapshots)
	return err
}

func (c *tableCommand) scale(ctx context.Context, f *load.Figures) (err error) {
	config := c.large(load.ScenarioScale)
	config.Duration = c.least(config.Duration)
	if c.Small {
		config.Duration = c.Duration
	}
	f.Scale, err = alone(ctx, c, config, 0, (*load.Run).Scale)
	return err
}

// The variant with much of everything, and bounds of what it may take.
const (
	manyCustomers = 1_000_000
	manyKeys      = 50_000_000
	manyMemory    = 14 << 30
	manyTime      = 45 * time.Minute
)

func (c *tableCommand) large50M(ctx context.Context, f *load.Figures) (err error) {
	if free := load.FreeMemory(); free < manyMemory {
		return fmt.Errorf("%d MiB of memory are free: three nodes with %d keys take %d", free>>20,
			manyKeys, manyMemory>>20)
	}
	ctx, cancel := context.WithTimeout(ctx, manyTime)
	defer cancel()
	config := c.large(load.ScenarioScale)
	config.Customers, config.Events = manyCustomers, manyKeys
	config.Duration = c.least(config.Duration)
	f.Large, err = alone(ctx, c, config, 0, (*load.Run).Scale)
	return err
}

// runs measures checks and single events during hosted runs, whose agent waits.
func (c *tableCommand) runs(ctx context.Context, f *load.Figures) error {
	cluster := &tollgate{name: "tollgate", program: c.Tollgate, via: "all", workers: c.Runs}
	return cluster.during(ctx, func(target load.Target) error {
		h := load.Hosted{
			Checks: c.config(load.ScenarioCheck), Events: c.config(load.ScenarioIngest),
			Agent: waitingAgent, Runs: c.Runs, Rounds: c.Rounds, Progress: progress,
		}
		h.Checks.Target, h.Events.Target = target, target
		report, err := h.Measure(ctx)
		return keep(&f.Runs, report, err)
	})
}

// The flood of the target, and the account that is measured during it.
const (
	floodConnections = 300
	floodBatch       = 5000
	floodEvents      = 100
	floodChecks      = 50
)

// floodArgument makes this program the flood.
const floodArgument = "flood"

type floodCommand struct{}

// Run floods as its input says.
func (floodCommand) Run(ctx context.Context) error {
	return load.ServeFlood(ctx, os.Stdin, os.Stdout)
}

// flood measures an account while another one floods the cluster.
func (c *tableCommand) flood(ctx context.Context, f *load.Figures) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	flood := load.Flood{
		Batches: c.config(load.ScenarioBatch), Events: floodEvents, Checks: floodChecks,
		Command: []string{program, floodArgument},
	}
	flood.Batches.Connections = cmp.Or(c.Connections, floodConnections)
	flood.Batches.Batch, flood.Batches.Customers = floodBatch, min(c.Customers, 1000)
	cluster := &tollgate{name: "tollgate", program: c.Tollgate, via: "all"}
	return cluster.during(ctx, func(target load.Target) error {
		flood.Batches.Target = target
		report, err := flood.Measure(ctx)
		return keep(&f.Flood, report, err)
	})
}

// pages measures checks and single events while people look at live pages.
func (c *tableCommand) pages(ctx context.Context, f *load.Figures) error {
	cluster := &tollgate{name: "tollgate", program: c.Tollgate, via: "all"}
	return cluster.during(ctx, func(target load.Target) error {
		p := load.Pages{
			Checks: c.config(load.ScenarioCheck), Events: c.config(load.ScenarioIngest),
			Browsers: c.Browsers, Customer: demoCustomer, Rounds: c.Rounds, Idle: c.least(0) * 3 / 4,
			Progress: progress,
		}
		p.Checks.Target, p.Events.Target = target, target
		report, err := p.Measure(ctx)
		return keep(&f.Pages, report, err)
	})
}

// usage measures pages of usage.
func (c *tableCommand) usage(ctx context.Context, f *load.Figures) error {
	cluster := &tollgate{name: "tollgate", program: c.Tollgate, via: "all"}
	return cluster.during(ctx, func(target load.Target) error {
		u := load.UsagePages{Config: c.large(load.ScenarioScale), Looks: usageLooks}
		u.Target = target
		report, err := u.Measure(ctx)
		return keep(&f.Usage, report, err)
	})
}

// usageLooks is how often a page of usage is opened.
const usageLooks = 50

// demoCustomer is the one that `tollgate dev` makes.
const demoCustomer = "acme"

func (c *tableCommand) recover(ctx context.Context, f *load.Figures) (err error) {
	config := c.large(load.ScenarioRecover)
	config.Customers = c.Customers
	f.FromLog, err = alone(ctx, c, config, noSnapshot, (*load.Run).Recover)
	if err != nil {
		return err
	}
	config.Customers = c.Large
	f.FromSnapshots, err = alone(ctx, c, config, c.LogMiB, (*load.Run).Recover)
	return err
}

// engineBenchmarks are run one after the other; of three runs the median counts. Checks during
// other work need a core for each.
var engineBenchmarks = [][]string{
	{
		"-cpu", "1", "-count", "3",
		"-bench", "^Benchmark(Check|CheckTogether|ApplyUsage|CustomerMemory|Keys|FindKey)$",
	},
	{
		"-cpu", "1", "-count", "3",
		"-bench",
		"^Benchmark(Reservation|ReservationMemory|ApplyBudgetedUsage|CheckWithBudget|CountSegment)$",
	},
	{"-cpu", "2", "-count", "3", "-bench", "^BenchmarkCheckBeside$", "-benchtime", "1x"},
}

// smallBenchmarks leave out what fills 50 million keys.
var smallBenchmarks = [][]string{
	{
		"-cpu", "1", "-benchtime", "200ms", "-bench", "^Benchmark(Check|CheckTogether)$/^1000000$",
	},
	{"-cpu", "1", "-benchtime", "200ms", "-bench", "^BenchmarkApplyUsage$/^1000$"},
	{"-cpu", "1", "-benchtime", "200ms", "-bench", "^Benchmark(CustomerMemory|FindKey)$"},
	{
		"-cpu", "1", "-benchtime", "200ms",
		"-bench",
		"^Benchmark(Reservation|ReservationMemory|ApplyBudgetedUsage|CheckWithBudget|CountSegment)$",
	},
	{"-cpu", "2", "-bench", "^BenchmarkCheckBeside$", "-benchtime", "1x"},
}

// engine runs the benchmarks of the state machine by themselves; it needs Go, and to be called
// where the source is.
func (c *tableCommand) engine(ctx context.Context, f *load.Figures) error {
	f.Benchmarks = map[string]map[string]float64{}
	benchmarks := engineBenchmarks
	if c.Small {
		benchmarks = smallBenchmarks
	}
	for _, flags := range benchmarks {
		if err := load.TouchMemory(ctx, uint64(c.TouchMiB)<<20); err != nil {
			return err
		}
		args := append([]string{"test", "-run", "^$", "-timeout", "1h", "-benchmem"}, flags...)
		command := exec.CommandContext(ctx, "go",
			append(args, "./engine/billing", "./engine/idempotency", "./cluster/keyfiles",
				"./cluster/rollups")...)
		output, err := command.CombinedOutput()
		if err != nil {
			return fmt.Errorf("go test: %w\n%s", err, output)
		}
		figures, err := load.Benchmarks(bytes.NewReader(output))
		if err != nil {
			return err
		}
		maps.Copy(f.Benchmarks, figures)
	}
	return nil
}
