package workspaceapi

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/servertest"
	"tollgate/engine/workspace"
)

// endpoints are the document's rows, in its order: method, path, body, and the answer of a
// workspace that has one record of each kind, with the fields that the document names in it (the
// first of a list is 0). What is not built answers 404 and says what will build it.
var endpoints = []struct {
	method, path, body string
	status             int
	code, shows        string
}{
	{"POST", "/v1/signup", `{"label":"x"}`, 201, "", "workspace key claimCode claimed limits"},
	{
		"GET", "/.well-known/oauth-protected-resource", "", 200, "",
		"resource_name scopes_supported endpoints.signup",
	},
	{"GET", "/openapi.json", "", 200, "", "openapi paths"},
	{"GET", "/v1/routes", "", 200, "", "routes.0.method routes.0.path"},
	{
		"GET", "/v1/schema", "", 200, "",
		"version fields.0.path fields.0.type fields.0.about jsonSchema.properties.observations",
	},
	{
		"POST", "/v1/interface", `{"url":"https://a.example/"}`, 200, "",
		"run.id run.kind inspection.generator.runId inspection.target.host inspection.startedAt " +
			"inspection.finishedAt inspection.product inspection.observations.0.sha256 " +
			"inspection.interfaces.api.verdict inspection.capabilities inspection.authentication.friction " +
			"inspection.authentication_requirement.operations inspection.pricing.ambiguities " +
			"inspection.machineAccess.aiCrawlersAllowed inspection.agentJourneys inspection.unknowns " +
			"inspection.limits",
	},
	{
		"POST", "/v1/evaluate", `{"url":"https://a.example/","task":"t"}`, 200, "",
		"run.id run.kind journey.stages.0.stage journey.stages.0.status journey.stages.0.reason " +
			"journey.stages.0.basedOn",
	},
	{
		"GET", "/v1/account", "", 200, "",
		"workspace.id credits.balance transactions billing.paused billing.usage.runsUsed " +
			"billing.usage.freeRunsUsed billing.usage.paidRunsUsed billing.usage.runsReturned " +
			"billing.usage.spentCents billing.usage.capCents billing.usage.remainingCents " +
			"billing.usage.resetsAt billing.usage.recentRuns.0.charge",
	},
	{
		"GET", "/v1/execution", "", 200, "",
		"execution.available execution.agents.0.name execution.testAccess " +
			"execution.priceCents execution.credits",
	},
	{"GET", "/v1/flows", "", 200, "", "flows.0.id flows.0.verification.url next_cursor"},
	{
		"POST", "/v1/flows", plainFlow, 201, "",
		"flow.id flow.name flow.url flow.task flow.successCriteria flow.access " +
			"flow.verification.url flow.verification.status flow.verification.contains",
	},
	{
		"GET", "/v1/flows/{flow}/quote", "", 200, "",
		"quote.fingerprint quote.executionAvailable quote.scope quote.credits " +
			"quote.priceCents quote.preflight.alreadyTrue quote.expiresAt",
	},
	{
		"POST", "/v1/flows/{flow}/run", `{"fingerprint":"{fingerprint}"}`, 202, "",
		"run.id run.status",
	},
	{"GET", "/v1/flows/{flow}/alerts", "", 200, "", "watch.state watch.since deliveries"},
	{"GET", "/v1/search?q=sign", "", 200, "", "results.0.kind results.0.id results.0.title complete"},
	{
		"GET", "/v1/runs", "", 200, "",
		"runs.0.id runs.0.kind runs.0.status runs.0.outcome next_cursor",
	},
	{
		"GET", "/v1/runs/{run}", "", 200, "",
		"run.id run.status run.outcome run.reasonCode run.step run.agent run.charge " +
			"run.verification.calls run.events",
	},
	{"GET", "/v1/runs/{run}/suggested-test", "", 409, "wrong_run_type", ""},
	{"POST", "/v1/runs/{waiting}/resume", "{}", 202, "", "run.id run.status"},
	{"POST", "/v1/runs/{waiting}/cancel", "", 200, "", "run.id run.status run.charge"},
	{"POST", "/v1/run-requests", `{"flowId":"{flow}"}`, 201, "", "run.id run.kind run.status"},
	{"POST", "/v1/run-requests/{asked}/cancel", "", 200, "", "run.status"},
	{
		"GET", "/v1/issues", "", 200, "",
		"issues.0.id issues.0.status issues.0.evidence.runId next_cursor",
	},
	{
		"PATCH", "/v1/issues/{iss}", `{"status":"fix_ready","note":"done"}`, 200, "",
		"issue.status issue.note",
	},
	{
		"GET", "/v1/notifications", "", 200, "",
		"notifications.0.id notifications.0.type next_cursor",
	},
	{"POST", "/v1/notifications/{ntf}/read", "", 200, "", "notification.id notification.readAt"},
	{
		"POST", "/v1/purchases", `{"runs":1}`, 402, "payment_required",
		"next_action approval_url poll_url purchase.id",
	},
	{
		"GET", "/v1/purchases", "", 200, "",
		"purchases.0.id purchases.0.status purchases.0.runs purchases.0.approval_url " +
			"purchases.0.poll_url",
	},
	{
		"GET", "/v1/purchases/{pur}", "", 200, "",
		"purchase.id purchase.status purchase.runs purchase.approval_url " +
			"purchase.poll_url",
	},
	{"POST", "/v1/purchases/{pur}/approval-link", "", 200, "", "approval_url"},
	{"POST", "/v1/purchases/{pur}/cancel", "", 200, "", "purchase.status"},
	{"POST", "/v1/billing/pause", `{"paused":true}`, 200, "", "billing.paused"},
	{"POST", "/v1/billing/cap", `{"capCents":4999}`, 403, "person_required", ""},
	{"POST", "/v1/keys/rotate", "", 403, "person_required", ""},
	{"POST", "/v1/claims", `{"code":"{code}"}`, 403, "person_required", ""},
	{
		"POST", "/v1/local-runs", `{}`, 201, "",
		"run.id run.kind limits.limited limits.window limits.limit limits.used " +
			"limits.remaining limits.resetsAt",
	},
	{"GET", "/login/identity", "", 503, "authentication_not_configured", ""},
	{
		"POST", "/v1/feedback", `{"message":"stuck","path":"/v1/flows","status":409}`, 202, "",
		"received",
	},
	{"POST", "/v1/keys/self/revoke", "", 200, "", "revoked"},
}

