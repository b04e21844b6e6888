package load_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/load"
)

// verdicts are the rows that were measured, by how they begin.
func verdicts(f load.Figures) map[string]string {
	all := map[string]string{}
	for _, row := range f.Rows() {
		if row.Verdict != load.VerdictUnknown {
			all[row.What] = row.Measured + ": " + string(row.Verdict)
		}
	}
	return all
}

func side(scenario load.Scenario, system string, rate float64, p99 time.Duration) load.Result {
	return load.Result{
		Scenario: scenario, System: system, Rate: rate, Latency: map[string]time.Duration{"p99": p99},
	}
}

// TestTargetsOfComparisons: each row is of one comparison, and of Redis the best counts.
func TestTargetsOfComparisons(t *testing.T) {
	const ms = time.Millisecond
	require.Empty(t, verdicts(load.Figures{}))
	f := load.Figures{Comparisons: []load.Comparison{
		{Results: []load.Result{
			side(load.ScenarioCheck, "tollgate-leader", 900, 3*ms),
			side(load.ScenarioCheck, "bare", 1000, ms), side(load.ScenarioCheck, "redis", 600, ms),
		}},
		{Results: []load.Result{
			side(load.ScenarioIngest, "tollgate", 500, ms), side(load.ScenarioIngest, "etcd", 100, ms),
			side(load.ScenarioIngest, "postgres", 200, ms),
		}},
		{Results: []load.Result{
			side(load.ScenarioBatch, "tollgate", 450_000, 90*ms),
			side(load.ScenarioBatch, "redis", 200_000, ms),
			side(load.ScenarioBatch, "redis-100", 310_000, ms),
		}},
	}}
	require.Equal(t, map[string]string{
		"check on the leader, 64 connections / bare handler": "0.90 (900/s), p99 3.00 ×: does not",
		"check on the leader / Redis GET": "1.50 (tollgate-leader: 900/s, redis: 600/s): " +
			"holds",
		"single event / PostgreSQL":       "2.50 (tollgate: 500/s, postgres: 200/s): does not",
		"single event / etcd":             "5.00 (tollgate: 500/s, etcd: 100/s): holds",
		"batches of 1,000, 8 connections": "450000/s, p99 90ms: holds",
		"batches / Redis at its best": "1.45 (tollgate: 450000/s, redis-100: 310000/s): " +
			"does not",
	}, verdicts(f))
	f.Comparisons[0].Results[0].Latency["p99"] = 2 * ms
	f.Comparisons[2].Results[0].Latency["p99"] = 101 * ms
	got := verdicts(f)
	require.Contains(t, got["check on the leader, 64 connections / bare handler"], ": holds")
	require.Contains(t, got["batches of 1,000, 8 connections"], ": does not")
}

func TestTargetsOfOneSystem(t *testing.T) {
	kills := make([]load.Kill, 20)
	for i := range kills {
		kills[i].Gap = time.Second
	}
	f := load.Figures{
		Failover: &load.FailoverReport{Kills: kills},
		Snapshot: &load.SnapshotReport{Ratio: 0.9},
		Scale:    &load.ScaleReport{Cost: 1.25},
		FromLog: &load.RecoverReport{
			Config:   load.Config{Events: 10_000_000, Customers: 1},
			Restarts: []load.Restart{{Took: 8 * time.Second}, {Took: time.Second}},
		},
		FromSnapshots: &load.RecoverReport{
			Config:   load.Config{Events: 10_000_000, Customers: 999_999},
			Restarts: []load.Restart{{Took: time.Second}},
		},
	}
	f.Snapshot.Customers, f.Snapshot.Config.Events = 1_000_000, 10_000_000
	f.Snapshot.LongestEntry = 20 * time.Millisecond
	f.Scale.Large.Customers = 1_000_000
	require.Equal(t, map[string]string{
		"leader killed, 20 times":                      "20 of 20, longest 1s, lost 0, doubled 0: holds",
		"ingest beside snapshots / without":            "0.90, entry 20ms (1000000 customers, 10000000 keys): holds",
		"cost of an event, few → many customers, HTTP": "1.25 × (1000000 customers, 0 keys): holds",
		"restart, 10M events of log":                   "8s (1 customers, 10000000 events): holds",
		"restart, snapshot of 1M customers, 10M keys": "1s (999999 customers, 10000000 events): " +
			"too little measured",
	}, verdicts(f))
	kills[7].Gap, f.Snapshot.LongestEntry, f.Scale.Cost = 1501*time.Millisecond, 21e6, 1.26
	f.FromLog.Restarts[1].Took = 9 * time.Second
	for what, measured := range verdicts(f) {
		if what != "restart, snapshot of 1M customers, 10M keys" {
			require.Contains(t, measured, ": does not", what)
		}
	}
	f.Failover.Kills = kills[:7]
	require.Contains(t, verdicts(f)["leader killed, 20 times"], "7 of 7, longest 1s")
	require.Contains(t, verdicts(f)["leader killed, 20 times"], ": too little measured")
	f.Snapshot.LongestEntry, f.Snapshot.Customers, f.Scale.Cost = 1, 1, 1
	f.Scale.Large.Customers = 1
	f.FromLog = nil
	for what, measured := range verdicts(f) {
		require.Contains(t, measured, ": too little measured", what)
	}
}

func TestTargetsOfBenchmarks(t *testing.T) {
	var err error
	var f load.Figures
	f.Benchmarks, err = load.Benchmarks(strings.NewReader(`goos: linux
BenchmarkCheck/1000000-2	100	480.5 ns/op	470 cpu-ns/check	0 B/op	0 allocs/op
BenchmarkApplyUsage/1000	100	400 ns/op	400 cpu-ns/event	2500000 events/s
BenchmarkApplyUsage/1000000-50M-keys	100	800 ns/op	730 cpu-ns/event	1250000 events/s
BenchmarkCheckBeside/ingest-2	1	2000000 checks	1552 p50-ns	3085 p99-ns
BenchmarkCheckBeside/snapshot-2	1	2000000 checks	1523 p50-ns	5100 p99-ns
BenchmarkCustomerMemory-2	1	0 ns/op	622 B/customer
BenchmarkKeys/hit-10000000-16	1	80 ns/op	38.2 B/key
BenchmarkFindKey/miss-2	1	190.4 ns/op	1.18 B/key	29.2 disk-B/key	0.03 reads/op
PASS
`))
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"check in the engine, 1M customers":                        "480 ns, 0 allocations: holds",
		"the same beside full ingest · and snapshots":              "3.1 · 5.1 µs: does not",
		"Apply, one core, 1,000 customers":                         "2500000 events/s: holds",
		"Apply, one core, 1M customers, 50M keys":                  "1250000 events/s: does not",
		"bytes a customer, subscription, 3 counters":               "622 B/customer: does not",
		"bytes a key, in files, and the miss":                      "1.18 B/key, 190 ns (35 days at 1,000/s: 3.6 GB): holds",
		"bytes a key, open generation":                             "38 B/key: holds",
		"cost of an event, 1,000 → 1M customers, 50M keys, engine": "1.82 × (400 → 730 ns): does not",
	}, verdicts(f))
	var text strings.Builder
	require.NoError(t, f.Print(&text))
	require.Contains(t, text.String(), "not measured")
	_, err = load.Benchmarks(strings.NewReader("BenchmarkX 1 y ns/op\n"))
	require.ErrorContains(t, err, "BenchmarkX")
}
