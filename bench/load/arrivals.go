package load

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// arrivals is an open loop: requests are due at a constant rate, whatever became of those before.
// Connections that are free take the next one; latency counts from when it was due.
type arrivals struct {
	due  chan time.Time
	late *hdrhistogram.Histogram // how late a request was made known though nothing held it up
}

// maxWaiting bounds the requests that are due and wait for a connection. Beyond it the clock of
// arrivals waits, but what it makes known then is as old as it is.
const maxWaiting = 1 << 16

func newArrivals() *arrivals {
	return &arrivals{
		due:  make(chan time.Time, maxWaiting),
		late: newHistogram(),
	}
}

// run makes requests known until stop. It has a thread of its own, and sleeps in the kernel: the
// timers of goroutines are late by up to a millisecond.
func (a *arrivals) run(rate int, stop *atomic.Bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(a.due)
	begin := time.Now()
	for n := int64(0); !stop.Load(); n++ {
		due := begin.Add(time.Duration(n) * time.Second / time.Duration(rate))
		for wait := time.Until(due); wait > 0 && !stop.Load(); wait = time.Until(due) {
			sleep(min(wait, 50*time.Millisecond))
		}
		select {
		case a.due <- due:
			late := min(max(1, time.Since(due).Microseconds()), a.late.HighestTrackableValue())
			if err := a.late.RecordValue(late); err != nil {
				return
			}
		default: // all connections are busy, and a queue of them is due
			for full := true; full && !stop.Load(); {
				select {
				case a.due <- due:
					full = false
				case <-time.After(10 * time.Millisecond):
				}
			}
		}
	}
}

// sample is one request that was measured, in microseconds: when it began (or was due) after the
// measurement did, and its latency.
type sample struct{ at, latency uint32 }

// maxSamples bounds the requests whose moments are kept, of all connections together.
const maxSamples = 4 << 20

// Moment is what was measured in a part of the time.
type Moment struct {
	// At is when it began, after the measurement did.
	At       time.Duration
	Requests int
	P50, P99 time.Duration
	Max      time.Duration
}

// moments is how many parts the time is divided into: half a second each, but no fewer than 50 and
// no more than 500.
func moments(elapsed time.Duration) int {
	return min(max(50, int(elapsed/(500*time.Millisecond))), 500)
}

// timeline divides the measurement into moments.
func timeline(workers []*worker, elapsed time.Duration) []Moment {
	n := moments(elapsed)
	width := max(elapsed/time.Duration(n), time.Microsecond)
	parts := make([]*hdrhistogram.Histogram, n)
	for _, w := range workers {
		for _, s := range w.samples {
			at := min(int(time.Duration(s.at)*time.Microsecond/width), n-1)
			if parts[at] == nil {
				parts[at] = newHistogram()
			}
			// No latency exceeds what the histogram takes: record made it so.
			if err := parts[at].RecordValue(int64(s.latency)); err != nil {
				return nil
			}
		}
	}
	all := make([]Moment, n)
	for i, part := range parts {
		all[i].At = time.Duration(i) * width
		if part == nil {
			continue
		}
		micros := func(q float64) time.Duration {
			return time.Duration(part.ValueAtQuantile(q)) * time.Microsecond
		}
		all[i].Requests, all[i].P50 = int(part.TotalCount()), micros(50)
		all[i].P99, all[i].Max = micros(99), micros(100)
	}
	return all
}
