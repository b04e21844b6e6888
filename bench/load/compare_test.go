package load_test

import (
	"context"
	"net/http/httptest"
	"strings"
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

func (s *ledgerSystem) Tool(context.Context) (string, error) { return "tool of " + s.name, nil }

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
	require.Equal(t, map[string]string{"a": "tool of a", "b": "tool of b"}, comparison.Tools)
	require.Contains(t, string(b.answers.Check.Body), `"isAllowed":true`)
	require.Positive(t, comparison.Environment.Cores)
	require.Positive(t, comparison.Environment.Sync)

	var text, document strings.Builder
	require.NoError(t, comparison.Print(&text))
	require.Contains(t, text.String(), "tool of b")
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
	require.True(t, load.Refused(err))
	require.Empty(t, comparison.Results)
	require.Equal(t, "stop b", journal[len(journal)-1], "it is stopped all the same")
}
