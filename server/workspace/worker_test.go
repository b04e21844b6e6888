package workspace

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	state "tollgate/engine/workspace"
	"tollgate/server/provider/runner"
	"tollgate/server/provider/verify"
)

// agentFunc is an agent of one function.
type agentFunc func(context.Context, runner.Task, teller) (runner.Report, error)

type teller = func(runner.Event)

func (f agentFunc) Run(ctx context.Context, t runner.Task, tell teller) (runner.Report, error) {
	return f(ctx, t, tell)
}

const productKey = "pk_0123456789abcdef"

// working starts a node with workers and one product, which answers /me to its key alone and /done
// to everybody.
func working(t *testing.T, agent agentFunc) (*node, string) {
	verifier, check, base := product(t, func(ctx *fasthttp.RequestCtx) {
		switch {
		case string(ctx.Path()) == "/done":
			ctx.SetBodyString("done")
		case string(ctx.Request.Header.Peek("Authorization")) != "Bearer "+productKey:
			ctx.SetStatusCode(401)
		}
	})
	n := start(t, func(c *Config) {
		c.Verifier, c.Check = verifier, check
		c.Agents = []Agent{{"clever", "exec", "1"}, {"nop", "nop", "1"}}
	})
	agents := map[string]runner.Agent{"nop": runner.Nop{}}
	if agent != nil {
		agents["clever"] = agent
	}
	n.work(t, verifier, agents)
	return n, base
}

func (n *node) work(t *testing.T, verifier *verify.Verifier, agents map[string]runner.Agent) {
	workers, err := NewWorkers(WorkersConfig{
		Machine: n.machine, Proposer: n.group, Verifier: verifier, Agents: agents, Name: "n1",
		Leads: func() bool { return true },
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { workers.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
}

// ended starts a flow and waits until its run has ended, or waits for a person.
func (c *caller) ended(flow, key string) answer {
	c.t.Helper()
	id := c.start(flow, key).is(202, "").at("run", "id").(string)
	return c.until(id, func(status string) bool { return status != "queued" && status != "running" })
}

func (c *caller) until(id string, is func(status string) bool) (a answer) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		a = c.call("GET", "/v1/runs/"+id, "").is(200, "")
		return is(a.at("run", "status").(string))
	}, 10*time.Second, 10*time.Millisecond)
	return a
}

// keyFlow saves a flow that asks for a key, whose signup its owner has confirmed.
func (c *caller) keyFlow(base, agent string) string {
	c.t.Helper()
	id := c.flow(`{` + strings.Replace(flowText, "https://product.example", base, 1) + `,"agent":"` + agent +
		`","credential":"bearer","verification":{"url":"` + base + `/me","status":200}}`)
	c.operate("/flows/"+id+"/confirm-signup", "")
	return id
}

func (c *caller) charged(a answer) [2]any {
	return [2]any{a.at("run", "charge", "kind"), a.at("run", "charge", "state")}
}

func TestARunIsDecidedByFourCalls(t *testing.T) {
	n, base := working(t, func(_ context.Context, task runner.Task, tell teller,
	) (runner.Report, error) {
		tell(runner.Event{At: time.Now(), Text: "signed up\x00 at " + task.URL})
		return runner.Report{Credential: productKey}, nil
	})
	c := n.signUp("")
	c.claim()
	a := c.ended(c.keyFlow(base, "clever"), "key-00001")
	require.Equal(t, "completed", a.at("run", "status"))
	require.Equal(t, "passed", a.at("run", "outcome"))
	require.Equal(t, "run", a.at("run", "verification", "proof"))
	calls := a.at("run", "verification", "calls").([]any)
	require.Len(t, calls, 4)
	for i, name := range []string{"none", "wrong", "real", "none"} {
		call := calls[i].(map[string]any)
		require.Equal(t, name, call["case"])
		require.Equal(t, name == "real", call["matched"])
		require.Equal(t, name != "real", call["refused"])
	}
	require.Equal(t, [2]any{"free", "committed"}, c.charged(a))
	require.Equal(t, "signed up  at "+base+"/", a.at("run", "events").([]any)[0].(map[string]any)["text"])
	require.NotContains(t, string(a.raw), productKey)
	require.Equal(t, "passing", c.call("GET", "/v1/flows/"+a.at("run", "flowId").(string)+"/alerts", "").at("watch", "state"))

	// The agent that does nothing does not pass the same flow, and costs nothing.
	nop := c.ended(c.keyFlow(base, "nop"), "key-00002")
	require.Equal(t, "inconclusive", nop.at("run", "outcome"))
	require.Equal(t, "no_credential", nop.at("run", "reasonCode"))
	require.Equal(t, [2]any{"free", "returned"}, c.charged(nop))
}

