package inspect_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/inspecttest"
	"tollgate/server/inspect"
	"tollgate/server/inspect/document"
)

// asked inspects a recorded site with a task.
func asked(t *testing.T, name, task string) *inspect.Result {
	t.Helper()
	site, err := inspecttest.Read("testdata/sites/" + name + ".txt")
	require.NoError(t, err)
	r, err := inspect.New(site, clock).Inspect(t.Context(), home, task, "run_1")
	require.NoError(t, err)
	return r
}

// TestSuggestedTests: what each recorded site that has a description suggests, or why it does not.
func TestSuggestedTests(t *testing.T) {
	for name, want := range map[string]string{
		"yaml_spec":   "GET https://eu.acme.example/v2/account x-api-key 204",
		"openapi32":   "GET https://acme.example/v1/me bearer 200",
		"api_catalog": "no_supported_credential",
		"docs_portal": "no_supported_credential",
		"mislabelled": "no_supported_credential",
		"redirects":   "no_supported_credential",
		"free_api":    "no_operation_with_key",
		"broken_spec": "GET https://acme.example/b bearer 200",
		"large_spec":  "no_openapi",
		"down":        "no_openapi",
	} {
		t.Run(name, func(t *testing.T) {
			s := asked(t, name, "").Suggestion
			got := ""
			if s.Test != nil {
				require.Nil(t, s.Reason)
				require.NotEmpty(t, s.Test.Evidence[0].Quote)
				got = fmt.Sprint(s.Test.Method, " ", s.Test.URL, " ", s.Test.Credential, " ", s.Test.Status)
			} else {
				got = *s.Reason
			}
			require.Equal(t, want, got)
		})
	}
}

// TestJourneys: how far a task comes at each recorded site, by people's own judgement. In order:
// discover, understand, choose_interface, acquire_credential, authenticate; nothing is executed.
func TestJourneys(t *testing.T) {
	short := map[string]string{
		"success": "+", "failed": "-", "unknown": "?", "needs_input": "!", "not_run": ".",
	}
	for name, want := range map[string]struct{ task, stages, uses string }{
		"yaml_spec":      {"Send a parcel to a customer.", "+++?+..", "api"},
		"openapi32":      {"Find everything.", "+?+?+..", "api"},
		"free_api":       {"Tell me the tides of a harbour.", "+++++..", "api"},
		"mcp_only":       {"Write a note.", "+?+??..", "mcp"},
		"cli_tool":       {"Sweep the dust.", "+?+??..", "cli"},
		"contact_sales":  {"Sign a contract.", "+??!?..", ""},
		"graphql":        {"Lend a book.", "+????..", ""},
		"json_ld_prices": {"Buy a lamp.", "+????..", ""},
		"down":           {"Do anything.", "?????..", ""},
		"large_spec":     {"Swim.", "+????..", ""},
		"spa":            {"Do anything.", "+????..", ""},
	} {
		t.Run(name, func(t *testing.T) {
			j := asked(t, name, want.task).Journey
			stages, uses := "", ""
			for _, s := range j.Stages {
				stages += short[string(s.Status)]
				require.NotEmpty(t, s.Reason)
				require.NotEmpty(t, s.Rule)
			}
			if j.Interface != nil {
				uses = *j.Interface
			}
			require.Equal(t, want.stages, stages)
			require.Equal(t, want.uses, uses)
		})
	}
}

// TestFindingsNameAllVerdicts: each recorded site gives the same fields, each verdict that rests on
// something has a quote that was observed or the beginning of what was.
func TestFindingsNameAllVerdicts(t *testing.T) {
	paths, err := filepath.Glob("testdata/sites/*.txt")
	require.NoError(t, err)
	for _, path := range paths {
		d := asked(t, strings.TrimSuffix(filepath.Base(path), ".txt"), "").Document
		var fields []string
		for _, f := range d.Findings() {
			fields = append(fields, f.Field)
			require.NotEmpty(t, f.Verdict, path)
			require.NotEmpty(t, f.Rule, path)
		}
		require.Equal(t, []string{
			"interfaces.website", "interfaces.api", "interfaces.mcp", "interfaces.cli",
			"authentication.requirement", "authentication.agentCanUnderstandSetup",
			"authentication_requirement", "pricing.agentCanDetermineCost",
			"machineAccess.aiCrawlersAllowed", "machineAccess.hasAgentReadableIndex",
		}, fields, path)
	}
	quotes := map[string]string{}
	for _, f := range asked(t, "contact_sales", "").Document.Findings() {
		quotes[f.Field] = f.Quote
	}
	require.Equal(t, "Disallow: /", quotes["machineAccess.aiCrawlersAllowed"])
	require.Contains(t, quotes["interfaces.website"], "<title>Acme</title>")
}

