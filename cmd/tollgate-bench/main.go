// Command tollgate-bench puts load on a Tollgate cluster over HTTP and prints what it measured,
// after checking that the cluster counted what it acknowledged.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"tollgate/bench"
)

type flags struct {
	Scenario    []bench.Scenario `arg:"" optional:"" help:"check, ingest, ingest-batch (these three when none is given), or period-close."`
	Start       bool             `help:"Start a cluster for the measurement, on ports and in a folder of its own, and stop it."`
	Tollgate    string           `default:"bin/tollgate" help:"The program that --start runs."`
	Data        string           `default:".tollgate" help:"Data folder whose dev.json names the cluster."`
	URL         []string         `name:"url" placeholder:"HOST:PORT" help:"Client API of a node; repeatable. Default: from dev.json."`
	Key         string           `env:"TOLLGATE_KEY" help:"API key of scope full. Default: the sandbox key of dev.json."`
	Via         string           `default:"all" enum:"all,leader,followers" help:"Which nodes of dev.json to use: all, leader or followers."`
	Plan        string           `default:"llm-team" help:"Plan that customers subscribe to."`
	Feature     string           `default:"requests" help:"Feature of the plan that is checked and counted."`
	Connections int              `short:"c" help:"Connections. Default: 256, and 16 for ingest-batch."`
	Customers   int              `default:"10000" help:"Customers, drawn at random."`
	Batch       int              `default:"1000" help:"Events in a request of ingest-batch."`
	Warmup      time.Duration    `default:"2s" help:"Load before the measurement."`
	Duration    time.Duration    `short:"d" default:"10s" help:"Length of the measurement."`
	AuditSample int              `default:"200" help:"For how many customers audit events are compared with checks."`
	Rate        int              `default:"1000" help:"Requests a second of period-close, half of them checks, half events."`
	Seed        uint64           `default:"1" help:"Of the draw of customers."`
	Bare        bool             `help:"Measure a bare fasthttp handler with the same requests and answers after each round, too, and print the ratio."`
	Rounds      int              `default:"1" help:"How often each scenario is measured; with --bare, the ratio of the medians is printed."`
	processes   []int
	admin       bench.Admin
	JSON        bool `name:"json" help:"Print JSON instead of tables."`
	ServeBare   bool `hidden:"" help:"Be the bare handler."`
}

func main() {
	var f flags
	kong.Parse(&f, kong.Name("tollgate-bench"),
		kong.Description("Measures a Tollgate cluster over HTTP, and verifies what it counted."))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := f.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "tollgate-bench:", err)
		os.Exit(1)
	}
}

