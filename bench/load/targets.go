package load

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"
	"time"
)

// Figures are what the table of targets is made of. What is nil or missing was not measured.
type Figures struct {
	Environment Environment
	// Machines is what else the machine did during each part.
	Machines map[string]Machine
	// Comparisons hold checks, events and batches of Tollgate and others.
	Comparisons            []Comparison
	Failover               *FailoverReport
	Snapshot               *SnapshotReport
	Scale, Large           *ScaleReport
	Network                *Comparison
	Runs                   *RunsReport
	Flood                  *FloodReport
	Pages                  *PagesReport
	Usage                  *UsageReport
	Pairs                  *PairsReport
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
	// VerdictProven reports whether the best design known misses the target, too: Row.Proof says where
	// that was measured. A verdict that ends so says first which figures could be reached.
	VerdictProven Verdict = "limit proven"
	// VerdictSmall reports whether it would hold, but less was measured than the target is about.
	VerdictSmall Verdict = "too little measured"
	// VerdictNone is of a figure that has no target.
	VerdictNone Verdict = "–"
)

// proven reports whether a limit is.
func (v Verdict) proven() bool { return strings.HasSuffix(string(v), string(VerdictProven)) }

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
	// Part is what has to be measured for it.
	Part, What, Target, Measured string
	Verdict                      Verdict
	// Proof is where the limit was proven, of VerdictProven.
	Proof string
	// Disturbed says what disturbed the measurement; such a row is not kept.
	Disturbed string
}

// Stands is the verdict with what belongs to it.
func (r Row) Stands() string {
	text := string(r.Verdict)
	if r.Proof != "" {
		text += ": " + r.Proof
	}
	if r.Disturbed != "" && r.Verdict != VerdictUnknown {
		text += " (DISTURBED: " + r.Disturbed + ")"
	}
	return text
}

// Fails reports whether a figure of the row could be reached and was not.
func (r Row) Fails() bool { return strings.Contains(string(r.Verdict), string(VerdictFails)) }