// TestFrictionOnTheWay: what a person has to do stops a task where it is on the way to a key, and
// not where a way is told and the friction is about something else.
func TestFrictionOnTheWay(t *testing.T) {
	const told = "<p>Create an API key with the tool.</p>"
	const shown = "<p>Create an API key with POST /v1/keys.</p>"
	const captcha = "<p>Solve the CAPTCHA.</p>"
	describing := strings.Replace(open, `"security":[{}]`,
		`"components":{"securitySchemes":{"k":{"type":"http","scheme":"bearer"}}},"security":[{"k":[]}]`, 1)
	pricing := func(text string) string {
		return at + "pricing\n200 text/html\n\n<html>" + text + "</html>\n"
	}
	for name, c := range map[string]struct{ text, rule string }{
		"told":                     {linking(told) + describing, "credential_setup_told"},
		"shown":                    {linking(shown) + describing, "credential_self_service"},
		"shown, with friction":     {linking(shown+captcha) + describing, "credential_needs_person"},
		"on the same page":         {linking(told+captcha) + describing, "credential_needs_person"},
		"on another page":          {linking(told) + describing + pricing(captcha), "credential_setup_told"},
		"sales, beside":            {linking(told+"<p>Talk to sales.</p>") + describing, "credential_setup_told"},
		"nothing else is told":     {linking("") + describing + pricing("<p>Talk to sales.</p>"), "credential_needs_person"},
		"told, not how it is sent": {linking(told) + pricing(captcha), "credential_needs_person"},
	} {
		r, err := inspect.New(parsed(t, c.text), clock).Inspect(t.Context(), home, "Do it.", "run_1")
		require.NoError(t, err)
		require.Equal(t, "acquire_credential", r.Journey.Stages[3].Stage)
		require.Equal(t, c.rule, r.Journey.Stages[3].Rule, name)
	}
}

// TestVerdictsShowWhatTheyRestOn: of api, mcp and cli the very words; and what two inspections are
// compared by quotes them.
func TestVerdictsShowWhatTheyRestOn(t *testing.T) {
	for site, want := range map[string][3]string{
		"cli_tool":  {"", "", "npm install -g"},
		"mcp_only":  {"", `"serverInfo"`, ""},
		"graphql":   {"GraphQL API", "", ""},
		"yaml_spec": {"openapi: 3", "", ""},
	} {
		d := asked(t, site, "").Document
		found := d.Findings()
		said := &d.Interfaces
		for i, e := range []*document.Evaluation{&said.API, &said.MCP, &said.CLI} {
			if want[i] == "" {
				continue
			}
			require.NotEmpty(t, e.Evidence, site)
			require.Contains(t, e.Evidence[0].Quote, want[i], site)
			require.Contains(t, e.BasedOn, e.Evidence[0].Obs)
			require.Equal(t, e.Evidence[0].Quote, found[i+1].Quote)
		}
	}
}

// TestAChallengeIsDeclaredOnce: however many answers ask for a credential in the same way.
func TestAChallengeIsDeclaredOnce(t *testing.T) {
	const asks = "401 text/plain\nWWW-Authenticate: Bearer realm=\"x\"\nWWW-Authenticate: Basic\n\nno\n"
	d := played(t, at+"llms.txt\n"+asks+at+"auth.md\n"+asks)
	require.Len(t, d.Auth.Declared, 2)
	require.Equal(t, "bearer", *d.Auth.Declared[0].Value.Scheme)
	require.Len(t, d.Auth.Declared[0].Evidence, 2)
	require.Equal(t, "basic", *d.Auth.Declared[1].Value.Scheme)
}

