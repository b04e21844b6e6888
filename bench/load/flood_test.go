package load_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/load"
)

// shore is a ledger with an admin API. While batches come, it refuses every second check, answers
// every third batch, the first too, 429, and its leader changes once.
type shore struct {
	ledger
	batches, checks atomic.Int64
	terms           atomic.Int64
}

func (s *shore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, answer := 0, "{}"
	switch path := r.URL.Path; {
	case path == "/api/v1/admin/cluster":
		status = 200
		answer = fmt.Sprintf(`{"data":{"groups":[{"leader":"a","term":%d}]}}`, 3+s.terms.Load())
	case strings.HasSuffix(path, "/keys"):
		status, answer = 201, `{"data":{"key":"quiet"}}`
	case path == "/api/v1/admin/accounts":
		status = 201
	case strings.HasPrefix(path, "/api/v1/admin/"):
		status = 200
	case strings.HasSuffix(path, "/batch"):
		if s.terms.Store(1); s.batches.Add(1)%3 == 1 {
			status = 429
		}
	case strings.Contains(path, "/entitlements/") && r.Header.Get("Authorization") == "Bearer quiet" &&
		s.terms.Load() == 1 && s.checks.Add(1) <= 10 && s.checks.Load()%2 == 0:
		status = 503
	}
	if status == 0 {
		s.ledger.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
	w.WriteHeader(status)
	if _, err := w.Write([]byte(answer)); err != nil {
		panic(err)
	}
}

// TestMain also is what a flood's process runs.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "flood" {
		if err := load.ServeFlood(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func besideFlood(t *testing.T, s *shore, command ...string) (load.FloodReport, error) {
	t.Helper()
	s.keys, s.used, s.audits = map[string]bool{}, map[string]int{}, map[string]int{}
	server := httptest.NewServer(s)
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	f := load.Flood{Command: command, Events: 100, Checks: 50, Batches: load.Config{
		Target: load.Target{
			Nodes: []string{address}, Key: "k",
			Admin: load.Admin{Nodes: []string{address}, Key: "sk_admin", Account: "demo"},
		},
		Plan: "p", Feature: "f", Connections: 3, Customers: 5, Batch: 10,
		Duration: 300 * time.Millisecond, AuditSample: 5, AuditPatience: 10 * time.Millisecond,
	}}
	return f.Measure(context.Background())
}

// TestAQuietAccountIsMeasuredBesideAFlood: what the quiet account got is told apart from what the
// flood got, and elections are counted.
func TestAQuietAccountIsMeasuredBesideAFlood(t *testing.T) {
	for name, command := range map[string][]string{"process": {os.Args[0], "flood"}, "here": nil} {
		t.Run(name, func(t *testing.T) { quietBesideFlood(t, command) })
	}
}

func quietBesideFlood(t *testing.T, command []string) {
	report, err := besideFlood(t, new(shore), command...)
	require.NoError(t, err)
	// How long the measurement took, and what was accepted in it, depends on the machine.
	require.InDelta(t, 100*report.Elapsed.Seconds(), report.Events.Due, 1)
	require.InEpsilon(t, 2*report.Checks.Due, report.Events.Due, 0.3)
	require.Greater(t, report.Events.Share(), report.Checks.Share(), "only checks were refused")
	require.Less(t, report.Checks.Accepted, report.Checks.Due, "some were refused")
	require.Positive(t, report.Flooded)
	require.Positive(t, report.Limited)
	require.EqualValues(t, 1, report.Terms)
	require.NotEmpty(t, report.Errors)
	figures := load.Figures{Flood: &report}
	told := 0
	for _, row := range figures.Rows() {
		if strings.Contains(row.What, "flood") {
			require.NotEqual(t, load.VerdictHolds, row.Verdict)
			told++
		}
	}
	require.Equal(t, 2, told)
}

// TestAFloodThatLosesIsRefused: figures of a cluster that does not count what it acknowledged are
// worth nothing.
func TestAFloodThatLosesIsRefused(t *testing.T) {
	_, err := besideFlood(t, &shore{ledger: ledger{lose: 7}})
	var refusal *load.Refusal
	require.ErrorAs(t, err, &refusal)
}

// TestAFloodWhoseProcessEndsIsAnError: at once, and not when the measurement is over.
func TestAFloodWhoseProcessEndsIsAnError(t *testing.T) {
	for _, command := range [][]string{{"false"}, {"true"}, {os.Args[0] + " is missing"}} {
		_, err := besideFlood(t, new(shore), command...)
		require.ErrorContains(t, err, "flood", command)
	}
}
