package workspaceapi

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/workspace"
	"tollgate/server/provider/runner"
)

// overheard is a group whose workers' last words a test hears, with what became of them.
type overheard struct {
	*group
	words chan engine.Outcome
}

func (o *overheard) Propose(until time.Time, records []engine.Record, results []engine.Result) {
	o.group.Propose(until, records, results)
	if k := records[0].Kind; k == workspace.KindFinishRun || k == workspace.KindAwaitPerson {
		o.words <- results[0].Outcome
	}
}

// TestLateWordsAreRefused: whatever ended a run while its worker was cut off, what the worker says
// afterwards changes nothing of it: not its end, not its charge.
func TestLateWordsAreRefused(t *testing.T) {
	t.Parallel()
	reports := map[string]runner.Report{
		"a key":     {Credential: productKey},
		"blocked":   {Blocked: true, Code: "captcha"},
		"a person":  {Question: "What is the code?", Checkpoint: []byte("page 2")},
		"no result": {},
	}
	cancelled := func(n *node, c *caller, id string) {
		c.call("POST", "/v1/runs/"+id+"/cancel", "").is(200, "")
	}
	for name, row := range map[string]struct {
		ends         func(*node, *caller, string)
		status, code any
	}{
		"lost": {
			func(n *node, _ *caller, _ string) { n.Later(defaultLease + time.Second) },
			"failed", "worker_lost",
		},
		"cancelled": {cancelled, "cancelled", nil},
	} {
		for said, report := range reports {
			t.Run(name+" "+said, func(t *testing.T) {
				lateWord(t, row.ends, report, row.status, row.code)
			})
		}
	}
}

// lateWord ends a run whose agent hears of nothing, and then lets it say its last word.
func lateWord(t *testing.T, ends func(*node, *caller, string), report runner.Report,
	status, code any,
) {
	n, verifier, base := idleNode(t)
	begun, release := make(chan struct{}, 2), make(chan struct{})
	late := &overheard{n.group, make(chan engine.Outcome, 2)}
	n.work(t, late, verifier, map[string]runner.Agent{"clever": agentFunc(
		func(context.Context, runner.Task, sink) (runner.Report, error) {
			begun <- struct{}{}
			<-release
			return report, nil
		})})
	c := n.signUp("")
	c.claim()
	flow := c.keyFlow(base, "clever")
	id := c.start(flow, "key-00001").is(202, "").at("run", "id").(string)
	<-begun
	ends(n, c, id)
	before := c.call("GET", "/v1/runs/"+id, "").is(200, "")
	require.Equal(t, status, before.at("run", "status"))
	require.Equal(t, code, before.at("run", "reasonCode"))
	require.Equal(t, [2]any{"free", "returned"}, c.charged(before))
	account := c.call("GET", "/v1/account", "").is(200, "")

	close(release)
	// A worker that saw first that its run is gone says only what is so already.
	require.Contains(t, []engine.Outcome{engine.OutcomeFenced, engine.OutcomeDone}, <-late.words)
	require.Equal(t, string(before.raw), string(c.call("GET", "/v1/runs/"+id, "").raw))
	require.Equal(t, string(account.raw), string(c.call("GET", "/v1/account", "").raw))
	// The flow is free for another run.
	require.NotEqual(t, id, c.start(flow, "key-00002").is(202, "").at("run", "id"))
}
