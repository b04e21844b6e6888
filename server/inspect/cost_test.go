package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/inspecttest"
	"tollgate/server/inspect"
)

// heavySite publishes six documents of nearly 2 MiB, which is all that an inspection reads.
func heavySite(t testing.TB) *inspecttest.Site {
	const maximum = 2<<20 - 4096
	var text strings.Builder
	page := func(path, kind, first, again, last string) {
		body := first + strings.Repeat(again, (maximum-len(first)-len(last))/len(again)) + last
		fmt.Fprintf(&text, "=== https://acme.example/%s\n200 %s\n\n%s\n", path, kind, body)
	}
	page("", "text/html", "<html><title>Acme</title>", "<p>Get an API key for $1 a month.</p>", "")
	page("openapi.json", "application/json", `{"openapi":"3.0.0","paths":{`,
		`"/a":{"get":{"tags":["a"],"parameters":[{"in":"query"}]}},`, `"/b":{}}}`)
	page("openapi.yaml", "application/yaml", "openapi: 3.0.0\nx-note: '", "all is well ", "'\npaths: {}\n")
	page("llms.txt", "text/plain", "# Acme\n", "## Part\n- [Docs](https://acme.example/docs)\n", "")
	page("docs", "text/html", "<html>", "<a href='/docs/x'>API reference</a> and words ", "")
	page("pricing", "text/html", "<html>", "<li>$2 per month, per seat</li>", "")
	site, err := inspecttest.Parse(text.String())
	require.NoError(t, err)
	return site
}

// BenchmarkHeavy is one inspection of the site that costs most.
func BenchmarkHeavy(b *testing.B) {
	inspector := inspect.New(heavySite(b), clock)
	b.ReportAllocs()
	for b.Loop() {
		_, err := inspector.Inspect(b.Context(), home, "", "run_1")
		require.NoError(b, err)
	}
}

// heap is what objects take of it now, what is no longer used and not yet collected included.
func heap() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// watched is the most that the heap holds at any time while do runs, beyond what it held before.
func watched(do func()) uint64 {
	runtime.GC()
	before := heap()
	peak, done := before, make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		look := time.NewTicker(time.Millisecond)
		defer look.Stop()
		for {
			select {
			case <-done:
				return
			case <-look.C:
				peak = max(peak, heap())
			}
		}
	})
	do()
	close(done)
	watching.Wait()
	return peak - before
}

// atOnce makes so many inspections at once; those that find no turn in time ask again.
func atOnce(ctx context.Context, inspector *inspect.Inspector, n int) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for errs[i] = inspect.ErrBusy; errors.Is(errs[i], inspect.ErrBusy); {
				_, errs[i] = inspector.Inspect(ctx, home, "", fmt.Sprint("run_", i))
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// spent is the processor time of this process.
func spent(t testing.TB) time.Duration {
	var r syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// TestMemoryOfInspectionsIsBounded: one of the site that costs most stays within 64 MiB, the site's
// own 12 not counted, and so do a hundred at once of the one that publishes most in earnest.
func TestMemoryOfInspectionsIsBounded(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	const maximum = 64 << 20
	inspector := inspect.New(heavySite(t), clock)
	held := watched(func() { require.NoError(t, atOnce(t.Context(), inspector, 1)) })
	require.Less(t, held, uint64(maximum), "one that costs most")

	site, err := inspecttest.Read("testdata/sites/api_first.txt")
	require.NoError(t, err)
	inspector = inspect.New(site, clock)
	held = watched(func() { require.NoError(t, atOnce(t.Context(), inspector, 100)) })
	require.Less(t, held, uint64(maximum), "a hundred at once")
}

// BenchmarkHundredAtOnce is a hundred inspections at once of the site that costs most. It reports
// what all of them take of the heap at any time, the site's own 12 MiB not counted, and the
// processor time of one.
func BenchmarkHundredAtOnce(b *testing.B) {
	inspector := inspect.New(heavySite(b), clock)
	n, before := 0, spent(b)
	held := watched(func() {
		for ; b.Loop(); n += 100 {
			require.NoError(b, atOnce(b.Context(), inspector, 100))
		}
	})
	b.ReportMetric(float64(held)/(1<<20), "MiB-at-most")
	b.ReportMetric((spent(b)-before).Seconds()*1e3/float64(n), "cpu-ms/inspection")
}
