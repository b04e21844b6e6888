package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Contest is what is measured on several systems, side by side.
type Contest struct {
	// Systems are measured in turns, none of them while another runs. The first is the one that the
	// others are compared with.
	Systems []System
	// Loads are put on each system, one after the other; their Target is filled in.
	Loads []Config
	// Rounds is how often each system gets each load; a round begins with another system than the
	// one before it.
	Rounds int
	// Open is at which part of the rate that a closed loop reached each load is put on again, as an
	// open loop, for latencies that count from when a request was due; 0 leaves that out.
	Open float64
	// Again is how often a turn that others disturbed is repeated, for one that they did not.
	Again int
	// Tools also runs each system's own tools, once.
	Tools bool
	// Progress is told what begins.
	Progress Progress
}

// Comparison is what came of a Contest.
type Comparison struct {
	Environment Environment
	// Results are by load, and then by system, in the order of the Contest.
	Results []Result
	// Tools is what the systems' own tools said.
	Tools []ToolResult `json:",omitempty"`
}

// ToolResult is what a system did under its own tool.
type ToolResult struct {
	System, Tool string
	Scenario     Scenario
	// Rate is of operations a second, Cost the processor time of one in seconds, of all processes of
	// the system together.
	Rate, Cost float64
	Machine    Machine
	// Failed says why there is no figure.
	Failed string `json:",omitempty"`
}

// Result is what a system did under one load.
type Result struct {
	System   string
	Scenario Scenario
	// Offered is the requests a second of an open loop; 0 is a closed one.
	Offered int
	Rounds  []Report
	// Rate is of units a second, Cost the processor time of a unit in seconds, of all processes of
	// the system together, Generator the generator's part of what was used, Latency of requests by
	// percentile, of the open loop where there was one: of each the median of the rounds.
	Rate, Slowest, Fastest float64
	Cost, Generator        float64
	Latency                map[string]time.Duration
	// Snapshots is how many fell into the rounds.
	Snapshots int
	// Saturated reports whether the machine had no core left while latency was measured.
	Saturated bool
	// Ratio is the first system's Rate by this one's, CostRatio this one's Cost by the first's, and
	// LatencyRatio the first's p99 by this one's.
	Ratio, CostRatio, LatencyRatio float64
	// Machine is the worst of the rounds.
	Machine Machine
}

// Compare carries out a contest. It ends with the first run that was not clean: a *Refusal.
func (c *Contest) Compare(ctx context.Context) (Comparison, error) {
	var comparison Comparison
	var err error
	if comparison.Environment, err = Surroundings(); err != nil {
		return comparison, err
	}
	answers := DefaultAnswers()
	reports := make([][][]Report, len(c.Loads))
	for i := range reports {
		reports[i] = make([][]Report, len(c.Systems))
	}
	for round := range c.Rounds {
		for turn := range c.Systems {
			// Tollgate begins the first round: the others repeat its answers.
			at := (round + turn) % len(c.Systems)
			c.Progress.say("round %d of %d: %s", round+1, c.Rounds, c.Systems[at].Name())
			got, turnErr := c.quietTurn(ctx, c.Systems[at], &answers)
			if turnErr != nil {
				return comparison, fmt.Errorf("round %d of %s: %w", round+1, c.Systems[at].Name(), turnErr)
			}
			for load, report := range got {
				reports[load][at] = append(reports[load][at], report)
			}
		}
	}
	for load := range c.Loads {
		first := len(comparison.Results)
		for at, system := range c.Systems {
			comparison.Results = append(comparison.Results,
				result(system.Name(), c.Loads[load], reports[load][at]))
		}
		relate(comparison.Results[first:])
	}
	if c.Tools {
		comparison.Tools = c.tools(ctx, answers)
	}
	return comparison, ctx.Err()
}

// quietTurn is turn, repeated where others disturbed it or held up the generator.
func (c *Contest) quietTurn(ctx context.Context, s System, answers *Answers) ([]Report, error) {
	for again := 0; ; again++ {
		got, err := c.turn(ctx, s, answers)
		var machine Machine
		for _, report := range got {
			machine = machine.worse(report.disturbance())
		}
		what := machine.Disturbed()
		var refusal *Refusal
		if errors.As(err, &refusal) && refusal.Generator {
			what = err.Error()
		} else if err != nil {
			return got, err
		}
		if what == "" || again >= c.Again {
			return got, err
		}
		c.Progress.say("%s was disturbed, and is measured again: %s", s.Name(), what)
	}
}