// TestEveryEndpoint asks each of the document's rows once, as a workspace that has what it needs.
func TestEveryEndpoint(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	ids := c.everything()
	asked := c.call("POST", "/v1/run-requests", `{"flowId":"`+ids["flow"]+`"}`).is(201, "")
	ids["asked"] = asked.at("run", "id").(string)
	for name, id := range map[string]string{"waiting": c.waits(), "code": c.code} {
		ids[name] = id
	}
	ids["fingerprint"] = c.quote(ids["flow"])["fingerprint"].(string)
	fill := func(text string) string {
		for name, id := range ids {
			text = strings.ReplaceAll(text, "{"+name+"}", id)
		}
		return text
	}
	recorded := servertest.RecordExamples(t)
	for _, e := range endpoints {
		a := c.send(e.method, fill(e.path), fill(e.body), c.key,
			map[string]string{"Idempotency-Key": "endpoint-1"})
		code := e.code
		if e.status == 404 {
			code = "not_found"
		}
		require.Equal(t, e.status, a.status, "%s %s: %s", e.method, e.path, a.raw)
		if code != "" {
			a.is(e.status, code)
		}
		for name := range strings.FieldsSeq(e.shows) {
			a.shows(name)
		}
	}
	c.call("GET", "/v1/account", "").is(401, "invalid_key")
	recorded.Compare("examples/operations.json")
}

// shows requires a field to be there, however deep; the name of a list's first item is 0.
func (a answer) shows(path string) {
	a.t.Helper()
	var value any = a.body
	for name := range strings.SplitSeq(path, ".") {
		if list, ok := value.([]any); ok && name == "0" {
			require.NotEmpty(a.t, list, "%s in %s", path, a.raw)
			value = list[0]
			continue
		}
		require.Contains(a.t, value, name, "%s in %s", path, a.raw)
		value = value.(map[string]any)[name]
	}
}

// waits makes a run that waits for a person.
func (c *caller) waits() string {
	c.t.Helper()
	id := c.start(c.flow(plainFlow), "wait-"+rand8()).is(202, "").at("run", "id").(string)
	run, _ := parseID(markRun, id)
	c.claimRun()
	c.does(workspace.KindAwaitPerson, &workspace.AwaitPerson{Run: run, Token: 1, Question: "code?"})
	return id
}

// TestWaitIsForACharge: while the saved card is being charged, a start and a purchase are told to
// wait for it, and nothing else is bought.
func TestWaitIsForACharge(t *testing.T) {
	n := start(t)
	n.policy(func(p *workspace.SetPolicy) { p.FreeRunsPerMonth = 0 })
	c := n.signUp("")
	flow := c.flow(plainFlow)
	_, page := c.approved("1")
	n.payPage(page)
	c.finished(c.start(flow, "start-first").is(202, "").at("run", "id").(string))
	id, _ := parseID(markWorkspace, c.workspace)
	charged := mint()
	require.True(t,
		outcomeDone(n.api.propose(0, workspace.KindRequestPurchase, &workspace.RequestPurchase{
			Workspace: n.Machine.WorkspaceRow(id), ID: charged, Runs: 2,
		})))
	a := c.start(flow, "start-second").is(402, "payment_required")
	require.Equal(t, "wait", a.at("next_action"))
	require.Nil(t, a.at("approval_url"))
	require.Equal(t, publicURL+"/v1/purchases/"+idText(markPurchase, charged), a.at("poll_url"))
	a = c.keyed("/v1/purchases", "buy-one-more", `{"runs":1}`).is(202, "")
	require.Equal(t, true, a.at("charging"))
	require.Equal(t, "processing", a.at("purchase", "status"))
	require.EqualValues(t, 3500, c.usage()["remainingCents"], "what is being charged counts")
	n.collect()
	c.purchased(idText(markPurchase, charged), "succeeded")
	c.start(flow, "start-second").is(202, "")
	require.Len(t, c.call("GET", "/v1/purchases", "").at("purchases"), 2)
}
