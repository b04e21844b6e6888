package load_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/load"
)

// TestOpenLoopCountsFromWhenARequestWasDue: while the server answers nothing for a while, requests
// fall due, and each counts from then. A closed loop would have noted one slow request for each
// connection.
func TestOpenLoopCountsFromWhenARequestWasDue(t *testing.T) {
	const stall = 300 * time.Millisecond
	l := newLedger()
	var events atomic.Int32
	var gate sync.RWMutex
	report, err := loaded(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") && r.Method == "POST" && events.Add(1) == 100 {
			gate.Lock()
			<-time.After(stall)
			gate.Unlock()
		}
		gate.RLock()
		defer gate.RUnlock()
		l.ServeHTTP(w, r)
	}), func(c *load.Config) {
		c.Rate, c.Duration, c.MaxLate = 500, time.Second, time.Minute
	})
	require.NoError(t, err)
	require.GreaterOrEqual(t, report.Latency["p100"], stall*9/10)
	// 500 a second for 0.3 s: 150 of at most 500 requests waited, half of them for half of it or more.
	require.GreaterOrEqual(t, report.Latency["p90"], stall/10)
	require.LessOrEqual(t, report.Requests, uint64(600))
	require.Len(t, report.Timeline, 50)
	counted, slow := 0, 0
	for _, m := range report.Timeline {
		counted += m.Requests
		if m.Max >= stall/10 {
			slow++
		}
	}
	require.Equal(t, report.Requests, uint64(counted))
	require.GreaterOrEqual(t, slow, 3, "the stall shows where it was")
}

func TestOpenLoopThatTheGeneratorLimitsIsRefused(t *testing.T) {
	_, err := loaded(t, newLedger(), func(c *load.Config) { c.Rate, c.MaxLate = 100, time.Nanosecond })
	require.ErrorContains(t, err, "its requests were late by")
}

// TestHTMLStandsAlone: one file, every plot in it, nothing fetched, names escaped.
func TestHTMLStandsAlone(t *testing.T) {
	report := load.Report{
		Elapsed: 2 * time.Second, UnitRate: 10, GeneratorCores: 0.25,
		Used: []load.ProcessUse{{Process: load.Process{Name: "node<1>"}, Cores: 0.5}},
		Timeline: []load.Moment{{Requests: 1, P99: time.Millisecond}, {
			At: time.Second, Requests: 2, P99: 2 * time.Millisecond,
		}},
		Faults: []load.Fault{{At: time.Second, What: "leader <killed>"}},
	}
	c := load.Comparison{}
	for _, rate := range []int{100, 200} {
		for _, system := range []string{"tollgate", "a&b"} {
			c.Results = append(c.Results, load.Result{
				System: system, Scenario: load.ScenarioIngest, Offered: rate, Rate: float64(rate),
				Rounds: []load.Report{report}, Latency: map[string]time.Duration{
					"p50": time.Millisecond, "p99": 30 * time.Millisecond, "p99.9": time.Second,
				},
			})
		}
	}
	var page strings.Builder
	require.NoError(t, c.HTML(&page))
	text := page.String()
	require.Equal(t, 2+2*4, strings.Count(text, "<svg "))
	for _, want := range []string{
		"ingest: answered over offered", "ingest: p99 over offered", "ingest at 200/s: latency by",
		"ingest at 100/s: p99 over the time", "leader &lt;killed&gt;", "a&amp;b",
		"ingest at 100/s: rate over the time", "ingest at 100/s: processor time of a unit, by process",
		"node&lt;1&gt;: 50000.00", ">75000.0 µs<",
	} {
		require.Contains(t, text, want)
	}
	standsAlone(t, text)

	page.Reset()
	figures := load.Figures{Comparisons: []load.Comparison{c}}
	require.NoError(t, figures.HTML(&page))
	text = page.String()
	require.Equal(t, 2+2*4, strings.Count(text, "<svg "))
	require.Contains(t, text, "What a sceptic says")
	require.Equal(t, 9, strings.Count(text, "<dt>"))
	require.Contains(t, text, "<td>restart, 10M events of log</td>")
	standsAlone(t, text)
}

func standsAlone(t *testing.T, page string) {
	t.Helper()
	for _, foreign := range []string{
		"src=", "href=", "@import", "NaN", "Inf", "<killed>", "node<1>", "<script",
	} {
		require.NotContains(t, page, foreign)
	}
}
