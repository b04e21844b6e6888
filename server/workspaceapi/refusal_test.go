package workspaceapi

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/servertest"
	"tollgate/engine"
	"tollgate/engine/workspace"
	"tollgate/server"
)

// documented are the pairs of the document's table of errors, and those that we add (marked +).
const documented = `
400 credentials_not_allowed, flow_url_mismatch, invalid_access, invalid_field, invalid_flow_options,
400 invalid_id, invalid_json, invalid_note, invalid_quote, invalid_request_key, invalid_status,
400 invalid_url, request_aborted, unexpected_field, +workspace_full
401 invalid_key, sign_in_required
402 insufficient_credits, payment_required
403 insufficient_scope, origin_not_allowed, person_required
404 account_not_found, not_found
405 method_not_allowed
409 alerts_claim_required, cannot_cancel, cannot_resume, checkout_completed, execution_unavailable,
409 flow_busy, idempotency_conflict, invalid_issue_status, quote_changed, resume_unavailable,
409 schedule_unavailable, wrong_run_type, +purchase_closed, +workspace_limit, +link_answered
409 +alerts_off, +schedule_limit, +test_access_limit
413 request_too_large
429 approval_link_limit, cancel_limit, run_limit_reached, signup_rate_limited, +act_limit
429 +alert_test_limit
502 target_unreachable
503 authentication_not_configured, free_capacity_exhausted, hosting_not_configured, runner_busy,
503 signup_unavailable, workspace_busy, +outcome_unknown`

// TestEveryRefusal provokes every (status, code) pair of the document, and no other.
func TestEveryRefusal(t *testing.T) {
	t.Parallel()
	recorded := servertest.RecordRefusals(t)
	seen := map[string]bool{}
	is := func(a answer, status int, code string) answer {
		t.Helper()
		seen[fmt.Sprint(status, " ", code)] = true
		return a.is(status, code)
	}
	refuseBodies(t, is)
	refuseStates(t, is)
	refuseLimits(t, is)
	refuseDeployments(t, is)
	refuseInspections(t, is)
	refuseAlerts(t, is)
	refuseSessions(t, is)
	refuseSchedules(t, is)
	refuseAccess(t, is)
	recorded.Compare("examples/refusals.json")
	known := map[string]bool{}
	for line := range strings.Lines(strings.TrimSpace(documented)) {
		status, codes, _ := strings.Cut(strings.TrimSpace(line), " ")
		for code := range strings.SplitSeq(strings.Trim(codes, ","), ",") {
			pair := status + " " + strings.Trim(code, " +")
			known[pair] = true
			require.True(t, seen[pair], "%s is provoked", pair)
		}
	}
	for pair := range seen {
		require.True(t, known[pair], "%s is provoked, and no pair of the document", pair)
	}
	for code, row := range errorTable {
		require.True(t, known[fmt.Sprint(row.Status, " ", code)], code)
	}
	for o := range 256 { // codes that several outcomes have, too
		if f := server.WorkspaceFault(engine.Outcome(o)); f != nil {
			require.Equal(t, errorTable[f.Code].Status, f.Status, engine.Outcome(o))
		}
	}
}

type provoked func(a answer, status int, code string) answer