// disturbance is that of the report and of its open loop.
func (r Report) disturbance() Machine {
	if r.Open == nil {
		return r.Machine
	}
	return r.Machine.worse(r.Open.Machine)
}

// turn starts a system, puts each load on it, and stops it.
func (c *Contest) turn(ctx context.Context, s System, answers *Answers) (got []Report, err error) {
	target, err := s.Start(ctx, *answers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	for _, load := range c.Loads {
		load.Target = target
		run, report, err := carriedOut(ctx, load)
		if err != nil {
			return nil, err
		}
		if c.Open > 0 && load.Rate == 0 {
			load.Rate = max(1, int(c.Open*report.RequestRate))
			if _, report.Open, err = carriedOut(ctx, load); err != nil {
				return nil, err
			}
		}
		if !target.Unaudited && !target.Blank {
			if err = answers.Learn(run); err != nil {
				return nil, fmt.Errorf("%s: %w", load.Scenario, err)
			}
		}
		got = append(got, *report)
	}
	return got, nil
}

// carriedOut puts a load on.
func carriedOut(ctx context.Context, load Config) (*Run, *Report, error) {
	run, err := New(load)
	if err != nil {
		return nil, nil, err
	}
	report, err := run.Do(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", loadName(load.Scenario, load.Rate), err)
	}
	return run, &report, nil
}

// tools runs each system's own tools against a fresh start of it. One that fails says so in the
// place of its figures: the rounds before it count all the same.
func (c *Contest) tools(ctx context.Context, answers Answers) (results []ToolResult) {
	for _, s := range c.Systems {
		native, ok := s.(Native)
		if !ok {
			continue
		}
		for _, load := range c.Loads {
			for _, tool := range native.Tools(load.Scenario) {
				c.Progress.say("%s", tool.Name)
				result := ToolResult{System: s.Name(), Tool: tool.Name, Scenario: load.Scenario}
				if err := result.measure(ctx, s, answers, tool); err != nil {
					result.Failed = err.Error()
				}
				results = append(results, result)
			}
		}
	}
	return results
}

func (r *ToolResult) measure(ctx context.Context, s System, answers Answers, tool Tool,
) (err error) {
	target, err := s.Start(ctx, answers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	if tool.Prepare != nil {
		if err = tool.Prepare(ctx); err != nil {
			return err
		}
	}
	before := Read(target.Processes)
	operations, rate, err := tool.Run(ctx)
	if err != nil {
		return err
	}
	after := Read(target.Processes)
	for i := range target.Processes {
		r.Cost += (after.roots[i].time - before.roots[i].time).Seconds() / operations
	}
	r.Rate, r.Machine = rate, after.Since(before)
	return nil
}

func result(system string, load Config, rounds []Report) Result {
	r := Result{System: system, Scenario: load.Scenario, Offered: load.Rate, Rounds: rounds}
	r.Latency = map[string]time.Duration{}
	var rates, costs, shares []float64
	latency := map[string][]time.Duration{}
	for _, report := range rounds {
		rates = append(rates, report.UnitRate)
		costs = append(costs, report.Cost())
		shares = append(shares, report.GeneratorShare())
		r.Snapshots += report.Snapshots
		r.Machine = r.Machine.worse(report.disturbance())
		r.Saturated = r.Saturated || report.Open != nil && report.Open.Machine.Busy > saturation
		for p, d := range report.latency() {
			latency[p] = append(latency[p], d)
		}
	}
	r.Rate, r.Slowest, r.Fastest = median(rates), slices.Min(rates), slices.Max(rates)
	r.Cost, r.Generator = median(costs), median(shares)
	for p, all := range latency {
		r.Latency[p] = median(all)
	}
	return r
}

// latency is that of the open loop, where there was one.
func (r Report) latency() map[string]time.Duration {
	if r.Open != nil {
		return r.Open.Latency
	}
	return r.Latency
}

// relate compares the results of a load with the first of them.
func relate(results []Result) {
	for i := range results {
		r := &results[i]
		r.Ratio = results[0].Rate / r.Rate
		if cost := results[0].Cost; cost > 0 {
			r.CostRatio = r.Cost / cost
		}
		if p99 := r.Latency["p99"]; p99 > 0 {
			r.LatencyRatio = float64(results[0].Latency["p99"]) / float64(p99)
		}
	}
}

// median is the middle of the values, the lower one of two.
func median[T float64 | time.Duration](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}