// TestWhoGetsACredential: what an evaluation says of the way to a credential is what the built-in
// agent then does. It makes a request that needs none; it does not sign in with a browser.
func TestWhoGetsACredential(t *testing.T) {
	const key = `,"responses":{"200":{"content":{"application/json":{"schema":{"type":"object",` +
		`"properties":{"api_key":{"type":"string"}}}}}}}`
	described := func(post, schemes string) string {
		return at + "openapi.json\n200 application/json\n\n" + `{"openapi":"3.1.0","components":{` +
			`"securitySchemes":{` + schemes + `}},"paths":{"/keys":{"post":{` + post + `}},"/me":{"get":` +
			`{"security":[{"k":[]}]}}}}` + "\n"
	}
	const bearer = `"k":{"type":"http","scheme":"bearer"}`
	twoSteps := func(wants string) string { // what the first answers, and more, the second wants
		return strings.Replace(described(`"security":[]`+strings.Replace(key, "api_key", "pending", 1),
			bearer), `"/me"`, `"/keys/confirm":{"post":{"security":[],"requestBody":{"content":{`+
			`"application/json":{"schema":{"required":[`+wants+`]}}}}`+key+`}},"/me"`, 1)
	}
	whole := func(paths string) string { // a description that declares no security anywhere
		return at + "openapi.json\n200 application/json\n\n" + `{"openapi":"3.1.0","paths":{` + paths + "}}\n"
	}
	const ends = `,"/verify":{"post":{"requestBody":{"content":{"application/json":{"schema":` +
		`{"required":["email","code"]}}}}` + key + `}}`
	answers := func(schema string) string {
		return `"responses":{"201":{"content":{"application/json":{"schema":` + schema + `}}}}`
	}
	const browser = `"k":{"type":"oauth2","description":"Sign in.","flows":{"authorizationCode":{}}}`
	const machine = `"k":{"type":"oauth2","description":"Ask.","flows":{"authorizationCode":{},` +
		`"clientCredentials":{}}}`
	metadata := func(more string) string {
		return at + ".well-known/oauth-authorization-server\n200 application/json\n\n" +
			`{"issuer":"https://acme.example/","authorization_endpoint":"https://acme.example/a",` +
			`"token_endpoint":"https://acme.example/t"` + more + `}` + "\n"
	}
	const agents = `,"agent_auth":{"register_uri":"https://acme.example/r"}`
	const captcha = "<p>Create an API key in the dashboard. Solve the CAPTCHA.</p>"
	for name, c := range map[string]struct{ text, status, rule string }{
		"a request in colours": {
			linking("<pre><span>curl -X POST \\</span>\n<span>https://acme.example/v1/keys</span></pre>"),
			"success", "credential_self_service",
		},
		"a request with entities": {
			linking("<pre>curl /v1/keys -d &quot;{\\&quot;phone\\&quot;: \\&quot;+49&hellip;\\&quot;}&quot;</pre>"),
			"needs_input", "credential_needs_person",
		},
		"an anonymous operation": {
			linking("") + described(`"security":[]`+key, bearer), "success", "credential_self_service",
		},
		"nothing declared of it, elsewhere it is": {
			linking("") + described(`"operationId":"x"`+key, bearer), "success", "credential_self_service",
		},
		"nothing is declared anywhere": {
			linking("") + whole(`"/keys":{"post":{"operationId":"x"`+key+`}}`), "success", "credential_self_service",
		},
		"nothing is declared anywhere, nor is its answer": {
			linking("") + whole(`"/signup":{"post":{}}`), "success", "credential_self_service",
		},
		"its answer has no properties": {
			linking("") + whole(`"/signup":{"post":{`+answers(`{"type":"object"}`)+`}}`),
			"success", "credential_self_service",
		},
		"its answer is of parts": {
			linking("") + whole(`"/keys":{"post":{`+answers(`{"allOf":[{"properties":{"id":{}}}]}`)+`}}`),
			"unknown", "credential_not_spoken_of",
		},
		"the one that is tried first makes none": {
			linking("") + whole(`"/tokens":{"post":{}},"/signup":{"post":{`+answers(`{"properties":{"id":{}}}`)+`}}`),
			"unknown", "credential_not_spoken_of",
		},
		"the one that is tried first wants a telephone": {
			linking("") + whole(`"/tokens":{"post":{}},"/signup":{"post":{"requestBody":{"content":{`+
				`"application/json":{"schema":{"required":["phone"]}}}}}}`),
			"success", "credential_self_service",
		},
		"its body has a password within": {
			linking("") + whole(`"/signup":{"post":{"requestBody":{"content":{"application/json":{"schema":{`+
				`"required":["user"],"properties":{"user":{"required":["password"]}}}}}}}}`),
			"needs_input", "credential_needs_person",
		},
		"its answer is not described, and another operation wants a code that is mailed": {
			linking("") + whole(`"/signup":{"post":{}}`+ends), "needs_input", "credential_needs_person",
		},
		"another operation wants the address and a code that is mailed there": {
			linking("") + whole(`"/signup":{"post":{`+answers(`{"properties":{"pending":{}}}`)+`}}`+ends),
			"needs_input", "credential_needs_person",
		},
		"its answer is not described": {
			linking("") + described(`"security":[]`, bearer), "success", "credential_self_service",
		},
		"its answer has no key": {
			linking("") + described(`"security":[]`+strings.Replace(key, "api_key", "pending", 1), bearer),
			"unknown", "credential_setup_unclear",
		},
		"it needs a key itself": {
			linking("") + described(`"security":[{"k":[]}]`+key, bearer), "unknown", "credential_setup_unclear",
		},
		"it wants a CAPTCHA": {
			linking("") + described(`"security":[],"requestBody":{"content":{"application/json":{"schema":{`+
				`"required":["captcha_token"]}}}}`+key, bearer), "needs_input", "credential_needs_person",
		},
		"another operation finishes it, with a code that is mailed": {
			linking("") + twoSteps(`"pending","code"`),
			"needs_input", "credential_needs_person",
		},
		"another operation finishes it, with what the first has answered": {
			linking("") + twoSteps(`"pending"`), "success", "credential_self_service",
		},
		"another operation wants more than that": {
			linking("") + twoSteps(`"pending","code","name"`),
			"unknown", "credential_setup_unclear",
		},
		"friction is on the pages": {
			linking(captcha) + described(`"security":[]`+key, bearer), "success", "credential_self_service",
		},
		"OAuth in a browser": {linking("") + metadata(""), "needs_input", "credential_needs_person"},
		"its grants say so": {
			linking("") + metadata(`,"grant_types_supported":["authorization_code","refresh_token"]`),
			"needs_input", "credential_needs_person",
		},
		"a code on another device": {
			linking("") + metadata(`,"grant_types_supported":["urn:ietf:params:oauth:grant-type:device_code"]`),
			"needs_input", "credential_needs_person",
		},
		"client credentials": {
			linking("") + metadata(`,"grant_types_supported":["client_credentials"]`),
			"unknown", "credential_setup_told",
		},
		"agents register": {linking("") + metadata(agents), "success", "credential_self_service"},
		"agents with an identity register": {
			linking("") + metadata(`,"grant_types_supported":["client_credentials"],"agent_auth":{`+
				`"register_uri":"https://acme.example/r","identity_types_supported":["email"]}`),
			"needs_input", "credential_needs_person",
		},
		"API keys beside":      {linking("<p>Create an API key.</p>") + metadata(""), "unknown", "credential_setup_told"},
		"OAuth, as texts tell": {linking("<p>Obtain an access token.</p>") + metadata(""), "needs_input", "credential_needs_person"},
		"a scheme in a browser": {
			linking("") + described(`"security":[{"k":[]}]`+key, browser), "needs_input", "credential_needs_person",
		},
		"a scheme for machines": {
			linking("") + described(`"security":[{"k":[]}]`+key, machine), "unknown", "credential_setup_told",
		},
	} {
		r, err := inspect.New(parsed(t, c.text), clock).Inspect(t.Context(), home, "Do it.", "run_1")
		require.NoError(t, err)
		stage := r.Journey.Stages[3]
		require.Equal(t, c.rule+" "+c.status, stage.Rule+" "+string(stage.Status), "%s: %s", name, stage.Reason)
	}
}
