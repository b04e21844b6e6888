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

// lender is a ledger with budgets and reservations; of some it forgets to count what is settled.
type lender struct {
	ledger
	lend    sync.Mutex
	budgets int
	held    []string // the customer of each reservation
	settled int
	forgets int // every so many-th; 0 never
}

func (l *lender) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/api/v1/client/")
	status, answer := 200, "{}"
	l.lend.Lock()
	switch {
	case r.Method == "PUT" && strings.HasPrefix(path, "budgets/"):
		l.budgets++
	case path == "reservations":
		var e event
		if json.NewDecoder(r.Body).Decode(&e) != nil || e.Units != 1 {
			status = 400
			break
		}
		l.held = append(l.held, e.Customer)
		status, answer = 201, fmt.Sprintf(`{"data":{"id":"%036d"}}`, len(l.held)-1)
	case strings.HasSuffix(path, "/settle"):
		var number int
		if _, err := fmt.Sscanf(path, "reservations/%036d/settle", &number); err != nil {
			status = 404
			break
		}
		if l.settled++; l.forgets == 0 || l.settled%l.forgets > 0 {
			l.mu.Lock()
			l.used[l.held[number]]++
			l.mu.Unlock()
		}
	default:
		status = 0
	}
	l.lend.Unlock()
	if status == 0 {
		l.ledger.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
	w.WriteHeader(status)
	if _, err := w.Write([]byte(answer)); err != nil {
		panic(err)
	}
}

func measurePairs(t *testing.T, l *lender) (load.PairsReport, error) {
	t.Helper()
	l.keys, l.used, l.audits = map[string]bool{}, map[string]int{}, map[string]int{}
	server := httptest.NewServer(l)
	defer server.Close()
	p := load.Pairs{
		Config: load.Config{
			Target: load.Target{Nodes: []string{strings.TrimPrefix(server.URL, "http://")}, Key: "k"},
			Plan:   "p", Feature: "f", MaxGenerator: 2, Scenario: load.ScenarioPairs, Batch: 1,
			Duration: 20 * time.Millisecond, Least: 20, AuditSample: 3,
			AuditPatience: 10 * time.Millisecond,
		},
		Clients: []int{1, 3},
	}
	return p.Measure(context.Background())
}

// TestPairsAreMeasured: one client, and three on one budget and on three.
func TestPairsAreMeasured(t *testing.T) {
	l := &lender{}
	report, err := measurePairs(t, l)
	require.NoError(t, err)
	require.Len(t, report.Sides, 3)
	require.Equal(t, 1+1+3, l.budgets)
	require.Equal(t, l.budgets, l.customers)
	for i, want := range [][2]int{{1, 1}, {3, 1}, {3, 3}} {
		s := report.Sides[i]
		require.Equal(t, want, [2]int{s.Clients, s.Budgets})
		require.Positive(t, s.Rate)
		require.Positive(t, s.P99)
	}
	var text strings.Builder
	require.NoError(t, report.Print(&text))
	require.Contains(t, text.String(), "3 clients on 1:")

	_, err = measurePairs(t, &lender{forgets: 7})
	require.ErrorContains(t, err, "not what was acknowledged")
}

// TestTargetsOfPairs: the target is about 200 clients.
func TestTargetsOfPairs(t *testing.T) {
	const one = "reserve and settle, durable on three nodes, on one budget"
	side := load.PairsSide{Clients: 200, Budgets: 1, Rate: 12_000, P99: 40 * time.Millisecond}
	of := func(s load.PairsSide) string {
		return verdicts(load.Figures{Pairs: &load.PairsReport{Sides: []load.PairsSide{s}}})[one]
	}
	require.Equal(t, "200 clients on 1: 12000/s, p50 0s, p99 40ms, 0 µs: holds", of(side))
	side.Rate = 9_000
	require.Contains(t, of(side), ": does not")
	side.Rate, side.P99 = 12_000, 60*time.Millisecond
	require.Contains(t, of(side), ": does not")
	side.Clients, side.P99 = 50, 40*time.Millisecond
	require.Contains(t, of(side), ": does not", "of 200 clients nothing is known")
}
