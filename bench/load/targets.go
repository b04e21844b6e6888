package load

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Figures are what the table of targets is made of. What is nil or missing was not measured.
type Figures struct {
	Environment Environment
	// Comparisons hold checks, events and batches of Tollgate and others.
	Comparisons            []Comparison
	Failover               *FailoverReport
	Snapshot               *SnapshotReport
	Scale                  *ScaleReport
	Runs                   *RunsReport
	Flood                  *FloodReport
	Pages                  *PagesReport
	FromLog, FromSnapshots *RecoverReport
	// Benchmarks are of the engine: value by unit, by name.
	Benchmarks map[string]map[string]float64
}

// Verdict says how a row stands.
type Verdict string

// Verdicts.
const (
	VerdictHolds   Verdict = "holds"
	VerdictFails   Verdict = "does not"
	VerdictUnknown Verdict = "not measured"
	// VerdictSmall reports whether it would hold, but less was measured than the target is about.
	VerdictSmall Verdict = "too little measured"
)

func verdict(holds bool) Verdict {
	if holds {
		return VerdictHolds
	}
	return VerdictFails
}

// sized is the verdict of a target that is about a size.
func sized(holds, reached bool) Verdict {
	if holds && !reached {
		return VerdictSmall
	}
	return verdict(holds)
}

// Row is a line of the table.
type Row struct {
	What, Target, Measured string
	Verdict                Verdict
}

// goal is a row before anything was measured. measure returns an empty text where its figures are
// missing.
type goal struct {
	what, target string
	measure      func(f *Figures) (text string, stands Verdict)
}

// Sizes at which the goals of restarts count.
const (
	goalLogEvents      = 10_000_000
	goalSnapshotEvents = 10_000_000
	goalCustomers      = 1_000_000
	goalKills          = 20
	goalRuns           = 500
)

// manyKeys is the benchmark of a million customers and 50 million keys.
const manyKeys = "1000000-50M-keys"

var goals = []goal{
	{"check on the leader, 64 connections / bare handler", "≥ 0.85, p99 ≤ 2 ×", checkOfBare},
	{"check on the leader / Redis GET", "≥ 1.3", rate(ScenarioCheck, 1.3, "redis")},
	{"check in the engine, 1M customers", "≤ 500 ns, 0 allocations", checkInEngine},
	{"the same beside full ingest · and snapshots", "p99 ≤ 5 µs", checkBesides},
	{"single event / Redis", "≥ 1.0", rate(ScenarioIngest, 1.0, "redis")},
	{"single event / bare handler", "≥ 0.50", rate(ScenarioIngest, 0.50, "bare")},
	{"single event / PostgreSQL", "≥ 3", rate(ScenarioIngest, 3, "postgres")},
	{"single event / etcd", "≥ 5", rate(ScenarioIngest, 5, "etcd")},
	{"batches of 1,000, 8 connections", "≥ 400,000/s, p99 ≤ 100 ms", batches},
	{
		"batches / Redis at its best", "≥ 1.5",
		rate(ScenarioBatch, 1.5, "redis", "redis-16", "redis-100", "redis-1000"),
	},
	{
		"Apply, one core, 1,000 customers", "≥ 2.5 million/s",
		benchmark("BenchmarkApplyUsage/1000", "events/s", func(v float64) bool { return v >= 2.5e6 }),
	},
	{
		"Apply, one core, 1M customers, 50M keys", "≥ 1.5 million/s",
		benchmark("BenchmarkApplyUsage/"+manyKeys, "events/s",
			func(v float64) bool { return v >= 1.5e6 }),
	},
	{
		"bytes a customer, subscription, 3 counters", "≤ 500",
		benchmark("BenchmarkCustomerMemory", "B/customer", func(v float64) bool { return v <= 500 }),
	},
	{
		"bytes a key, open generation", "≤ 40",
		benchmark("BenchmarkKeys/hit-10000000", "B/key", func(v float64) bool { return v <= 40 }),
	},
	{"bytes a key, in files, and the miss", "≤ 1.5", keyInFiles},
	{"cost of an event, 1,000 → 1M customers, 50M keys, engine", "≤ 1.8 ×", scaleInEngine},
	{"cost of an event, few → many customers, HTTP", "≤ 1.25 ×", scaleOverHTTP},
	{"ingest beside snapshots / without", "≥ 0.85, entry ≤ 20 ms", besideSnapshots},
	{"checks with 500 workspace runs / without", "≥ 0.95", checksBesideRuns},
	{"event p99 with 500 workspace runs / without", "≤ 1.5", eventsBesideRuns},
	{
		"100 events/s beside another account's flood", "≥ 99 %, p99 ≤ 500 ms, no election",
		eventsBesideFlood,
	},
	{"checks beside another account's flood", "p99 ≤ 100 ms", checksBesideFlood},
	{"processor time of 20 live pages, of all cores", "< 1 %", livePages},
	{"leader killed, 20 times", "≤ 1.5 s each, lost 0, doubled 0", failovers},
	{
		"restart, 10M events of log", "≤ 8 s",
		restart(func(f *Figures) *RecoverReport { return f.FromLog }, 8*time.Second, 0, goalLogEvents),
	},
	{
		"restart, snapshot of 1M customers, 10M keys", "≤ 10 s",
		restart(func(f *Figures) *RecoverReport { return f.FromSnapshots }, 10*time.Second,
			goalCustomers, goalSnapshotEvents),
	},
}

