package workspaceapi

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/provider/fetch"
	"tollgate/server/provider/runner"
	"tollgate/server/provider/verify"
	"tollgate/server/vault"
)

// agentFunc is an agent of one function.
type agentFunc func(context.Context, runner.Task, sink) (runner.Report, error)

type sink = func(runner.Event)

func (f agentFunc) Run(ctx context.Context, t runner.Task, emit sink) (runner.Report, error) {
	return f(ctx, t, emit)
}

const productKey = "pk_0123456789abcdef"

// idleNode starts a node without workers, and one product, which answers /me to its key alone and
// /done to everybody.
func idleNode(t *testing.T) (n *node, verifier *verify.Verifier, base string) {
	verifier, check, base := product(t, func(ctx *fasthttp.RequestCtx) {
		switch {
		case string(ctx.Path()) == "/done":
			ctx.SetBodyString("done")
		case string(ctx.Request.Header.Peek("Authorization")) != "Bearer "+productKey:
			ctx.SetStatusCode(401)
		}
	})
	n = start(t, func(c *Config) {
		c.Verifier, c.Check = verifier, check
		c.Agents = []Agent{
			{Name: "clever", Kind: "exec", Version: "1"},
			{Name: "nop", Kind: "nop", Version: "1"},
		}
	})
	return n, verifier, base
}

// working is idleNode with workers.
func working(t *testing.T, agent agentFunc) (*node, string) {
	n, verifier, base := idleNode(t)
	agents := map[string]runner.Agent{"nop": runner.Nop{}}
	if agent != nil {
		agents["clever"] = agent
	}
	n.work(t, n.group, verifier, agents)
	return n, base
}

func (n *node) work(t *testing.T, p server.Proposer, verifier *verify.Verifier,
	agents map[string]runner.Agent,
) {
	n.workWith(t, WorkersConfig{Proposer: p, Verifier: verifier, Agents: agents})
}

// workWith starts workers with what their configuration says beside the node's.
func (n *node) workWith(t *testing.T, c WorkersConfig, settings ...func(*Workers)) {
	c.Machine, c.Name, c.SealKey = n.Machine, "n1", [32]byte{7}
	c.Leads = leads
	workers, err := NewWorkers(c)
	require.NoError(t, err)
	for _, set := range settings {
		set(workers)
	}
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
	}, 60*time.Second, 10*time.Millisecond)
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

// TestAVerificationHasTimeForAllItsCalls: none, wrong, wrong, real, none, each as slow as an answer
// may be, and each repeated after a second.
func TestAVerificationHasTimeForAllItsCalls(t *testing.T) {
	require.Greater(t, maxVerification, 5*(2*fetch.MaxTime+time.Second))
}

