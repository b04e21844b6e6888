package load_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/load"
)

// ledger is a server that counts the way a cluster has to; a test makes it lose or double units,
// which no real cluster would do on demand.
type ledger struct {
	mu           sync.Mutex
	keys         map[string]bool
	used, audits map[string]int
	lose, double int // every so many-th event; 0 never
	limit        int // of each customer; 0 is none
	customers    int
	overload     int // so many batches in which every second event is answered 503
	unaudited    bool
	events       int
	sent         int // events, repeats among them
}

type event struct {
	Key      string `json:"eventIdempotencyKey"`
	Customer string `json:"customerReferenceId"`
	Units    int    `json:"usageUnits"`
}

func (l *ledger) record(e event) int {
	l.sent++
	if l.keys[e.Key] {
		return 409
	}
	if l.limit > 0 && l.used[e.Customer]+e.Units > l.limit {
		return 402
	}
	l.keys[e.Key] = true
	l.events++
	l.used[e.Customer] += e.Units
	if l.lose > 0 && l.events%l.lose == 0 {
		l.used[e.Customer] -= e.Units
	}
	if l.double > 0 && l.events%l.double == 0 {
		l.used[e.Customer] += e.Units
	}
	return 201
}

func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/api/v1/client/")
	parts := strings.Split(path, "/")
	answer := func(status int, data string) {
		text := fmt.Sprintf(`{"success":true,"data":%s}`, data)
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		w.WriteHeader(status)
		_, err := w.Write([]byte(text))
		if err != nil {
			panic(err)
		}
	}
	switch {
	case r.Method == "POST" && (path == "customers" || path == "subscriptions"):
		if path == "customers" {
			l.customers++
		}
		answer(201, "{}")
	case r.Method == "POST" && path == "events":
		var e event
		if json.NewDecoder(r.Body).Decode(&e) != nil {
			answer(400, "{}")
			return
		}
		answer(l.record(e), "{}")
	case r.Method == "POST" && path == "events/batch":
		var batch []event
		if json.NewDecoder(r.Body).Decode(&batch) != nil {
			answer(400, "{}")
			return
		}
		accepted, results := 0, []string{}
		for i, e := range batch {
			status := 503
			if l.overload == 0 || i%2 == 0 {
				status = l.record(e)
			} else if i%4 == 1 { // it counts, though the answer cannot tell
				l.record(e)
			}
			if status == 201 {
				accepted++
			}
			results = append(results, fmt.Sprintf(`{"index":%d,"status":%d}`, i, status))
		}
		l.overload = max(0, l.overload-1)
		answer(200, fmt.Sprintf(`{"accepted":%d,"results":[%s]}`, accepted, strings.Join(results, ",")))
	case parts[0] == "entitlements":
		var simulation event
		if len(parts) == 1 && json.NewDecoder(r.Body).Decode(&simulation) == nil {
			parts = append(parts, simulation.Customer)
		}
		if !l.unaudited {
			l.audits[parts[1]]++
		}
		answer(200, fmt.Sprintf(`{"isAllowed":true,"usage":{"used":%d}}`, l.used[parts[1]]))
	case parts[0] == "customers" && len(parts) == 3:
		events := strings.TrimSuffix(strings.Repeat("{},", l.audits[parts[1]]), ",")
		answer(200, `{"events":[`+events+`],"nextCursor":""}`)
	default:
		answer(404, "{}")
	}
}

func measure(t *testing.T, l *ledger, scenario load.Scenario) (load.Report, error) {
	t.Helper()
	l.keys, l.used, l.audits = map[string]bool{}, map[string]int{}, map[string]int{}
	server := httptest.NewServer(l)
	defer server.Close()
	run, err := load.New(load.Config{
		Target: load.Target{
			Nodes: []string{strings.TrimPrefix(server.URL, "http://")}, Key: "k",
			Processes: []load.Process{{Name: "self", PID: os.Getpid()}},
		},
		Plan: "p", Feature: "f", MaxGenerator: 2,
		Scenario: scenario, Connections: 4, Customers: 20, Batch: 7,
		Warmup: time.Millisecond, Duration: 50 * time.Millisecond, Least: 20,
		AuditSample: 10, AuditPatience: 10 * time.Millisecond,
	})
	require.NoError(t, err)
	return run.Do(context.Background())
}

func TestRunVerifiesWhatWasAcknowledged(t *testing.T) {
	for _, scenario := range []load.Scenario{
		load.ScenarioCheck, load.ScenarioSimulate, load.ScenarioIngest, load.ScenarioBatch,
	} {
		report, err := measure(t, &ledger{}, scenario)
		require.NoError(t, err, scenario)
		require.Empty(t, report.Errors)
		require.Positive(t, report.Units)
		require.Positive(t, report.Latency["p50"])
		require.Positive(t, report.GeneratorCores)
		require.Len(t, report.Used, 1)
		require.InDelta(t, report.GeneratorCores, report.Used[0].Cores, 0.9, "both are this process")
		require.Equal(t, report.Verified.Acknowledged, report.Verified.Counted)
		require.Equal(t, report.Verified.Checks, report.Verified.AuditEvents)
		require.GreaterOrEqual(t, report.Verified.Checks, uint64(10))
		if scenario == load.ScenarioIngest || scenario == load.ScenarioBatch {
			require.GreaterOrEqual(t, report.Verified.Counted, report.Units)
		}
		var text, document strings.Builder
		require.NoError(t, report.Print(&text))
		require.Contains(t, text.String(), "latency")
		require.NoError(t, report.JSON(&document))
		require.NotContains(t, document.String(), `"Key"`)
	}
}

func TestLostAndDoubledUnitsAreFound(t *testing.T) {
	for _, scenario := range []load.Scenario{load.ScenarioIngest, load.ScenarioBatch} {
		_, err := measure(t, &ledger{lose: 20}, scenario)
		require.ErrorContains(t, err, "not what was acknowledged", "lost")
		_, err = measure(t, &ledger{double: 20}, scenario)
		require.ErrorContains(t, err, "not what was acknowledged", "doubled")
	}
}

func TestMissingAuditEventsAreFound(t *testing.T) {
	for _, scenario := range []load.Scenario{load.ScenarioCheck, load.ScenarioSimulate} {
		_, err := measure(t, &ledger{unaudited: true}, scenario)
		require.ErrorContains(t, err, "other audit events than checks")
	}
}

func TestConfigIsChecked(t *testing.T) {
	valid := load.Config{
		Target:   load.Target{Nodes: []string{"h:1"}},
		Scenario: load.ScenarioCheck, Connections: 1, Customers: 1, Batch: 1,
	}
	_, err := load.New(valid)
	require.NoError(t, err)
	for want, breakIt := range map[string]func(*load.Config){
		"no node":       func(c *load.Config) { c.Nodes = nil },
		"0 connections": func(c *load.Config) { c.Connections = 0 },
		"0 customers":   func(c *load.Config) { c.Customers = 0 },
		"batches of 0":  func(c *load.Config) { c.Batch = 0 },
		"scenario":      func(c *load.Config) { c.Scenario = "x" },
		"a limit of 0":  func(c *load.Config) { c.Scenario = load.ScenarioLimit },
	} {
		c := valid
		breakIt(&c)
		_, err = load.New(c)
		require.ErrorContains(t, err, want)
	}
}
