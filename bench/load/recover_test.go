package load_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/load"
)

// node is a mortal ledger with metrics.
type node struct {
	*mortal
	metrics  func() string
	profiles int // status of profiles
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/debug/pprof/heap":
		w.WriteHeader(max(n.profiles, 200))
		return
	case "/metrics":
	default:
		n.ledger.ServeHTTP(w, r)
		return
	}
	text := n.metrics()
	w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	if _, err := w.Write([]byte(text)); err != nil {
		panic(err)
	}
}

// of runs a scenario on the node.
func of[R any](n *node, change func(*load.Config),
	do func(*load.Run, context.Context) (R, error),
) (R, error) {
	server := httptest.NewServer(n)
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	c := load.Config{
		Target: load.Target{
			System: "ledger", Nodes: []string{address}, Admin: load.Admin{Nodes: []string{address}},
			Faults: n.mortal, Processes: []load.Process{n.process()},
		},
		Plan: "p", Feature: "f", Connections: 2, Customers: 5, Batch: 10, Events: 1042,
		Warmup: time.Millisecond, Duration: 500 * time.Millisecond, MaxGenerator: 2,
		AuditSample: 5, AuditPatience: 10 * time.Millisecond,
	}
	change(&c)
	run, err := load.New(c)
	require.NoError(n.t, err)
	return do(run, context.Background())
}

// TestRecoverMeasuresEachRestart: with what it had to read, and all is there afterwards.
func TestRecoverMeasuresEachRestart(t *testing.T) {
	metrics := func() string {
		return "tollgate_cluster_snapshot_index{group=\"billing\"} 70\n" +
			"tollgate_cluster_applied_index{group=\"billing\"} 90\n" +
			"tollgate_cluster_log_bytes{group=\"billing\"} 3e6\n" +
			"tollgate_cluster_restore_seconds_sum{group=\"billing\"} 0.25\n"
	}
	scenario := func(c *load.Config) { c.Scenario = load.ScenarioRecover }
	n := &node{mortal: newMortal(t, func(m *mortal) { m.overload = 3 }), metrics: metrics}
	report, err := of(n, scenario, (*load.Run).Recover)
	require.NoError(t, err)
	require.Len(t, report.Restarts, 1)
	one := report.Restarts[0]
	require.Positive(t, one.Took)
	one.Took = 0
	require.Equal(t, load.Restart{
		Name: "node2", SnapshotEntry: 70, LastEntry: 90, LogBytes: 3_000_000,
		Restored: 250 * time.Millisecond,
	}, one)
	require.Equal(t, uint64(1042), report.Verified.Counted)
	var text strings.Builder
	require.NoError(t, report.Print(&text))
	require.Contains(t, text.String(), "node2     served again after")

	n = &node{mortal: newMortal(t, func(m *mortal) { m.lose = 100 }), metrics: metrics}
	_, err = of(n, scenario, (*load.Run).Recover)
	require.ErrorContains(t, err, "not what was acknowledged")
	require.ErrorAs(t, err, new(*load.Refusal))
}

// TestRatesBesideSnapshots: a node that writes snapshots in a part of the time has two rates; one
// that writes none, or does nothing else, has no figure.
func TestRatesBesideSnapshots(t *testing.T) {
	writing := func(part float64) (load.SnapshotReport, error) {
		var mu sync.Mutex
		var sum float64
		count, term, last := 0, 7, time.Now()
		return of(&node{mortal: newMortal(t, func(*mortal) {}), metrics: func() string {
			mu.Lock()
			defer mu.Unlock()
			now := time.Now()
			if part > 0 {
				sum += part * now.Sub(last).Seconds()
				count++
			}
			if count == 2 {
				term = 9
			}
			last = now
			return fmt.Sprintf("tollgate_cluster_term{group=\"billing\"} %d\n"+
				"tollgate_cluster_snapshot_seconds_count{group=\"billing\"} %d\n"+
				"tollgate_cluster_snapshot_seconds_sum{group=\"billing\"} %g\n"+
				"tollgate_cluster_snapshot_last_timestamp_seconds{group=\"billing\"} %f\n"+
				"tollgate_cluster_longest_entry_seconds{group=\"billing\"} 0.02\n",
				term, count, sum, float64(now.UnixMicro())/1e6)
		}}, func(c *load.Config) { c.Scenario = load.ScenarioSnapshot }, (*load.Run).Snapshots)
	}
	report, err := writing(0.5)
	require.NoError(t, err)
	require.Positive(t, report.Snapshots)
	require.Equal(t, 1, report.Elections)
	require.Len(t, report.Faults, report.Snapshots+1)
	require.Equal(t, "election", report.Faults[report.Snapshots].What)
	require.InDelta(t, 0.5, float64(report.Beside)/float64(report.Elapsed), 0.3)
	require.Positive(t, report.RateBeside)
	require.InDelta(t, report.Ratio, report.RateBeside/report.RateWithout, 1e-9)
	require.Equal(t, 20*time.Millisecond, report.MaxEntry)
	var text strings.Builder
	require.NoError(t, report.Print(&text))
	require.Contains(t, text.String(), "longest entry 20ms")
	require.Contains(t, text.String(), fmt.Sprintf("%d snapshots, 1 elections", report.Snapshots))

	_, err = writing(0)
	require.ErrorContains(t, err, "0 snapshots took 0 % of the time")
	_, err = writing(3) // longer than from one look to the next: all the time
	require.ErrorContains(t, err, "--log-mib")
}

func TestRecoverAndSnapshotsNeedACluster(t *testing.T) {
	run, err := load.New(load.Config{
		Target: load.Target{Nodes: []string{"127.0.0.1:1"}}, Customers: 1, Batch: 1,
		Scenario: load.ScenarioRecover, Connections: 1,
	})
	require.NoError(t, err)
	_, err = run.Recover(context.Background())
	require.ErrorContains(t, err, "--start")
	_, err = run.Snapshots(context.Background())
	require.ErrorContains(t, err, "tollgate dev")
}
