package load_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/load"
)

// biller is a ledger with a clock that issues invoices when the month ends.
type biller struct {
	ledger
	mu       sync.Mutex
	now      time.Time
	ends     time.Time
	billed   map[string]int // at the period's end
	invoices int            // for the period; 1 is right
	short    int            // units that each invoice leaves out
	slow     bool           // the clock's answer comes before all has happened
	settles  int
}

func (b *biller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	answer := func(status int, text string) {
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		w.WriteHeader(status)
		if _, err := w.Write([]byte(text)); err != nil {
			panic(err)
		}
	}
	const admin = "/api/v1/admin/accounts/demo/environments/sandbox/clock"
	switch {
	case r.URL.Path == "/metrics":
		answer(200, "x 1\ntollgate_cluster_longest_entry_seconds{group=\"billing\"} 0.0025\n")
	case r.URL.Path == admin && r.Header.Get("Authorization") != "Bearer a":
		answer(401, "{}")
	case r.URL.Path == admin && r.Method == "POST":
		var to struct{ AdvanceTo time.Time }
		if json.NewDecoder(r.Body).Decode(&to) != nil || !to.AdvanceTo.After(b.now) {
			answer(400, "{}")
			return
		}
		b.now = to.AdvanceTo
		if b.billed == nil && b.now.After(b.ends) {
			b.billed = map[string]int{}
			b.ledger.mu.Lock()
			for customer, units := range b.used {
				b.billed[customer] = units
			}
			b.ledger.mu.Unlock()
		}
		if b.slow {
			b.settles = 2
			answer(503, `{"error":{"code":"clock_settling"}}`)
			return
		}
		answer(200, "{}")
	case r.URL.Path == admin:
		b.settles--
		answer(200, fmt.Sprintf(`{"data":{"now":%q,"settled":%t}}`,
			b.now.Format(time.RFC3339Nano), b.settles < 0))
	case strings.HasPrefix(r.URL.Path, "/api/v1/client/billing/invoices/"):
		customer := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		text := `{"type":"IN_ADVANCE_INITIAL","items":[]}`
		for range b.invoices {
			text += fmt.Sprintf(`,{"type":"REGULAR","items":[{"featureKey":"f","quantity":%d}]}`,
				max(0, b.billed[customer]-b.short))
		}
		answer(200, `{"data":[`+text+`]}`)
	default:
		b.ledger.ServeHTTP(w, r)
	}
}

func closePeriods(t *testing.T, b *biller) (load.CloseReport, error) {
	t.Helper()
	b.keys, b.used, b.audits = map[string]bool{}, map[string]int{}, map[string]int{}
	b.now = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	b.ends = time.Date(2026, 2, 28, 12, 0, 0, 0, time.UTC)
	server := httptest.NewServer(b)
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	run, err := load.New(load.Config{
		Target: load.Target{
			Nodes: []string{address}, Key: "k",
			Admin: load.Admin{Nodes: []string{address}, Key: "a", Account: "demo"},
		},
		Plan: "p", Feature: "f",
		Scenario: load.ScenarioClose, Connections: 4, Rate: 400, Customers: 20, Batch: 1,
		Warmup: time.Millisecond, Duration: 100 * time.Millisecond, Memory: time.Millisecond,
		AuditSample: 10,
	})
	require.NoError(t, err)
	return run.Close(context.Background())
}

// TestClosePeriods: the load goes on beside the closing, and the invoices bill what was
// acknowledged. 31 January's period ends on 28 February.
func TestClosePeriods(t *testing.T) {
	for _, slow := range []bool{false, true} {
		report, err := closePeriods(t, &biller{invoices: 1, slow: slow})
		require.NoError(t, err)
		require.Empty(t, report.Errors)
		require.Zero(t, report.Refused)
		require.Positive(t, report.Before.Checks.Requests)
		require.Positive(t, report.Before.Events.Requests)
		require.Positive(t, report.Before.Events.Latency["p99"])
		require.GreaterOrEqual(t, report.Before.Elapsed, 100*time.Millisecond)
		require.Positive(t, report.Closing.Elapsed)
		require.Equal(t, 20, report.Invoices)
		for _, d := range report.Before.MaxEntry {
			require.Equal(t, 2500*time.Microsecond, d)
		}
		var text, document strings.Builder
		require.NoError(t, report.Print(&text))
		require.Contains(t, text.String(), "closing")
		require.NoError(t, load.JSON(report, &document))
		require.NotContains(t, document.String(), `"a"`, "keys are in no report")
	}
}

func TestClosePeriodsFindsWrongInvoices(t *testing.T) {
	for _, b := range []*biller{{invoices: 0}, {invoices: 2}, {invoices: 1, short: 1 << 30}} {
		_, err := closePeriods(t, b)
		require.ErrorContains(t, err, "invoices of 10 customers")
	}
}

func TestClosePeriodsNeedsItsClock(t *testing.T) {
	c := load.Config{
		Target: load.Target{Nodes: []string{"127.0.0.1:1"}, Key: "k"},
		Plan:   "p", Feature: "f", Customers: 1, Batch: 1,
		Scenario: load.ScenarioClose, Connections: 2,
	}
	_, err := load.New(c)
	require.ErrorContains(t, err, "requests a second")
	c.Rate = 10
	run, err := load.New(c)
	require.NoError(t, err)
	_, err = run.Close(context.Background())
	require.ErrorContains(t, err, "needs a cluster")
}
