package workspaceapi

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"tollgate/engine"
	"tollgate/engine/workspace"
	"tollgate/server"
)

// TestAnAgentsWay does what a new agent would: sign up, save a flow with a credential, read its
// quote, be told 402, have the purchase approved and paid, start, and see the run.
func TestAnAgentsWay(t *testing.T) {
	verifier, check, base := product(t, func(ctx *fasthttp.RequestCtx) { ctx.SetStatusCode(401) })
	n := start(t, func(c *Config) { c.Verifier, c.Check = verifier, check })
	n.policy(func(p *workspace.SetPolicy) { p.FreeRunsPerMonth = 0 })
	c := n.signUp("")
	flow := c.flow(`{"name":"Sign up","url":"` + base + `/","task":"Get a key.","successCriteria":"It works.",` +
		`"access":"public","credential":"bearer","verification":{"url":"` + base + `/me","status":200}}`)
	quote := c.quote(flow)
	require.Equal(t, false, quote["executionAvailable"])
	require.Equal(t, "signup_not_confirmed", quote["reason"])
	found := quote["preflight"].(map[string]any)
	require.NotEmpty(t, found["checkedAt"])
	delete(found, "checkedAt")
	require.Equal(t, map[string]any{"noKey": "refused", "wrongKey": "refused", "alreadyTrue": false}, found)
	require.Equal(t, "none", quote["charge"])

	a := c.start(flow, "first-start").is(402, "payment_required")
	require.Equal(t, "approve", a.at("next_action"))
	require.Equal(t, "no_card", a.at("reason"))
	require.Contains(t, a.at("approval_url"), publicURL+"/approve/")
	purchase := a.at("purchase", "id").(string)
	require.Equal(t, publicURL+"/v1/purchases/"+purchase, a.at("poll_url"))
	again := c.start(flow, "first-start").is(402, "payment_required")
	require.Nil(t, again.at("approval_url"))
	require.Equal(t, purchase, again.at("purchase", "id"))

	c.operate("/purchases/"+purchase+"/approve", `{"owner":"ada@example.com"}`)
	shown := c.operate("/purchases/"+purchase+"/approve", "")
	page := shown.body["data"].(map[string]any)["purchases"].([]any)[0].(map[string]any)["url"].(string)
	n.payPage(page)
	polled := c.call("GET", "/v1/purchases/"+purchase, "").is(200, "")
	require.Equal(t, "succeeded", polled.at("purchase", "status"))
	require.Nil(t, polled.at("purchase", "approval_url"))
	n.payPage(page) // paid once

	run := c.start(flow, "first-start").is(202, "")
	require.Equal(t, "queued", run.at("run", "status"))
	require.Equal(t, run.at("run", "id"), c.start(flow, "first-start").is(202, "").at("run", "id"))
	account := c.call("GET", "/v1/account", "").is(200, "")
	require.Equal(t, true, account.at("workspace", "claimed"))
	usage := account.at("billing", "usage").(map[string]any)
	require.EqualValues(t, 1, usage["runsUsed"])
	require.EqualValues(t, 1, usage["paidRunsUsed"])
	require.EqualValues(t, 500, usage["spentCents"])
	require.EqualValues(t, 4500, usage["remainingCents"])
	require.EqualValues(t, 0, usage["runsLeft"])

	id := run.at("run", "id").(string)
	require.Equal(t, "cancelled", c.call("POST", "/v1/runs/"+id+"/cancel", "").is(200, "").at("run", "status"))
	usage = c.call("GET", "/v1/account", "").at("billing", "usage").(map[string]any)
	require.EqualValues(t, 1, usage["runsReturned"])
	require.EqualValues(t, 1, usage["runsLeft"])
	require.Equal(t, "run_returned", c.call("GET", "/v1/notifications", "").is(200, "").
		at("notifications").([]any)[0].(map[string]any)["type"])
}

var attempt = regexp.MustCompile(`name="attempt" value="([^"]*)"`)

// payPage pays on the sandbox's page with the card that succeeds.
func (n *node) payPage(page string) {
	n.t.Helper()
	n.payWith(page, "success")
}

func (n *node) payWith(page, card string) {
	n.t.Helper()
	path := strings.TrimPrefix(page, publicURL)
	shown := n.send("GET", path, "", "", nil)
	require.Equal(n.t, 200, shown.status, string(shown.raw))
	form := url.Values{"card": {card}}
	if found := attempt.FindSubmatch(shown.raw); found != nil {
		form.Set("attempt", string(found[1]))
	}
	paid := n.send("POST", path, form.Encode(), "", map[string]string{"Content-Type": "application/x-www-form-urlencoded"})
	require.Less(n.t, paid.status, 400, string(paid.raw))
}

