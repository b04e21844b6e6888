package workspaceapi

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"tollgate/server/provider/runner"
)

// TestNopIsDoubted: where only a run could have made the verification true, the agent that does
// nothing does not pass although it is true, and costs nothing; another agent passes. The built-in
// agent that obtains keys does nothing for a flow without one.
func TestNopIsDoubted(t *testing.T) {
	t.Parallel()
	var started atomic.Bool
	known := make(chan string, 1)
	verifier, check, base := product(t, func(ctx *fasthttp.RequestCtx) {
		switch {
		case string(ctx.Path()) == "/key":
			if string(ctx.Request.Header.Peek("Authorization")) != "Bearer "+productKey {
				ctx.SetStatusCode(401)
			}
		case started.Load():
			id := <-known // the product shows what was made for this run
			known <- id
			ctx.SetBodyString("made for " + id)
		}
	})
	n := start(t, func(c *Config) {
		c.Verifier, c.Check = verifier, check
		c.Agents = []Agent{
			{Name: "clever", Kind: "exec", Version: "1"},
			{Name: "nop", Kind: "nop", Version: "1"},
			{Name: "http", Kind: "http", Version: "1"},
		}
	})
	hands := agentFunc(func(_ context.Context, task runner.Task, _ sink) (r runner.Report, _ error) {
		if task.Credential != "" {
			r.Credential = productKey
		}
		return r, nil
	})
	n.work(t, n.group, verifier, map[string]runner.Agent{
		"clever": hands, "nop": hands, "http": hands,
	})
	c := n.signUp("")
	c.claim()
	run := func(flow string) answer {
		fingerprint := c.quote(flow)["fingerprint"].(string)
		started.Store(true)
		a := c.keyed("/v1/flows/"+flow+"/run", "key-"+flow, `{"fingerprint":"`+fingerprint+`"}`).is(202, "")
		id := a.at("run", "id").(string)
		known <- id
		a = c.until(id, func(status string) bool { return status != "queued" && status != "running" })
		<-known
		started.Store(false)
		return a
	}
	passes := [4]any{"passed", nil, "run", "committed"}
	doubted := [4]any{"inconclusive", "agent_did_nothing", nil, "returned"}
	nothing := [4]any{"inconclusive", "agent_did_nothing", nil, nil}
	for agent, want := range map[string][2][4]any{
		"clever": {passes, passes}, "nop": {nothing, nothing}, "http": {doubted, passes},
	} {
		text := strings.Replace(flowText, "https://product.example", base, 1) + `,"agent":"` + agent + `"`
		marked := c.flow(`{` + text + `,"verification":{"url":"` + base + `/made","contains":"made for {run_id}"}}`)
		keyed := c.flow(`{` + text + `,"credential":"bearer","verification":{"url":"` + base + `/key","status":200}}`)
		c.operate("/flows/"+keyed+"/confirm-signup", "")
		for i, flow := range []string{marked, keyed} {
			a := run(flow)
			require.Equal(t, "completed", a.at("run", "status"), "%s: %s", agent, a.raw)
			require.Equal(t, want[i], [4]any{
				a.at("run", "outcome"), a.at("run", "reasonCode"), a.at("run", "verification", "proof"),
				a.at("run", "charge", "state"),
			}, "%s: %s", agent, a.raw)
		}
	}
}
