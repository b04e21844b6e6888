package load_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/load"
)

// years is a ledger with a clock that can be moved, and with pages of usage.
type years struct {
	ledger
	mu     sync.Mutex
	now    time.Time
	opened map[string]int
	broken string
}

func (y *years) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	y.mu.Lock()
	defer y.mu.Unlock()
	const admin = "/api/v1/admin/accounts"
	answer := func(status int, text string) {
		w.WriteHeader(status)
		if _, err := w.Write([]byte(text)); err != nil {
			panic(err)
		}
	}
	path, isAdmin := strings.CutPrefix(r.URL.Path, admin)
	switch {
	case isAdmin && strings.HasSuffix(path, "/clock"):
		if r.Method == "POST" {
			y.now = y.now.AddDate(0, 0, 7)
		}
		answer(200, `{"success":true,"data":{"now":"`+y.now.Format(time.RFC3339)+`","settled":true}}`)
	case isAdmin && (path == "" || strings.HasSuffix(path, "/keys")):
		answer(201, `{"success":true,"data":{"key":"k"}}`)
	case isAdmin:
		answer(200, `{"success":true,"data":{}}`)
	case r.URL.Path == "/console/sign-in":
		w.WriteHeader(http.StatusSeeOther)
	case strings.HasPrefix(r.URL.Path, "/console/") && strings.HasSuffix(r.URL.Path, y.broken):
		w.WriteHeader(http.StatusInternalServerError)
	case strings.HasPrefix(r.URL.Path, "/console/"):
		y.opened[strings.TrimPrefix(r.URL.Path, "/console/accounts/")]++
	default:
		y.ledger.ServeHTTP(w, r)
	}
}

func pagesOfUsage(t *testing.T, y *years) (load.UsageReport, error) {
	t.Helper()
	y.keys, y.used, y.audits = map[string]bool{}, map[string]int{}, map[string]int{}
	y.now, y.opened = time.Now(), map[string]int{}
	server := httptest.NewServer(y)
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	u := load.UsagePages{Looks: 3, Config: load.Config{
		Target: load.Target{
			Nodes: []string{address}, Key: "k",
			Admin: load.Admin{Nodes: []string{address}, Key: "sk_admin", Account: "demo"},
		},
		Plan: "p", Feature: "f", Scenario: load.ScenarioScale, Connections: 1, Customers: 20, Batch: 1,
	}}
	return u.Measure(context.Background())
}

// TestPagesOfUsage: a year has an event of each feature in each hour, every customer of the
// environment has one, and each page is opened as often as it says, and once before.
func TestPagesOfUsage(t *testing.T) {
	y := &years{broken: "nothing"}
	report, err := pagesOfUsage(t, y)
	require.NoError(t, err)
	require.Equal(t, 20+52*7*24*3, y.events)
	require.Len(t, report.Year, 2)
	require.Len(t, report.Environment, 4)
	require.Len(t, y.opened, 6)
	for page, times := range y.opened {
		require.Equal(t, 4, times, page)
	}
	y.broken = "/denied"
	_, err = pagesOfUsage(t, y)
	require.ErrorContains(t, err, "/denied: 500")
}

func TestTargetsOfUsage(t *testing.T) {
	const (
		year = "page of a customer's year, three features in each hour"
		all  = "page of an environment with 1M customers who used something"
		cost = "event without counts by hour / with: server CPU"
	)
	page := func(name string, median int) load.PageTime {
		m := time.Duration(median) * time.Millisecond
		return load.PageTime{Page: name, Median: m, Slowest9: 2 * m}
	}
	f := load.Figures{
		Usage: &load.UsageReport{
			Customers: 1_000_000, Year: []load.PageTime{page("usage", 10), page("customer", 3)},
			Environment: []load.PageTime{page("overview", 101)},
		},
		Benchmarks: map[string]map[string]float64{"BenchmarkCountSegment": {"ns/event": 200}},
		Comparisons: []load.Comparison{{Results: []load.Result{
			{Scenario: load.ScenarioIngest, System: "tollgate", Rate: 1, Cost: 40e-6},
		}}},
	}
	got := verdicts(f)
	require.Equal(t, "usage 10.0 (20.0) ms, customer 3.0 (6.0) ms: median (9 of 10): holds", got[year])
	require.Equal(t, "overview 101.0 (202.0) ms: median (9 of 10), 1000000 customers: does not", got[all])
	require.Equal(t, "0.985 (40.0 µs an event on all nodes, of them 0.60 to count it): holds", got[cost])
	f.Usage.Customers, f.Usage.Environment[0].Median = 999_999, time.Millisecond
	require.Contains(t, verdicts(f)[all], "too little measured")
	f.Benchmarks["BenchmarkCountSegment"]["ns/event"] = 300
	require.Contains(t, verdicts(f)[cost], "does not")
}
