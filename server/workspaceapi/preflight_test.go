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
	"tollgate/server/provider/runner"
)

// moody is a product whose answer a test decides: a status and a body, the same for everybody.
type moody struct {
	status atomic.Int64
	body   atomic.Value // string
	calls  atomic.Int64
}

// moodyNode starts a node, its workers and a product that answers 401.
func moodyNode(t *testing.T, agent agentFunc) (n *node, p *moody, base string) {
	p = &moody{}
	p.says(401, "")
	verifier, check, base := product(t, func(ctx *fasthttp.RequestCtx) {
		p.calls.Add(1)
		ctx.SetStatusCode(int(p.status.Load()))
		ctx.SetBodyString(p.body.Load().(string))
	})
	n = start(t, func(c *Config) {
		c.Verifier, c.Check = verifier, check
		c.Agents = []Agent{
			{Name: "clever", Kind: "exec", Version: "1"},
			{Name: "nop", Kind: "nop", Version: "1"},
		}
	})
	n.work(t, n.group, verifier, map[string]runner.Agent{"nop": runner.Nop{}, "clever": agent})
	return n, p, base
}

func (p *moody) says(status int, body string) {
	p.status.Store(int64(status))
	p.body.Store(body)
}

func (c *caller) plainFlow(base, agent, contains string) string {
	c.t.Helper()
	return c.flow(`{` + strings.Replace(flowText, "https://product.example", base, 1) + `,"agent":"` +
		agent + `","verification":{"url":"` + base + `/done","status":200,"contains":"` + contains + `"}}`)
}

// ran starts a run with a quote that was read before, and waits for its end.
func (c *caller) ran(flow, fingerprint, key string) answer {
	c.t.Helper()
	id := c.keyed("/v1/flows/"+flow+"/run", key, `{"fingerprint":"`+fingerprint+`"}`).is(202, "").
		at("run", "id").(string)
	return c.until(id, func(status string) bool { return status != "queued" && status != "running" })
}

// TestWhatOneRunMadeTrueStandsForTheNext: also where no quote is read between them, and whichever
// agent runs.
func TestWhatOneRunMadeTrueStandsForTheNext(t *testing.T) {
	t.Parallel()
	var p *moody
	n, p, base := moodyNode(t, func(context.Context, runner.Task, sink) (runner.Report, error) {
		p.says(200, "all is done")
		return runner.Report{}, nil
	})
	n.policy(func(s *workspace.SetPolicy) { s.FreeRunsPerMonth, s.RunsPerDay = 100, 100 })
	c := n.signUp("")
	c.claim()
	flow := c.plainFlow(base, "clever", "done")
	quote := c.quote(flow)["fingerprint"].(string)
	for i, proof := range []string{"run", "standing"} {
		a := c.ran(flow, quote, "clever-run-"+string(rune('0'+i)))
		require.Equal(t, "passed", a.at("run", "outcome"))
		require.Equal(t, proof, a.at("run", "verification", "proof"))
	}

	// Somebody else makes it true while the agent that does nothing has the run: it does not pass.
	p.says(404, "")
	flow = c.plainFlow(base, "nop", "done")
	quote = c.quote(flow)["fingerprint"].(string)
	p.says(200, "all is done")
	a := c.ran(flow, quote, "first-nop-run")
	require.Equal(t, "inconclusive", a.at("run", "outcome"))
	require.Equal(t, "agent_did_nothing", a.at("run", "reasonCode"))
	require.Equal(t, [2]any{"none", nil}, c.charged(a))
	a = c.ran(flow, quote, "second-nop-run")
	require.Equal(t, "passed", a.at("run", "outcome"))
	require.Equal(t, "standing", a.at("run", "verification", "proof"))
	require.Equal(t, [2]any{"none", nil}, c.charged(a))
	usage := c.call("GET", "/v1/account", "").is(200, "").at("billing", "usage").(map[string]any)
	require.EqualValues(t, 2, usage["runsUsed"], "the two of the agent that does something: %v", usage)

	// It needs nothing to pay with, either.
	poor := n.signUp("")
	flow = poor.plainFlow(base, "nop", "done")
	q := poor.quote(flow)
	require.Equal(t, []any{0.0, 0.0, "none"}, []any{q["priceCents"], q["credits"], q["charge"]})
	a = poor.ran(flow, q["fingerprint"].(string), "third-nop-run")
	require.Equal(t, "passed", a.at("run", "outcome"))

	// It holds no more: a quote says so again soon, and the run that makes it true has made it
	// true.
	p.says(404, "")
	n.Later(workspace.PreflightDoubtMS * time.Millisecond)
	flow = c.plainFlow(base, "clever", "done")
	require.Equal(t, false, c.quote(flow)["preflight"].(map[string]any)["alreadyTrue"])
	require.Equal(t, "run", c.ended(flow, "clever-run-3").at("run", "verification", "proof"))
}

