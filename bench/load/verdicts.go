package load

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// versus returns the first result of Tollgate in a scenario, and the fastest of the other systems.
func (f *Figures) versus(scenario Scenario, others ...string) (ours, theirs *Result) {
	for _, c := range f.Comparisons {
		var first, best *Result
		for i := range c.Results {
			r := &c.Results[i]
			if r.Scenario != scenario || r.Offered != 0 {
				continue
			}
			if first == nil && strings.HasPrefix(r.System, "tollgate") {
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

// against is Tollgate's rate by that of the fastest of the others, and their processor time by
// Tollgate's; 0: whatever it is.
func against(s Scenario, rate, cost float64, others ...string) func(*Figures) (string, Verdict) {
	return func(f *Figures) (string, Verdict) {
		text, figures := f.against(s, rate, cost, others...)
		return text, over(figures)
	}
}

// against measures against others, and the floor with us; an empty text if there are none.
func (f *Figures) against(s Scenario, rate, cost float64, others ...string) (string, []figure) {
	ours, theirs := f.versus(s, others...)
	if ours == nil {
		return "", nil
	}
	byRate, byCost := ratios(ours, theirs)
	text := fmt.Sprintf("%.2f · %.2f (%s; %s)", byRate, byCost, ours.side(), theirs.side())
	figures := []figure{
		{"rate", byRate >= rate, true}, {"server CPU", byCost >= cost, true},
	}
	if _, floor := f.versus(s, "floor"); floor != nil {
		floorRate, floorCost := ratios(floor, theirs)
		figures[0].floor, figures[1].floor = floorRate >= rate, floorCost >= cost
		text += fmt.Sprintf("; floor %.2f · %.2f (%s)", floorRate, floorCost, floor.side())
	}
	return text, figures
}

// figure is one of those that a target names: whether we meet it, and whether the prototype of the
// least that has to be done does. A floor that was not measured counts as meeting it.
type figure struct {
	name        string
	ours, floor bool
}

// over is the verdict on a target of several figures. The limit of one that we miss is proven if
// the floor of the same run misses it, too. What the floor meets can be reached, and is said to be
// missed.
func over(figures []figure) Verdict {
	var missed, proven []string
	for _, f := range figures {
		if f.ours {
			continue
		}
		if f.floor {
			missed = append(missed, f.name)
		} else {
			proven = append(proven, f.name)
		}
	}
	switch {
	case len(missed)+len(proven) == 0:
		return VerdictHolds
	case len(proven) == 0:
		return VerdictFails
	case len(missed) == 0:
		return VerdictProven
	}
	return Verdict(fmt.Sprintf("%s: %s; %s: %s", strings.Join(missed, " and "), VerdictFails,
		strings.Join(proven, " and "), VerdictProven))
}

// ratios is by how much we are better, in rate and in processor time.
func ratios(ours, theirs *Result) (rate, cost float64) {
	return ours.Rate / theirs.Rate, theirs.Cost / max(ours.Cost, 1e-12)
}

// side is what a system did.
func (r *Result) side() string {
	text := fmt.Sprintf("%s %.0f/s, %.1f µs, p99 %s, generator %.0f %%", r.System, r.Rate, 1e6*r.Cost,
		r.p99(), 100*r.Generator)
	if r.Scenario.writes() && len(r.Rounds) > 0 {
		text += fmt.Sprintf(", %s B written", r.last().WrittenEach())
	}
	if strings.HasPrefix(r.System, "tollgate") {
		text += fmt.Sprintf(", %d snapshots", r.Snapshots)
	}
	return text
}

func checkOfBare(f *Figures) (string, Verdict) {
	text, figures := f.ofBare(ScenarioCheck, 0.85, 0.70)
	ours, theirs := f.versus(ScenarioCheck, "bare")
	if ours == nil {
		return text, over(figures)
	}
	const most = 2
	by := func(r *Result) float64 {
		return float64(r.Latency["p99"]) / float64(max(theirs.Latency["p99"], 1))
	}
	p99 := figure{"p99", by(ours) <= most, true}
	if _, floor := f.versus(ScenarioCheck, "floor"); floor != nil {
		p99.floor = by(floor) <= most
	}
	return fmt.Sprintf("%s, p99 %.2f ×", text, by(ours)), over(append(figures, p99))
}

func eventOfBare(f *Figures) (string, Verdict) {
	text, figures := f.ofBare(ScenarioIngest, 0.50, 0.35)
	return text, over(figures)
}

// ofBare is against both bare handlers; the target is about that of fasthttp.
func (f *Figures) ofBare(s Scenario, rate, cost float64) (string, []figure) {
	text, figures := f.against(s, rate, cost, "bare")
	if ours, theirs := f.versus(s, "bare-epoll"); ours != nil {
		byRate, byCost := ratios(ours, theirs)
		text += fmt.Sprintf("; of an epoll loop %.2f · %.2f (%s)", byRate, byCost, theirs.side())
	}
	return text, figures
}

// throughAll is events that come to all nodes, of which followers hand theirs on to the leader, by
// events that come to the leader.
func throughAll(f *Figures) (string, Verdict) {
	leader, all := f.versus(ScenarioIngest, "tollgate")
	if leader == nil || leader.System == all.System {
		return "", VerdictUnknown
	}
	byRate, byCost := ratios(all, leader)
	return fmt.Sprintf("%.2f · %.2f (%s; %s)", byRate, byCost, all.side(), leader.side()), VerdictNone
}

// byTools is what a peer does under its own tools.
func byTools(s Scenario, system string) func(*Figures) (string, Verdict) {
	return func(f *Figures) (string, Verdict) {
		var all []string
		for _, c := range f.Comparisons {
			for _, t := range c.Tools {
				if t.Scenario == s && t.System == system && t.Failed == "" {
					all = append(all, fmt.Sprintf("%s: %.0f/s, %.1f µs", t.Tool, t.Rate, 1e6*t.Cost))
				}
			}
		}
		return strings.Join(all, "; "), VerdictNone
	}
}

// published are figures that TigerBeetle's makers gave, in public, of its own benchmark: one node,
// its own protocol, batches of 8,189 transfers. They stand next to batches of Tollgate.
func published(f *Figures) (string, Verdict) {
	if ours, _ := f.versus(ScenarioBatch); ours == nil {
		return "", VerdictUnknown
	}
	return "301,887 transfers/s, p99 of a batch 32 ms, on a developer's machine that is not named " +
		"(github.com/tigerbeetle/tigerbeetle, pull request 3021, June 2025); about 160,000/s on a shared " +
		"machine of its continuous integration (issue 1940, May 2024)", VerdictNone
}

// overNetwork is Tollgate with a network between its nodes, by Tollgate without.
func overNetwork(f *Figures) (string, Verdict) {
	if f.Network == nil || len(f.Network.Results) < 2 {
		return "", VerdictUnknown
	}
	near, far := &f.Network.Results[0], &f.Network.Results[1]
	byRate, byCost := ratios(far, near)
	return fmt.Sprintf("%.2f · %.2f (%s; %s); by proxies in the generator's process", byRate, byCost,
		far.side(), near.side()), VerdictNone
}

func batches(f *Figures) (string, Verdict) {
	ours, _ := f.versus(ScenarioBatch)
	if ours == nil {
		return "", VerdictUnknown
	}
	const (
		rate = 400_000
		p99  = 100 * time.Millisecond
	)
	text := func(r *Result) string {
		return fmt.Sprintf("%.0f/s, p99 %s", r.Rate, r.Latency["p99"].Round(time.Millisecond))
	}
	fast := func(r *Result) bool { return r.Rate >= rate }
	soon := func(r *Result) bool { return r.Latency["p99"] <= p99 }
	figures := []figure{{"rate", fast(ours), true}, {"p99", soon(ours), true}}
	_, floor := f.versus(ScenarioBatch, "floor")
	if floor == nil {
		return text(ours), over(figures)
	}
	figures[0].floor, figures[1].floor = fast(floor), soon(floor)
	return text(ours) + "; floor " + text(floor), over(figures)
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
	alone, found := f.Benchmarks["BenchmarkCheck/1000000"]
	if !found {
		return "", VerdictUnknown
	}
	text := fmt.Sprintf("%.0f ns, %.0f allocations", alone["ns/op"], alone["allocs/op"])
	holds := alone["ns/op"] <= 500 && alone["allocs/op"] == 0
	together, found := f.Benchmarks["BenchmarkCheckTogether/1000000"]
	if !found {
		return text + "; together not measured", sized(holds, false)
	}
	return fmt.Sprintf("%.0f · %.0f ns, %.0f · %.0f allocations", alone["ns/op"], together["ns/op"],
			alone["allocs/op"], together["allocs/op"]),
		verdict(holds && together["ns/op"] <= 300 && together["allocs/op"] == 0)
}

// reservationInEngine is the processor time of reserving and of settling by that of an event.
func reservationInEngine(f *Figures) (string, Verdict) {
	event := f.Benchmarks["BenchmarkReservation/event"]["cpu-ns/op"]
	reserve := f.Benchmarks["BenchmarkReservation/reserve"]["cpu-ns/op"]
	settle := f.Benchmarks["BenchmarkReservation/settle"]["cpu-ns/op"]
	if event == 0 || reserve == 0 || settle == 0 {
		return "", VerdictUnknown
	}
	return fmt.Sprintf("%.2f · %.2f (%.0f · %.0f / %.0f ns)", reserve/event, settle/event, reserve,
		settle, event), verdict(reserve <= 1.3*event && settle <= 1.3*event)
}

// reservationBytes is what a hold takes with its item, and each item more.
func reservationBytes(f *Figures) (string, Verdict) {
	all, found := f.Benchmarks["BenchmarkReservationMemory"]
	if !found {
		return "", VerdictUnknown
	}
	open := all["open-B/hold"] + all["open-B/item"]
	closed := all["closed-B/hold"] + all["closed-B/item"]
	return fmt.Sprintf("%.0f · %.0f B, %.0f an item more", open, closed, all["open-B/item"]),
		verdict(open <= 96 && closed <= 96)
}

func budgetInEngine(f *Figures) (string, Verdict) {
	without := f.Benchmarks["BenchmarkApplyBudgetedUsage/levels=0"]["cpu-ns/event"]
	with := f.Benchmarks["BenchmarkApplyBudgetedUsage/levels=5"]["cpu-ns/event"]
	if without == 0 || with == 0 {
		return "", VerdictUnknown
	}
	return fmt.Sprintf("%.2f (%.0f / %.0f ns)", with/without, with, without),
		verdict(with <= 1.5*without)
}

func checkWithBudget(f *Figures) (string, Verdict) {
	all, found := f.Benchmarks["BenchmarkCheckWithBudget/units=1"]
	if !found {
		return "", VerdictUnknown
	}
	return fmt.Sprintf("%.0f ns, %.0f allocations", all["ns/op"], all["allocs/op"]),
		verdict(all["ns/op"] <= 800 && all["allocs/op"] == 0)
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
	cost := f.Scale.Sizes[0].Cost
	return f.Scale.text(), sized(cost <= 1.25, f.Scale.Customers >= goalCustomers)
}

func largeOverHTTP(f *Figures) (string, Verdict) {
	if f.Large == nil {
		return "", VerdictUnknown
	}
	return f.Large.text(), VerdictNone
}

func besideSnapshots(f *Figures) (string, Verdict) {
	s := f.Snapshot
	if s == nil {
		return "", VerdictUnknown
	}
	return fmt.Sprintf("%.2f, entry %s (%d customers, %d keys; %d snapshots, for %s of %s)", s.Ratio,
			s.MaxEntry.Round(time.Millisecond), s.Customers, s.Config.Events, s.Snapshots,
			s.Beside.Round(time.Second), s.Elapsed.Round(time.Second)),
		sized(s.Ratio >= 0.85 && s.MaxEntry <= 20*time.Millisecond,
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
		if k.Gap <= 700*time.Millisecond {
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
// processors. Of several runs of one the median counts, unit by unit.
func Benchmarks(output io.Reader) (map[string]map[string]float64, error) {
	runs := map[string]map[string][]float64{}
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
		if runs[name] == nil {
			runs[name] = map[string][]float64{}
		}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("benchmark %s: %w", name, err)
			}
			runs[name][fields[i+1]] = append(runs[name][fields[i+1]], value)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("benchmarks: %w", err)
	}
	all := make(map[string]map[string]float64, len(runs))
	for name, units := range runs {
		all[name] = make(map[string]float64, len(units))
		for unit, values := range units {
			all[name][unit] = median(values)
		}
	}
	return all, nil
}
