package workspaceapi

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"tollgate/bench/inspecttest"
	"tollgate/engine"
	"tollgate/engine/workspace"
	"tollgate/server/inspect"
	"tollgate/server/provider/fetch"
)

// smallSite answers every address with one page.
const smallSite = "=== *\n200 text/html\n\n<html><title>Acme</title><body>Acme sells things.</body></html>\n"

// acmeSite publishes an API whose calls need a key.
const acmeSite = `=== https://acme.example/
200 text/html

<html><title>Acme</title><body>Acme keeps the invoices of your company in order. Every one of them
can be found again within a second, by people and by programs alike, and nothing is ever lost, nor
is anything ever paid twice. Create an API key in a second: the documentation is short.</body>
=== https://acme.example/openapi.json
200 application/json

{"openapi":"3.1.0","info":{"title":"Acme"},"components":{"securitySchemes":{"key":{"type":"http",
"scheme":"bearer"}}},"security":[{"key":[]}],"paths":{"/v1/invoices":{"get":{"tags":["Invoices"],
"summary":"List invoices"}},"/v1/me":{"get":{"summary":"Who asks"}},"/v1/invoices/{id}":{"get":{}}}}
`

const acme = `{"url":"https://acme.example/"}`

// place is where a site is played, which may change to another one.
type place struct {
	mu   sync.Mutex
	site *inspecttest.Site
}

func recorded(t testing.TB, text string) *place {
	p := &place{}
	p.becomes(t, text)
	return p
}

func (p *place) becomes(t testing.TB, text string) {
	t.Helper()
	site, err := inspecttest.Parse(text)
	require.NoError(t, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.site = site
}

func (p *place) now() *inspecttest.Site {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.site
}

// Do answers as the present site does.
func (p *place) Do(ctx context.Context, r *fetch.Request) (*fetch.Response, error) {
	return p.now().Do(ctx, r)
}

// inspecting starts a node that inspects a site, with one workspace.
func inspecting(t *testing.T, site string) (*caller, *place) {
	p := recorded(t, site)
	n := start(t, func(c *Config) { c.Inspector = inspect.New(p, nil) })
	return n.signUp(""), p
}

// TestAnInspectionIsARun: its document is as /v1/schema describes it, and is read again byte for
// byte; the same request is the same run and fetches nothing.
func TestAnInspectionIsARun(t *testing.T) {
	c, p := inspecting(t, acmeSite)
	a := c.keyed("/v1/interface", "inspect-1", acme).is(200, "")
	id := a.at("run", "id").(string)
	require.Equal(t, "inspection", a.at("run", "kind"))
	require.Equal(t, "completed", a.at("run", "status"))
	require.Nil(t, a.at("run", "outcome"))
	require.Equal(t, "none", a.at("run", "charge", "kind"))
	require.Equal(t, id, a.at("inspection", "generator", "runId"))
	require.Equal(t, "yes", a.at("inspection", "interfaces", "api", "verdict"))
	require.Nil(t, a.at("comparison"))

	described := c.send("GET", "/v1/schema", "", "", nil).is(200, "")
	text, err := json.Marshal(described.at("jsonSchema"))
	require.NoError(t, err)
	parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("mem:///interface", parsed))
	schema, err := compiler.Compile("mem:///interface")
	require.NoError(t, err)
	require.NoError(t, schema.Validate(a.at("inspection")))

	asked := len(p.now().Asked())
	require.Equal(t, string(a.raw), string(c.keyed("/v1/interface", "inspect-1", acme).is(200, "").raw))
	require.Equal(t, string(a.raw), string(c.call("GET", "/v1/runs/"+id, "").is(200, "").raw))
	require.Len(t, p.now().Asked(), asked, "nothing is fetched again")
	c.keyed("/v1/interface", "inspect-1", `{"url":"https://other.example/"}`).is(409, "idempotency_conflict")
	c.keyed("/v1/interface", "short", acme).is(400, "invalid_request_key")
	require.Equal(t, id, c.call("GET", "/v1/runs", "").at("runs").([]any)[0].(map[string]any)["id"])
	c.call("POST", "/v1/runs/"+id+"/cancel", "").is(409, "wrong_run_type")
	c.call("POST", "/v1/runs/"+id+"/resume", "").is(409, "wrong_run_type")
	c.signUp("").call("GET", "/v1/runs/"+id, "").is(404, "not_found")

	flow := c.flow(strings.Replace(plainFlow, "product.example/\",\"task", "acme.example/\",\"task", 1))
	a = c.call("POST", "/v1/interface", `{"flowId":"`+flow+`"}`).is(200, "")
	require.Equal(t, flow, a.at("run", "flowId"))
	require.NotEqual(t, id, a.at("run", "id"))
	c.call("POST", "/v1/interface", `{"flowId":"`+flow+`","url":"https://other.example/"}`).is(400, "flow_url_mismatch")
	c.call("POST", "/v1/interface", `{"flowId":"`+idText(markFlow, [16]byte{9})+`"}`).is(404, "not_found")
}

