package load_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/load"
)

// ledgerSystem is a system in this process; it notes when it runs.
type ledgerSystem struct {
	name    string
	journal *[]string
	lose    int
	answers load.Answers
	server  *httptest.Server
}

func (s *ledgerSystem) Name() string { return s.name }

func (s *ledgerSystem) Start(_ context.Context, answers load.Answers) (load.Target, error) {
	*s.journal = append(*s.journal, "start "+s.name)
	l := newLedger()
	l.lose = s.lose
	s.server, s.answers = httptest.NewServer(l), answers
	return load.Target{
		System: s.name, Nodes: []string{strings.TrimPrefix(s.server.URL, "http://")}, Key: "k",
	}, nil
}

func (s *ledgerSystem) Stop() error {
	*s.journal = append(*s.journal, "stop "+s.name)
	s.server.Close()
	return nil
}

// TestLatencyIsOfAnOpenLoop: at a part of the rate that the closed loop reached, over a system that
// was not started again.
func TestLatencyIsOfAnOpenLoop(t *testing.T) {
	var journal []string
	c := contest(&ledgerSystem{name: "a", journal: &journal})
	c.Open, c.Tools = 0.7, false
	for i := range c.Loads {
		c.Loads[i].MaxLate = time.Minute
	}
	comparison, err := c.Compare(context.Background())
	require.NoError(t, err)
	require.Equal(t, []string{"start a", "stop a", "start a", "stop a"}, journal)
	for _, r := range comparison.Results {
		for _, round := range r.Rounds {
			require.Zero(t, round.Rate, "the rate is that of a closed loop")
			require.InDelta(t, 0.7*round.RequestRate, round.Open.Rate, 1)
		}
		require.Equal(t, r.Saturated, max(r.Rounds[0].Open.Machine.Busy,
			r.Rounds[1].Open.Machine.Busy) > 0.95, "its latency is marked then")
		require.Contains(t, []time.Duration{
			r.Rounds[0].Open.Latency["p99"], r.Rounds[1].Open.Latency["p99"],
		}, r.Latency["p99"])
	}
}

// TestDisturbedTurnsAreRepeated: while a foreign process runs, they stay disturbed,
// and are marked.
func TestDisturbedTurnsAreRepeated(t *testing.T) {
	burn(t)
	var journal []string
	c := contest(&ledgerSystem{name: "a", journal: &journal})
	c.Rounds, c.Again, c.Tools = 1, 2, false
	c.Loads[0].Duration = 300 * time.Millisecond
	comparison, err := c.Compare(context.Background())
	require.NoError(t, err)
	require.Len(t, journal, 2*3)
	r := comparison.Results[0]
	require.Contains(t, r.Machine.Disturbed(), "foreign cores (at most 0.2)")
	var text strings.Builder
	require.NoError(t, comparison.Print(&text))
	require.Contains(t, text.String(), "DISTURBED")
	text.Reset()
	require.NoError(t, r.Rounds[0].Print(&text))
	require.Contains(t, text.String(), ": DISTURBED")
}

// TestTurnsThatTheGeneratorLimitsAreRepeated: and refused when that does not help.
func TestTurnsThatTheGeneratorLimitsAreRepeated(t *testing.T) {
	var journal []string
	c := contest(&ledgerSystem{name: "a", journal: &journal})
	c.Rounds, c.Again, c.Open, c.Tools = 1, 1, 0.7, false
	c.Loads[0].MaxLate = time.Nanosecond
	_, err := c.Compare(context.Background())
	require.ErrorContains(t, err, "its requests were late by")
	require.Len(t, journal, 2*2)
}

// burn keeps a core busy with an orphaned process, which counts as foreign load.
func burn(t *testing.T) {
	t.Helper()
	output, err := exec.Command("sh", "-c", "(while :; do :; done) >&- 2>&- & echo $!").Output()
	require.NoError(t, err)
	id, err := strconv.Atoi(strings.TrimSpace(string(output)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Kill(id, syscall.SIGKILL)) })
}

func (s *ledgerSystem) Tools(scenario load.Scenario) []load.Tool {
	if scenario != load.ScenarioCheck {
		return nil
	}
	return []load.Tool{{
		Name: "tool of " + s.name,
		Prepare: func(context.Context) error {
			if s.lose > 0 {
				return errors.New("not prepared")
			}
			return nil
		},
		Run: func(context.Context) (operations, rate float64, err error) { return 10, 1234, nil },
	}}
}

func contest(systems ...load.System) *load.Contest {
	c := &load.Contest{Systems: systems, Rounds: 2, Tools: true}
	for _, scenario := range []load.Scenario{load.ScenarioCheck, load.ScenarioIngest} {
		c.Loads = append(c.Loads, load.Config{
			Plan: "p", Feature: "f", Scenario: scenario, Connections: 2, Customers: 5, Batch: 1,
			Warmup: time.Millisecond, Duration: 30 * time.Millisecond, Least: 5, MaxGenerator: 2,
			AuditSample: 5, AuditPatience: 10 * time.Millisecond,
		})
	}
	return c
}

// TestSystemsAreMeasuredInTurns: one at a time, each round beginning with another one, and the
// first system's answers are what the others have to repeat.
func TestSystemsAreMeasuredInTurns(t *testing.T) {
	var journal []string
	a, b := &ledgerSystem{name: "a", journal: &journal}, &ledgerSystem{name: "b", journal: &journal}
	comparison, err := contest(a, b).Compare(context.Background())
	require.NoError(t, err)
	require.Equal(t, []string{
		"start a", "stop a", "start b", "stop b", "start b", "stop b", "start a", "stop a",
		"start a", "stop a", "start b", "stop b",
	}, journal)
	require.Len(t, comparison.Results, 4)
	for i, r := range comparison.Results {
		require.Equal(t, []string{"a", "b", "a", "b"}[i], r.System)
		require.Len(t, r.Rounds, 2)
		require.LessOrEqual(t, r.Slowest, r.Rate)
		require.LessOrEqual(t, r.Rate, r.Fastest)
		first := comparison.Results[i/2*2]
		require.InDelta(t, first.Rate/r.Rate, r.Ratio, 1e-9)
		require.Positive(t, r.Latency["p99"])
	}
	require.Len(t, comparison.Tools, 2)
	require.Equal(t, "tool of b", comparison.Tools[1].Tool)
	require.EqualValues(t, 1234, comparison.Tools[1].Rate)
	require.Contains(t, string(b.answers.Check.Body), `"isAllowed":true`)
	require.Positive(t, comparison.Environment.Cores)
	require.Positive(t, comparison.Environment.Sync)

	var text, document strings.Builder
	require.NoError(t, comparison.Print(&text))
	require.Contains(t, text.String(), "b: tool of b")
	require.NoError(t, load.JSON(comparison, &document))
	require.Contains(t, document.String(), `"Kernel"`)
	require.NotContains(t, document.String(), `"Key"`)
}

// TestComparisonIsRefusedAsAWhole: a system that loses events has no rate.
func TestComparisonIsRefusedAsAWhole(t *testing.T) {
	var journal []string
	comparison, err := contest(&ledgerSystem{name: "a", journal: &journal},
		&ledgerSystem{name: "b", journal: &journal, lose: 2}).Compare(context.Background())
	require.ErrorContains(t, err, "round 1 of b")
	require.ErrorContains(t, err, "not what was acknowledged")
	require.ErrorAs(t, err, new(*load.Refusal))
	require.Empty(t, comparison.Results)
	require.Equal(t, "stop b", journal[len(journal)-1], "it is stopped all the same")
}