// Rows compares the figures with the targets.
func (f *Figures) Rows() []Row {
	rows := make([]Row, 0, len(goals))
	for _, g := range goals {
		row := Row{What: g.what, Target: g.target, Measured: "–", Verdict: VerdictUnknown}
		if text, stands := g.measure(f); text != "" {
			row.Measured, row.Verdict = text, stands
		}
		rows = append(rows, row)
	}
	return rows
}

// versus finds Tollgate under a scenario, and the fastest of the others beside it.
func (f *Figures) versus(scenario Scenario, others ...string) (ours, theirs *Result) {
	for _, c := range f.Comparisons {
		var first, best *Result
		for i := range c.Results {
			r := &c.Results[i]
			if r.Scenario != scenario || r.Offered != 0 {
				continue
			}
			if strings.HasPrefix(r.System, "tollgate") {
				first = r
			}
			for _, name := range others {
				if r.System == name && (best == nil || r.Rate > best.Rate) {
					best = r
				}
			}
		}
		if first != nil && (best != nil || len(others) == 0) {
			return first, best
		}
	}
	return nil, nil
}

// rate is Tollgate's rate by that of the fastest of the others.
func rate(s Scenario, least float64, others ...string) func(*Figures) (string, Verdict) {
	return func(f *Figures) (string, Verdict) {
		ours, theirs := f.versus(s, others...)
		if ours == nil {
			return "", VerdictUnknown
		}
		ratio := ours.Rate / theirs.Rate
		return fmt.Sprintf("%.2f (%s: %.0f/s, %s: %.0f/s)", ratio, ours.System, ours.Rate,
			theirs.System, theirs.Rate), verdict(ratio >= least)
	}
}

func checkOfBare(f *Figures) (string, Verdict) {
	ours, theirs := f.versus(ScenarioCheck, "bare")
	if ours == nil {
		return "", VerdictUnknown
	}
	ratio := ours.Rate / theirs.Rate
	p99 := float64(ours.Latency["p99"]) / float64(theirs.Latency["p99"])
	return fmt.Sprintf("%.2f (%.0f/s), p99 %.2f ×", ratio, ours.Rate, p99),
		verdict(ratio >= 0.85 && p99 <= 2)
}

func batches(f *Figures) (string, Verdict) {
	ours, _ := f.versus(ScenarioBatch)
	if ours == nil {
		return "", VerdictUnknown
	}
	p99 := ours.Latency["p99"]
	return fmt.Sprintf("%.0f/s, p99 %s", ours.Rate, p99.Round(time.Millisecond)),
		verdict(ours.Rate >= 400_000 && p99 <= 100*time.Millisecond)
}

