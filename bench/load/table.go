package load

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// sheet prints rows of cells, with a tab between two, in columns.
type sheet struct {
	columns *tabwriter.Writer
	failed  error
}

func newSheet(out io.Writer) *sheet {
	return &sheet{columns: tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)}
}

func (s *sheet) row(format string, args ...any) {
	s.failed = cmp.Or(s.failed, printf(s.columns, format+"\n", args...))
}

// mistakes prints how often each error happened, of ten kinds.
func (s *sheet) mistakes(count map[string]uint64) {
	for i, message := range slices.Sorted(maps.Keys(count)) {
		if i == 10 {
			s.row("error\t… and %d more kinds", len(count)-i)
			break
		}
		s.row("error\t%d × %s", count[message], message)
	}
}

// end prints what was held back to align it.
func (s *sheet) end() error {
	if err := s.columns.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return s.failed
}

func printf(out io.Writer, format string, args ...any) error {
	if _, err := fmt.Fprintf(out, format, args...); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// Print writes the environment.
func (e Environment) Print(out io.Writer) error {
	return printf(out, "%s, %d cores (%s), %d GiB, Linux %s, %s, commit %.12s\n"+
		"load before %s, fsync %s (slowest of %d: %s)\n\n",
		e.At.Format(time.RFC3339), e.Cores, e.CPU, e.MemoryBytes>>30, e.Kernel, e.Go, e.Commit,
		e.LoadBefore, e.Sync.Round(time.Microsecond), syncTries, e.SlowestSync.Round(time.Microsecond))
}

// Print writes the comparison as a table.
func (c Comparison) Print(out io.Writer) error {
	if err := c.Environment.Print(out); err != nil {
		return err
	}
	return c.printResults(out)
}

func (c Comparison) printResults(out io.Writer) error {
	table := newSheet(out)
	table.row("scenario\tsystem\tserver µs\ta second\tslowest–fastest\tgenerator\tp50\tp99\tp99.9\t" +
		"bytes written\tsnapshots\tMiB\tserver µs\trate\tp99\t")
	for _, r := range c.Results {
		table.row("%s\t%s\t%.2f\t%.0f\t%.0f–%.0f\t%.0f %%\t%s\t%s\t%s\t%s\t%d\t%d\t"+
			"%.2f ×\t%.2f ×\t%.2f ×\t%s", r.load(), r.System, 1e6*r.Cost, r.Rate, r.Slowest, r.Fastest,
			100*r.Generator, r.Latency["p50"], r.p99(), r.Latency["p99.9"],
			r.last().WrittenEach(), r.Snapshots, r.resident()>>20, r.CostRatio, r.Ratio, r.LatencyRatio,
			marked(r.Machine, "DISTURBED"))
	}
	for _, t := range c.Tools {
		if t.Failed != "" {
			table.row("%s\t%s\tfailed: %s", t.Scenario, t.Tool, t.Failed)
			continue
		}
		table.row("%s\t%s: %s\t%.2f\t%.0f%s", t.Scenario, t.System, t.Tool, 1e6*t.Cost, t.Rate,
			marked(t.Machine, "\tDISTURBED"))
	}
	return table.end()
}

// load names what was put on: the scenario, and the rate of an open loop.
func (r Result) load() string { return loadName(r.Scenario, r.Offered) }

func loadName(scenario Scenario, rate int) string {
	if rate == 0 {
		return string(scenario)
	}
	return fmt.Sprintf("%s at %d/s", scenario, rate)
}

// p99 is that of the latency, and a mark where it is of a saturated machine.
func (r Result) p99() string {
	text := r.Latency["p99"].Round(10 * time.Microsecond).String()
	if r.Saturated {
		text += " (machine saturated)"
	}
	return text
}

func (r Result) last() Report { return r.Rounds[len(r.Rounds)-1] }

// resident is the memory of the system's processes in the last round.
func (r Result) resident() (sum uint64) {
	for _, p := range r.last().Used {
		sum += p.Resident
	}
	return sum
}
