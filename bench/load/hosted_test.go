package load_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/load"
)

// lodging is a ledger beside which runs go on, of workspaces that must have an owner and five runs
// at most.
type lodging struct {
	ledger
	workspaces, flows, running, peak atomic.Int32
	asked                            atomic.Int32 // for runs, of which some are refused at first
	// ends reports whether a run ends when the first check is made beside it.
	ends atomic.Bool
}

func (l *lodging) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, answer := 200, "{}"
	switch path := r.URL.Path; {
	case path == "/metrics":
		answer = fmt.Sprintf("tollgate_runs{state=\"queued\"} 0\ntollgate_runs{state=\"running\"} %d\n",
			l.running.Load())
	case path == "/v1/signup":
		status, answer = 201, fmt.Sprintf(`{"workspace":"ws_%d","key":"k"}`, l.workspaces.Add(1))
	case strings.HasSuffix(path, "/claim"):
	case path == "/v1/flows":
		status, answer = 201, fmt.Sprintf(`{"flow":{"id":"flow_%d"}}`, l.flows.Add(1))
	case strings.HasSuffix(path, "/quote"):
		answer = `{"quote":{"fingerprint":"q1"}}`
	case strings.HasSuffix(path, "/run") && l.asked.Add(1)%5 == 1:
		status, answer = 503, `{"error":"runner_busy"}`
	case strings.HasSuffix(path, "/run"):
		now := l.running.Add(1)
		l.peak.Store(max(now, l.peak.Load()))
		status, answer = 202, `{"run":{"id":"run_1"}}`
	case strings.HasSuffix(path, "/cancel"):
		l.running.Add(-1)
	default:
		if l.running.Load() > 0 && l.ends.CompareAndSwap(true, false) {
			l.running.Add(-1)
		}
		l.ledger.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
	w.WriteHeader(status)
	if _, err := w.Write([]byte(answer)); err != nil {
		panic(err)
	}
}

func besideRuns(t *testing.T, l *lodging) (load.RunsReport, error) {
	t.Helper()
	l.keys, l.used, l.audits = map[string]bool{}, map[string]int{}, map[string]int{}
	server := httptest.NewServer(l)
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	c := load.Config{
		Target: load.Target{
			Nodes: []string{address}, Key: "k", Admin: load.Admin{Nodes: []string{address}},
		},
		Plan: "p", Feature: "f", MaxGenerator: 2, Scenario: load.ScenarioCheck, Connections: 1,
		Customers: 5, Batch: 1, Warmup: time.Millisecond, Duration: 20 * time.Millisecond, Least: 20,
		AuditSample: 5, AuditPatience: 10 * time.Millisecond,
	}
	h := load.Hosted{Checks: c, Events: c, Agent: "waits", Runs: 7, Rounds: 1, Calm: 1}
	h.Events.Scenario = load.ScenarioIngest
	return h.Measure(context.Background())
}

func TestBesideRuns(t *testing.T) {
	l := &lodging{}
	report, err := besideRuns(t, l)
	require.NoError(t, err)
	require.EqualValues(t, 2, l.workspaces.Load(), "five runs a workspace")
	require.EqualValues(t, 7, l.flows.Load())
	require.EqualValues(t, 7, l.peak.Load())
	require.Zero(t, l.running.Load(), "all are cancelled")
	require.Len(t, report.Rounds, 1)
	one := report.Rounds[0]
	require.InDelta(t, one.ChecksBeside/one.Checks, report.Checks, 1e-9)
	require.InDelta(t, float64(one.EventBeside)/float64(one.Event), report.Event, 1e-9)
}

// TestRunsThatEndAreFound: a figure beside fewer runs than it says is none.
func TestRunsThatEndAreFound(t *testing.T) {
	l := &lodging{}
	l.ends.Store(true)
	_, err := besideRuns(t, l)
	require.ErrorContains(t, err, "1 of 7 runs ended")
	require.ErrorAs(t, err, new(*load.Refusal))
}

func TestTargetsBesideRuns(t *testing.T) {
	f := load.Figures{Runs: &load.RunsReport{
		Runs: 500, Rounds: make([]load.RunsRound, 5), Checks: 0.95, Event: 1.51,
	}}
	require.Equal(t, map[string]string{
		"checks with 500 workspace runs / without":    "0.95 (500 runs, 5 rounds): holds",
		"event p99 with 500 workspace runs / without": "1.51 × (500 runs, 5 rounds): does not",
	}, verdicts(f))
	f.Runs.Runs, f.Runs.Checks, f.Runs.Event = 499, 0.94, 1.5
	require.Equal(t, map[string]string{
		"checks with 500 workspace runs / without":    "0.94 (499 runs, 5 rounds): does not",
		"event p99 with 500 workspace runs / without": "1.50 × (499 runs, 5 rounds): too little measured",
	}, verdicts(f))
}