func refuseBodies(t *testing.T, is provoked) {
	n := start(t)
	c := n.signUp("")
	post := func(path, body string) answer { return c.call("POST", path, body) }
	flow := func(more string) string { return `{` + flowText + more + `}` }
	verified := `,"verification":{"url":"https://product.example/me","contains":"ok"}`
	for body, code := range map[string]string{
		``: "invalid_json", `[]`: "invalid_json", `{`: "invalid_json", `{"a":1,"a":2}`: "invalid_json",
		strings.Repeat(`{"a":`, 40): "invalid_json", `{} {}`: "invalid_json", `null`: "invalid_json",
		flow(`,"color":"red"`): "unexpected_field",
		flow(`,"verification":{"url":"https://a.example","contains":"x","x":1}`): "unexpected_field",
		`{}`: "invalid_field", flow(`,"credential":"basic"` + verified): "invalid_field",
		flow(`,"agent":"nobody"`): "invalid_field",
		flow(`,"verification":{"url":"https://a.example","status":99,"contains":"x"}`): "invalid_field",
		strings.Replace(flow(""), "Sign up.", strings.Repeat("é", 2001), 1):            "invalid_field",
		strings.Replace(flow(""), "Sign up.", `a\u0000b`, 1):                           "invalid_field",
		strings.Replace(flow(""), "public", "private", 1):                              "invalid_access",
		strings.Replace(flow(""), "https://product", "ftp://product", 1):               "invalid_url",
		strings.Replace(flow(""), "https://product", "https://u:p@product", 1):         "invalid_url",
		strings.Replace(flow(""), "https://product.example", "http://10.0.0.1", 1):     "invalid_url",
		flow(`,"credential":"bearer"`):                                                 "invalid_flow_options",
		flow(`,"verification":{"url":"https://product.example/me","status":200}`):      "invalid_flow_options",
		flow(`,"password":"x"`): "credentials_not_allowed",
	} {
		is(post("/v1/flows", body), 400, code)
	}
	is(post("/v1/flows", flow(`,"schedule":{"everyHours":1}`)), 403, "person_required")
	is(post("/v1/flows", `{"name":"`+strings.Repeat("x", bodyLimit)+`"}`), 413, "request_too_large")
	is(post("/v1/flows/flow_1/run", ""), 400, "invalid_id")
	is(c.call("GET", "/v1/flows/flow_"+strings.Repeat("v", 26), ""), 400, "invalid_id")
	is(c.call("GET", "/v1/nothing", ""), 404, "not_found")
	is(c.call("PUT", "/v1/flows", ""), 405, "method_not_allowed")
	is(n.send("GET", "/v1/account", "", "sk_live_x", nil), 401, "invalid_key")
	is(n.signUp(`["read"]`).call("POST", "/v1/flows", plainFlow), 403, "insufficient_scope")
	is(n.send("POST", "/v1/signup", `{"label":"x","scopes":[]}`, "", nil), 400, "invalid_field")
	is(n.send("POST", "/v1/signup", `{"label":"x","scopes":["all"]}`, "", nil), 400, "invalid_field")
	is(n.send("POST", "/v1/feedback", `{"message":""}`, "", nil), 400, "invalid_field")
	n.send("POST", "/v1/feedback", `{"message":"I am stuck","path":"/v1/flows","status":409}`, "", nil).is(202, "")
	id := c.flow(plainFlow)
	run := "/v1/flows/" + id + "/run"
	is(post(run, `{"fingerprint":"x"}`), 400, "invalid_request_key")
	is(c.keyed(run, "short", `{"fingerprint":"x"}`), 400, "invalid_request_key")
	is(c.keyed(run, "long-enough", `{"fingerprint":"x"}`), 400, "invalid_quote")
	is(c.keyed(run, "long-enough", `{}`), 400, "invalid_quote")
	is(c.keyed(run, "long-enough", `{"fingerprint":"x","more":1}`), 400, "unexpected_field")
	is(c.keyed("/v1/purchases", "long-enough", `{"runs":11}`), 400, "invalid_field")
	is(post("/v1/purchases", `{"runs":1}`), 400, "invalid_request_key")
	is(post("/v1/run-requests", `{"flowId":"`+id+`","url":"https://other.example/"}`), 400, "flow_url_mismatch")
	is(n.send("GET", "/v1/account", "", "", nil), 401, "invalid_key")
	is(aborted(t, n, c.key), 400, "request_aborted")
	unknown := n.send("GET", operatorTools+"/"+idText(markWorkspace, [16]byte{1}), "", "", nil)
	unknown.body = unknown.at("error").(map[string]any) // of the operations listener's shape
	unknown.body["error"], unknown.body["request_id"] = unknown.at("code"), unknown.header.Get("X-Request-Id")
	is(unknown, 404, "account_not_found")
}

