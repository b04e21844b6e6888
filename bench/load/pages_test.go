package load_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/load"
)

// gallery is a ledger with live pages, for who has signed in.
type gallery struct {
	ledger
	signed, cluster, usage atomic.Int32
	broken                 atomic.Bool
	// read is how often its processor time was asked for, spent what it was then, in seconds: one
	// goes by without people, three with them, three without.
	read atomic.Int32
}

var spent = [...]int{0, 1, 1, 4, 4, 7}

func (g *gallery) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/metrics" {
		read := min(int(g.read.Add(1)), len(spent))
		_, err := fmt.Fprintf(w, "process_cpu_seconds_total %d\n", spent[read-1])
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
		return
	}
	if !strings.HasPrefix(r.URL.Path, "/console/") {
		g.ledger.ServeHTTP(w, r)
		return
	}
	_, err := r.Cookie("session")
	switch {
	case r.URL.Path == "/console/sign-in" && r.PostFormValue("key") == "sk_admin":
		g.signed.Add(1)
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "1"})
		w.WriteHeader(http.StatusSeeOther)
	case err != nil:
		w.WriteHeader(http.StatusUnauthorized)
	case g.broken.Load():
		w.WriteHeader(http.StatusServiceUnavailable)
	case strings.HasPrefix(r.URL.Path, "/console/cluster"):
		g.cluster.Add(1)
	case strings.HasPrefix(r.URL.Path, "/console/accounts/demo/sandbox/customers/acme"):
		g.usage.Add(1)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func besidePages(t *testing.T, g *gallery) (load.PagesReport, error) {
	t.Helper()
	g.keys, g.used, g.audits = map[string]bool{}, map[string]int{}, map[string]int{}
	server := httptest.NewServer(g)
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	c := load.Config{
		Target: load.Target{
			Nodes: []string{address}, Key: "k",
			Admin: load.Admin{Nodes: []string{address}, Key: "sk_admin", Account: "demo"},
		},
		Plan: "p", Feature: "f", MaxGenerator: 2, Scenario: load.ScenarioCheck, Connections: 1,
		Customers: 5, Batch: 1, Warmup: time.Millisecond, Duration: 20 * time.Millisecond, Least: 20,
		AuditSample: 5, AuditPatience: 10 * time.Millisecond,
	}
	p := load.Pages{
		Checks: c, Events: c, Browsers: 4, Customer: "acme", Rounds: 2,
		Idle: 10 * time.Millisecond,
	}
	p.Events.Scenario = load.ScenarioIngest
	return p.Measure(context.Background())
}

// TestBesidePages: all browsers sign in once, and look at both pages in each round.
func TestBesidePages(t *testing.T) {
	g := &gallery{}
	report, err := besidePages(t, g)
	require.NoError(t, err)
	require.Len(t, report.Rounds, 2)
	require.EqualValues(t, 4, g.signed.Load())
	require.NotZero(t, g.cluster.Load())
	require.NotZero(t, g.usage.Load())
	for _, round := range report.Rounds {
		require.NotZero(t, round.Seen)
		require.NotZero(t, round.Beside.P99)
	}
	require.NotZero(t, report.Checks*report.Events*report.P99)
	require.InDelta(t, 1/0.01/float64(runtime.NumCPU()), report.Cost, 1e-9)
}

// TestPagesThatAreNotShown: a figure beside pages that nobody saw is none.
func TestPagesThatAreNotShown(t *testing.T) {
	g := &gallery{}
	g.broken.Store(true)
	_, err := besidePages(t, g)
	require.ErrorContains(t, err, "not shown its page")
	require.ErrorAs(t, err, new(*load.Refusal))
}

func TestTargetsBesidePages(t *testing.T) {
	const row = "processor time of 20 live pages, of all cores"
	f := load.Figures{Pages: &load.PagesReport{
		Browsers: 20, Rounds: make([]load.PagesRound, 3), Checks: 0.991, Events: 1.002, P99: 1.04,
		Cost: 0.0045,
	}}
	require.Equal(t, map[string]string{
		row: "0.45 % (20 browsers); checks 0.991, events 1.002, p99 1.04 × (3 rounds): holds",
	}, verdicts(f))
	f.Pages.Cost = 0.011
	require.Contains(t, verdicts(f)[row], "does not")
	f.Pages.Cost, f.Pages.Browsers = 0.004, 19
	require.Contains(t, verdicts(f)[row], "too little measured")
}