func benchmark(name, unit string, holds func(float64) bool) func(*Figures) (string, Verdict) {
	return func(f *Figures) (string, Verdict) {
		value, found := f.Benchmarks[name][unit]
		if !found {
			return "", VerdictUnknown
		}
		return fmt.Sprintf("%.0f %s", value, unit), verdict(holds(value))
	}
}

func checkInEngine(f *Figures) (string, Verdict) {
	all, found := f.Benchmarks["BenchmarkCheck/1000000"]
	if !found {
		return "", VerdictUnknown
	}
	return fmt.Sprintf("%.0f ns, %.0f allocations", all["ns/op"], all["allocs/op"]),
		verdict(all["ns/op"] <= 500 && all["allocs/op"] == 0)
}

// checkBesides is the p99 of a check while a machine applies events, and while it is also written
// into snapshots.
func checkBesides(f *Figures) (string, Verdict) {
	ingest := f.Benchmarks["BenchmarkCheckBeside/ingest"]["p99-ns"]
	snapshot := f.Benchmarks["BenchmarkCheckBeside/snapshot"]["p99-ns"]
	if ingest == 0 || snapshot == 0 {
		return "", VerdictUnknown
	}
	return fmt.Sprintf("%.1f · %.1f µs", ingest/1e3, snapshot/1e3),
		verdict(ingest <= 5000 && snapshot <= 5000)
}

// keysOf35Days come in 35 days at 1,000 events a second.
const keysOf35Days = 35 * 24 * 3600 * 1000

// keyInFiles is the memory of a key that has left it, which its filter and directory take.
func keyInFiles(f *Figures) (string, Verdict) {
	all, found := f.Benchmarks["BenchmarkFindKey/miss"]
	if !found {
		return "", VerdictUnknown
	}
	return fmt.Sprintf("%.2f B/key, %.0f ns (35 days at 1,000/s: %.1f GB)", all["B/key"], all["ns/op"],
		all["B/key"]*keysOf35Days/1e9), verdict(all["B/key"] <= 1.5)
}

func scaleInEngine(f *Figures) (string, Verdict) {
	few := f.Benchmarks["BenchmarkApplyUsage/1000"]["cpu-ns/event"]
	many := f.Benchmarks["BenchmarkApplyUsage/"+manyKeys]["cpu-ns/event"]
	if few == 0 || many == 0 {
		return "", VerdictUnknown
	}
	return fmt.Sprintf("%.2f × (%.0f → %.0f ns)", many/few, few, many), verdict(many/few <= 1.8)
}

func scaleOverHTTP(f *Figures) (string, Verdict) {
	if f.Scale == nil {
		return "", VerdictUnknown
	}
	large := f.Scale.Large.Config
	return fmt.Sprintf("%.2f × (%d customers, %d keys)", f.Scale.Cost, large.Customers, large.Events),
		sized(f.Scale.Cost <= 1.25, large.Customers >= goalCustomers)
}

func besideSnapshots(f *Figures) (string, Verdict) {
	s := f.Snapshot
	if s == nil {
		return "", VerdictUnknown
	}
	return fmt.Sprintf("%.2f, entry %s (%d customers, %d keys)", s.Ratio,
			s.LongestEntry.Round(time.Millisecond), s.Customers, s.Config.Events),
		sized(s.Ratio >= 0.85 && s.LongestEntry <= 20*time.Millisecond,
			s.Customers >= goalCustomers && s.Config.Events >= goalSnapshotEvents)
}

func checksBesideRuns(f *Figures) (string, Verdict) {
	if f.Runs == nil {
		return "", VerdictUnknown
	}
	return fmt.Sprintf("%.2f (%d runs, %d rounds)", f.Runs.Checks, f.Runs.Runs, len(f.Runs.Rounds)),
		sized(f.Runs.Checks >= 0.95, f.Runs.Runs >= goalRuns)
}

