package load_test

import (
	"os"
	"strings"
	"testing"
	"time"
	"unicode"

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

// side is a system that takes a core for the rate.
func side(scenario load.Scenario, system string, rate float64, p99 time.Duration) load.Result {
	return load.Result{
		Scenario: scenario, System: system, Rate: rate, Cost: 1 / rate, Generator: 0.25,
		Latency: map[string]time.Duration{"p99": p99},
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
			side(load.ScenarioCheck, "bare-epoll", 1200, ms), side(load.ScenarioCheck, "redis-io", 500, ms),
		}},
		{Results: []load.Result{
			side(load.ScenarioIngest, "tollgate-leader", 500, ms),
			side(load.ScenarioIngest, "tollgate", 400, 2*ms),
			side(load.ScenarioIngest, "etcd", 100, ms), side(load.ScenarioIngest, "postgres", 200, ms),
		}},
		{Results: []load.Result{
			side(load.ScenarioBatch, "tollgate", 450_000, 90*ms),
			side(load.ScenarioBatch, "redis", 200_000, ms),
			side(load.ScenarioBatch, "redis-100", 310_000, ms),
		}},
	}}
	got := verdicts(f)
	require.Equal(t, "0.90 · 0.90 (tollgate-leader 900/s, 1111.1 µs, p99 3ms, generator 25 %, "+
		"0 snapshots; bare 1000/s, 1000.0 µs, p99 1ms, generator 25 %); of an epoll loop 0.75 · 0.75 "+
		"(bare-epoll 1200/s, 833.3 µs, p99 1ms, generator 25 %), p99 3.00 ×: does not",
		got["check on the leader / bare fasthttp: rate · server CPU"])
	require.Contains(t, got["check on the leader / HTTP and Redis GET: rate · server CPU"],
		"1.50 · 1.50")
	require.Equal(t, "0.80 · 0.80 (tollgate 400/s, 2500.0 µs, p99 2ms, generator 25 %, 0 snapshots; "+
		"tollgate-leader 500/s, 2000.0 µs, p99 1ms, generator 25 %, 0 snapshots): –",
		got["event through all nodes / on the leader: rate · server CPU"])
	for what, want := range map[string]string{
		"check on the leader / HTTP and Redis GET: rate · server CPU":           "holds",
		"event on the leader / HTTP and PostgreSQL: rate · server CPU":          "does not",
		"event on the leader / HTTP and etcd: rate · server CPU":                "holds",
		"batches of 1,000, durable on three nodes":                              "holds",
		"batches / HTTP and Redis at its best: rate · server CPU":               "does not",
		"event on the leader / HTTP and Redis, fsync always: rate · server CPU": "",
		"event on the leader / bare POST of fasthttp: rate · server CPU":        "",
		"events with 1 ms each way between nodes / none: rate · server CPU":     "",
	} {
		if want == "" {
			require.NotContains(t, got, what)
			continue
		}
		require.True(t, strings.HasSuffix(got[what], ": "+want), "%s: %s", what, got[what])
	}
	require.Contains(t, got["batches / HTTP and Redis at its best: rate · server CPU"], "redis-100 310000/s")
	f.Comparisons[0].Results[0].Latency["p99"] = 2 * ms
	f.Comparisons[2].Results[0].Latency["p99"] = 101 * ms
	got = verdicts(f)
	require.Contains(t, got["check on the leader / bare fasthttp: rate · server CPU"], ": holds")
	require.Contains(t, got["batches of 1,000, durable on three nodes"], ": does not")
	f.Comparisons[0].Results[0].Cost = 1.1 / 700
	require.Contains(t, verdicts(f)["check on the leader / bare fasthttp: rate · server CPU"],
		": does not", "the rate alone is not enough")
}

