package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"tollgate/bench/load"
	"tollgate/bench/load/peer"
)

// compareCommand measures several systems side by side.
type compareCommand struct {
	Scenario []load.Scenario `arg:"" optional:"" help:"check, ingest, ingest-batch (these three when none is given), simulate, mixed, hot-customer, hard-limit, duplicate-storm."`
	Systems  []string        `default:"tollgate,bare,fdatasync,redis,postgres,etcd" help:"tollgate, tollgate-leader, tollgate-followers; bare (a handler that only answers), bare-epoll (the same without a library) fdatasync (append and sync) and floor (the least that three nodes must do), the limits; redis (a batch is one script), redis-io (with threads for connections), redis-16, redis-100, redis-1000 (a batch goes in pipelines), postgres, etcd."`
	Rounds   int             `default:"5" help:"How often each system is measured, in turns."`
	Rates    []int           `help:"Open loop: measure each scenario at each of these rates of requests a second. Default: a closed loop."`
	HTML     string          `name:"html" type:"path" placeholder:"FILE" help:"Also write a report with plots, in one file."`
	Again    int             `default:"2" help:"How often a turn that others disturbed is measured again."`
	Tools    bool            `help:"Run each peer's own tools once, too."`
	Tollgate string          `default:"bin/tollgate" help:"The program of the cluster."`
	loadFlags
}

// Run carries out the comparison, and prints it.
func (c *compareCommand) Run(ctx context.Context) error {
	comparison, err := c.compare(ctx)
	if err != nil {
		return err
	}
	if c.HTML != "" {
		if err = writeHTML(c.HTML, comparison); err != nil {
			return err
		}
	}
	if c.JSON {
		return load.JSON(comparison, os.Stdout)
	}
	return comparison.Print(os.Stdout)
}

// openShare is at which part of its rate a system's latency is measured.
const openShare = 0.7

// compare measures the systems in turns.
func (c *compareCommand) compare(ctx context.Context) (none load.Comparison, err error) {
	contest := load.Contest{
		Rounds: c.Rounds, Open: openShare, Again: c.Again, Tools: c.Tools,
		Progress: progress,
	}
	if c.Rounds < 1 || c.Rounds > 1000 {
		return none, fmt.Errorf("%d rounds: want 1 to 1000", c.Rounds)
	}
	for _, name := range c.Systems {
		system, err := systemNamed(name, c.Tollgate)
		if err != nil {
			return none, err
		}
		contest.Systems = append(contest.Systems, system)
	}
	if len(c.Scenario) == 0 {
		c.Scenario = []load.Scenario{load.ScenarioCheck, load.ScenarioIngest, load.ScenarioBatch}
	}
	if len(c.Rates) == 0 {
		c.Rates = []int{0}
	}
	for _, scenario := range c.Scenario {
		for _, rate := range c.Rates {
			config := c.config(scenario)
			config.Rate = rate
			contest.Loads = append(contest.Loads, config)
		}
	}
	return contest.Compare(ctx)
}

// plotted is what can be written as a page with plots.
type plotted interface{ HTML(out io.Writer) error }

func writeHTML(name string, page plotted) (err error) {
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return page.HTML(file)
}