// filled puts well-formed ids of nothing into a path.
func filled(path string) string {
	for name, mark := range map[string]string{
		"{flow_id}": markFlow, "{run_id}": markRun, "{token}": "",
	} {
		path = strings.ReplaceAll(path, name, idText(mark, [16]byte{1}))
	}
	mark := markPurchase
	switch {
	case strings.Contains(path, "/issues/"):
		mark = markIssue
	case strings.Contains(path, "/links/"):
		mark = markLink
	case strings.Contains(path, "/notifications/"):
		mark = markNotification
	case strings.Contains(path, "run"):
		mark = markRun
	}
	return strings.ReplaceAll(path, "{id}", idText(mark, [16]byte{1}))
}

// everything makes one record of each kind and returns their ids by what they begin with.
func (c *caller) everything() map[string]string {
	c.t.Helper()
	ids := map[string]string{}
	ids["flow"] = c.flow(plainFlow)
	ids["pur"] = c.start(ids["flow"], "the-key-1").is(402, "payment_required").at("purchase", "id").(string)
	c.claim()
	ids["run"] = c.start(ids["flow"], "the-key-1").is(202, "").at("run", "id").(string)
	c.claimRun()
	run, _ := parseID(markRun, ids["run"])
	waits := &workspace.AwaitPerson{Run: run, Token: 1}
	c.does(workspace.KindAwaitPerson, waits)
	c.call("POST", "/v1/runs/"+ids["run"]+"/resume", "{}").is(202, "")
	c.claimRun()
	c.does(workspace.KindFinishRun, &workspace.FinishRun{
		Run: run, Token: 2, Status: workspace.RunCompleted, Outcome: workspace.OutcomeBlocked,
		Step: "signup",
		Code: "captcha", Reason: "There is a CAPTCHA.", Calls: []workspace.Call{{Case: "plain"}},
	})
	ids["iss"] = c.call("GET", "/v1/issues", "").at("issues").([]any)[0].(map[string]any)["id"].(string)
	ids["ntf"] = c.call("GET", "/v1/notifications", "").at("notifications").([]any)[0].(map[string]any)["id"].(string)
	return ids
}

// TestPagesFollowOneAnother: a list is whole, newest first, however it is cut.
func TestPagesFollowOneAnother(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	var made []string
	for range 5 {
		made = append([]string{c.flow(plainFlow)}, made...)
	}
	var seen []string
	for path := "/v1/flows?limit=2"; path != ""; {
		a := c.call("GET", path, "").is(200, "")
		for _, f := range a.at("flows").([]any) {
			seen = append(seen, f.(map[string]any)["id"].(string))
		}
		path = ""
		if link := a.header.Get("Link"); link != "" {
			require.NotNil(t, a.at("next_cursor"))
			path = strings.TrimPrefix(link[1:strings.Index(link, ">")], publicURL)
		} else {
			require.Nil(t, a.at("next_cursor"))
		}
	}
	require.Equal(t, made, seen)
	c.call("GET", "/v1/flows?limit=0", "").is(400, "invalid_field")
	c.call("GET", "/v1/flows?limit=%2B5", "").is(400, "invalid_field")
	c.call("GET", "/v1/flows?limit=05", "").is(400, "invalid_field")
	c.call("GET", "/v1/flows?limit=101", "").is(400, "invalid_field")
	c.call("GET", "/v1/flows?cursor=run_x", "").is(400, "invalid_field")
}

// TestSecretsStayOut: what looks like a key or a password is refused before anything is saved;
// the bare word is fine.
func TestSecretsStayOut(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	flow := func(task string) string {
		return strings.Replace(plainFlow, `"task":"Sign up."`, `"task":`+task, 1)
	}
	for _, bad := range []string{
		`{` + flowText + `,"password":"x"}`, `{` + flowText + `,"extra":{"api_key":"x"}}`,
		`{` + flowText + `,"extra":[{"secret":"x"}]}`, `{` + flowText + `,"notes":["use sk_live_4eC39HqLyjWDarjt"]}`,
		`{` + flowText + `,"Authorization":1}`, flow(`"Use password=hunter2 to log in."`),
		flow(`"Send Authorization: Bearer abc"`), flow(`"use sk_live_4eC39HqLyjWDarjtT1zdp7dc"`),
		flow(`"the key is ` + c.key + `"`), flow(`"ghp_abcdefgh12345678 is it"`),
		flow(`"f3A9bC7dE1gH5jK8mN2pQ4rS6tU0vW3xYz is it"`),
		flow(`"It is s k _ l i v e _ 4 e C 3 9 H q L y j W D, without the blanks."`),
	} {
		c.call("POST", "/v1/flows", bad).is(400, "credentials_not_allowed")
	}
	for _, good := range []string{
		`"Enter a password, then copy the API key."`, `"Read https://product.example/docs/getting-started/first-steps"`,
		`"Find the authorization page; the secret is shown once."`,
		`"Choose one of a b c d e f g h i j, then go on."`,
	} {
		c.call("POST", "/v1/flows", flow(good)).is(201, "")
	}
	id := c.flow(plainFlow)
	c.call("POST", "/v1/run-requests", `{"flowId":"`+id+`","token":"x"}`).is(400, "credentials_not_allowed")
	c.keyed("/v1/flows/"+id+"/run", "a-key-123", `{"secret":"x"}`).is(400, "credentials_not_allowed")
}