// aborted announces a body and closes its side of the connection before it has sent it.
func aborted(t *testing.T, n *node, key string) answer {
	conn, err := net.Dial("tcp", n.addr)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	_, err = fmt.Fprintf(conn, "POST /v1/flows HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
		"Content-Length: 100\r\n\r\n{\"name\":", key)
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	return readAnswer(t, bufio.NewReader(conn))
}

func refuseStates(t *testing.T, is provoked) {
	n := start(t)
	c := n.signUp("")
	c.claim()
	id := c.flow(plainFlow)
	unverified := c.flow(`{` + flowText + `}`)
	a := is(c.start(unverified, "key-00000"), 409, "execution_unavailable")
	require.Equal(t, "verification_missing", a.at("reason"))
	fingerprint := c.quote(id)["fingerprint"].(string)
	run := c.start(id, "key-00001").is(202, "").at("run", "id").(string)
	is(c.start(id, "key-00002"), 409, "flow_busy")
	is(c.call("PATCH", "/v1/flows/"+id, `{"name":"x"}`), 409, "flow_busy")
	is(c.call("DELETE", "/v1/flows/"+id, ""), 409, "flow_busy")
	is(c.keyed("/v1/flows/"+unverified+"/run", "key-00009", `{"fingerprint":"`+fingerprint+`"}`), 409, "quote_changed")
	is(c.call("POST", "/v1/runs/"+run+"/resume", ""), 409, "cannot_resume")
	is(c.call("POST", "/v1/run-requests/"+run+"/cancel", ""), 409, "wrong_run_type")
	is(c.call("GET", "/v1/runs/"+run+"/suggested-test", ""), 409, "wrong_run_type")
	c.call("POST", "/v1/runs/"+run+"/cancel", "{}").is(200, "")
	is(c.call("POST", "/v1/runs/"+run+"/cancel", ""), 409, "cannot_cancel")
	n.Later(25 * time.Hour)
	is(c.keyed("/v1/flows/"+id+"/run", "key-00001",
		`{"fingerprint":"`+c.quote(id)["fingerprint"].(string)+`"}`), 409, "idempotency_conflict")

	waiting := c.start(id, "key-00003").is(202, "").at("run", "id").(string)
	runID, _ := parseID(markRun, waiting)
	n.api.propose(0, workspace.KindClaimRun, &workspace.ClaimRun{Worker: "w", LeaseMS: 60_000})
	n.api.propose(0, workspace.KindAwaitPerson,
		&workspace.AwaitPerson{Run: runID, Token: 1, Question: "code?"})
	require.Equal(t, "code?", c.call("GET", "/v1/runs/"+waiting, "").at("run", "human", "question"))
	n.api.agents = n.api.agents[1:]
	is(c.call("POST", "/v1/runs/"+waiting+"/resume", ""), 409, "resume_unavailable")

	other := n.signUp("").everything()
	is(c.call("GET", "/v1/runs/"+other["run"], ""), 404, "not_found")
	for _, path := range []string{"/v1/keys/rotate", "/v1/claims", "/v1/flows/" + id + "/confirm-signup"} {
		is(c.call("POST", path, ""), 403, "person_required")
	}
	is(c.call("PATCH", "/v1/flows/"+id+"/alerts", `{}`), 403, "person_required")
	free := n.signUp("")
	is(free.call("POST", "/v1/flows/"+free.flow(plainFlow)+"/alerts/test", ""), 409, "alerts_claim_required")
	is(n.send("GET", "/login/identity", "", "", nil), 503, "authentication_not_configured")
	// No cap was approved: none can be lowered.
	is(free.call("POST", "/v1/billing/cap", `{"capCents":0}`), 403, "person_required")
	issuesAndPurchases(t, n, is)
}