// systemNamed returns a system that is not started yet.
func systemNamed(name, tollgateProgram string) (load.System, error) {
	if name == "tollgate" || strings.HasPrefix(name, "tollgate-") {
		return tollgateNamed(name, tollgateProgram)
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return peer.New(name, program, frontArgument)
}

// frontArgument makes this program a front.
const frontArgument = "front"

// frontCommand is what a peer's front runs as.
type frontCommand struct{}

// Run serves until its input ends.
func (frontCommand) Run() error { return peer.Serve(os.Stdin, os.Stdout) }

// runCommand measures one cluster.
type runCommand struct {
	Scenario []load.Scenario `arg:"" optional:"" help:"check, ingest, ingest-batch (these three when none is given), simulate, mixed, hot-customer, hard-limit, duplicate-storm, period-close, snapshot-under-load, scale, memory, reserve-settle; with --start also failover (kills the leader) and recover (kills each node)."`
	Start    bool            `help:"Start a cluster for the measurement, on ports and in a folder of its own, and stop it."`
	Tollgate string          `default:"bin/tollgate" help:"The program that --start runs."`
	Data     string          `default:".tollgate" help:"Data folder whose dev.json names the cluster."`
	URL      []string        `name:"url" placeholder:"HOST:PORT" help:"Client API of a node; repeatable. Default: from dev.json."`
	Key      string          `env:"TOLLGATE_KEY" help:"API key of scope full. Default: the sandbox key of dev.json."`
	Via      string          `default:"all" enum:"all,leader,followers" help:"Which nodes of dev.json to use: all, leader or followers."`
	LogMiB   int             `name:"log-mib" help:"With --start: after how much log a node writes a snapshot, instead of the default."`
	HTML     string          `name:"html" type:"path" placeholder:"FILE" help:"Of failover and snapshot-under-load: also write a report with plots, in one file."`
	Rate     int             `help:"Open loop: so many requests a second are due, and latency counts from then. Of period-close half are checks, half events (1000). Default: a closed loop."`
	loadFlags
}

// Run measures each scenario once.
func (c *runCommand) Run(ctx context.Context) (err error) {
	target := load.Target{System: "tollgate", Nodes: c.URL, Key: c.Key}
	var cluster *tollgate
	switch {
	case c.Start:
		cluster = &tollgate{name: "tollgate", program: c.Tollgate, via: c.Via, logMiB: c.LogMiB}
		if target, err = cluster.Start(ctx, load.Answers{}); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, cluster.Stop()) }()
	case len(c.URL) == 0 || c.Key == "":
		if target, err = connect(ctx, c.Data, c.Via); err != nil {
			return err
		}
		if c.Key != "" {
			target.Key = c.Key
		}
		if len(c.URL) > 0 { // of another machine, maybe
			target.Nodes, target.Processes, target.Syncs = c.URL, nil, nil
		}
	}
	if len(c.Scenario) == 0 {
		c.Scenario = []load.Scenario{load.ScenarioCheck, load.ScenarioIngest, load.ScenarioBatch}
	}
	for i, scenario := range c.Scenario {
		if i > 0 && !c.JSON {
			fmt.Println()
		}
		if i > 0 && cluster != nil { // scenarios may have started processes anew
			if target, err = cluster.target(ctx); err != nil {
				return err
			}
		}
		config := c.config(scenario)
		config.Target, config.Rate = target, c.Rate
		if scenario == load.ScenarioClose && c.Rate == 0 {
			config.Rate = 1000
		}
		if err = c.measure(ctx, config); err != nil {
			return err
		}
	}
	return nil
}