// refuseInspections provokes what only inspections are refused with.
func refuseInspections(t *testing.T, is provoked) {
	c, p := inspecting(t, "=== *\nfail network\n")
	is(c.call("POST", "/v1/interface", acme), 502, "target_unreachable")
	is(c.call("POST", "/v1/evaluate", `{"url":"https://acme.example/","task":"t"}`), 502, "target_unreachable")
	p.becomes(t, "=== *\nfail address\n")
	is(c.call("POST", "/v1/interface", acme), 400, "invalid_url")
	for body, code := range map[string]string{
		`{}`: "invalid_field", `{"url":"acme"}`: "invalid_url", `{"url":"https://u:p@acme.example/"}`: "invalid_url",
		`{"url":"http://10.0.0.1/"}`: "invalid_url", `{"url":"https://acme.example/","x":1}`: "unexpected_field",
		`{"url":"https://acme.example/","token":"x"}`: "credentials_not_allowed", `{"flowId":"x"}`: "invalid_id",
		`{"url":"https://acme.example/","task":"t"}`: "unexpected_field",
	} {
		is(c.call("POST", "/v1/interface", body), 400, code)
	}
	is(c.call("POST", "/v1/evaluate", acme), 400, "invalid_field")
	require.Empty(t, c.call("GET", "/v1/runs", "").at("runs"), "nothing was saved")
}

// TestInspectionsCostCredits: where they are metered, too few fetch nothing, and what is not saved
// costs nothing.
func TestInspectionsCostCredits(t *testing.T) {
	c, p := inspecting(t, acmeSite)
	c.policy(func(s *workspace.SetPolicy) { s.CreditsInspection, s.CreditsEvaluation = 3, 2 })
	a := c.call("POST", "/v1/interface", acme).is(402, "insufficient_credits")
	require.EqualValues(t, 3, a.at("required"))
	require.EqualValues(t, 0, a.at("balance"))
	require.Empty(t, p.now().Asked())
	c.operate("/credits", `{"amount":6}`)
	p.becomes(t, "=== *\nfail network\n")
	c.call("POST", "/v1/interface", acme).is(502, "target_unreachable")
	p.becomes(t, acmeSite)
	a = c.call("POST", "/v1/interface", acme).is(200, "")
	require.EqualValues(t, 3, a.at("run", "charge", "credits"))
	require.Equal(t, "committed", a.at("run", "charge", "state"))
	c.call("POST", "/v1/evaluate", `{"url":"https://acme.example/","task":"t"}`).is(200, "")
	account := c.call("GET", "/v1/account", "").is(200, "")
	require.EqualValues(t, 1, account.at("credits", "balance"))
	require.EqualValues(t, 0, account.at("credits", "reserved"))
	require.Len(t, account.at("transactions"), 5)
	a = c.call("POST", "/v1/evaluate", `{"url":"https://acme.example/","task":"t"}`).is(402, "insufficient_credits")
	require.EqualValues(t, 2, a.at("required"))
}

// TestFlippedRulesAreNotified: a worse verdict is a regression, with what was read before and now;
// a better one has recovered; another host's inspection is compared with nothing.
func TestFlippedRulesAreNotified(t *testing.T) {
	c, p := inspecting(t, acmeSite)
	first := c.call("POST", "/v1/interface", acme).is(200, "").at("run", "id")
	p.becomes(t, strings.Replace(acmeSite, "=== https://acme.example/openapi.json", "=== https://acme.example/gone", 1)+
		"=== https://acme.example/robots.txt\n200 text/plain\n\nUser-agent: *\nDisallow: /\n")
	a := c.call("POST", "/v1/interface", acme).is(200, "")
	require.Equal(t, first, a.at("comparison", "previousRunId"))
	changes := map[string]string{}
	for _, change := range a.at("comparison", "changes").([]any) {
		row := change.(map[string]any)
		of := func(name string) map[string]any { return row[name].(map[string]any) }
		changes[row["field"].(string)] = fmt.Sprint(of("before")["rule"], " → ", of("after")["rule"])
		if row["field"] == "machineAccess.aiCrawlersAllowed" {
			require.Equal(t, "Disallow: /", of("after")["quote"])
		}
		if row["field"] == "interfaces.api" {
			require.Equal(t, `"openapi":"3.1.0"`, of("before")["quote"])
		}
	}
	require.Equal(t, "api_described → api_mentioned", changes["interfaces.api"])
	require.Equal(t, "crawlers_no_rules → crawlers_users_blocked", changes["machineAccess.aiCrawlersAllowed"])
	notices := func() []any { return c.call("GET", "/v1/notifications", "").is(200, "").at("notifications").([]any) }
	require.Len(t, notices(), 1)
	require.Equal(t, "regression", notices()[0].(map[string]any)["type"])
	require.Equal(t, a.at("run", "id"), notices()[0].(map[string]any)["runId"])

	p.becomes(t, acmeSite)
	again := c.call("POST", "/v1/interface", acme).is(200, "")
	require.Equal(t, a.at("run", "id"), again.at("comparison", "previousRunId"))
	require.Equal(t, "recovered", notices()[0].(map[string]any)["type"])
	same := c.call("POST", "/v1/interface", acme).is(200, "")
	require.Empty(t, same.at("comparison", "changes"))
	require.Len(t, notices(), 2)
	p.becomes(t, smallSite)
	other := c.call("POST", "/v1/interface", `{"url":"https://b.example/"}`).is(200, "")
	require.Nil(t, other.at("comparison"))
	require.Nil(t, c.signUp("").call("POST", "/v1/interface", acme).is(200, "").at("comparison"))
}

