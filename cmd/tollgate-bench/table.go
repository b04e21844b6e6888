package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"

	"tollgate/bench"
)

// tableCommand measures what the targets are about.
type tableCommand struct {
	Parts    []string `default:"check,ingest,batch,failover,snapshots,scale,recover,engine" enum:"check,ingest,batch,failover,snapshots,scale,recover,engine" help:"What to measure; the other rows stay empty."`
	Rounds   int      `default:"5" help:"How often each system is measured, in turns."`
	Large    int      `default:"100000" help:"Customers of snapshots, scale and recover; the targets say a million."`
	LogMiB   int      `name:"log-mib" default:"256" help:"After how much log nodes write snapshots, in snapshots and the second restart."`
	Tollgate string   `default:"bin/tollgate" help:"The program of the cluster."`
	loadFlags
}

// noSnapshot is more log, in MiB, than will be written.
const noSnapshot = 1 << 20

// Run measures the parts one after the other. What was refused, or could not run, leaves its rows
// empty, and the table ends with an error that says why.
func (c *tableCommand) Run(ctx context.Context) error {
	environment, err := bench.Surroundings()
	if err != nil {
		return err
	}
	figures := &bench.Figures{Environment: environment}
	var failed []error
	for _, part := range []struct {
		name    string
		measure func(context.Context, *bench.Figures) error
	}{
		{"check", c.comparison(bench.ScenarioCheck, "tollgate-leader", "bare", "redis")},
		{"ingest", c.comparison(bench.ScenarioIngest,
			"tollgate", "redis", "bare", "postgres", "etcd")},
		{"batch", c.comparison(bench.ScenarioBatch,
			"tollgate", "redis", "redis-16", "redis-100", "redis-1000")},
		{"failover", c.failover},
		{"snapshots", c.snapshots},
		{"scale", c.scale},
		{"recover", c.recover},
		{"engine", engine},
	} {
		if !slices.Contains(c.Parts, part.name) || ctx.Err() != nil {
			continue
		}
		fmt.Fprintln(os.Stderr, "measuring", part.name)
		if err = part.measure(ctx, figures); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", part.name, err))
		}
	}
	if c.JSON {
		err = bench.JSON(figures, os.Stdout)
	} else {
		err = figures.Print(os.Stdout)
	}
	return errors.Join(append(failed, err)...)
}

// comparison measures a scenario on several systems.
func (c *tableCommand) comparison(s bench.Scenario, systems ...string,
) func(context.Context, *bench.Figures) error {
	return func(ctx context.Context, f *bench.Figures) error {
		one := compareCommand{
			Scenario: []bench.Scenario{s}, Systems: systems, Rounds: c.Rounds, Tollgate: c.Tollgate,
			loadFlags: c.loadFlags,
		}
		comparison, err := one.compare(ctx)
		if err == nil {
			f.Comparisons = append(f.Comparisons, comparison)
		}
		return err
	}
}

// alone runs a scenario on a cluster of its own; logMiB 0 leaves the default.
func alone[R any](ctx context.Context, c *tableCommand, config bench.Config, logMiB int,
	do func(*bench.Run, context.Context) (R, error),
) (report *R, err error) {
	cluster := &tollgate{name: "tollgate", program: c.Tollgate, via: "all", logMiB: logMiB}
	if config.Target, err = cluster.Start(ctx, bench.Answers{}); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	run, err := bench.New(config)
	if err != nil {
		return nil, err
	}
	run.Progress = func(what string) { fmt.Fprintln(os.Stderr, what) }
	figures, err := do(run, ctx)
	if err != nil {
		return nil, err
	}
	return &figures, nil
}

func (c *tableCommand) failover(ctx context.Context, f *bench.Figures) (err error) {
	config := c.config(bench.ScenarioFailover)
	f.Failover, err = alone(ctx, c, config, 0, (*bench.Run).Failover)
	return err
}

// large is a scenario with many customers and keys.
func (c *tableCommand) large(scenario bench.Scenario) bench.Config {
	config := c.config(scenario)
	config.Customers, config.Events = c.Large, cmp.Or(c.Events, recoveredEvents)
	return config
}

func (c *tableCommand) snapshots(ctx context.Context, f *bench.Figures) (err error) {
	config := c.large(bench.ScenarioSnapshot)
	f.Snapshot, err = alone(ctx, c, config, c.LogMiB, (*bench.Run).Snapshots)
	return err
}

func (c *tableCommand) scale(ctx context.Context, f *bench.Figures) (err error) {
	config := c.large(bench.ScenarioScale)
	f.Scale, err = alone(ctx, c, config, 0, (*bench.Run).Scale)
	return err
}

func (c *tableCommand) recover(ctx context.Context, f *bench.Figures) (err error) {
	config := c.large(bench.ScenarioRecover)
	config.Customers = c.Customers
	f.FromLog, err = alone(ctx, c, config, noSnapshot, (*bench.Run).Recover)
	if err != nil {
		return err
	}
	config.Customers = c.Large
	f.FromSnapshots, err = alone(ctx, c, config, c.LogMiB, (*bench.Run).Recover)
	return err
}

// engine runs the benchmarks of the state machine by themselves; it needs Go, and to be called
// where the source is.
func engine(ctx context.Context, f *bench.Figures) error {
	command := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-cpu", "1", "-benchmem",
		"-bench", "^Benchmark(Check|ApplyUsage|CustomerMemory|Keys)$",
		"./engine/billing", "./engine/idempotency")
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("go test: %w\n%s", err, output)
	}
	f.Benchmarks, err = bench.Benchmarks(bytes.NewReader(output))
	return err
}