// TestTheFloorProvesALimit: a target that the prototype misses, too, is out of reach.
func TestTheFloorProvesALimit(t *testing.T) {
	const ms = time.Millisecond
	f := load.Figures{Comparisons: []load.Comparison{
		{Results: []load.Result{
			side(load.ScenarioCheck, "tollgate-leader", 700, ms),
			side(load.ScenarioCheck, "bare", 1000, ms), side(load.ScenarioCheck, "floor", 800, ms),
		}},
		{Results: []load.Result{
			side(load.ScenarioBatch, "tollgate", 300_000, ms), side(load.ScenarioBatch, "floor", 390_000, ms),
		}},
	}}
	rows := map[string]load.Row{}
	for _, row := range f.Rows() {
		rows[row.What] = row
	}
	check := rows["check on the leader / bare fasthttp: rate · server CPU"]
	require.Equal(t, "limit proven: bench/JOURNAL.md#floors", check.Stands())
	require.Contains(t, check.Measured, "; floor 0.80 · 0.80 (floor 800/s, ")
	batches := rows["batches of 1,000, durable on three nodes"]
	require.Equal(t, "limit proven: bench/JOURNAL.md#floors", batches.Stands())
	require.Equal(t, "300000/s, p99 1ms; floor 390000/s, p99 1ms", batches.Measured)

	f.Comparisons[0].Results[2].Rate, f.Comparisons[0].Results[2].Cost = 850, 1.0/850
	f.Comparisons[1].Results[1].Rate = 400_000
	for _, row := range f.Rows() {
		require.NotEqual(t, load.VerdictProven, row.Verdict, "the floor meets it")
	}

	// Tollgate misses the processor time alone, and the floor the rate alone.
	f.Comparisons[0].Results[0].Rate, f.Comparisons[0].Results[0].Cost = 900, 1.0/500
	f.Comparisons[0].Results[2].Rate, f.Comparisons[0].Results[2].Cost = 800, 1.0/850
	for _, row := range f.Rows() {
		require.NotContains(t, row.Stands(), load.VerdictProven, "the floor meets what is missed")
	}

	// Tollgate misses both, and the floor the rate alone.
	f.Comparisons[0].Results[0].Rate = 700
	require.Equal(t, "server CPU: does not; rate: limit proven: bench/JOURNAL.md#floors",
		f.Rows()[0].Stands())
	f.Comparisons[0].Results[0].Machine = load.Machine{Foreign: 1}
	require.Contains(t, f.Rows()[0].Stands(), "does not (DISTURBED: ", "others slowed it")
	f.Comparisons[0].Results[0].Machine = load.Machine{}
	f.Comparisons[0].Results[0].Latency["p99"] = 3 * ms
	require.Equal(t, "server CPU and p99: does not; rate: limit proven: bench/JOURNAL.md#floors",
		f.Rows()[0].Stands())

	// Both miss the rate, while others use the machine.
	f.Comparisons[1].Results[1].Rate = 390_000
	f.Comparisons[1].Results[0].Machine = load.Machine{Foreign: 1}
	for _, row := range f.Rows() {
		require.NotEqual(t, load.VerdictProven, row.Verdict, "others slowed it")
	}
}

// TestDisturbedRowsAreMarkedAndNoRecord: what others disturbed stands in the table with a mark, and
// is refused where it would be kept.
func TestDisturbedRowsAreMarkedAndNoRecord(t *testing.T) {
	f := load.Figures{Machines: map[string]load.Machine{"pages": {Foreign: 0.1, Steal: 0.01}}}
	f.Pages = &load.PagesReport{Browsers: 20}
	document := []byte("Rows:\n<!-- rows of `tollgate-bench table --record` -->\n" +
		"| processor time of 20 live pages, of all cores | old | old | old | old |\n" +
		"| leader killed, 20 times: first acknowledgement | ≤ 1 s | holds | 900ms | 2025-01-01 |\n" +
		"| gone | a | b | c | d |\n<!-- end of rows -->\nEnd.\n")
	text, err := f.Record(document)
	require.NoError(t, err)
	require.Contains(t, string(text), "\n| leader killed, 20 times: first acknowledgement | ≤ 1 s | holds |")
	require.Contains(t, string(text), "\n| processor time of 20 live pages, of all cores | < 1 % | holds |")
	require.Contains(t, string(text), "| not measured |")
	require.NotContains(t, string(text), "gone")
	require.NotContains(t, string(text), "| old |")
	require.True(t, strings.HasSuffix(string(text), "<!-- end of rows -->\nEnd.\n"))
	again, err := f.Record(text)
	require.NoError(t, err)
	require.Equal(t, string(text), string(again))
	_, err = f.Record([]byte("nothing"))
	require.ErrorContains(t, err, "no place for rows")

	f.Machines["pages"] = load.Machine{Foreign: 0.45, Steal: 0.12}
	var table strings.Builder
	require.NoError(t, f.Print(&table))
	require.Contains(t, table.String(), "holds (DISTURBED: 0.45 foreign cores (at most 0.2), 12 % steal")
	_, err = f.Record(document)
	require.ErrorContains(t, err, "refused to record: pages was disturbed by 0.45 foreign cores")
	require.ErrorContains(t, err, "measure it again when the machine is quiet")

	f.Pages.Browsers, f.Machines = 3, nil
	_, err = f.Record(document)
	require.ErrorContains(t, err, "too little was measured")

	f.Pages = nil
	worst := side(load.ScenarioIngest, "etcd", 100, time.Millisecond)
	worst.Machine.Steal = 0.06
	f.Comparisons = []load.Comparison{{Results: []load.Result{
		worst, side(load.ScenarioIngest, "tollgate", 500, time.Millisecond),
	}}}
	require.ErrorContains(t, f.Recordable(), "ingest was disturbed by 6 % steal",
		"one round of one system is enough")
	doubts := f.Doubts()
	require.Len(t, doubts, 9)
	require.Contains(t, doubts[8].Answer, "Marked in this report: ingest: 6 % steal")
}

