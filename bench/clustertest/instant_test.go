package clustertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/config"
)

// held is an agent that notes its process in a file, and is done as soon as no file holds it.
const held = `#!/bin/bash
read -r task
echo $$ >> %[1]s
while [ -e %[1]s.hold ]; do sleep 0.1; done
echo '{"type":"done"}'
`

// scheduled is a workspace with a flow whose runs begin by themselves every hour, and nodes whose
// clocks can be stepped.
type scheduled struct {
	*agent
	product *gate
	pids    string // of the agents that began
	flow    string
}

func startScheduled(t *testing.T) *scheduled {
	folder := t.TempDir()
	s := &scheduled{product: newGate(), pids: filepath.Join(folder, "pids")}
	script := filepath.Join(folder, "held.sh")
	require.NoError(t, os.WriteFile(script, fmt.Appendf(nil, held, s.pids), 0o700))
	t.Cleanup(func() { endAgents(t, s.pids) })
	product := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.product.pass(r)
		if _, err := w.Write([]byte("all is well")); err != nil {
			return // who asked was killed
		}
	}))
	t.Cleanup(product.Close)
	s.agent = &agent{development: startClusterOf(t, stepped(t), "--agent", "held="+script)}
	require.Zero(t, s.stop())
	origin := "http://" + s.Nodes[0].HTTP
	s.configure(func(_ string, c *config.Config) {
		c.PublicURL, c.Workspaces.Lease = origin, 3*time.Second
	})
	s.start()

	status, answer := s.asked("node1", "/v1/signup", "", map[string]any{"label": "scheduled"})
	require.Equal(t, 201, status, answer)
	s.key = answer["key"].(string)
	session := s.session()
	status, answer = s.call("node1", "POST", "/v1/claims", session,
		map[string]any{"code": answer["claimCode"]}, "Origin", origin)
	require.Equal(t, 200, status, answer)
	s.flow = s.agent.flow("held", product.URL, "well")
	require.Eventually(t, func() bool { // as soon as the log knows the agent
		status, answer = s.call("node1", "PATCH", "/v1/flows/"+s.flow, session,
			map[string]any{"schedule": map[string]any{"everyHours": 1}}, "Origin", origin)
		return status == 200
	}, patience, statusEvery, "%v", &answer)
	return s
}

// session signs a person in, and returns the token that their browser holds.
func (s *scheduled) session() (token string) {
	s.t.Helper()
	b := s.browser(false)
	callback, err := url.Parse(b.begin("node1", "ada@example.com"))
	require.NoError(s.t, err)
	at, err := url.Parse(b.base("node1"))
	require.NoError(s.t, err)
	p := b.open(at.String() + callback.RequestURI())
	require.Equal(s.t, 303, p.status, p.body)
	for _, cookie := range b.http.Jar.Cookies(at) {
		if strings.HasPrefix(cookie.Value, "tg_ses_") {
			return cookie.Value
		}
	}
	require.Fail(s.t, "no session")
	return ""
}

// next is the schedule's next instant, as a node has it.
func (s *scheduled) next(id string) time.Time {
	s.t.Helper()
	text, is := inner(s.sees(id, "/v1/flows/"+s.flow), "flow", "schedule", "nextAt").(string)
	require.True(s.t, is)
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(s.t, err)
	return at
}

// runs are the flow's, the newest first.
func (s *scheduled) runs(id string) (runs []any) {
	s.t.Helper()
	runs, is := s.sees(id, "/v1/runs")["runs"].([]any)
	require.True(s.t, is)
	return runs
}

// approach steps all clocks so that an instant is near, waits until the nodes agree on the time,
// and says when it comes by this machine's clock.
func (s *scheduled) approach(instant time.Time) (at time.Time) {
	s.t.Helper()
	at = time.Now().Add(4 * time.Second)
	for _, node := range s.Nodes {
		s.stepClock(node.ID, instant.Sub(at))
	}
	require.Eventually(s.t, s.agree, patience, statusEvery, "the nodes do not agree on the time")
	s.runner()
	return at
}

// agree reports whether every node's clock is that of the others.
func (s *scheduled) agree() bool {
	s.t.Helper()
	for _, node := range s.Nodes {
		status, err := s.status(node.ID)
		ahead := time.Duration(status.ClockAheadMS) * time.Millisecond
		if err != nil || ahead.Abs() > time.Second {
			return false
		}
	}
	return true
}

// The leader is killed shortly before an instant of a schedule, while the product is asked before
// the run, and while the run is carried out. The next leader begins the instant's run where none
// has begun, and no second one where one has; on every node there is one run for each instant.
func TestALeaderIsKilledAroundAnInstant(t *testing.T) {
	t.Parallel()
	s := startScheduled(t)
	hold := s.pids + ".hold"
	for i, moment := range []struct {
		name    string
		prepare func()
		await   func(at time.Time)
		lost    bool
	}{
		{name: "before it", prepare: func() {}, await: func(at time.Time) {
			<-time.After(time.Until(at) - 100*time.Millisecond)
		}},
		{name: "while the product is asked", prepare: s.product.arm, await: func(time.Time) {
			s.product.await(t, "the product is not asked")
		}},
		{name: "while the run is carried out", prepare: func() {
			require.NoError(t, os.WriteFile(hold, nil, 0o600))
		}, await: func(time.Time) { s.agentOf(s.pids, 3) }, lost: true},
	} {
		moment.prepare()
		instant := s.next("node1")
		moment.await(s.approach(instant))
		leader := s.runner()
		killProcess(t, s.node(leader).PID)
		s.product.armed.Store(false)

		next := s.runner(leader)
		var runs []any
		require.Eventually(t, func() bool {
			runs = s.runs(next)
			return len(runs) > i
		}, patience, statusEvery, "no run begins: killed %s", moment.name)
		run := inner(runs[0].(map[string]any), "id").(string)
		if moment.lost {
			s.lost(next, run)
			require.NoError(t, os.Remove(hold))
		} else {
			s.passes(next, run)
		}
		s.restartAs(leader, s.binary)
		s.ready(leader)
		runs = s.runs(next)
		require.Len(t, runs, i+1, "killed %s", moment.name)
		require.Equal(t, true, inner(runs[0].(map[string]any), "scheduled"))
		begun, err := time.Parse(time.RFC3339, inner(runs[0].(map[string]any), "createdAt").(string))
		require.NoError(t, err)
		require.WithinRange(t, begun, instant, instant.Add(patience), "killed %s", moment.name)
		for _, node := range s.Nodes {
			require.Equal(t, runs, s.runs(node.ID), "killed %s", moment.name)
			require.Equal(t, instant.Add(time.Hour), s.next(node.ID), "killed %s", moment.name)
			require.NotContains(t, fmt.Sprint(s.sees(node.ID, "/v1/notifications")), "schedule_skipped")
		}
	}
	require.Zero(t, s.stop())
}
