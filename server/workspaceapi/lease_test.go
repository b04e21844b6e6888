package workspaceapi

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"tollgate/engine"
	"tollgate/engine/workspace"
	"tollgate/server/provider/runner"
)

// deaf is a group that does not hear some commands, for as often as it is told.
type deaf struct {
	*group
	kind engine.Kind
	// times is how often it still does not hear; heard reports whether what it answers as unknown
	// was carried out.
	times atomic.Int32
	heard bool
}

func (d *deaf) Propose(until time.Time, records []engine.Record, results []engine.Result) {
	if records[0].Kind != d.kind || d.times.Add(-1) < 0 {
		d.group.Propose(until, records, results)
		return
	}
	results[0] = engine.Result{Outcome: engine.OutcomeUnavailable}
	if d.heard {
		d.group.Propose(until, records, results)
		results[0] = engine.Result{Outcome: engine.OutcomeUnknown}
	}
}

// TestACutOffWorkerEndsItsAgent: a worker that is not heard any more ends its agent before its
// lease is over, and not with the run's time; the agent that does not end by itself is killed
// before it is over, too.
func TestACutOffWorkerEndsItsAgent(t *testing.T) {
	t.Parallel()
	n, verifier, base := idleNode(t)
	cut := &deaf{group: n.group, kind: workspace.KindExtendLease}
	cut.times.Store(1 << 30)
	why, grace := make(chan error, 1), time.Duration(0)
	n.workWith(t, WorkersConfig{
		Proposer: cut, Verifier: verifier, Lease: 2 * time.Second,
		Agents: map[string]runner.Agent{"clever": agentFunc(
			func(ctx context.Context, task runner.Task, _ sink) (runner.Report, error) {
				grace = task.Grace
				<-ctx.Done()
				why <- context.Cause(ctx)
				return runner.Report{}, ctx.Err()
			})},
	})
	c := n.signUp("")
	c.claim()
	a := c.ended(c.keyFlow(base, "clever"), "key-00001")
	require.ErrorIs(t, <-why, errLease)
	require.Equal(t, 250*time.Millisecond, grace, "half of what is left of the lease")
	require.Equal(t, "failed", a.at("run", "status"))
	require.Equal(t, "worker_lost", a.at("run", "reasonCode"))
	require.Equal(t, [2]any{"free", "returned"}, c.charged(a))
}

// TestALastWordIsRepeated until it is known: one that was not heard, and one of which it is not
// known that it was.
func TestALastWordIsRepeated(t *testing.T) {
	t.Parallel()
	for _, kind := range []engine.Kind{workspace.KindFinishRun, workspace.KindAwaitPerson} {
		for _, heard := range []bool{false, true} {
			n, verifier, base := idleNode(t)
			hard := &deaf{group: n.group, kind: kind, heard: heard}
			hard.times.Store(2)
			n.workWith(t, WorkersConfig{
				Proposer: hard, Verifier: verifier, Agents: map[string]runner.Agent{"clever": agentFunc(
					func(context.Context, runner.Task, sink) (runner.Report, error) {
						if kind == workspace.KindAwaitPerson {
							return runner.Report{Question: "What is the code?"}, nil
						}
						return runner.Report{Credential: productKey}, nil
					})},
			})
			c := n.signUp("")
			c.claim()
			a := c.ended(c.keyFlow(base, "clever"), "key-00001")
			if kind == workspace.KindAwaitPerson {
				require.Equal(t, "waiting_for_human", a.at("run", "status"))
				continue
			}
			require.Equal(t, "passed", a.at("run", "outcome"))
			require.Equal(t, [2]any{"free", "committed"}, c.charged(a))
		}
	}
}

// TestAnAgentThatTakesTooLong ends by the run's time, and so does the run, as wall_timeout, whether
// its worker or the log sees it first.
func TestAnAgentThatTakesTooLong(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithTimeoutCause(t.Context(), 0, errWall)
	defer cancel()
	require.Equal(t, workspace.CodeWallTimeout, cutShort(over, &workspace.FinishRun{}).Code)
	n, base := working(t, func(ctx context.Context, _ runner.Task, _ sink) (runner.Report, error) {
		<-ctx.Done()
		return runner.Report{Credential: productKey}, nil
	})
	n.policy(func(p *workspace.SetPolicy) { p.WallMS = 1000 })
	c := n.signUp("")
	c.claim()
	a := c.ended(c.keyFlow(base, "clever"), "key-00001")
	require.Equal(t, "failed", a.at("run", "status"))
	require.Equal(t, "wall_timeout", a.at("run", "reasonCode"))
	require.Equal(t, [2]any{"free", "returned"}, c.charged(a))
}

// TestAVerificationThatIsCutShortIsNone: a node that ends while it verifies has learnt nothing of
// the product; the run is lost and returned.
func TestAVerificationThatIsCutShortIsNone(t *testing.T) {
	var patient atomic.Bool
	called := make(chan struct{}, 10)
	release := make(chan struct{})
	verifier, check, base := product(t, func(ctx *fasthttp.RequestCtx) {
		if patient.Load() {
			called <- struct{}{}
			<-release
		}
		ctx.SetStatusCode(401)
	})
	n := start(t, func(c *Config) {
		c.Verifier, c.Check = verifier, check
		c.Agents = []Agent{{Name: "clever", Kind: "exec", Version: "1"}}
	})
	workers, err := NewWorkers(WorkersConfig{
		Machine: n.Machine, Proposer: n.group, Verifier: verifier, Name: "n1", SealKey: [32]byte{7},
		Leads: leads,
		Agents: map[string]runner.Agent{"clever": agentFunc(
			func(context.Context, runner.Task, sink) (runner.Report, error) {
				patient.Store(true)
				return runner.Report{Credential: productKey}, nil
			})},
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { workers.Run(ctx) })
	defer running.Wait()
	defer stop()
	defer close(release)
	c := n.signUp("")
	c.claim()
	id := c.start(c.keyFlow(base, "clever"), "key-00001").is(202, "").at("run", "id").(string)
	<-called
	stop()
	a := c.until(id, func(status string) bool { return status != "queued" && status != "running" })
	require.Equal(t, "failed", a.at("run", "status"))
	require.Equal(t, "worker_lost", a.at("run", "reasonCode"))
	require.Equal(t, [2]any{"free", "returned"}, c.charged(a))
}