func TestARunIsDecidedByFiveCalls(t *testing.T) {
	t.Parallel()
	n, base := working(t, func(_ context.Context, task runner.Task, emit sink,
	) (runner.Report, error) {
		emit(runner.Event{At: time.Now(), Text: "signed up\x00 at " + task.URL})
		return runner.Report{Credential: productKey}, nil
	})
	c := n.signUp("")
	c.claim()
	a := c.ended(c.keyFlow(base, "clever"), "key-00001")
	require.Equal(t, "completed", a.at("run", "status"))
	require.Equal(t, "passed", a.at("run", "outcome"))
	require.Equal(t, "run", a.at("run", "verification", "proof"))
	calls := a.at("run", "verification", "calls").([]any)
	require.Len(t, calls, 5)
	for i, name := range []string{"none", "wrong", "wrong", "real", "none"} {
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
	require.Equal(t, [2]any{"none", nil}, c.charged(nop))
}

func TestNopPassesOnlyWhatStands(t *testing.T) {
	t.Parallel()
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

// TestARunDoesNotWaitForEver: what its agent used before is what it is told when it goes on, and
// the sixth time that it asks, the run ends and costs nothing.
func TestARunDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	n, base := working(t, func(_ context.Context, task runner.Task, _ sink) (runner.Report, error) {
		return runner.Report{Question: "And now?", Steps: task.Steps + 3, Tokens: task.Tokens + 50}, nil
	})
	c := n.signUp("")
	c.claim()
	a := c.ended(c.keyFlow(base, "clever"), "key-00001")
	id := a.at("run", "id").(string)
	for waits := 1; waits <= workspace.MaxWaits; waits++ {
		v, ok := n.Machine.Run(1, must(parseID(markRun, id)))
		require.True(t, ok)
		require.Equal(t, []int{3 * waits, 50 * waits}, []int{int(v.Steps), int(v.Tokens)})
		c.call("POST", "/v1/runs/"+id+"/resume", "").is(202, "")
		a = c.until(id, func(status string) bool { return status != "queued" && status != "running" })
	}
	require.Equal(t, "failed", a.at("run", "status"))
	require.Equal(t, "human_limit", a.at("run", "reasonCode"))
	require.Equal(t, [2]any{"free", "returned"}, c.charged(a))
	c.call("POST", "/v1/runs/"+id+"/resume", "").is(409, "cannot_resume")
}

func must[T any](value T, ok bool) T {
	if !ok {
		panic("it is not there")
	}
	return value
}

func TestAPersonHelps(t *testing.T) {
	t.Parallel()
	var asked atomic.Bool
	n, base := working(t, func(_ context.Context, task runner.Task, _ sink) (runner.Report, error) {
		if asked.Swap(true) {
			require.Equal(t, "page 2", string(task.Checkpoint))
			require.Equal(t, "the code is 4711", task.Answer)
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
	resume := "/v1/runs/" + id + "/resume"
	c.call("POST", resume, `{"answer":""}`).is(400, "invalid_field")
	c.call("POST", resume, `{"answer":"`+strings.Repeat("é", 501)+`"}`).is(400, "invalid_field")
	c.call("POST", resume, `{"answer":"password=hush"}`).is(400, "credentials_not_allowed")
	c.call("POST", resume, `{"answers":"x"}`).is(400, "unexpected_field")
	c.call("POST", resume, `{"answer":"the code is 4711"}`).is(202, "")
	entries := n.Log()
	require.Contains(t, entries, "What is the code?")
	require.NotContains(t, entries, "4711", "an answer is sealed before it enters the log")
	a = c.until(id, func(status string) bool { return status == "completed" })
	require.Equal(t, "passed", a.at("run", "outcome"))
}

// TestWhatARunMadeTrueBeforeItAsked: is its own doing, though a quote found it while it waited.
func TestWhatARunMadeTrueBeforeItAsked(t *testing.T) {
	t.Parallel()
	var done, asked atomic.Bool
	verifier, check, base := product(t, func(ctx *fasthttp.RequestCtx) {
		if done.Load() {
			ctx.SetBodyString("done")
		}
	})
	n := start(t, func(c *Config) {
		c.Verifier, c.Check, c.Agents = verifier, check, []Agent{
			{Name: "clever", Kind: "exec", Version: "1"},
		}
	})
	n.work(t, n.group, verifier, map[string]runner.Agent{"clever": agentFunc(
		func(context.Context, runner.Task, sink) (runner.Report, error) {
			done.Store(true)
			if asked.Swap(true) {
				return runner.Report{}, nil
			}
			return runner.Report{Question: "And now?"}, nil
		},
	)})
	c := n.signUp("")
	c.claim()
	flow := c.flow(`{` + strings.Replace(flowText, "https://product.example", base, 1) +
		`,"verification":{"url":"` + base + `/","contains":"done"}}`)
	id := c.ended(flow, "key-00001").at("run", "id").(string)
	n.Later(workspace.PreflightLifeMS * time.Millisecond)
	require.Equal(t, true, c.quote(flow)["preflight"].(map[string]any)["alreadyTrue"])
	c.call("POST", "/v1/runs/"+id+"/resume", "").is(202, "")
	a := c.until(id, func(status string) bool { return status == "completed" })
	require.Equal(t, []any{"passed", "run"},
		[]any{a.at("run", "outcome"), a.at("run", "verification", "proof")})
	a = c.ended(flow, "key-00002")
	require.Equal(t, "standing", a.at("run", "verification", "proof"), "for the next one it stands")
}

func TestHowRunsEnd(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		agent                 agentFunc
		status, outcome, code string
		state                 string
	}{
		"blocked": {func(context.Context, runner.Task, sink) (runner.Report, error) {
			return runner.Report{
				Blocked: true, Step: "signup", Code: "captcha", Reason: "There is a CAPTCHA.", Reached: true,
			}, nil
		}, "completed", "blocked", "captcha", "committed"},
		"blocked, and no more": {func(context.Context, runner.Task, sink) (runner.Report, error) {
			return runner.Report{Blocked: true, Reached: true}, nil
		}, "completed", "blocked", "no_credential", "committed"},
		"blocked, it says": {func(context.Context, runner.Task, sink) (runner.Report, error) {
			return runner.Report{Blocked: true, Step: "signup", Code: "captcha"}, nil
		}, "completed", "inconclusive", "product_not_reached", "returned"},
		"its own limit": {func(context.Context, runner.Task, sink) (runner.Report, error) {
			return runner.Report{Step: "signup", Code: "time_budget", Reason: "Too late.", Reached: true}, nil
		}, "completed", "inconclusive", "time_budget", "returned"},
		"a made-up key": {func(context.Context, runner.Task, sink) (runner.Report, error) {
			return runner.Report{Credential: "pk_madeup"}, nil
		}, "completed", "blocked", "key_refused", "committed"},
		"keeps too much": {func(context.Context, runner.Task, sink) (runner.Report, error) {
			return runner.Report{
				Question:   "?",
				Checkpoint: make([]byte, workspace.MaxCheckpoint+1),
			}, nil
		}, "failed", "inconclusive", "provider_unavailable", "returned"},
		"not there": {nil, "failed", "inconclusive", "provider_unavailable", "returned"},
		"lost": {func(context.Context, runner.Task, sink) (runner.Report, error) {
			return runner.Report{}, runner.ErrUnavailable
		}, "failed", "inconclusive", "provider_unavailable", "returned"},
		"panics": {func(context.Context, runner.Task, sink) (runner.Report, error) {
			panic("boom")
		}, "failed", "inconclusive", "provider_unavailable", "returned"},
		"asks after the key": {func(context.Context, runner.Task, sink) (runner.Report, error) {
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
			require.Equal(t, name == "keeps too much",
				strings.Contains(a.at("run", "reason").(string), "checkpoint"))
		})
	}
}

// TestBlockedIsDecidedByCalls: what an agent says about being blocked is told, and charged, only
// where the verification finds that it got nowhere.
func TestBlockedIsDecidedByCalls(t *testing.T) {
	t.Parallel()
	var mode atomic.Value
	mode.Store("key")
	verifier, check, base := product(t, func(ctx *fasthttp.RequestCtx) {
		switch real := string(ctx.Request.Header.Peek("Authorization")) == "Bearer "+productKey; {
		case mode.Load() == "down":
			ctx.SetStatusCode(503)
		case mode.Load() == "key" && !real:
			ctx.SetStatusCode(401)
		}
	})
	verifier.Pause = time.Millisecond
	n := start(t, func(c *Config) {
		c.Verifier, c.Check, c.Agents = verifier, check, []Agent{
			{Name: "clever", Kind: "exec", Version: "1"},
		}
	})
	var key, goesTo atomic.Value
	n.work(t, n.group, verifier, map[string]runner.Agent{"clever": agentFunc(
		func(context.Context, runner.Task, sink) (runner.Report, error) {
			mode.Store(goesTo.Load())
			return runner.Report{
				Blocked: true, Step: "signup", Code: "captcha", Reason: "There is a CAPTCHA.",
				Credential: key.Load().(string), Reached: true,
			}, nil
		},
	)})
	c := n.signUp("")
	c.claim()
	for i, row := range []struct {
		product, key           string
		outcome, code, charged string
		calls                  int
	}{
		{"key", "", "blocked", "captcha", "committed", 3},
		{"key", "pk_madeup", "blocked", "captcha", "committed", 5},
		{"key", productKey, "passed", "", "committed", 5},
		{"open", "", "inconclusive", "answers_without_key", "returned", 3},
		{"down", "", "inconclusive", "verification_unavailable", "returned", 1},
	} {
		mode.Store("key")
		key.Store(row.key)
		goesTo.Store(row.product)
		flow := c.keyFlow(base, "clever")
		a := c.ended(flow, "key-0000"+string(rune('1'+i)))
		require.Equal(t, "completed", a.at("run", "status"), i)
		require.Equal(t, row.outcome, a.at("run", "outcome"), i)
		if row.code == "" {
			require.Nil(t, a.at("run", "reasonCode"), i)
		} else {
			require.Equal(t, row.code, a.at("run", "reasonCode"), i)
		}
		require.Equal(t, [2]any{"free", row.charged}, c.charged(a), i)
		require.Len(t, a.at("run", "verification", "calls"), row.calls, i)
		require.NotNil(t, a.at("run", "verification", "decided"), i)
	}
}

// TestWhatWasReachedBeforeAWait counts: an agent that goes on and finds that a person's code does
// not help has been at the product.
func TestWhatWasReachedBeforeAWait(t *testing.T) {
	t.Parallel()
	for _, reached := range []bool{true, false} {
		n, base := working(t, func(_ context.Context, task runner.Task, _ sink) (runner.Report, error) {
			if task.Checkpoint != nil {
				return runner.Report{Blocked: true, Step: "signup", Code: "email_code"}, nil
			}
			return runner.Report{Question: "And now?", Checkpoint: []byte("2"), Reached: reached}, nil
		})
		c := n.signUp("")
		c.claim()
		a := c.ended(c.keyFlow(base, "clever"), "key-00001")
		id := a.at("run", "id").(string)
		c.call("POST", "/v1/runs/"+id+"/resume", "").is(202, "")
		a = c.until(id, func(status string) bool { return status == "completed" })
		want := map[bool]string{true: "blocked", false: "inconclusive"}[reached]
		require.Equal(t, want, a.at("run", "outcome"))
	}
}

// TestAChangedKeyReturnsTheRun: what a person answered was sealed under another key than the node
// has now.
func TestAChangedKeyReturnsTheRun(t *testing.T) {
	t.Parallel()
	n, verifier, base := idleNode(t)
	n.workWith(t, WorkersConfig{
		Proposer: n.group, Verifier: verifier, Agents: map[string]runner.Agent{"clever": agentFunc(
			func(context.Context, runner.Task, sink) (runner.Report, error) {
				return runner.Report{Question: "And now?"}, nil
			})},
	}, func(w *Workers) {
		w.answers = vault.New([32]byte{8}, answersPurpose)
	})
	c := n.signUp("")
	c.claim()
	a := c.ended(c.keyFlow(base, "clever"), "key-00001")
	id := a.at("run", "id").(string)
	c.call("POST", "/v1/runs/"+id+"/resume", `{"answer":"blue"}`).is(202, "")
	a = c.until(id, func(status string) bool { return status == "failed" })
	require.Equal(t, "provider_unavailable", a.at("run", "reasonCode"))
	require.Equal(t, [2]any{"free", "returned"}, c.charged(a))
}

// TestAKeyThatNobodyAskedFor ends the run: of a flow without a credential events are stored as they
// are said, so that one may have had the key.
func TestAKeyThatNobodyAskedFor(t *testing.T) {
	n, base := working(t, func(_ context.Context, _ runner.Task, emit sink) (runner.Report, error) {
		emit(runner.Event{At: time.Now(), Credential: productKey})
		emit(runner.Event{At: time.Now(), Text: "has " + productKey})
		return runner.Report{Step: "signup"}, nil
	})
	c := n.signUp("")
	c.claim()
	flow := c.flow(`{` + strings.Replace(flowText, "https://product.example", base, 1) +
		`,"agent":"clever","verification":{"url":"` + base + `/done","status":200,"contains":"done"}}`)
	a := c.ended(flow, "key-00001")
	require.Equal(t, "failed", a.at("run", "status"))
	require.Equal(t, "provider_unavailable", a.at("run", "reasonCode"))
	require.Equal(t, [2]any{"free", "returned"}, c.charged(a))
	require.Equal(t, "has [key]", a.at("run", "events").([]any)[0].(map[string]any)["text"])
}

// TestCancelEndsTheAgent: at once, and not with the next heartbeat.
func TestCancelEndsTheAgent(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}), make(chan struct{})
	n, base := working(t, func(ctx context.Context, _ runner.Task, _ sink) (runner.Report, error) {
		close(begun)
		<-ctx.Done()
		close(ended)
		return runner.Report{}, ctx.Err()
	})
	c := n.signUp("")
	c.claim()
	id := c.start(c.keyFlow(base, "clever"), "key-00001").is(202, "").at("run", "id").(string)
	<-begun
	at := time.Now()
	c.call("POST", "/v1/runs/"+id+"/cancel", "").is(200, "")
	<-ended
	require.Less(t, time.Since(at), defaultLease/beats-cancelPoll)
}

func TestCut(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("é", 400), "a\x00b\xff\xfe" + strings.Repeat("日", 200)} {
		for _, n := range []int{0, 1, 5, 300} {
			got := cut(text, n)
			require.LessOrEqual(t, len(got), max(n, 0))
			require.NotContains(t, got, "\x00")
		}
	}
	require.Equal(t, "a b", cut("a\nb", workspace.MaxEventBytes))
	require.Equal(t, "日…", cut("日日日", 8), "what is cut says so")
	require.Equal(t, "日日日", cut("日日日", 9))
}
