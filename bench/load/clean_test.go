package load_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/load"
)

// load is a short run of single events against a handler.
func loaded(t *testing.T, h http.Handler, change func(*load.Config)) (load.Report, error) {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	c := load.Config{
		Target: load.Target{
			System: "ledger", Nodes: []string{strings.TrimPrefix(server.URL, "http://")}, Key: "k",
		},
		Plan: "p", Feature: "f", Scenario: load.ScenarioIngest, Connections: 4, Customers: 20,
		Batch: 7, Warmup: time.Millisecond, Duration: 50 * time.Millisecond, Least: 20,
		AuditSample: 10, AuditPatience: 10 * time.Millisecond, MaxGenerator: 2,
	}
	change(&c)
	run, err := load.New(c)
	require.NoError(t, err)
	return run.Do(context.Background())
}

func newLedger() *ledger {
	return &ledger{keys: map[string]bool{}, used: map[string]int{}, audits: map[string]int{}}
}

func TestRunWithErrorsIsRefused(t *testing.T) {
	l := newLedger()
	var events atomic.Int32
	_, err := loaded(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") && r.Method == "POST" && events.Add(1) == 3 {
			w.Header().Set("Content-Length", "2")
			w.WriteHeader(500)
			_, err := w.Write([]byte("{}"))
			if err != nil {
				panic(err)
			}
			return
		}
		l.ServeHTTP(w, r)
	}), func(*load.Config) {})
	require.ErrorContains(t, err, "refused to report")
	require.ErrorContains(t, err, "1 × event: 500 {}")
	require.ErrorAs(t, err, new(*load.Refusal))
}

func TestRunOfAProcessThatEndsIsRefused(t *testing.T) {
	l := newLedger()
	node := exec.Command("sleep", "600")
	require.NoError(t, node.Start())
	var once sync.Once
	var failed error
	_, err := loaded(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") && r.Method == "POST" {
			once.Do(func() { failed = node.Process.Kill() })
		}
		l.ServeHTTP(w, r)
	}), func(c *load.Config) {
		c.Processes = []load.Process{{Name: "node1", PID: node.Process.Pid}}
	})
	require.NoError(t, failed)
	require.Error(t, node.Wait())
	require.ErrorContains(t, err, "node1 (process ")
	require.ErrorContains(t, err, "ended or was started again")
}

func TestRunWithoutFsyncsIsRefused(t *testing.T) {
	syncs := func(counts ...map[string]uint64) func(*load.Config) {
		return func(c *load.Config) {
			var calls atomic.Int32
			c.Syncs = func(context.Context) (map[string]uint64, error) {
				return counts[min(int(calls.Add(1)), len(counts))-1], nil
			}
		}
	}
	_, err := loaded(t, newLedger(), syncs(map[string]uint64{"node1": 7, "node2": 3},
		map[string]uint64{"node1": 8, "node2": 3}))
	require.ErrorContains(t, err, "node2 made nothing durable: 3 fsyncs before the load, 3 after it")
	require.NotContains(t, err.Error(), "node1")
	_, err = loaded(t, newLedger(), func(c *load.Config) {
		syncs(map[string]uint64{"node1": 7}, map[string]uint64{"node1": 7},
			map[string]uint64{"node1": 8})(c)
		c.AuditPatience = time.Minute
	})
	require.NoError(t, err, "a node that lags has time to catch up")
	_, err = loaded(t, newLedger(), syncs(nil))
	require.ErrorContains(t, err, "no node says how often it called fsync")
	_, err = loaded(t, newLedger(), syncs(map[string]uint64{"node1": 7}, map[string]uint64{"node1": 8}))
	require.NoError(t, err)
}

func TestRunThatTheGeneratorLimitsIsRefused(t *testing.T) {
	_, err := loaded(t, newLedger(), func(c *load.Config) { c.MaxGenerator = 1e-9 })
	require.ErrorContains(t, err, "the generator was the limit")
	_, err = loaded(t, newLedger(), func(*load.Config) {})
	require.NoError(t, err)
}

func TestReportSaysWhatProcessesUsed(t *testing.T) {
	report, err := loaded(t, newLedger(), func(c *load.Config) {
		c.Processes = []load.Process{{Name: "node1", PID: os.Getpid()}}
	})
	require.NoError(t, err)
	require.Len(t, report.Used, 1)
	require.Equal(t, "node1", report.Used[0].Name)
	require.Greater(t, report.Used[0].Resident, uint64(1<<20))
	require.Positive(t, report.GeneratorCores)
}

// TestCreationsAreRepeatedWithTheirKey: a creation whose outcome is unknown is sent again under the
// same key, and each one has another.
// TestCreationsOfUnknownOutcomeAreMadeOnce: every creation is carried out and answered 503. A
// customer is refused the second time, a subscription would be one more.
func TestCreationsOfUnknownOutcomeAreMadeOnce(t *testing.T) {
	l := newLedger()
	var mu sync.Mutex
	made := map[string]int{} // customer → subscriptions
	answer := func(w http.ResponseWriter, status int, body string) {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(status)
		if _, err := io.WriteString(w, body); err != nil {
			panic(err)
		}
	}
	_, err := loaded(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var body struct{ ExternalClientCustomerID, CustomerReferenceID string }
		switch name := path.Base(r.URL.Path); {
		case r.Method == "GET" && path.Base(path.Dir(r.URL.Path)) == "customers":
			found := `{"success":true,"data":{"subscriptions":[]}}`
			if made[name] > 0 {
				found = `{"success":true,"data":{"subscriptions":[{"planId":"starter"}]}}`
			}
			answer(w, 200, found)
		case r.Method == "POST" && name == "customers":
			require.NoError(t, json.NewDecoder(r.Body).Decode(&body))
			if _, known := made[body.ExternalClientCustomerID]; known {
				answer(w, 409, "{}")
				return
			}
			made[body.ExternalClientCustomerID] = 0
			answer(w, 503, "{}")
		case r.Method == "POST" && name == "subscriptions":
			require.NoError(t, json.NewDecoder(r.Body).Decode(&body))
			made[body.CustomerReferenceID]++
			answer(w, 503, "{}")
		default:
			l.ServeHTTP(w, r)
		}
	}), func(*load.Config) {})
	require.NoError(t, err)
	require.Len(t, made, 20)
	for customer, subscriptions := range made {
		require.Equal(t, 1, subscriptions, customer)
	}
}
