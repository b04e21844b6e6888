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
	// Tools also runs each system's own tool, once.
	Tools bool
	// Progress is told what begins.
	Progress func(string)
}

// Comparison is what came of a Contest.
type Comparison struct {
	Environment Environment
	// Results are by load, and then by system, in the order of the Contest.
	Results []Result
	// Tools is what the systems' own tools printed, by system.
	Tools map[string]string `json:",omitempty"`
}

// Result is what a system did under one load.
type Result struct {
	System   string
	Scenario Scenario
	// Offered is the requests a second of an open loop; 0 is a closed one.
	Offered int
	Rounds  []Report
	// Rate is of units a second, Latency of requests by percentile: of each the median of the rounds.
	Rate, Slowest, Fastest float64
	Latency                map[string]time.Duration
	// Ratio is the first system's Rate by this one's; LatencyRatio the same of p99.
	Ratio, LatencyRatio float64
}

// Compare carries out a contest. It ends with the first run that was not clean: a *Refusal.
func (c *Contest) Compare(ctx context.Context) (Comparison, error) {
	comparison := Comparison{Tools: map[string]string{}}
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
			c.say("round %d of %d: %s", round+1, c.Rounds, c.Systems[at].Name())
			got, turnErr := c.turn(ctx, c.Systems[at], &answers)
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
		c.tools(ctx, answers, comparison.Tools)
	}
	return comparison, ctx.Err()
}

func (c *Contest) say(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
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
		run, err := New(load)
		if err != nil {
			return nil, err
		}
		report, err := run.Do(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", load.Scenario, err)
		}
		if !target.Unaudited && !target.Blank {
			if err = answers.Learn(run); err != nil {
				return nil, fmt.Errorf("%s: %w", load.Scenario, err)
			}
		}
		got = append(got, report)
	}
	return got, nil
}

// tools runs each system's own tool against a fresh start of it. One that fails says so in the
// place of its output: the rounds before it count all the same.
func (c *Contest) tools(ctx context.Context, answers Answers, outputs map[string]string) {
	for _, s := range c.Systems {
		native, ok := s.(Native)
		if !ok {
			continue
		}
		c.say("the own tool of %s", s.Name())
		var text string
		_, err := s.Start(ctx, answers)
		if err == nil {
			text, err = native.Tool(ctx)
			err = errors.Join(err, s.Stop())
		}
		if err != nil {
			text = "failed: " + err.Error()
		}
		if text != "" {
			outputs[s.Name()] = text
		}
	}
}

// result adds up the rounds.
func result(system string, load Config, rounds []Report) Result {
	r := Result{System: system, Scenario: load.Scenario, Offered: load.Rate, Rounds: rounds}
	r.Latency = map[string]time.Duration{}
	rates := make([]float64, 0, len(rounds))
	latency := map[string][]time.Duration{}
	for _, report := range rounds {
		rates = append(rates, report.UnitRate)
		for p, d := range report.Latency {
			latency[p] = append(latency[p], d)
		}
	}
	r.Rate, r.Slowest, r.Fastest = median(rates), slices.Min(rates), slices.Max(rates)
	for p, all := range latency {
		r.Latency[p] = median(all)
	}
	return r
}

// relate compares the results of a load with the first of them.
func relate(results []Result) {
	for i := range results {
		r := &results[i]
		r.Ratio = results[0].Rate / r.Rate
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