// measure carries out a scenario. What a run that is not clean measured is not printed.
func (c *runCommand) measure(ctx context.Context, config load.Config) error {
	run, err := load.New(config)
	if err != nil {
		return err
	}
	run.Progress = progress
	var report interface{ Print(out io.Writer) error }
	switch config.Scenario {
	case load.ScenarioClose:
		report, err = run.Close(ctx)
	case load.ScenarioFailover:
		report, err = run.Failover(ctx)
	case load.ScenarioRecover:
		report, err = run.Recover(ctx)
	case load.ScenarioSnapshot:
		report, err = run.Snapshots(ctx)
	case load.ScenarioScale:
		report, err = run.Scale(ctx)
	case load.ScenarioMemory:
		report, err = run.Footprint(ctx)
	default:
		report, err = run.Do(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", config.Scenario, err)
	}
	if page, ok := report.(plotted); ok && c.HTML != "" {
		if err = writeHTML(c.HTML, page); err != nil {
			return err
		}
	}
	if c.JSON {
		return load.JSON(report, os.Stdout)
	}
	return report.Print(os.Stdout)
}

// loadFlags say what load is put on.
type loadFlags struct {
	Plan        string        `default:"llm-team" help:"Plan that customers subscribe to; starter for hard-limit."`
	Feature     string        `default:"requests" help:"Feature of the plan that is checked and counted."`
	Connections int           `short:"c" help:"Connections. Default: 256; 64 for check and period-close, 8 for ingest-batch."`
	Customers   int           `default:"10000" help:"Customers, drawn at random."`
	Batch       int           `default:"1000" help:"Events in a request of ingest-batch."`
	Limit       int           `default:"100" help:"Of hard-limit: how many units of the feature the plan allows a customer."`
	Events      int           `help:"Events that are recorded before recover (1000000), snapshot-under-load and scale measure, and that memory measures (1000000)."`
	Kills       int           `default:"20" help:"Of failover: how often the leader is killed, each --duration, at most 2s, after the last one served again."`
	Warmup      time.Duration `default:"2s" help:"Load before the measurement."`
	Duration    time.Duration `short:"d" default:"10s" help:"Length of the measurement."`
	AuditSample int           `default:"200" help:"For how many customers audit events are compared with checks."`
	TouchMiB    int           `name:"touch-mib" default:"4096" help:"MiB of free memory to touch before each load: the host of a virtual machine takes back free pages, and the first use of one then takes 9 µs."`
	Seed        uint64        `default:"1" help:"Of the draw of customers."`
	MaxLate     time.Duration `default:"10ms" help:"How late the generator of an open loop may be (p99); beyond it nothing is reported."`
	JSON        bool          `name:"json" help:"Print JSON instead of tables."`
}

// defaultFeature is what is checked and counted where nothing else is said. The feature of
// period-close must be one that the plan has a price for: invoices have no line for what is
// included.
const (
	defaultFeature = "requests"
	pricedFeature  = "output-tokens"
)

// recoveredEvents are recorded by recover and memory where nothing else is said.
const recoveredEvents = 1_000_000

// maxCalm bounds the time between two kills of failover.
const maxCalm = 2 * time.Second

// Plans if none is said: the second has a hard limit of defaultFeature.
const (
	defaultPlan = "llm-team"
	limitedPlan = "starter"
)

// config is what the flags say of a scenario.
func (f *loadFlags) config(scenario load.Scenario) load.Config {
	c := load.Config{
		Plan: f.Plan, Feature: f.Feature, Scenario: scenario, Connections: f.Connections,
		Customers: f.Customers, Batch: f.Batch, Warmup: f.Warmup, Duration: f.Duration, Seed: f.Seed,
		AuditSample: f.AuditSample, MaxLate: f.MaxLate, AuditPatience: 10 * time.Second,
		Touch: uint64(f.TouchMiB) << 20,
	}
	if c.Connections == 0 {
		switch c.Connections = 256; scenario {
		case load.ScenarioCheck, load.ScenarioSimulate, load.ScenarioMixed, load.ScenarioClose:
			c.Connections = 64
		case load.ScenarioBatch, load.ScenarioSnapshot, load.ScenarioScale:
			c.Connections = 8
		}
	}
	if scenario == load.ScenarioClose && c.Feature == defaultFeature {
		c.Feature = pricedFeature
	}
	if scenario == load.ScenarioFailover {
		c.Kills, c.Duration = f.Kills, min(f.Duration, maxCalm)
	}
	switch scenario {
	case load.ScenarioRecover, load.ScenarioMemory:
		c.Events = cmp.Or(f.Events, recoveredEvents)
	case load.ScenarioSnapshot, load.ScenarioScale:
		c.Events = f.Events
	}
	if scenario == load.ScenarioLimit {
		c.Limit = f.Limit
		if c.Plan == defaultPlan {
			c.Plan = limitedPlan
		}
	}
	return c
}