// goal is a row before anything was measured. measure returns an empty text where its figures are
// missing. A proof is a heading of bench/JOURNAL.md, as a link names it.
type goal struct {
	part, what, target string
	measure            func(f *Figures) (text string, stands Verdict)
	proof              string
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
	{
		part: "check", what: "check on the leader / bare fasthttp: rate · server CPU",
		target: "≥ 0.85 · 0.70, p99 ≤ 2 ×", measure: checkOfBare,
	},
	{
		part: "check", what: "check on the leader / HTTP and Redis GET: rate · server CPU",
		target: "≥ 1.3", measure: against(ScenarioCheck, 1.3, 0, "redis", "redis-io"),
	},
	{
		part: "check", what: "reads of Redis over RESP, no HTTP", target: "–",
		measure: byTools(ScenarioCheck, "redis"),
	},
	{
		part: "ingest", what: "event on the leader / HTTP and Redis, fsync always: rate · server CPU",
		target:  "≥ 1.1 · 1.0",
		measure: against(ScenarioIngest, 1.1, 1.0, "redis", "redis-io"),
	},
	{
		part: "ingest", what: "event on the leader / bare POST of fasthttp: rate · server CPU",
		target: "≥ 0.50 · 0.35", measure: eventOfBare,
	},
	{
		part: "ingest", what: "event on the leader / HTTP and PostgreSQL: rate · server CPU",
		target: "≥ 3", measure: against(ScenarioIngest, 3, 0, "postgres"),
	},
	{
		part: "ingest", what: "event on the leader / HTTP and etcd: rate · server CPU",
		target: "≥ 5", measure: against(ScenarioIngest, 5, 0, "etcd"),
	},
	{
		part: "ingest", what: "event through all nodes / on the leader: rate · server CPU", target: "–",
		measure: throughAll,
	},
	{
		part: "ingest", what: "the same script of Redis over RESP, no HTTP", target: "–",
		measure: byTools(ScenarioIngest, "redis"),
	},
	{
		part: "ingest", what: "the same statement of PostgreSQL, no HTTP", target: "–",
		measure: byTools(ScenarioIngest, "postgres"),
	},
	{
		part: "batch", what: "batches of 1,000, durable on three nodes",
		target: "≥ 400,000/s, p99 ≤ 100 ms", measure: batches,
	},
	{
		part: "batch", what: "batches / HTTP and Redis at its best: rate · server CPU",
		target: "≥ 1.5",
		measure: against(ScenarioBatch, 1.5, 0, "redis", "redis-io", "redis-16", "redis-100",
			"redis-1000"),
	},
	{
		part: "batch", what: "TigerBeetle's own figures, of other machines", target: "–",
		measure: published,
	},
	{
		part: "pairs", what: "reserve and settle, durable on three nodes, on one budget",
		target: "≥ 10,000/s, p99 ≤ 50 ms with 200 clients", measure: pairsOn(true),
	},
	{
		part: "pairs", what: "reserve and settle, durable on three nodes, on separate budgets",
		target: "≥ 10,000/s, p99 ≤ 50 ms with 200 clients", measure: pairsOn(false),
	},
	{
		part: "network", what: "events with 1 ms each way between nodes / none: rate · server CPU",
		target: "–", measure: overNetwork,
	},
	{
		part: "scale", what: "cost of an event, few → 1M customers, HTTP",
		target: "≤ 1.25 ×", measure: scaleOverHTTP,
	},
	{
		part: "large", what: "cost with 1M customers, 50M keys, HTTP: batch · event · check",
		target: "–", measure: largeOverHTTP,
	},
	{
		part: "snapshots", what: "ingest during snapshots / without", target: "≥ 0.85, entry ≤ 20 ms",
		measure: besideSnapshots,
	},
	{
		part: "failover", what: "leader killed, 20 times: first acknowledgement",
		target: "≤ 700 ms each, lost 0, doubled 0", measure: failovers,
	},
	{
		part: "recover", what: "restart, 10M events of log", target: "≤ 8 s",
		measure: restart(func(f *Figures) *RecoverReport { return f.FromLog }, 8*time.Second, 0,
			goalLogEvents),
	},
	{
		part: "recover", what: "restart, snapshot of 1M customers, 10M keys",
		target: "≤ 7 s",
		measure: restart(func(f *Figures) *RecoverReport { return f.FromSnapshots }, 7*time.Second,
			goalCustomers, goalSnapshotEvents),
	},
	{
		part: "runs", what: "checks with 500 workspace runs / without", target: "≥ 0.95",
		measure: checksBesideRuns,
	},
	{
		part: "runs", what: "event p99 with 500 workspace runs / without", target: "≤ 1.5",
		measure: eventsBesideRuns,
	},
	{
		part: "flood", what: "100 events/s during another account's flood",
		target: "≥ 99 %, p99 ≤ 500 ms, no election", measure: eventsBesideFlood,
	},
	{
		part: "flood", what: "checks during another account's flood", target: "p99 ≤ 100 ms",
		measure: checksBesideFlood,
	},
	{
		part: "pages", what: "processor time of 20 live pages, of all cores", target: "< 1 %",
		measure: livePages,
	},
	{
		part: "usage", what: "page of a customer's year, three features in each hour",
		target: "≤ 10 ms", measure: yearPages,
	},
	{
		part: "usage", what: "page of an environment with 1M customers who used something",
		target: "≤ 100 ms", measure: environmentPages,
	},
	{
		part: "engine", what: "event without counts by hour / with: server CPU", target: "≥ 0.98",
		measure: counted,
	},
	{
		part: "engine", what: "check in the engine, 1M customers: alone · together",
		target: "≤ 500 · 300 ns, 0 allocations", measure: checkInEngine,
	},
	{
		part: "engine", what: "check during full ingest · and snapshots", target: "p99 ≤ 5 µs",
		measure: checkBesides,
	},
	{
		part: "engine", what: "Apply, one core, 1,000 customers", target: "≥ 2.5 million/s",
		measure: benchmark("BenchmarkApplyUsage/1000", "events/s",
			func(v float64) bool { return v >= 2.5e6 }),
	},
	{
		part: "engine", what: "Apply, one core, 1M customers, 50M keys", target: "≥ 1.5 million/s",
		measure: benchmark("BenchmarkApplyUsage/"+manyKeys, "events/s",
			func(v float64) bool { return v >= 1.5e6 }),
	},
	{
		part: "engine", what: "cost of an event, 1,000 → 1M customers, 50M keys, engine",
		target: "≤ 1.8 ×", measure: scaleInEngine,
	},
	{
		part: "engine", what: "reserve · settle / an event, Apply, 10,000 customers",
		target: "≤ 1.3 · 1.3", measure: reservationInEngine, proof: "floors",
	},
	{
		part: "engine", what: "event with five levels of budgets / without, Apply",
		target: "≤ 1.5", measure: budgetInEngine,
	},
	{
		part: "engine", what: "check with five levels of budgets", target: "≤ 800 ns, 0 allocations",
		measure: checkWithBudget,
	},
	{
		part: "engine", what: "bytes a customer, subscription, 3 counters", target: "≤ 500",
		measure: benchmark("BenchmarkCustomerMemory", "B/customer",
			func(v float64) bool { return v <= 500 }),
	},
	{
		part: "engine", what: "bytes a reservation of one feature, open · closed", target: "≤ 96 · 96",
		measure: reservationBytes, proof: "floors",
	},
	{
		part: "engine", what: "bytes a key, open generation", target: "≤ 40",
		measure: benchmark("BenchmarkKeys/hit-10000000", "B/key",
			func(v float64) bool { return v <= 40 }),
	},
	{
		part: "engine", what: "bytes a key, in files, and the miss", target: "≤ 1.5",
		measure: keyInFiles,
	},
}