func issuesAndPurchases(t *testing.T, n *node, is provoked) {
	n.api.agents = []Agent{{Name: "clever", Kind: "exec", Version: "1"}}
	c := n.signUp("")
	ids := c.everything()
	issue := "/v1/issues/" + ids["iss"]
	is(c.call("PATCH", issue, `{"status":"closed","note":"x"}`), 400, "invalid_status")
	is(c.call("PATCH", issue, `{"status":"fix_ready","note":""}`), 400, "invalid_note")
	is(c.call("PATCH", issue, `{"status":"fix_ready"}`), 400, "invalid_note")
	require.Equal(t, "fix_ready", c.call("PATCH", issue, `{"status":"fix_ready","note":"done"}`).is(200, "").at("issue", "status"))
	is(c.call("PATCH", issue, `{"status":"fix_ready","note":"done"}`), 409, "invalid_issue_status")
	require.NotNil(t, c.call("POST", "/v1/notifications/"+ids["ntf"]+"/read", "").is(200, "").at("notification", "readAt"))

	purchase := "/v1/purchases/" + ids["pur"]
	for range workspace.MaxLinks {
		require.Contains(t, c.call("POST", purchase+"/approval-link", "").is(200, "").at("approval_url"), publicURL)
	}
	links := c.call("POST", purchase+"/approval-link", "")
	is(links, 429, "approval_link_limit")
	require.NotEmpty(t, links.header.Get("Retry-After"))
	require.Equal(t, c.call("GET", purchase, "").at("purchase", "expiresAt"), links.at("resetsAt"))
	for code, row := range errorTable {
		if row.Status == 429 || row.Status == 503 {
			require.Positive(t, no(code).RetryAfter, code)
		}
	}
	c.operate("/purchases/"+ids["pur"]+"/approve", `{"owner":"ada@example.com"}`)
	is(c.call("POST", purchase+"/approval-link", ""), 409, "purchase_closed")
	id, _ := parseID(markPurchase, ids["pur"])
	n.api.propose(0, workspace.KindNotePayment,
		&workspace.NotePayment{ID: id, Result: workspace.PaymentPaid, Card: "card"})
	is(c.call("POST", purchase+"/cancel", ""), 409, "checkout_completed")
	is(c.call("POST", "/v1/billing/cap", `{"capCents":5000}`), 403, "person_required")
	is(c.call("POST", "/v1/billing/cap", `{"capCents":20001}`), 400, "invalid_field")
	is(c.call("POST", "/v1/billing/cap", `{"capCents":1,"workspace":"x"}`), 400, "unexpected_field")
	require.EqualValues(t, 900, c.call("POST", "/v1/billing/cap", `{"capCents":900}`).is(200, "").at("billing", "capCents"))
	require.Equal(t, true, c.call("POST", "/v1/billing/pause", `{"paused":true}`).is(200, "").at("billing", "paused"))
	is(c.call("POST", "/v1/billing/pause", `{"paused":false}`), 403, "person_required")
	a := is(c.keyed("/v1/purchases", "buy-it-now", `{"runs":2}`), 402, "payment_required")
	require.Equal(t, "paused", a.at("reason"))
	c.operate("/billing/pause", `{"paused":false}`)
	c.operate("/billing/cap", `{"capCents":20000}`)
	for i := range workspace.MaxCancelsPerDay {
		made := c.call("GET", "/v1/purchases?limit=1", "").at("purchases").([]any)[0].(map[string]any)["id"].(string)
		c.call("POST", "/v1/purchases/"+made+"/cancel", "").is(200, "")
		c.operate("/billing/pause", `{"paused":true}`)
		c.keyed("/v1/purchases", fmt.Sprint("buy-again-", i), `{"runs":1}`).is(402, "payment_required")
	}
	last := c.call("GET", "/v1/purchases?limit=1", "").at("purchases").([]any)[0].(map[string]any)["id"].(string)
	limited := is(c.call("POST", "/v1/purchases/"+last+"/cancel", ""), 429, "cancel_limit")
	require.NotEmpty(t, limited.header.Get("Retry-After"))
	require.NotEmpty(t, limited.at("resetsAt"))
}

