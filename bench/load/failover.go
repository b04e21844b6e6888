package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"
)

// ScenarioFailover kills the process that leads, again and again, under single events. An event
// whose fate is unknown is sent again with its key, to the next node, until it is known.
const ScenarioFailover Scenario = "failover"

// Faults is a system whose processes may be killed.
type Faults interface {
	// Leader is the process that leads now.
	Leader(ctx context.Context) (Process, error)
	// Restart runs a process again that has ended, and returns when it serves.
	Restart(ctx context.Context, name string) (Process, error)
}

// FailoverReport is what came of ScenarioFailover. Durations are nanoseconds in JSON.
type FailoverReport struct {
	Report
	Kills []Kill
}

// Kill is one end of a leader.
type Kill struct {
	// Name is of the process that was killed, At the time since the measurement began.
	Name string
	At   time.Duration
	// Gap is from the kill to the first acknowledgement of an event that was sent when the process
	// was gone; Restart from starting the process again until it served.
	Gap, Restart time.Duration
}

// maxKills bounds Config.Kills.
const maxKills = 1000

const (
	// eventPatience bounds how long an event is sent again.
	eventPatience = time.Minute
	// againAfter is how long after an answer that decides nothing an event is sent again.
	againAfter = 5 * time.Millisecond
)

type failing struct {
	*Run
	gone  atomic.Int64 // when the killed process was seen to be gone; 0 while no kill is measured
	first chan time.Time
}

// Failover carries out ScenarioFailover: as many kills as Config says, each a while after the last
// process served again. A unit that is lost or counts twice refuses the run.
func (r *Run) Failover(ctx context.Context) (report FailoverReport, err error) {
	r.Processes = nil // they change: what each used says nothing
	if r.Faults == nil {
		return report, errors.New("failover needs a cluster that the harness started (--start)")
	}
	r.persistent = &failing{Run: r, first: make(chan time.Time, 1)}
	report.Report, _, err = r.carryOut(ctx, func(ctx context.Context, begin time.Time) error {
		report.Kills, err = r.persistent.kills(ctx, begin)
		return err
	})
	for _, k := range report.Kills {
		report.Faults = append(report.Faults, Fault{k.At, k.Name + " killed"})
	}
	return report, err
}

// kills ends the leader again and again.
func (f *failing) kills(ctx context.Context, begin time.Time) (all []Kill, err error) {
	for n := range f.Kills {
		pause(ctx, f.Duration)
		k, err := f.kill(ctx)
		if err != nil {
			return all, fmt.Errorf("kill %d of %d: %w", n+1, f.Kills, err)
		}
		k.At -= time.Duration(begin.UnixNano())
		all = append(all, k)
		f.Progress.say("%d of %d: %s killed, %s without an acknowledgement, served again after %s",
			n+1, f.Kills, k.Name, k.Gap.Round(time.Millisecond), k.Restart.Round(time.Millisecond))
	}
	pause(ctx, f.Duration)
	return all, ctx.Err()
}

// kill ends the leader once, and starts it again when another one has acknowledged something. At is
// since 1970.
func (f *failing) kill(ctx context.Context) (k Kill, err error) {
	leader, err := f.Faults.Leader(ctx)
	if err != nil {
		return k, err
	}
	at := time.Now()
	k.Name, k.At = leader.Name, time.Duration(at.UnixNano())
	if err = kill(ctx, leader); err != nil {
		return k, err
	}
	f.gone.Store(time.Now().UnixNano())
	select {
	case first := <-f.first:
		k.Gap = first.Sub(at)
	case <-time.After(patience):
		return k, fmt.Errorf("nothing was acknowledged for %s after %s was killed", patience, k.Name)
	case <-ctx.Done():
		return k, ctx.Err()
	}
	begin := time.Now()
	if _, err = f.Faults.Restart(ctx, leader.Name); err != nil {
		return k, fmt.Errorf("start %s again: %w", leader.Name, err)
	}
	k.Restart = time.Since(begin)
	return k, nil
}

// acknowledged notes that an event counted which was sent at an instant.
func (f *failing) acknowledged(sent time.Time) {
	if gone := f.gone.Load(); gone != 0 && sent.UnixNano() > gone && f.gone.CompareAndSwap(gone, 0) {
		f.first <- time.Now()
	}
}

// persist returns what makes a request of ScenarioFailover.
func (f *failing) persist(w *worker, number int) func() (uint64, error) {
	t := w.eventTemplate(number, 1, false)
	next, node := uint64(0), number
	return func() (uint64, error) {
		c := w.random.Uint32N(uint32(f.Customers))
		t.setCustomer(0, uint64(c))
		t.setKey(0, next)
		next++
		unknown := false
		for deadline := time.Now().Add(eventPatience); ; time.Sleep(againAfter) {
			sent := time.Now()
			status, body, err := w.do(t.bytes)
			switch {
			case err != nil:
				unknown = true
			case status == 200 || status == 201 || status == 409 && unknown:
				f.Run.acknowledged[c].Add(1)
				if status != 409 {
					f.acknowledged(sent)
				}
				return 1, nil
			case status == 503 || status == 429:
				unknown = unknown || bytes.Contains(body, unknownCode)
			default:
				f.refused.Add(1)
				return 0, fmt.Errorf("event: %d %.200s", status, body)
			}
			if sent.After(deadline) {
				f.unknown[c].Add(1)
				return 0, fmt.Errorf("event: no node could tell what became of it in %s", eventPatience)
			}
			// A node that answers so may be cut off, or gone: ask the next one.
			if err = w.close(); err != nil {
				return 0, err
			}
			node++
			w.address = f.Nodes[node%len(f.Nodes)]
		}
	}
}

// Print writes the report as a table.
func (r FailoverReport) Print(out io.Writer) error {
	if err := r.Report.Print(out); err != nil {
		return err
	}
	gaps := make([]time.Duration, 0, len(r.Kills))
	for _, k := range r.Kills {
		gaps = append(gaps, k.Gap)
	}
	return printf(out, "leader killed %d times; until the next acknowledgement: median %s, "+
		"longest %s; lost %d, doubled %d\n", len(r.Kills), median(gaps).Round(time.Millisecond),
		slices.Max(gaps).Round(time.Millisecond), r.Verified.Lost, r.Verified.Doubled)
}
