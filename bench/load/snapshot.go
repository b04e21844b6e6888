package load

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"
)

// ScenarioSnapshot records batches while nodes write snapshots now and then, and compares the rate
// during a snapshot with the rate without one.
const ScenarioSnapshot Scenario = "snapshot-under-load"

// SnapshotReport is what came of ScenarioSnapshot. Durations are nanoseconds in JSON.
type SnapshotReport struct {
	Report
	// Beside is how long at least one snapshot was written.
	Beside time.Duration
	// RateBeside and RateWithout are events a second, Ratio the first by the second.
	RateBeside, RateWithout, Ratio float64
}

// Metrics of a node that are watched.
const (
	snapshotsMetric    = `tollgate_cluster_snapshot_seconds_count{group="billing"} `
	snapshotTimeMetric = `tollgate_cluster_snapshot_seconds_sum{group="billing"} `
	snapshotAtMetric   = `tollgate_cluster_snapshot_last_timestamp_seconds{group="billing"} `
	termMetric         = `tollgate_cluster_term{group="billing"} `
)

const (
	// lookEvery is how often nodes are asked: snapshots in between are seen later. An answer costs a
	// node about a millisecond, so where snapshots are not what is measured it is seldom.
	lookEvery  = 200 * time.Millisecond
	lookSeldom = 2 * time.Second
	// minPart is the share of the time that must be during snapshots, and without them.
	minPart = 0.1
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
	all, workers, err := r.carryOut(ctx, r.hold)
	report.Report = all
	if err == nil {
		err = all.seen.failed
	}
	if err != nil {
		return report, err
	}
	spans := union(all.seen.snapshots, all.Elapsed)
	for _, s := range spans {
		report.Beside += s.to - s.from
	}
	if part := float64(report.Beside) / float64(all.Elapsed); part < minPart || part > 1-minPart {
		return report, refuse("%d snapshots took %.0f %% of the time: want %.0f "+
			"to %.0f %%; --log-mib says after how much log a node writes one", report.Snapshots, 100*part,
			100*minPart, 100*(1-minPart))
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

// seen is what nodes did while it was measured.
type seen struct {
	snapshots []span
	elections []time.Duration // of the billing group; when they were seen
	longest   time.Duration
	failed    error // the first time that a node did not say
}

// watch asks the nodes what they do until ctx ends, and once more then.
func (r *Run) watch(ctx context.Context, begin time.Time) (s seen) {
	every := lookSeldom
	if r.Scenario == ScenarioSnapshot {
		every = lookEvery
	}
	type written struct{ count, seconds float64 }
	before, term := map[string]written{}, 0.0
	for last := false; ; {
		for _, node := range r.Admin.Nodes {
			m, err := metrics(context.WithoutCancel(ctx), node, snapshotsMetric, snapshotTimeMetric,
				snapshotAtMetric, maxMetric, termMetric)
			if err != nil {
				s.failed = cmp.Or(s.failed, err)
				continue
			}
			if was := term; m[termMetric] > was {
				if term = m[termMetric]; was > 0 {
					s.elections = append(s.elections, time.Since(begin))
				}
			}
			now := written{m[snapshotsMetric], m[snapshotTimeMetric]}
			was, known := before[node]
			before[node] = now
			if !known {
				continue
			}
			s.longest = max(s.longest, seconds(m[maxMetric]))
			if now.count > was.count { // one, mostly: the later end counts
				to := time.UnixMilli(int64(m[snapshotAtMetric] * 1000)).Sub(begin)
				s.snapshots = append(s.snapshots, span{to - seconds(now.seconds-was.seconds), to})
			}
		}
		if last {
			return s
		}
		pause(ctx, every)
		last = ctx.Err() != nil
	}
}

// note fills in what nodes did.
func (r *Report) note(s seen) {
	r.seen, r.Snapshots, r.Elections = s, len(s.snapshots), len(s.elections)
	r.MaxEntry = s.longest
	for _, one := range s.snapshots {
		r.Faults = append(r.Faults, Fault{one.from, "snapshot"})
	}
	for _, at := range s.elections {
		r.Faults = append(r.Faults, Fault{at, "election"})
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
	return printf(out, "%d snapshots, for %s in all: %.0f events a second during them, %.0f "+
		"without, ratio %.2f; longest entry %s\n", r.Snapshots, r.Beside.Round(time.Millisecond),
		r.RateBeside, r.RateWithout, r.Ratio, r.MaxEntry.Round(time.Microsecond))
}