// TestPlacesOfInspectionsAreBounded: what waits for products is refused beyond its bounds, at once
// and with nothing saved.
func TestPlacesOfInspectionsAreBounded(t *testing.T) {
	c, p := inspecting(t, smallSite)
	release := make(chan struct{})
	arrived := make(chan struct{}, 1000)
	let := sync.OnceFunc(func() { close(release) })
	var came atomic.Int32
	p.now().Before = func(string) {
		// What should not have come here is let through, so that the test fails and does not hang.
		if came.Add(1) <= int32(2*inspectionPlaces.one) {
			arrived <- struct{}{}
			<-release
		}
	}
	var waiting sync.WaitGroup
	t.Cleanup(func() { let(); waiting.Wait() })
	for range inspectionPlaces.one {
		waiting.Go(func() { c.call("POST", "/v1/interface", acme).is(200, "") })
	}
	for range 2 * inspectionPlaces.one { // each asks for two addresses first
		<-arrived
	}
	c.call("POST", "/v1/interface", acme).is(503, "runner_busy")
	let()
	waiting.Wait()
	require.Len(t, c.call("GET", "/v1/runs", "").at("runs"), inspectionPlaces.one)
	c.call("POST", "/v1/interface", acme).is(200, "")
}

// largeSite describes so many operations that its document takes several parts.
func largeSite() string {
	var paths []string
	for i := range 2500 {
		paths = append(paths, fmt.Sprintf(`"/v1/%x/%x":{"get":{}}`, hashOf(fmt.Sprint(i)),
			hashOf(fmt.Sprint(-i))))
	}
	return strings.Replace(acmeSite, `"/v1/invoices":`, strings.Join(paths, ",")+`,"/v1/invoices":`, 1)
}

// TestALargeDocumentComesInParts: also where nobody leads for a while in the middle of it; and in
// the log no part is larger than it may be.
func TestALargeDocumentComesInParts(t *testing.T) {
	c, _ := inspecting(t, largeSite())
	c.claim()
	parts := 0
	c.group.Before(func(kind engine.Kind) engine.Outcome {
		if kind == workspace.KindAddInspectionPart {
			if parts++; parts == 1 {
				return engine.OutcomeUnknown
			}
		}
		return engine.OutcomeNone
	})
	a := c.call("POST", "/v1/interface", acme).is(200, "")
	require.Greater(t, parts, 2)
	require.Len(t, a.at("inspection", "authentication_requirement", "operations"), 2503)
	again := c.call("GET", "/v1/runs/"+a.at("run", "id").(string), "").is(200, "")
	require.Equal(t, string(a.raw), string(again.raw))
}

