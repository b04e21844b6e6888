package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// ScenarioSnapshot records batches while nodes write snapshots now and then, and compares the rate
// beside a snapshot with the rate without one.
const ScenarioSnapshot Scenario = "snapshot-under-load"

// SnapshotReport is what came of ScenarioSnapshot. Durations are nanoseconds in JSON.
type SnapshotReport struct {
	Report
	// Snapshots were written, by all nodes together, while it was measured; Beside is how long at
	// least one was.
	Snapshots int
	Beside    time.Duration
	// RateBeside and RateWithout are events a second, Ratio the first by the second.
	RateBeside, RateWithout, Ratio float64
	// LongestEntry is what the longest entry kept a node's state machine.
	LongestEntry time.Duration
}

// Metrics of a node that ScenarioSnapshot reads.
const (
	snapshotsMetric    = `tollgate_cluster_snapshot_seconds_count{group="billing"} `
	snapshotTimeMetric = `tollgate_cluster_snapshot_seconds_sum{group="billing"} `
	snapshotAtMetric   = `tollgate_cluster_snapshot_last_timestamp_seconds{group="billing"} `
)

const (
	// lookEvery is how often nodes are asked; snapshots in between are seen later.
	lookEvery = 200 * time.Millisecond
	// leastPart is the share of the time that must be beside snapshots, and without them.
	leastPart = 0.1
)

// span is a part of the measurement's time, since it began.
type span struct{ from, to time.Duration }

// Snapshots carries out ScenarioSnapshot. Besides what refuses every run, too few snapshots do, or
// so many that hardly any time is without one.
func (r *Run) Snapshots(ctx context.Context) (SnapshotReport, error) {
	var report SnapshotReport
	if len(r.Admin.Nodes) == 0 {
		return report, errors.New("snapshot-under-load needs a cluster of `tollgate dev`")
	}
	var spans []span
	all, workers, err := r.carryOut(ctx, func(ctx context.Context, begin time.Time) error {
		var watchErr error
		spans, watchErr = r.watchSnapshots(ctx, begin, &report.LongestEntry)
		return watchErr
	})
	report.Report = all
	if err != nil {
		return report, err
	}
	for _, s := range spans {
		report.Faults = append(report.Faults, Fault{s.from, "snapshot"})
	}
	report.Snapshots = len(spans)
	spans = union(spans, all.Elapsed)
	for _, s := range spans {
		report.Beside += s.to - s.from
	}
	if part := float64(report.Beside) / float64(all.Elapsed); part < leastPart || part > 1-leastPart {
		return report, &Refusal{[]string{fmt.Sprintf("%d snapshots took %.0f %% of the time: want %.0f "+
			"to %.0f %%; --log-mib says after how much log a node writes one", report.Snapshots, 100*part,
			100*leastPart, 100*(1-leastPart))}}
	}
	beside, without := requestsBeside(workers, spans, all.Elapsed)
	report.RateBeside = float64(beside*r.Batch) / report.Beside.Seconds()
	report.RateWithout = float64(without*r.Batch) / (all.Elapsed - report.Beside).Seconds()
	report.Ratio = report.RateBeside / report.RateWithout
	return report, nil
}

// requestsBeside counts the requests that were answered within one of the spans, and the others.
func requestsBeside(workers []*worker, spans []span, elapsed time.Duration) (beside, without int) {
	for _, w := range workers {
		for _, s := range w.samples {
			at := time.Duration(s.at+s.latency) * time.Microsecond
			if slices.ContainsFunc(spans, func(s span) bool { return s.from <= at && at < s.to }) {
				beside++
			} else if at < elapsed {
				without++
			}
		}
	}
	return beside, without
}

// watchSnapshots asks the nodes for as long as is measured when they wrote snapshots.
func (r *Run) watchSnapshots(ctx context.Context, begin time.Time, longest *time.Duration,
) (spans []span, err error) {
	type written struct{ count, seconds float64 }
	before := map[string]written{}
	for end := begin.Add(r.Duration); ; pause(ctx, min(lookEvery, time.Until(end))) {
		last := !time.Now().Before(end)
		for _, node := range r.Admin.Nodes {
			m, err := metrics(ctx, node, snapshotsMetric, snapshotTimeMetric, snapshotAtMetric,
				longestMetric)
			if err != nil {
				return nil, err
			}
			now := written{m[snapshotsMetric], m[snapshotTimeMetric]}
			was, known := before[node]
			before[node] = now
			if !known {
				continue
			}
			*longest = max(*longest, seconds(m[longestMetric]))
			if now.count > was.count { // one, mostly: the later end counts
				to := time.UnixMilli(int64(m[snapshotAtMetric] * 1000)).Sub(begin)
				spans = append(spans, span{to - seconds(now.seconds-was.seconds), to})
			}
		}
		if last || ctx.Err() != nil {
			return spans, ctx.Err()
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// union is the spans without their overlaps, within what was measured.
func union(spans []span, elapsed time.Duration) (all []span) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for _, s := range spans {
		s = span{max(0, s.from), min(elapsed, s.to)}
		switch {
		case s.from >= s.to:
		case len(all) > 0 && s.from <= all[len(all)-1].to:
			all[len(all)-1].to = max(all[len(all)-1].to, s.to)
		default:
			all = append(all, s)
		}
	}
	return all
}

// Print writes the report as a table.
func (r SnapshotReport) Print(out io.Writer) error {
	if err := r.Report.Print(out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d snapshots, for %s in all: %.0f events a second beside them, %.0f "+
		"without, ratio %.2f; longest entry %s\n", r.Snapshots, r.Beside.Round(time.Millisecond),
		r.RateBeside, r.RateWithout, r.Ratio, r.LongestEntry.Round(time.Microsecond))
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}
