package load

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Report is what came of a run. Durations are nanoseconds in JSON.
type Report struct {
	Config
	Name                         string
	Setup, Elapsed, Verification time.Duration
	// Requests and Units (checks or events) were answered with success within Elapsed.
	Requests, Units       uint64
	RequestRate, UnitRate float64 // a second
	// Latency of a request, by percentile.
	Latency map[string]time.Duration
	// Timeline is the same over the time. Late is how late the generator made requests of an open
	// loop known, of 99 in 100 at most, though nothing held them up.
	Timeline []Moment
	Late     time.Duration
	// Faults are what was done to the system meanwhile, and what it did besides.
	Faults []Fault `json:",omitempty"`
	// Snapshots were written, by all nodes together, and Elections held; MaxEntry is what the
	// longest entry kept a node's state machine.
	Snapshots, Elections int
	MaxEntry             time.Duration
	seen                 seen

	Refused  uint64
	Errors   map[string]uint64
	Verified Verification
	// GeneratorCores is how many cores the generator itself used on the average.
	GeneratorCores float64
	Used           []ProcessUse
	Machine        Machine
	// Open is the same load again, as an open loop below the rate that this one reached: its latency
	// counts from when a request was due. Of a Contest.
	Open *Report `json:",omitempty"`
}

// Fault is something that was done to a system under load, or that it did.
type Fault struct {
	// At is when, after the measurement began.
	At   time.Duration
	What string
}

// newHistogram is of microseconds, up to a minute.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(time.Minute/time.Microsecond), 2)
}

func byPercentile(h *hdrhistogram.Histogram) map[string]time.Duration {
	latency := map[string]time.Duration{}
	for _, p := range percentiles {
		latency[fmt.Sprintf("p%g", p)] = time.Duration(h.ValueAtQuantile(p)) * time.Microsecond
	}
	return latency
}

var percentiles = []float64{50, 75, 90, 95, 99, 99.5, 99.9, 99.99, 100}

func (r *Run) collect(workers []*worker, report *Report) {
	all := newHistogram()
	for _, w := range workers {
		all.Merge(w.latency)
		report.Requests += w.requests
		report.Units += w.units
	}
	seconds := report.Elapsed.Seconds()
	report.RequestRate = float64(report.Requests) / seconds
	report.UnitRate = float64(report.Units) / seconds
	report.Latency = byPercentile(all)
	report.Timeline = timeline(workers, report.Elapsed)
}

// problems copies the errors noted so far into the report.
func (r *Run) problems(report *Report) {
	report.Refused = r.refused.Load()
	r.errors.mu.Lock()
	defer r.errors.mu.Unlock()
	report.Errors = maps.Clone(r.errors.count)
}

// Print writes the report as a table.
func (r Report) Print(out io.Writer) error {
	table := newSheet(out)
	what := "events"
	if !r.Scenario.writes() {
		what = "checks"
	}
	table.row("scenario\t%s on %s, %d connections to %d nodes, %d customers at random",
		r.Scenario, r.System, r.Connections, len(r.Nodes), r.Customers)
	if r.Scenario.batches() {
		table.row("batch\t%d events a request", r.Batch)
	}
	if r.Rate > 0 {
		table.row("due\t%d requests a second; made known late by %s at most (p99)", r.Rate, r.Late)
	}
	table.row(what+"\t%.0f a second (%d in %s)", r.UnitRate, r.Units,
		r.Elapsed.Round(time.Millisecond))
	table.row("requests\t%.0f a second", r.RequestRate)
	table.row("latency\tp50 %s  p90 %s  p99 %s  p99.9 %s  max %s",
		r.Latency["p50"], r.Latency["p90"], r.Latency["p99"], r.Latency["p99.9"], r.Latency["p100"])
	if len(r.Used) > 0 {
		table.row("cost\t%.2f µs of the system's processors each, %s bytes written", 1e6*r.Cost(),
			r.WrittenEach())
	}
	table.row("generator\t%.2f cores, %.0f %% of what was used", r.GeneratorCores,
		100*r.GeneratorShare())
	table.row("machine\t%.2f foreign cores, %.1f %% steal%s", r.Machine.Foreign, 100*r.Machine.Steal,
		marked(r.Machine, ": DISTURBED"))
	if len(r.Admin.Nodes) > 0 {
		table.row("meanwhile\t%d snapshots, %d elections; longest entry %s", r.Snapshots, r.Elections,
			r.MaxEntry.Round(time.Microsecond))
	}
	for _, p := range r.Used {
		table.row("%s\t%.2f cores, %d MiB, %d MiB written", p.Name, p.Cores, p.Resident>>20,
			p.Written>>20)
	}
	v := r.Verified
	if !r.Blank {
		table.row("counted\t%d, acknowledged %d, fate unknown %d", v.Counted, v.Acknowledged, v.Unknown)
	}
	if !r.Blank && !r.Unaudited {
		table.row("audit\t%d events for %d checks (of %d customers)",
			v.AuditEvents, v.Checks, v.AuditCustomers)
	}
	table.row("refused\t%d", r.Refused)
	table.mistakes(r.Errors)
	return table.end()
}

// marked is a mark, where a measurement was disturbed.
func marked(m Machine, mark string) string {
	if m.Disturbed() == "" {
		return ""
	}
	return mark
}

// JSON writes the report for programs.
func (r Report) JSON(out io.Writer) error { return JSON(r, out) }

// JSON writes any report for programs.
func JSON(report any, out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(report); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}