func (f *flags) run(ctx context.Context) (err error) {
	if f.ServeBare {
		return bench.ServeBare(os.Stdin, os.Stdout)
	}
	debug.SetGCPercent(400) // the generator's own share of the machine should be small
	if f.Start {
		stop, startErr := f.start(ctx)
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	if err = f.complete(ctx); err != nil {
		return err
	}
	if len(f.Scenario) == 0 {
		f.Scenario = []bench.Scenario{bench.ScenarioCheck, bench.ScenarioIngest, bench.ScenarioBatch}
	}
	for i, scenario := range f.Scenario {
		if i > 0 && !f.JSON {
			fmt.Println()
		}
		measure := f.rounds
		if scenario == bench.ScenarioClose {
			measure = f.close
		}
		if err = measure(ctx, scenario); err != nil {
			return err
		}
	}
	return nil
}

// rounds measures a scenario as often as wanted, each time beside a bare handler if that is wanted.
func (f *flags) rounds(ctx context.Context, scenario bench.Scenario) error {
	var rates, bare []float64
	for range max(f.Rounds, 1) {
		run, report, err := f.measure(ctx, scenario)
		if err != nil {
			return err
		}
		rates = append(rates, report.UnitRate)
		if f.Bare {
			if report, err = measureBare(ctx, run); err != nil {
				return err
			}
			bare = append(bare, report.UnitRate)
		}
	}
	if f.JSON || !f.Bare && f.Rounds < 2 {
		return nil
	}
	_, err := fmt.Printf("median  %.0f a second of %d rounds\n", median(rates), len(rates))
	if f.Bare && err == nil {
		_, err = fmt.Printf("bare    %.0f a second, ratio %.2f\n",
			median(bare), median(rates)/median(bare))
	}
	return err
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// close measures period-close. The feature must be one that the plan has a price for: an invoice
// has no line for what is included.
func (f *flags) close(ctx context.Context, scenario bench.Scenario) error {
	c := f.config(scenario)
	if c.Connections = f.Connections; c.Connections == 0 {
		c.Connections = 64
	}
	if c.Feature == defaultFeature {
		c.Feature = "output-tokens"
	}
	run, err := bench.New(c)
	if err != nil {
		return err
	}
	report, err := run.Close(ctx)
	if report.Closing.Elapsed == 0 {
		return err
	}
	if f.JSON {
		return errors.Join(err, bench.JSON(report, os.Stdout))
	}
	return errors.Join(err, report.Print(os.Stdout))
}

// defaultFeature is what is checked and counted where nothing else is said.
const defaultFeature = "requests"

// config is what the flags say of a scenario.
func (f *flags) config(scenario bench.Scenario) bench.Config {
	return bench.Config{
		Nodes: f.URL, Key: f.Key, Plan: f.Plan, Feature: f.Feature, Scenario: scenario,
		Connections: f.Connections, Customers: f.Customers, Batch: f.Batch, Rate: f.Rate,
		Warmup: f.Warmup, Duration: f.Duration, Seed: f.Seed, Processes: f.processes,
		AuditSample: f.AuditSample, AuditPatience: 10 * time.Second, Admin: f.admin,
	}
}

func (f *flags) measure(
	ctx context.Context, scenario bench.Scenario,
) (*bench.Run, bench.Report, error) {
	connections := f.Connections
	if connections == 0 {
		connections = 256
		if scenario == bench.ScenarioBatch {
			connections = 16
		}
	}
	c := f.config(scenario)
	c.Connections = connections
	run, err := bench.New(c)
	if err != nil {
		return nil, bench.Report{}, err
	}
	report, err := run.Do(ctx)
	if report.Elapsed == 0 {
		return run, report, err
	}
	if f.JSON {
		return run, report, errors.Join(err, report.JSON(os.Stdout))
	}
	return run, report, errors.Join(err, report.Print(os.Stdout))
}

// cluster is what dev.json says.
type cluster struct {
	Account    string `json:"account"`
	AdminKey   string `json:"adminKey"`
	SandboxKey string `json:"sandboxKey"`
	Nodes      []struct {
		ID   string `json:"id"`
		HTTP string `json:"http"`
		Ops  string `json:"ops"`
		PID  int    `json:"pid"`
	} `json:"nodes"`
}

// complete fills in addresses and key from dev.json.
func (f *flags) complete(ctx context.Context) error {
	if len(f.URL) > 0 && f.Key != "" {
		return nil
	}
	file := filepath.Join(f.Data, "dev.json")
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("without --url, --key and --start: %w", err)
	}
	var c cluster
	if err = json.Unmarshal(text, &c); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if f.Key == "" {
		f.Key = c.SandboxKey
	}
	if len(f.URL) > 0 {
		return nil
	}
	f.admin = bench.Admin{Key: c.AdminKey, Account: c.Account}
	for _, node := range c.Nodes {
		f.processes = append(f.processes, node.PID)
		f.admin.Nodes = append(f.admin.Nodes, node.Ops)
	}
	leader := ""
	if f.Via != "all" {
		if leader, err = c.leader(ctx); err != nil {
			return err
		}
	}
	for _, node := range c.Nodes {
		if f.Via == "all" || (node.ID == leader) == (f.Via == "leader") {
			f.URL = append(f.URL, node.HTTP)
		}
	}
	return nil
}

// leader asks the cluster for the leader of its billing group.
func (c *cluster) leader(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+c.Nodes[0].Ops+"/api/v1/admin/cluster", nil)
	if err != nil {
		return "", fmt.Errorf("cluster status: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+c.AdminKey)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("cluster status: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return "", fmt.Errorf("cluster status: %w", err)
	}
	var answer struct {
		Data struct {
			Groups []struct {
				Leader string `json:"leader"`
			} `json:"groups"`
		} `json:"data"`
	}
	if err = json.Unmarshal(body, &answer); err != nil || len(answer.Data.Groups) == 0 {
		return "", errors.Join(fmt.Errorf("cluster status: %d %.200s", response.StatusCode, body), err)
	}
	return answer.Data.Groups[0].Leader, nil
}