// Rows compares the figures with the targets.
func (f *Figures) Rows() []Row {
	rows := make([]Row, 0, len(goals))
	for _, g := range goals {
		row := Row{
			Part: g.part, What: g.what, Target: g.target, Measured: "–", Verdict: VerdictUnknown,
		}
		if text, stands := g.measure(f); text != "" {
			row.Measured, row.Verdict = text, stands
			row.Disturbed = f.machine(g.part).Disturbed()
			if row.Verdict.proven() && row.Disturbed != "" {
				row.Verdict = VerdictFails // others may have slowed the floor
			}
		}
		if row.Verdict == VerdictFails && g.proof != "" {
			row.Verdict = VerdictProven
		}
		if row.Verdict.proven() {
			row.Proof = "bench/JOURNAL.md#" + cmp.Or(g.proof, "floors")
		}
		rows = append(rows, row)
	}
	return rows
}

// machine is what else the machine did while a part was measured: in all of it, and at worst in one
// of its measurements.
func (f *Figures) machine(part string) Machine {
	m := f.Machines[part]
	add := func(r *Report) { m = m.worse(r.disturbance()) }
	switch part {
	case "check", "ingest", "batch":
		m = comparedMachine(f.Comparisons, part)
	case "network":
		if f.Network != nil {
			m = comparedMachine([]Comparison{*f.Network}, string(ScenarioIngest))
		}
	case "failover":
		if f.Failover != nil {
			add(&f.Failover.Report)
		}
	case "snapshots":
		if f.Snapshot != nil {
			add(&f.Snapshot.Report)
		}
	case "scale", "large":
		for _, s := range []*ScaleReport{f.Scale, f.Large} {
			if s != nil && (s == f.Large) == (part == "large") {
				for i := range s.Sizes {
					add(&s.Sizes[i].Small)
					add(&s.Sizes[i].Large)
				}
			}
		}
	}
	return m
}

// Print writes the table, and what the comparisons in it are made of.
func (f *Figures) Print(out io.Writer) error {
	if err := f.Environment.Print(out); err != nil {
		return err
	}
	table := newSheet(out)
	table.row("what\ttarget\tverdict\tmeasured")
	for _, row := range f.Rows() {
		table.row("%s\t%s\t%s\t%s", row.What, row.Target, row.Stands(), row.Measured)
	}
	failed := table.end()
	for _, c := range f.comparisons() {
		failed = errors.Join(failed, printf(out, "\n"), c.printResults(out))
	}
	return failed
}

// comparedMachine is the worst of a comparison's rounds: what others do while systems start and
// stop disturbs nothing.
func comparedMachine(comparisons []Comparison, part string) (m Machine) {
	for _, c := range comparisons {
		for _, r := range c.Results {
			if string(r.Scenario) == part || part == "batch" && r.Scenario == ScenarioBatch {
				m = m.worse(r.Machine)
			}
		}
		for _, t := range c.Tools {
			if string(t.Scenario) == part {
				m = m.worse(t.Machine)
			}
		}
	}
	return m
}

func (f *Figures) comparisons() []Comparison {
	if f.Network == nil {
		return f.Comparisons
	}
	return append(slices.Clone(f.Comparisons), *f.Network)
}
