package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// ScenarioRecover kills each process in turn, and measures how long it takes to serve again with
// all that it was told before: Events of log, or a snapshot of Customers, or both.
const ScenarioRecover Scenario = "recover"

// RecoverReport is what came of ScenarioRecover. Durations are nanoseconds in JSON.
type RecoverReport struct {
	Config
	Name                string
	Setup, Verification time.Duration
	Restarts            []Restart
	Verified            Verification
}

// Restart is a process that was killed and started again.
type Restart struct {
	Name string
	// Took is from starting the process to its serving.
	Took time.Duration
	// SnapshotEntry is the last entry of the log in its newest snapshot, LastEntry the last one that
	// it had: those between them it had to apply. LogBytes is the log on its disk.
	SnapshotEntry, LastEntry, LogBytes uint64
	// Restored is how long reading the snapshot took, of Took; 0 if there was none.
	Restored time.Duration
}

// Metrics of a node that ScenarioRecover reads.
const (
	snapshotIndexMetric = `tollgate_cluster_snapshot_index{group="billing"} `
	appliedMetric       = `tollgate_cluster_applied_index{group="billing"} `
	logBytesMetric      = `tollgate_cluster_log_bytes{group="billing"} `
	restoreMetric       = `tollgate_cluster_restore_seconds_sum{group="billing"} `
)

// Recover carries out ScenarioRecover. A counter that is not what was acknowledged refuses it.
func (r *Run) Recover(ctx context.Context) (RecoverReport, error) {
	report := RecoverReport{Config: r.Config, Name: r.name}
	if r.Faults == nil {
		return report, errors.New("recover needs a cluster that the harness started (--start)")
	}
	begin := time.Now()
	if err := r.createCustomers(ctx); err != nil {
		return report, fmt.Errorf("create customers: %w", err)
	}
	if err := r.fill(ctx, r.Events); err != nil {
		return report, fmt.Errorf("record events: %w", err)
	}
	report.Setup = time.Since(begin)
	for i, p := range r.Processes {
		restart, err := r.restart(ctx, p, r.Admin.Nodes[i])
		if err != nil {
			return report, fmt.Errorf("%s: %w", p.Name, err)
		}
		report.Restarts = append(report.Restarts, restart)
		r.Progress.say("%s served again after %s", p.Name, restart.Took.Round(time.Millisecond))
	}
	begin = time.Now()
	var err error
	report.Verified, err = r.verify(ctx)
	report.Verification = time.Since(begin)
	if err != nil {
		return report, refuse("%s", err.Error())
	}
	return report, nil
}

// restart kills one process and starts it again.
func (r *Run) restart(ctx context.Context, p Process, node string) (one Restart, err error) {
	before, err := metrics(ctx, node, snapshotIndexMetric, appliedMetric, logBytesMetric)
	if err != nil {
		return one, err
	}
	one = Restart{
		Name: p.Name, SnapshotEntry: uint64(before[snapshotIndexMetric]),
		LastEntry: uint64(before[appliedMetric]), LogBytes: uint64(before[logBytesMetric]),
	}
	if err = kill(ctx, p); err != nil {
		return one, err
	}
	if err = TouchMemory(ctx, r.Touch); err != nil {
		return one, err
	}
	begin := time.Now()
	if _, err = r.Faults.Restart(ctx, p.Name); err != nil {
		return one, err
	}
	one.Took = time.Since(begin)
	restored, err := metric(ctx, node, restoreMetric)
	one.Restored = seconds(restored)
	return one, err
}

// kill ends a process with SIGKILL, and returns when it is gone.
func kill(ctx context.Context, p Process) error {
	process, err := os.FindProcess(p.PID)
	if err == nil {
		err = process.Kill()
	}
	if err != nil {
		return fmt.Errorf("kill %s: %w", p.Name, err)
	}
	for processStart(p.PID) != 0 && ctx.Err() == nil {
		pause(ctx, time.Millisecond)
	}
	return ctx.Err()
}

// Print writes the report as a table.
func (r RecoverReport) Print(out io.Writer) error {
	table := newSheet(out)
	table.row("scenario\t%s on %s: %d customers, %d events, setup %s", r.Scenario, r.System,
		r.Customers, r.Events, r.Setup.Round(time.Second))
	for _, one := range r.Restarts {
		table.row("%s\tserved again after %s; snapshot to entry %d (read in %s), log to %d (%d MiB)",
			one.Name, one.Took.Round(time.Millisecond), one.SnapshotEntry,
			one.Restored.Round(time.Millisecond), one.LastEntry, one.LogBytes>>20)
	}
	table.row("counted\t%d, acknowledged %d", r.Verified.Counted, r.Verified.Acknowledged)
	return table.end()
}
