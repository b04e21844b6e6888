package inspect_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/inspect"
	"tollgate/server/inspect/inspecttest"
)

// heavySite publishes six documents of nearly 2 MiB, which is all that an inspection reads.
func heavySite(t testing.TB) *inspecttest.Site {
	const most = 2<<20 - 4096
	var text strings.Builder
	page := func(path, kind, first, again, last string) {
		body := first + strings.Repeat(again, (most-len(first)-len(last))/len(again)) + last
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

// BenchmarkHundredAtOnce is a hundred inspections at once of the site that costs most; those that
// find no turn in time ask again. It reports what all of them take of the heap at any time, the
// site's own 12 MiB not counted, and the processor time of one.
func BenchmarkHundredAtOnce(b *testing.B) {
	inspector := inspect.New(heavySite(b), clock)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before, peak, done := m.HeapInuse, uint64(0), atomic.Bool{}
	var watching sync.WaitGroup
	watching.Go(func() {
		var m runtime.MemStats
		look := time.NewTicker(10 * time.Millisecond)
		defer look.Stop()
		for !done.Load() {
			<-look.C
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapInuse)
		}
	})
	var begin, end syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &begin))
	n := 0
	for b.Loop() {
		var all sync.WaitGroup
		for i := range 100 {
			n++
			all.Go(func() {
				err := inspect.ErrBusy
				for errors.Is(err, inspect.ErrBusy) {
					_, err = inspector.Inspect(b.Context(), home, "", fmt.Sprint("run_", i))
				}
				if err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
	}
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &end))
	done.Store(true)
	watching.Wait()
	b.ReportMetric(float64(peak-before)/(1<<20), "MiB-at-most")
	spent := end.Utime.Nano() + end.Stime.Nano() - begin.Utime.Nano() - begin.Stime.Nano()
	b.ReportMetric(float64(spent)/1e6/float64(n), "cpu-ms/inspection")
}