// TestRecordsAreWhole: each target has its row in docs/speed.md, in order, and each limit that one
// calls proven is proven in the journal.
func TestRecordsAreWhole(t *testing.T) {
	journal, err := os.ReadFile("../JOURNAL.md")
	require.NoError(t, err)
	var anchors []string
	for line := range strings.Lines(string(journal)) {
		if heading, found := strings.CutPrefix(line, "## "); found {
			keep := func(r rune) rune {
				switch {
				case r == ' ':
					return '-'
				case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-':
					return unicode.ToLower(r)
				}
				return -1
			}
			anchors = append(anchors, "bench/JOURNAL.md#"+strings.Map(keep, strings.TrimSpace(heading)))
		}
	}
	var f load.Figures
	text, err := os.ReadFile("../../docs/speed.md")
	require.NoError(t, err)
	again, err := f.Record(text)
	require.NoError(t, err)
	require.Equal(t, string(text), string(again), "rows of other targets")
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, " | ")
		if len(cells) != 5 || !strings.HasSuffix(line, " |\n") {
			continue
		}
		rows++
		require.NotContains(t, line, "DISTURBED")
		if _, proof, proven := strings.Cut(cells[2], "limit proven: "); proven {
			require.Contains(t, anchors, proof)
		}
	}
	require.Greater(t, rows, 10)

	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	excerpt, err := load.Excerpt(readme, text)
	require.NoError(t, err)
	require.Equal(t, string(readme), string(excerpt), "--record README.md renews it")
	_, err = load.Excerpt(readme, []byte("nothing"))
	require.ErrorContains(t, err, "no row ")
}

