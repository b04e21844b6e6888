package load_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/load"
)

// mortal is a ledger that answers 503 from when it is asked for its leader, a real process, until
// an outage after the end of that, as a cluster does that elects. One request that was under way is
// answered in the midst of it, another is counted and has no answer.
type mortal struct {
	*ledger
	t       *testing.T
	leader  atomic.Pointer[exec.Cmd]
	down    atomic.Bool
	outage  time.Duration
	forget  bool // units that were acknowledged are lost with a leader
	decides int  // the status while it is down
	now     atomic.Pointer[outage]
}

// outage is one time without a leader: how many requests met it, when one of them is held, and when
// that is let go.
type outage struct {
	requests atomic.Int32
	held     chan struct{}
	released chan struct{}
	once     sync.Once
}

func newMortal(t *testing.T, change func(*mortal)) *mortal {
	t.Helper()
	m := &mortal{ledger: newLedger(), t: t, outage: 50 * time.Millisecond, decides: 503}
	change(m)
	m.lead()
	t.Cleanup(func() {
		if err := m.leader.Load().Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
			require.NoError(t, err)
		}
	})
	return m
}

// lead starts a process that leads.
func (m *mortal) lead() {
	command := exec.Command("sleep", "600")
	require.NoError(m.t, command.Start())
	m.leader.Store(command)
	go func() {
		if command.Wait() == nil {
			return
		}
		if m.forget {
			m.mu.Lock()
			for customer := range m.used {
				m.used[customer]--
				break
			}
			m.mu.Unlock()
		}
		if o := m.now.Load(); o != nil {
			time.AfterFunc(m.outage/4, func() { o.once.Do(func() { close(o.released) }) })
		}
		time.AfterFunc(m.outage, func() { m.down.Store(false) })
	}()
}

func (m *mortal) Leader(context.Context) (load.Process, error) {
	o := &outage{held: make(chan struct{}), released: make(chan struct{})}
	m.now.Store(o)
	m.down.Store(true)
	<-o.held
	return m.process(), nil
}

func (m *mortal) process() load.Process {
	return load.Process{Name: "node2", PID: m.leader.Load().Process.Pid}
}

func (m *mortal) Restart(_ context.Context, name string) (load.Process, error) {
	require.Equal(m.t, "node2", name)
	m.lead()
	return m.process(), nil
}

func (m *mortal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m.down.Load() && strings.HasSuffix(r.URL.Path, "/events") && r.Method == "POST" {
		switch o := m.now.Load(); o.requests.Add(1) {
		case 1:
			close(o.held)
			<-o.released
			m.ledger.ServeHTTP(w, r)
			return
		case 2:
			m.ledger.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Length", "2")
		w.WriteHeader(m.decides)
		if _, err := w.Write([]byte("{}")); err != nil {
			panic(err)
		}
		return
	}
	m.ledger.ServeHTTP(w, r)
}

func failover(m *mortal) (load.FailoverReport, error) {
	server := httptest.NewServer(m)
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	run, err := load.New(load.Config{
		Target: load.Target{
			System: "ledger", Nodes: []string{address, address}, Faults: m,
			Processes: []load.Process{m.process()},
		},
		Plan: "p", Feature: "f", Scenario: load.ScenarioFailover, Connections: 4, Customers: 5,
		Batch: 1, Kills: 3, Warmup: time.Millisecond, Duration: 20 * time.Millisecond,
		AuditSample: 5, AuditPatience: 10 * time.Millisecond, MaxGenerator: 2,
	})
	require.NoError(m.t, err)
	return run.Failover(context.Background())
}

// TestFailoverMeasuresTheGap: each kill is followed by the time without acknowledgements, and what
// was acknowledged was counted, whatever became of the attempts.
func TestFailoverMeasuresTheGap(t *testing.T) {
	m := newMortal(t, func(*mortal) {})
	report, err := failover(m)
	require.NoError(t, err)
	require.Len(t, report.Kills, 3)
	require.Len(t, report.Faults, 3)
	for i, k := range report.Kills {
		require.GreaterOrEqual(t, k.Gap, m.outage)
		require.Positive(t, k.Restart)
		require.Positive(t, k.At)
		require.Equal(t, "node2 killed", report.Faults[i].What)
	}
	require.Empty(t, report.Errors)
	require.Equal(t, report.Verified.Acknowledged, report.Verified.Counted)
	require.Zero(t, report.Verified.Lost+report.Verified.Doubled)
	var text, page strings.Builder
	require.NoError(t, report.Print(&text))
	require.Contains(t, text.String(), "leader killed 3 times")
	require.NoError(t, report.HTML(&page))
	require.Equal(t, 2*3, strings.Count(page.String(), "<title>node2 killed</title>"))
}

func TestFailoverThatLosesIsRefused(t *testing.T) {
	report, err := failover(newMortal(t, func(m *mortal) { m.forget = true }))
	require.ErrorContains(t, err, "not what was acknowledged")
	require.ErrorAs(t, err, new(*load.Refusal))
	require.GreaterOrEqual(t, report.Verified.Lost, uint64(2), "the first may have had nothing yet")

	report, err = failover(newMortal(t, func(m *mortal) { m.double = 1 }))
	require.ErrorContains(t, err, "not what was acknowledged")
	require.Positive(t, report.Verified.Doubled)
}

func TestFailoverWithErrorsIsRefused(t *testing.T) {
	_, err := failover(newMortal(t, func(m *mortal) { m.decides = 500 }))
	require.ErrorContains(t, err, "event: 500")
}

func TestFailoverNeedsItsOwnCluster(t *testing.T) {
	c := load.Config{
		Target: load.Target{Nodes: []string{"127.0.0.1:1"}}, Customers: 1, Batch: 1,
		Scenario: load.ScenarioFailover, Connections: 1,
	}
	_, err := load.New(c)
	require.ErrorContains(t, err, "0 kills")
	c.Kills = 1
	run, err := load.New(c)
	require.NoError(t, err)
	_, err = run.Failover(context.Background())
	require.ErrorContains(t, err, "--start")
}