func eventsBesideRuns(f *Figures) (string, Verdict) {
	if f.Runs == nil {
		return "", VerdictUnknown
	}
	return fmt.Sprintf("%.2f × (%d runs, %d rounds)", f.Runs.Event, f.Runs.Runs, len(f.Runs.Rounds)),
		sized(f.Runs.Event <= 1.5, f.Runs.Runs >= goalRuns)
}

// The flood that the goals are about.
const (
	goalFloodConnections = 300
	goalFloodBatch       = 5000
)

func (r *FloodReport) text(s FloodSide) string {
	return fmt.Sprintf("%.1f %% of %d, p99 %s (%d connections with batches of %d: %.0f/s)",
		100*s.Share(), s.Due, s.P99.Round(time.Millisecond), r.Connections, r.Batch, r.Flooded)
}

func (r *FloodReport) sized(holds bool) Verdict {
	return sized(holds, r.Connections >= goalFloodConnections && r.Batch >= goalFloodBatch)
}

func eventsBesideFlood(f *Figures) (string, Verdict) {
	r := f.Flood
	if r == nil {
		return "", VerdictUnknown
	}
	return fmt.Sprintf("%s, %d elections", r.text(r.Events), r.Terms), r.sized(r.Terms == 0 &&
		r.Events.Share() >= 0.99 && r.Events.P99 <= 500*time.Millisecond)
}

func checksBesideFlood(f *Figures) (string, Verdict) {
	r := f.Flood
	if r == nil {
		return "", VerdictUnknown
	}
	return r.text(r.Checks), r.sized(r.Checks.Share() >= 0.99 &&
		r.Checks.P99 <= 100*time.Millisecond)
}

func failovers(f *Figures) (string, Verdict) {
	if f.Failover == nil || len(f.Failover.Kills) == 0 {
		return "", VerdictUnknown
	}
	longest, quick := time.Duration(0), 0
	for _, k := range f.Failover.Kills {
		longest = max(longest, k.Gap)
		if k.Gap <= 1500*time.Millisecond {
			quick++
		}
	}
	v, kills := f.Failover.Verified, len(f.Failover.Kills)
	return fmt.Sprintf("%d of %d, longest %s, lost %d, doubled %d", quick, kills,
			longest.Round(time.Millisecond), v.Lost, v.Doubled),
		sized(quick == kills && v.Lost+v.Doubled == 0, kills >= goalKills)
}

// restart is the longest of the restarts.
func restart(of func(*Figures) *RecoverReport, most time.Duration, customers, events int,
) func(*Figures) (string, Verdict) {
	return func(f *Figures) (string, Verdict) {
		r := of(f)
		if r == nil || len(r.Restarts) == 0 {
			return "", VerdictUnknown
		}
		longest := time.Duration(0)
		for _, one := range r.Restarts {
			longest = max(longest, one.Took)
		}
		return fmt.Sprintf("%s (%d customers, %d events)", longest.Round(10*time.Millisecond),
				r.Customers, r.Events),
			sized(longest <= most, r.Customers >= customers && r.Events >= events)
	}
}

// Benchmarks reads what `go test -bench` prints: value by unit, by name without the number of
// processors. Of several runs of one the last counts.
func Benchmarks(output io.Reader) (map[string]map[string]float64, error) {
	all := map[string]map[string]float64{}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := fields[0]
		if at := strings.LastIndexByte(name, '-'); at > 0 && !strings.Contains(name[at:], "/") {
			if _, err := strconv.Atoi(name[at+1:]); err == nil && len(name)-at <= 4 {
				name = name[:at]
			}
		}
		values := map[string]float64{}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("benchmark %s: %w", name, err)
			}
			values[fields[i+1]] = value
		}
		all[name] = values
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("benchmarks: %w", err)
	}
	return all, nil
}

// Print writes the table.
func (f *Figures) Print(out io.Writer) error {
	if err := f.Environment.Print(out); err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	var failed error
	for _, row := range append([]Row{{"what", "target", "measured", "verdict"}}, f.Rows()...) {
		if _, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", row.What, row.Target, row.Measured,
			row.Verdict); err != nil {
			failed = err
		}
	}
	if err := errors.Join(failed, table.Flush()); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}