// TestALostInspectionFails: one whose node is lost between two parts shows no document, suggests
// nothing, ends a minute later as a run that was lost, and is given back.
func TestALostInspectionFails(t *testing.T) {
	c, _ := inspecting(t, acmeSite)
	c.policy(func(s *workspace.SetPolicy) { s.CreditsInspection = 3 })
	c.operate("/credits", `{"amount":6}`)
	made := c.keyed("/v1/interface", "the-key-1", acme).is(200, "").at("run", "id").(string)
	id, _ := parseID(markRun, made)
	w, _ := parseID(markWorkspace, c.workspace)
	row := c.Machine.WorkspaceRow(w)
	v, ok := c.Machine.Inspection(row, id)
	require.True(t, ok)
	lost := mint()
	c.does(workspace.KindSaveInspection, &workspace.SaveInspection{
		Workspace: row, ID: lost, Kind: workspace.RunInspection, Size: uint32(len(v.Document)),
		Part: v.Document[:10], Host: "acme.example",
	})
	a := c.call("GET", "/v1/runs/"+idText(markRun, lost), "").is(200, "")
	require.Equal(t, "running", a.at("run", "status"))
	require.Nil(t, a.at("inspection"))
	require.EqualValues(t, 3, c.call("GET", "/v1/account", "").at("credits", "reserved"))
	suggested := c.call("GET", "/v1/runs/"+idText(markRun, lost)+"/suggested-test", "").is(200, "")
	require.Equal(t, "not_completed", suggested.at("reason"))
	c.Later(time.Minute + time.Second)
	a = c.call("GET", "/v1/runs/"+idText(markRun, lost), "").is(200, "")
	require.Equal(t, "failed", a.at("run", "status"))
	require.Equal(t, "inconclusive", a.at("run", "outcome"))
	require.Equal(t, "worker_lost", a.at("run", "reasonCode"))
	require.Equal(t, "returned", a.at("run", "charge", "state"))
	require.EqualValues(t, 3, c.call("GET", "/v1/account", "").at("credits", "balance"))
}

// TestATaskIsEvaluated: the stages rest on what was observed, no agent runs, and what only a person
// does is said.
func TestATaskIsEvaluated(t *testing.T) {
	c, p := inspecting(t, acmeSite)
	evaluate := func(task string) (answer, string) {
		a := c.call("POST", "/v1/evaluate", `{"url":"https://acme.example/","task":"`+task+`"}`).is(200, "")
		var said []string
		for _, stage := range a.at("journey", "stages").([]any) {
			said = append(said, stage.(map[string]any)["status"].(string))
		}
		return a, strings.Join(said, " ")
	}
	a, said := evaluate("List all invoices of a customer.")
	require.Equal(t, "success success success unknown success not_run not_run", said)
	require.Equal(t, "assessment", a.at("run", "kind"))
	require.Equal(t, "api", a.at("journey", "interface"))
	require.Equal(t, "svc/journey@1", a.at("journey", "schema"))
	again := c.call("GET", "/v1/runs/"+a.at("run", "id").(string), "").is(200, "")
	require.Equal(t, string(a.raw), string(again.raw))
	_, said = evaluate("Bake a cake.")
	require.Equal(t, "success unknown success unknown success not_run not_run", said)
	p.becomes(t, strings.Replace(acmeSite, "Create an API key", "Talk to sales", 1))
	_, said = evaluate("List all invoices.")
	require.Equal(t, "success success success needs_input success not_run not_run", said)
	p.becomes(t, "=== https://acme.example/\n404\n\n=== https://acme.example/robots.txt\n"+
		"200 text/plain\n\nUser-agent: *\n")
	_, said = evaluate("List all invoices.")
	require.Equal(t, "failed not_run not_run not_run not_run not_run not_run", said)
}

// TestATestIsSuggested: a call that needs a key, of who asks where there is one.
func TestATestIsSuggested(t *testing.T) {
	c, p := inspecting(t, acmeSite)
	suggested := func() answer {
		id := c.call("POST", "/v1/interface", acme).is(200, "").at("run", "id").(string)
		return c.call("GET", "/v1/runs/"+id+"/suggested-test", "").is(200, "")
	}
	a := suggested()
	require.Equal(t, "https://acme.example/v1/me", a.at("suggestedTest", "url"))
	require.Equal(t, "bearer", a.at("suggestedTest", "credential"))
	require.EqualValues(t, 200, a.at("suggestedTest", "status"))
	require.Contains(t, a.at("suggestedTest", "evidence").([]any)[0].(map[string]any)["quote"], "Who asks")
	p.becomes(t, strings.Replace(acmeSite, "/v1/me", "/v1/them", 1))
	require.Equal(t, "https://acme.example/v1/them", suggested().at("suggestedTest", "url"), "the shortest")
	for reason, changed := range map[string]string{
		"no_openapi":              smallSite,
		"no_operation_with_key":   strings.Replace(acmeSite, `[{"key":[]}]`, `[]`, 1),
		"no_supported_credential": strings.Replace(acmeSite, `"scheme":"bearer"`, `"scheme":"basic"`, 1),
		"no_server_of_this_site": strings.Replace(acmeSite, `"paths"`,
			`"servers":[{"url":"https://elsewhere.example/"}],"paths"`, 1),
		"no_get_without_parameters": strings.ReplaceAll(acmeSite, `"get"`, `"post"`),
	} {
		p.becomes(t, changed)
		a = suggested()
		require.Nil(t, a.at("suggestedTest"), reason)
		require.Equal(t, reason, a.at("reason"))
	}
}