// TestPreflightsAreRepeated: what stands in the way, or was not an answer, is asked again after
// half a minute, what does not after an hour, and not before.
func TestPreflightsAreRepeated(t *testing.T) {
	n, p, base := moodyNode(t, nil)
	c := n.signUp("")
	plain, signup := c.plainFlow(base, "nop", "done"), c.keyFlow(base, "nop")
	for _, row := range []struct {
		status     int
		body       string
		life       time.Duration
		true, open bool
	}{
		{503, "", workspace.PreflightDoubtMS * time.Millisecond, false, true},
		{200, "all is done", workspace.PreflightDoubtMS * time.Millisecond, true, true},
		{401, "", workspace.PreflightLifeMS * time.Millisecond, false, false},
		{404, "", workspace.PreflightLifeMS * time.Millisecond, false, false},
		{200, "all is done", workspace.PreflightDoubtMS * time.Millisecond, true, true},
	} {
		p.says(row.status, row.body)
		for i, wait := range []time.Duration{0, row.life / 2, row.life} {
			n.Later(wait)
			before, now := p.calls.Load(), n.Now()
			found := c.quote(plain)["preflight"].(map[string]any)
			reason := c.quote(signup)["reason"]
			require.Equal(t, i != 1, p.calls.Load() > before, "%v after %v", row, wait)
			require.Equal(t, row.true, found["alreadyTrue"], "%v", row)
			require.Equal(t, row.open, reason == "verification_open", "%v", row)
			at, err := time.Parse(time.RFC3339, found["checkedAt"].(string))
			require.NoError(t, err)
			require.Equal(t, i != 1, at.After(now.Add(-2*time.Millisecond)))
		}
		n.Later(row.life)
	}
}

// TestManyQuotesAreOnePreflight: a product is not called by everybody who reads a quote at once.
func TestManyQuotesAreOnePreflight(t *testing.T) {
	n, p, base := moodyNode(t, nil)
	c := n.signUp("")
	flow := c.plainFlow(base, "nop", "done")
	var reading sync.WaitGroup
	for range 8 {
		reading.Go(func() {
			a := c.call("GET", "/v1/flows/"+flow+"/quote", "")
			if a.status != 200 {
				t.Error(string(a.raw))
			}
		})
	}
	reading.Wait()
	require.EqualValues(t, 1, p.calls.Load())
}

// TestPlacesOfPreflightsAreBounded: who waits for products leaves places for others.
func TestPlacesOfPreflightsAreBounded(t *testing.T) {
	var p preflights
	var leave []func()
	most := preflightPlaces
	take := func(ws uint32, claimed bool, times int) (taken int) {
		for range times {
			if l := p.take(most, ws, claimed); l != nil {
				leave, taken = append(leave, l), taken+1
			}
		}
		return taken
	}
	require.Equal(t, most.one, take(1, false, most.all))
	for ws := range uint32(10) {
		take(2+ws, false, most.one)
	}
	require.Len(t, leave, most.strangers)
	require.Equal(t, most.one, take(100, true, most.all))
	for ws := range uint32(10) {
		take(101+ws, true, most.one)
	}
	require.Len(t, leave, most.all)
	for _, l := range leave {
		l()
	}
	require.Zero(t, p.taken)
	require.Zero(t, p.strange)
	require.Empty(t, p.of)
}

// TestAQuoteThatFindsNoPlaceSaysSo: it is refused at once, and calls nobody.
func TestAQuoteThatFindsNoPlaceSaysSo(t *testing.T) {
	n, p, base := moodyNode(t, nil)
	c := n.signUp("")
	flow := c.plainFlow(base, "nop", "done")
	leave := make([]func(), preflightPlaces.all)
	for i := range leave {
		leave[i] = n.api.Flows.calling.take(preflightPlaces, 1000+uint32(i), true)
	}
	c.call("GET", "/v1/flows/"+flow+"/quote", "").is(503, "runner_busy")
	require.Zero(t, p.calls.Load())
	leave[0]()
	c.call("GET", "/v1/flows/"+flow+"/quote", "").is(200, "")
	require.EqualValues(t, 1, p.calls.Load())
	require.Equal(t, preflightPlaces.all-1, n.api.Flows.calling.taken, "it left its place")
}

// TestNoRunIDIsNoEmptyOne: a page that says what every run makes it say is not true already.
func TestNoRunIDIsNoEmptyOne(t *testing.T) {
	t.Parallel()
	var p *moody
	sign := func(_ context.Context, task runner.Task, _ sink) (runner.Report, error) {
		p.says(200, "done by "+task.RunID)
		return runner.Report{}, nil
	}
	n, p, base := moodyNode(t, sign)
	c := n.signUp("")
	c.claim()
	p.says(200, "done by run_before")
	flow := c.plainFlow(base, "clever", "done by {run_id}")
	require.Equal(t, false, c.quote(flow)["preflight"].(map[string]any)["alreadyTrue"])
	for _, key := range []string{"first-run", "second-run"} {
		a := c.ended(flow, key)
		require.Equal(t, "passed", a.at("run", "outcome"))
		require.Equal(t, "run", a.at("run", "verification", "proof"))
	}
}

// TestWhatIsNoRefusalIsUnclear: of a call without a key, or with a wrong one, 401 and 403 are
// refusals. Anything else that is not the right answer is unclear: the flow can run, and the quote
// says what it depends on.
func TestWhatIsNoRefusalIsUnclear(t *testing.T) {
	n, p, base := moodyNode(t, nil)
	c := n.signUp("")
	c.claim()
	for _, row := range []struct {
		status     int
		body, said string
		open       bool
	}{
		{401, "", "refused", false},
		{403, "", "refused", false},
		{404, "", "unclear", false},
		{400, "", "unclear", false},
		{302, "", "unclear", false},
		{200, "sign in first", "unclear", false},
		{200, "well done", "accepted", true},
		{503, "", "unknown", true},
	} {
		p.says(row.status, row.body)
		flow := c.flow(`{` + strings.Replace(flowText, "https://product.example", base, 1) +
			`,"credential":"bearer","verification":{"url":"` + base + `/me","contains":"well"}}`)
		q := c.quote(flow)
		found := q["preflight"].(map[string]any)
		require.Equal(t, []any{row.said, row.said}, []any{found["noKey"], found["wrongKey"]}, "%v", row)
		require.Equal(t, row.open, q["reason"] == "verification_open", "%v: %v", row, q)
		require.Equal(t, row.said == "unclear", found["note"] == unclearNote, "%v", found)
	}
}
