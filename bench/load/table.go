package load

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// Print writes the environment.
func (e Environment) Print(out io.Writer) error {
	_, err := fmt.Fprintf(out, "%s, %d cores (%s), %d GiB, Linux %s, %s, commit %.12s\n"+
		"load before %s, fsync %s (slowest of %d: %s)\n\n",
		e.At.Format(time.RFC3339), e.Cores, e.CPU, e.MemoryBytes>>30, e.Kernel, e.Go, e.Commit,
		e.LoadBefore, e.Sync.Round(time.Microsecond), syncTries, e.SlowestSync.Round(time.Microsecond))
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// Print writes the comparison as a table.
func (c Comparison) Print(out io.Writer) error {
	if err := c.Environment.Print(out); err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	var failed error
	print := func(format string, args ...any) {
		if _, err := fmt.Fprintf(table, format+"\n", args...); err != nil {
			failed = err
		}
	}
	print("scenario\tsystem\ta second\tslowest–fastest\tp50\tp99\tp99.9\t" +
		"generator\tsystem\tMiB\tratio\tp99")
	for _, r := range c.Results {
		generator, used, resident := r.machine()
		print("%s\t%s\t%.0f\t%.0f–%.0f\t%s\t%s\t%s\t%.2f\t%.2f\t%d\t%.2f\t%.2f", r.load(), r.System,
			r.Rate, r.Slowest, r.Fastest, r.Latency["p50"], r.Latency["p99"], r.Latency["p99.9"],
			generator, used, resident>>20, r.Ratio, r.LatencyRatio)
	}
	failed = errors.Join(failed, table.Flush())
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		if _, err := fmt.Fprintf(out, "\n%s, by its own tool:\n%s\n", name, c.Tools[name]); err != nil {
			failed = err
		}
	}
	if failed != nil {
		return fmt.Errorf("print: %w", failed)
	}
	return nil
}

// load names what was put on: the scenario, and the rate of an open loop.
func (r Result) load() string {
	if r.Offered == 0 {
		return string(r.Scenario)
	}
	return fmt.Sprintf("%s at %d/s", r.Scenario, r.Offered)
}

// machine is what the last round used of the machine: cores of the generator and of the system's
// processes together, and their memory.
func (r Result) machine() (generator, used float64, resident uint64) {
	last := r.Rounds[len(r.Rounds)-1]
	for _, p := range last.Used {
		used += p.Cores
		resident += p.Resident
	}
	return last.GeneratorCores, used, resident
}
