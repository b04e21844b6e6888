package load

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Refusal says why the figures of a run are worth nothing. A run that ends with it is not reported.
type Refusal struct {
	Reasons []string
	// Generator reports whether the generator was the limit, and nothing else was wrong: another time
	// it may not be.
	Generator bool
}

func (r *Refusal) Error() string {
	return "refused to report, no figure of this run counts: " + strings.Join(r.Reasons, "; ")
}

func refuse(format string, args ...any) *Refusal {
	return &Refusal{Reasons: []string{fmt.Sprintf(format, args...)}}
}

// maxGenerator is the share of the machine's cores that the generator may use: beyond it, what is
// measured is the generator. A generator of 256 connections takes about half with a bare handler.
const maxGenerator = 0.7

// maxLate is how late a request of an open loop may be made known, of 99 in 100.
const maxLate = 10 * time.Millisecond

// witness is what is compared before and after the load.
type witness struct {
	starts map[string]uint64 // when each process began, in ticks since boot; 0 when it is gone
	syncs  map[string]uint64
}

func (r *Run) witness(ctx context.Context) (w witness, err error) {
	w.starts = map[string]uint64{}
	for _, p := range r.Processes {
		w.starts[fmt.Sprintf("%s (process %d)", p.Name, p.PID)] = processStart(p.PID)
	}
	if r.Syncs != nil {
		w.syncs, err = r.Syncs(ctx)
	}
	return w, err
}

// settled is the witness after the load. A node that lags behind the others makes durable what it
// has yet to; it has AuditPatience for that.
func (r *Run) settled(ctx context.Context, before witness) (after witness, err error) {
	for deadline := time.Now().Add(r.AuditPatience); ; pause(ctx, 20*time.Millisecond) {
		if after, err = r.witness(ctx); err != nil || time.Now().After(deadline) || ctx.Err() != nil {
			return after, err
		}
		lagging := false
		for node, count := range after.syncs {
			lagging = lagging || count <= before.syncs[node]
		}
		if !lagging || !r.durable() {
			return after, nil
		}
	}
}

// durable reports whether the scenario makes every node of the system call fsync.
func (r *Run) durable() bool { return r.Syncs != nil && (r.Scenario.writes() || !r.Unaudited) }

// judge adds what makes the run worth nothing.
func (r *Run) judge(report *Report, before, after witness, verified error) error {
	var reasons []string
	say := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	if verified != nil {
		say("%s", verified)
	}
	if report.Units == 0 {
		say("nothing was answered with success")
	}
	for i, message := range slices.Sorted(maps.Keys(report.Errors)) {
		if i == 5 {
			say("and %d more kinds of errors", len(report.Errors)-i)
			break
		}
		say("%d × %s", report.Errors[message], message)
	}
	for _, name := range slices.Sorted(maps.Keys(before.starts)) {
		switch began := before.starts[name]; {
		case began == 0:
			say("%s did not run", name)
		case after.starts[name] != began:
			say("%s ended or was started again", name)
		}
	}
	if r.durable() {
		for _, node := range slices.Sorted(maps.Keys(after.syncs)) {
			if after.syncs[node] <= before.syncs[node] {
				say("%s made nothing durable: %d fsyncs before the load, %d after it",
					node, before.syncs[node], after.syncs[node])
			}
		}
		if len(after.syncs) == 0 {
			say("no node says how often it called fsync")
		}
	}
	wrong := len(reasons)
	most := cmp.Or(r.MaxGenerator, maxGenerator)
	if share := report.GeneratorCores / float64(runtime.NumCPU()); share > most {
		say("the generator was the limit: it used %.2f of the machine's cores, at most %.2f may be",
			share, most)
	}
	latest := cmp.Or(r.MaxLate, maxLate)
	if report.Late > latest {
		say("the generator was the limit: its requests were late by %s (p99), at most %s may be",
			report.Late, latest)
	}
	if len(reasons) == 0 {
		return nil
	}
	return &Refusal{reasons, wrong == 0}
}
