package leader

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// office simulates the work of a loop: the jobs that are due, and when each was done.
type office struct {
	Loop[string, string]
	mu    sync.Mutex
	term  uint64 // 0: does not lead
	due   []string
	begun []string // key and failures at an instant, in order
	start time.Time
	under map[string]chan bool // jobs under way, which end when their result arrives
	cut   []string
	stop  func()
}

// open runs a loop that looks every second and lets keys rest for a minute. Jobs last until they
// are ended.
func open(t *testing.T, settings ...func(*office)) *office {
	t.Helper()
	o := &office{term: 1, start: time.Now(), under: map[string]chan bool{}}
	o.Loop = Loop[string, string]{
		Every: time.Second,
		Leads: func() (uint64, bool) {
			o.mu.Lock()
			defer o.mu.Unlock()
			return o.term, o.term != 0
		},
		Due: func(_ func(string) bool, offer func(string, string)) {
			o.mu.Lock()
			defer o.mu.Unlock()
			for _, key := range o.due {
				offer(key, key)
			}
		},
		Do: o.do,
	}
	for _, set := range settings {
		set(o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		o.Run(ctx)
		close(ended)
	}()
	o.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(o.stop)
	return o
}

func (o *office) do(ctx context.Context, key, _ string, failures int) (time.Duration, bool) {
	end := make(chan bool)
	o.mu.Lock()
	o.begun = append(o.begun, key+" "+time.Since(o.start).String())
	if failures > 0 {
		o.begun[len(o.begun)-1] += " again"
	}
	o.under[key] = end
	o.mu.Unlock()
	select {
	case failed := <-end:
		if failed {
			return time.Minute << failures, true
		}
		return time.Minute, false
	case <-ctx.Done():
		o.mu.Lock()
		defer o.mu.Unlock()
		o.cut = append(o.cut, key)
		return time.Hour, true
	}
}

func (o *office) set(change func()) {
	o.mu.Lock()
	change()
	o.mu.Unlock()
}

func (o *office) end(key string, failed bool) {
	o.mu.Lock()
	end := o.under[key]
	delete(o.under, key)
	o.mu.Unlock()
	end <- failed
	synctest.Wait()
}

// after lets time pass, and returns the jobs begun since.
func (o *office) after(d time.Duration) []string {
	time.Sleep(d)
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	begun := o.begun
	o.begun = nil
	return begun
}

// TestKeysRestAndFailuresCount: a job begins when the loop looks; its key rests as long as Do
// returns, and failures are counted until it succeeds or is no longer due.
func TestKeysRestAndFailuresCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t)
		o.set(func() { o.due = []string{"a"} })
		require.Equal(t, []string{"a 1s"}, o.after(10*time.Second+time.Millisecond))
		o.end("a", true) // at 10.001 s
		require.Equal(t, []string{"a 1m11s again"}, o.after(62*time.Second))
		o.end("a", true) // at 72.001 s: rests for two minutes
		require.Equal(t, []string{"a 3m13s again"}, o.after(2*time.Minute+time.Second))
		o.end("a", false)
		require.Equal(t, []string{"a 4m14s"}, o.after(time.Minute+time.Second))
		o.end("a", true)
		o.set(func() { o.due = nil })
		require.Empty(t, o.after(2*time.Minute))
		o.set(func() { o.due = []string{"a"} })
		require.Equal(t, []string{"a 6m15s"}, o.after(time.Second), "jobs that were not due are forgotten")
		o.end("a", false)
		o.set(func() { o.due = nil })
		o.after(2 * time.Minute)
		o.stop()
		require.Empty(t, o.keys)
	})
}

// TestJobsWaitForWhatTheyNeed: where Take returns false, a job waits for the next that ends, not
// for the next tick; the job due first begins first.
func TestJobsWaitForWhatTheyNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := map[byte]*Slots{'a': new(Slots), 'b': new(Slots)}
		*slots['a'], *slots['b'] = 2, 1
		o := open(t, func(o *office) {
			o.Take = func(job string) (func(), bool) { return slots[job[0]].Take() }
		})
		o.set(func() { o.due = []string{"a1", "a2", "a3", "b1", "b2", "a1"} })
		require.Equal(t, []string{"a1 1s", "a2 1s", "b1 1s"}, sorted(o.after(1500*time.Millisecond)))
		o.end("a1", false)
		require.Equal(t, []string{"a3 1.5s"}, o.after(0))
		o.end("b1", false)
		require.Equal(t, []string{"b2 1.5s"}, o.after(10*time.Second))
		for _, key := range []string{"a2", "a3", "b2"} {
			o.end(key, false)
		}
		o.stop()
		require.Equal(t, Slots(2), *slots['a'])
		require.Equal(t, Slots(1), *slots['b'])
	})
}

func sorted(lines []string) []string { return slices.Sorted(slices.Values(lines)) }

// TestOnlyTheLeaderBeginsJobs, and running jobs continue after it, unless they belong to the term.
// Jobs cut off by their term do not rest in the next one, and no key runs twice.
func TestOnlyTheLeaderBeginsJobs(t *testing.T) {
	for _, ofTerm := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			begun := 0
			o := open(t, func(o *office) {
				o.term, o.OfTerm, o.Begin = 0, ofTerm, func() { begun++ }
			})
			o.set(func() { o.due = []string{"a"} })
			require.Empty(t, o.after(10*time.Second))
			o.set(func() { o.term = 1 })
			require.Equal(t, []string{"a 11s"}, o.after(time.Second))
			o.set(func() { o.term = 0 })
			require.Empty(t, o.after(10*time.Second))
			require.Equal(t, ofTerm, slices.Equal(o.cut, []string{"a"}))
			o.set(func() { o.term = 3 })
			if got := o.after(time.Second); ofTerm {
				require.Equal(t, []string{"a 22s"}, got)
			} else {
				require.Empty(t, got, "it is still under way")
			}
			require.Equal(t, 2, begun)
			// A term that ends and another that begins between two looks.
			o.set(func() { o.term = 4 })
			if got := o.after(time.Second); ofTerm {
				require.Equal(t, []string{"a 23s"}, got)
			} else {
				require.Empty(t, got)
			}
			require.Equal(t, 3, begun)
		})
	}
}

// TestALoopEndsWithItsLastJob: none begins when the context has ended, and Run returns when none is
// under way.
func TestALoopEndsWithItsLastJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		o := open(t, func(o *office) {
			o.Do = func(ctx context.Context, key, _ string, _ int) (time.Duration, bool) {
				o.set(func() { o.under[key] = nil })
				<-ctx.Done()
				<-release
				return 0, false
			}
		})
		o.set(func() { o.due = []string{"a", "b"} })
		o.after(time.Second)
		stopped := false
		go func() {
			o.stop()
			o.set(func() { stopped = true })
		}()
		o.set(func() { o.due = append(o.due, "c") })
		o.after(time.Minute)
		require.False(t, stopped)
		close(release)
		synctest.Wait()
		require.True(t, stopped)
		require.Equal(t, []string{"a", "b"}, slices.Sorted(maps.Keys(o.under)))
	})
}