// TestQuotes: a fingerprint is good for what was quoted, for one to two days.
func TestQuotes(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	c.claim()
	flow := c.flow(plainFlow)
	old := c.quote(flow)
	require.Equal(t, true, old["executionAvailable"])
	require.Equal(t, "free", old["charge"])
	start := func(fingerprint, key string) answer {
		return c.keyed("/v1/flows/"+flow+"/run", key, `{"fingerprint":"`+fingerprint+`"}`)
	}
	c.call("PATCH", "/v1/flows/"+flow, `{"task":"Something else."}`).is(200, "")
	start(old["fingerprint"].(string), "key-00001").is(409, "quote_changed")
	fresh := c.quote(flow)["fingerprint"].(string)
	last := fresh[len(fresh)-2:]
	flipped := fresh[:len(fresh)-2] + map[bool]string{true: "BA", false: "AA"}[last == "AA"]
	start(flipped, "key-00001").is(409, "quote_changed")
	n.policy(func(p *workspace.SetPolicy) { p.RunCents = 600 })
	start(fresh, "key-00001").is(409, "quote_changed")
	fresh = c.quote(flow)["fingerprint"].(string)
	n.Later(49 * time.Hour)
	start(fresh, "key-00001").is(409, "quote_changed")
	fresh = c.quote(flow)["fingerprint"].(string)
	run := start(fresh, "key-00001").is(202, "").at("run", "id")
	n.policy(func(p *workspace.SetPolicy) { p.RunCents = 500 })
	require.Equal(t, run, start(fresh, "key-00001").is(202, "").at("run", "id"), "the same request again")
	n.Later(24 * time.Hour)
	start(c.quote(flow)["fingerprint"].(string), "key-00001").is(409, "idempotency_conflict")
}

// TestUnknownFate: what was not proposed is workspace_busy, what may have happened outcome_unknown.
func TestUnknownFate(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	n.Refuse(engine.OutcomeUnavailable)
	c.call("POST", "/v1/flows", plainFlow).is(503, "workspace_busy")
	n.Refuse(engine.OutcomeUnknown)
	c.call("POST", "/v1/flows", plainFlow).is(503, "outcome_unknown")
	n.Refuse(engine.OutcomeNone)
	n.NoLeader.Store(true)
	c.call("GET", "/v1/account", "").is(503, "workspace_busy")
	stale := map[string]string{"X-Read-Consistency": "stale"}
	a := n.send("GET", "/v1/account", "", c.key, stale).is(200, "")
	require.NotEmpty(t, a.header.Get("X-Staleness-Ms"), "a read that asked for it goes on")
	n.send("GET", "/v1/flows/"+idText(markFlow, [16]byte{9}), "", c.key, stale).is(404, "not_found")
	stale["X-Read-Consistency"] = "eventual"
	a = n.send("GET", "/v1/account", "", c.key, stale).is(400, "invalid_field")
	require.Equal(t, "X-Read-Consistency", a.at("field"))
	key := server.MintKey(server.KeyPrefixWorkspace)
	n.send("GET", "/v1/account", "", key, nil).is(503, "workspace_busy")
	n.NoLeader.Store(false)
	n.send("GET", "/v1/account", "", key, nil).is(401, "invalid_key")
}

// TestWhatIsPublished: routes and documents agree, and our own product reads well.
func TestWhatIsPublished(t *testing.T) {
	n := start(t)
	listed := n.send("GET", "/v1/routes", "", "", nil).is(200, "").at("routes").([]any)
	paths := n.send("GET", "/openapi.json", "", "", nil).is(200, "").at("paths").(map[string]any)
	require.Len(t, listed, len(n.api.Routes())-3, "all but the payment pages'")
	for _, item := range listed {
		r := item.(map[string]any)
		operation := paths[r["path"].(string)].(map[string]any)[strings.ToLower(r["method"].(string))]
		require.Equal(t, r["operation"], operation.(map[string]any)["operationId"])
	}
	resource := n.send("GET", "/.well-known/oauth-protected-resource", "", "", nil).is(200, "")
	require.Equal(t, publicURL, resource.at("resource"))
	require.Equal(t, []any{"read", "write", "run"}, resource.at("scopes_supported"))
	require.Equal(t, publicURL+"/v1/signup", resource.at("endpoints", "signup"))
	n.send("GET", "/.well-known/api-catalog", "", "", nil).is(200, "")
	for _, path := range []string{"/auth.md", "/llms.txt", "/robots.txt"} {
		a := n.send("GET", path, "", "", nil).is(200, "")
		require.NotContains(t, string(a.raw), "{base}")
		require.NotContains(t, string(a.raw), "{origin}")
	}
	for _, way := range []string{"/login in a browser", "/login/identity?return=/"} {
		require.Contains(t, string(n.send("GET", "/auth.md", "", "", nil).raw), publicURL+way)
	}
	require.Contains(t, string(n.send("GET", "/auth.md", "", "", nil).raw), publicURL+"/v1/signup")
}