func refuseLimits(t *testing.T, is provoked) {
	n := start(t)
	n.policy(func(p *workspace.SetPolicy) {
		p.SignupsPerHour, p.RunsPerDay, p.QueueLimit, p.FreeRunsPerDay, p.LocalRunsPerDay = 2, 3, 1, 2, 1
	})
	c, other := n.signUp(""), n.signUp("")
	limited := is(n.send("POST", "/v1/signup", `{"label":"x"}`, "", nil), 429, "signup_rate_limited")
	require.NotEmpty(t, limited.header.Get("Retry-After"))
	c.claim()
	other.claim()
	begin := func(c *caller, key string) answer { return c.start(c.flow(plainFlow), key) }
	work := func() {
		n.api.propose(0, workspace.KindClaimRun, &workspace.ClaimRun{Worker: "w", LeaseMS: 1 << 40})
	}
	begin(c, "key-00001").is(202, "")
	is(begin(c, "key-00002"), 503, "runner_busy")
	work()
	begin(c, "key-00003").is(202, "")
	work()
	is(begin(other, "key-00001"), 503, "free_capacity_exhausted")
	n.policy(func(p *workspace.SetPolicy) { p.FreeRunsPerDay = 9 })
	begin(c, "key-00004").is(202, "")
	work()
	a := is(begin(c, "key-00005"), 429, "run_limit_reached")
	require.EqualValues(t, 3, a.at("limit"))
	require.NotEmpty(t, a.at("resetsAt"))
	require.NotEmpty(t, a.at("contact"))
	n.policy(func(p *workspace.SetPolicy) { p.CreditsRun = 7 })
	a = is(begin(other, "key-00002"), 402, "insufficient_credits")
	require.EqualValues(t, 7, a.at("required"))
	require.EqualValues(t, 0, a.at("balance"))
	other.operate("/credits", `{"amount":8,"note":"hello"}`)
	begin(other, "key-00002").is(202, "")
	account := other.call("GET", "/v1/account", "").is(200, "")
	require.Equal(t, map[string]any{"balance": 1.0, "reserved": 7.0}, account.at("credits"))
	local := other.call("POST", "/v1/local-runs", `{}`).is(201, "")
	require.Equal(t, true, local.at("limits", "limited"))
	upgrade := is(other.call("POST", "/v1/local-runs", `{}`), 429, "run_limit_reached")
	require.Contains(t, upgrade.at("message"), "Upgrade")
	require.NotEmpty(t, upgrade.header.Get("Retry-After"))
	other.call("POST", "/v1/local-runs/"+local.at("run", "id").(string)+"/finish", `{"outcome":"passed"}`).is(200, "")
	n.Refuse(engine.OutcomeOverloaded)
	is(other.call("POST", "/v1/flows", plainFlow), 503, "workspace_busy")
	n.Refuse(engine.OutcomeUnknown)
	is(other.call("POST", "/v1/flows", plainFlow), 503, "outcome_unknown")
	n.Refuse(engine.OutcomeWorkspaceFull)
	is(other.call("POST", "/v1/flows", plainFlow), 400, "workspace_full")
}

func refuseDeployments(t *testing.T, is provoked) {
	n := start(t, func(c *Config) { c.Payments = false })
	c := n.signUp("")
	is(c.start(c.flow(plainFlow), "key-00001"), 503, "hosting_not_configured")
	is(c.keyed("/v1/purchases", "key-00001", `{"runs":1}`), 503, "hosting_not_configured")
	require.NotContains(t, c.call("GET", "/v1/account", "").is(200, "").at("billing"), "usage")
	n.policy(func(p *workspace.SetPolicy) { p.SignupsPerHour = 0 })
	is(n.send("POST", "/v1/signup", `{"label":"x"}`, "", nil), 503, "signup_unavailable")
}