func TestNopPassesOnlyWhatStands(t *testing.T) {
	n, base := working(t, nil)
	c := n.signUp("")
	c.claim()
	flow := func(contains string) string {
		return c.flow(`{` + strings.Replace(flowText, "https://product.example", base, 1) +
			`,"agent":"nop","verification":{"url":"` + base + `/done","status":200,"contains":"` + contains + `"}}`)
	}
	standing := c.ended(flow("done"), "key-00001")
	require.Equal(t, "passed", standing.at("run", "outcome"))
	require.Equal(t, "standing", standing.at("run", "verification", "proof"))
	require.Equal(t, "blocked", c.ended(flow("other"), "key-00002").at("run", "outcome"))
	require.Equal(t, "blocked", c.ended(flow("done {run_id}"), "key-00003").at("run", "outcome"))
}

func TestAPersonHelps(t *testing.T) {
	var asked atomic.Bool
	n, base := working(t, func(_ context.Context, task runner.Task, _ teller) (runner.Report, error) {
		if asked.Swap(true) {
			require.Equal(t, "page 2", string(task.Checkpoint))
			return runner.Report{Credential: productKey}, nil
		}
		return runner.Report{Question: "What is the code?", Checkpoint: []byte("page 2")}, nil
	})
	c := n.signUp("")
	c.claim()
	a := c.ended(c.keyFlow(base, "clever"), "key-00001")
	require.Equal(t, "waiting_for_human", a.at("run", "status"))
	require.Equal(t, "What is the code?", a.at("run", "human", "question"))
	id := a.at("run", "id").(string)
	c.call("POST", "/v1/runs/"+id+"/resume", "{}").is(202, "")
	a = c.until(id, func(status string) bool { return status == "completed" })
	require.Equal(t, "passed", a.at("run", "outcome"))
}

func TestHowRunsEnd(t *testing.T) {
	for name, row := range map[string]struct {
		agent                 agentFunc
		status, outcome, code string
		state                 string
	}{
		"blocked": {func(context.Context, runner.Task, teller) (runner.Report, error) {
			return runner.Report{Blocked: true, Step: "signup", Code: "captcha", Reason: "There is a CAPTCHA."}, nil
		}, "completed", "blocked", "captcha", "committed"},
		"a made-up key": {func(context.Context, runner.Task, teller) (runner.Report, error) {
			return runner.Report{Credential: "pk_madeup"}, nil
		}, "completed", "blocked", "key_refused", "committed"},
		"not there": {nil, "failed", "inconclusive", "provider_unavailable", "returned"},
		"lost": {func(context.Context, runner.Task, teller) (runner.Report, error) {
			return runner.Report{}, runner.ErrUnavailable
		}, "failed", "inconclusive", "provider_unavailable", "returned"},
		"panics": {func(context.Context, runner.Task, teller) (runner.Report, error) {
			panic("boom")
		}, "failed", "inconclusive", "provider_unavailable", "returned"},
		"asks after the key": {func(context.Context, runner.Task, teller) (runner.Report, error) {
			return runner.Report{Credential: productKey, Question: "and now?"}, nil
		}, "failed", "inconclusive", "human_after_credential", "returned"},
	} {
		t.Run(name, func(t *testing.T) {
			n, base := working(t, row.agent)
			c := n.signUp("")
			c.claim()
			a := c.ended(c.keyFlow(base, "clever"), "key-00001")
			require.Equal(t, row.status, a.at("run", "status"))
			require.Equal(t, row.outcome, a.at("run", "outcome"))
			require.Equal(t, row.code, a.at("run", "reasonCode"))
			require.Equal(t, [2]any{"free", row.state}, c.charged(a))
		})
	}
}

// TestACancelledRunStaysCancelled: what its worker says afterwards is refused.
func TestACancelledRunStaysCancelled(t *testing.T) {
	release, working1 := make(chan struct{}), make(chan struct{})
	n, base := working(t, func(context.Context, runner.Task, teller) (runner.Report, error) {
		close(working1)
		<-release
		return runner.Report{Credential: productKey}, nil
	})
	c := n.signUp("")
	c.claim()
	id := c.start(c.keyFlow(base, "clever"), "key-00001").is(202, "").at("run", "id").(string)
	<-working1
	require.Equal(t, "running", c.call("GET", "/v1/runs/"+id, "").at("run", "status"))
	c.call("POST", "/v1/runs/"+id+"/cancel", "").is(200, "")
	close(release)
	require.Eventually(t, func() bool {
		_, running := n.machine.Load()
		return running == 0
	}, 5*time.Second, time.Millisecond)
	a := c.call("GET", "/v1/runs/"+id, "").is(200, "")
	require.Equal(t, "cancelled", a.at("run", "status"))
	require.Nil(t, a.at("run", "outcome"))
	require.Equal(t, [2]any{"free", "returned"}, c.charged(a))
}

func TestCut(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("é", 400), "a\x00b\xff\xfe" + strings.Repeat("日", 200)} {
		for _, n := range []int{0, 1, 5, 300} {
			got := cut(text, n)
			require.LessOrEqual(t, len(got), max(n, 0))
			require.NotContains(t, got, "\x00")
		}
	}
	require.Equal(t, "a b", cut("a\nb", state.MaxEventBytes))
}