func TestTargetsOfOneSystem(t *testing.T) {
	kills := make([]load.Kill, 20)
	for i := range kills {
		kills[i].Gap = 700 * time.Millisecond
	}
	f := load.Figures{
		Failover: &load.FailoverReport{Kills: kills},
		Snapshot: &load.SnapshotReport{Ratio: 0.9},
		Scale: &load.ScaleReport{Customers: 1_000_000, Sizes: []load.ScaleSizes{{
			Scenario: load.ScenarioBatch, Cost: 1.25,
		}}},
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
	f.Snapshot.MaxEntry = 20 * time.Millisecond
	f.Snapshot.Snapshots, f.Snapshot.Beside, f.Snapshot.Elapsed = 3, 20*time.Second, 40*time.Second
	require.Equal(t, map[string]string{
		"leader killed, 20 times: first acknowledgement": "20 of 20, longest 700ms, lost 0, doubled 0: holds",
		"ingest during snapshots / without": "0.90, entry 20ms (1000000 customers, " +
			"10000000 keys; 3 snapshots, for 20s of 40s): holds",
		"cost of an event, few → 1M customers, HTTP": "1.25 × (1000000 customers, 0 keys: " +
			"ingest-batch 0.00 → 0.00 µs; 0 snapshots): holds",
		"restart, 10M events of log": "8s (1 customers, 10000000 events): holds",
		"restart, snapshot of 1M customers, 10M keys": "1s (999999 customers, 10000000 events): " +
			"too little measured",
	}, verdicts(f))
	kills[7].Gap, f.Snapshot.MaxEntry, f.Scale.Sizes[0].Cost = 701*time.Millisecond, 21e6, 1.26
	f.FromLog.Restarts[1].Took = 9 * time.Second
	for what, measured := range verdicts(f) {
		if what != "restart, snapshot of 1M customers, 10M keys" {
			require.Contains(t, measured, ": does not", what)
		}
	}
	f.Failover.Kills = kills[:7]
	require.Contains(t, verdicts(f)["leader killed, 20 times: first acknowledgement"], "7 of 7, longest 700ms")
	require.Contains(t, verdicts(f)["leader killed, 20 times: first acknowledgement"], ": too little measured")
	f.Snapshot.MaxEntry, f.Snapshot.Customers, f.Scale.Sizes[0].Cost = 1, 1, 1
	f.Scale.Customers = 1
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
BenchmarkCheck/1000000-2	100	700 ns/op	690 cpu-ns/check	0 B/op	0 allocs/op
BenchmarkCheck/1000000-2	100	470 ns/op	460 cpu-ns/check	0 B/op	0 allocs/op
BenchmarkCheckTogether/1000000-2	100	290.4 ns/op	0 B/op	0 allocs/op
BenchmarkApplyUsage/1000	100	400 ns/op	400 cpu-ns/event	2500000 events/s
BenchmarkApplyUsage/1000000-50M-keys	100	800 ns/op	730 cpu-ns/event	1250000 events/s
BenchmarkCheckBeside/ingest-2	1	2000000 checks	1552 p50-ns	3085 p99-ns
BenchmarkCheckBeside/snapshot-2	1	2000000 checks	1523 p50-ns	5100 p99-ns
BenchmarkCustomerMemory-2	1	0 ns/op	622 B/customer
BenchmarkKeys/hit-10000000-16	1	80 ns/op	38.2 B/key
BenchmarkFindKey/miss-2	1	190.4 ns/op	1.18 B/key	29.2 disk-B/key	0.03 reads/op
BenchmarkReservation/event	100	610 ns/op	600 cpu-ns/op
BenchmarkReservation/reserve	100	700 ns/op	720 cpu-ns/op
BenchmarkReservation/settle	100	800 ns/op	790 cpu-ns/op
BenchmarkReservationMemory-2	1	210 open-B/hold	33 open-B/item	190 closed-B/hold	33 closed-B/item
BenchmarkApplyBudgetedUsage/levels=0	100	500 ns/op	500 cpu-ns/event
BenchmarkApplyBudgetedUsage/levels=5	100	760 ns/op	750 cpu-ns/event
BenchmarkCheckWithBudget/units=1	100	420.5 ns/op	0 B/op	1 allocs/op
PASS
`))
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"check in the engine, 1M customers: alone · together":      "480 · 290 ns, 0 · 0 allocations: holds",
		"check during full ingest · and snapshots":                 "3.1 · 5.1 µs: does not",
		"Apply, one core, 1,000 customers":                         "2500000 events/s: holds",
		"Apply, one core, 1M customers, 50M keys":                  "1250000 events/s: does not",
		"bytes a customer, subscription, 3 counters":               "622 B/customer: does not",
		"bytes a reservation of one feature, open · closed":        "243 · 223 B, 33 an item more: limit proven",
		"bytes a key, in files, and the miss":                      "1.18 B/key, 190 ns (35 days at 1,000/s: 3.6 GB): holds",
		"bytes a key, open generation":                             "38 B/key: holds",
		"cost of an event, 1,000 → 1M customers, 50M keys, engine": "1.82 × (400 → 730 ns): does not",
		"reserve · settle / an event, Apply, 10,000 customers":     "1.20 · 1.32 (720 · 790 / 600 ns): limit proven",
		"event with five levels of budgets / without, Apply":       "1.50 (750 / 500 ns): holds",
		"check with five levels of budgets":                        "420 ns, 1 allocations: does not",
	}, verdicts(f))
	var text strings.Builder
	require.NoError(t, f.Print(&text))
	require.Contains(t, text.String(), "not measured")
	_, err = load.Benchmarks(strings.NewReader("BenchmarkX 1 y ns/op\n"))
	require.ErrorContains(t, err, "BenchmarkX")
}
