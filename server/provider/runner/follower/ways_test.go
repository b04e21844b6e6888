package follower

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/examples/sampleproduct"
	"tollgate/server/inspect"
	"tollgate/server/inspect/fill"
	"tollgate/server/provider/fetch"
	"tollgate/server/provider/runner"
)

// everyWay is a site that publishes a way of each kind, each to a request of its own.
func everyWay() map[string]string {
	return map[string]string{
		"GET /": "# A product\n\n[Steps](/arazzo.json)\n",
		"GET /.well-known/oauth-authorization-server": `{"agent_auth":{"register_uri":"/1"}}`,
		"GET /pricing.json":                           `{"provisioning":{"url":"/2"}}`,
		"GET /arazzo.json": arazzo(`{"stepId":"a","operationId":"third",
			"successCriteria":[{"condition":"$statusCode == 200"}]}`, `{}`),
		"GET /openapi.json": `{"openapi":"3.1.0","paths":{
			"/3":{"post":{"operationId":"third"}},"/4":{"post":{"summary":"Sign up."}}}}`,
		"GET /auth.md": "# Keys\n\n    curl -X POST /5/register\n",
	}
}

// arazzo is a workflow of some steps.
func arazzo(steps, outputs string) string {
	return `{"arazzo":"1.0.1","workflows":[{"workflowId":"signUp","inputs":{"type":"object",
"properties":{"name":{"type":"string"}}},"steps":[` + steps + `],"outputs":` + outputs + `}]}`
}

// paths are the paths of the POST requests that a site was sent.
func (s *site) paths() (paths []string) {
	for _, sent := range s.sent {
		path, _, _ := strings.Cut(sent, " ")
		paths = append(paths, path)
	}
	return paths
}

// TestTheOrderOfWays: OAuth's metadata, pricing.json, workflows, descriptions, commands; each
// counts where those before it lead nowhere, and after four no more are tried.
func TestTheOrderOfWays(t *testing.T) {
	all := []string{"/1", "/2", "/3", "/4", "/5/register"}
	for n, path := range all[:maxWays] {
		answers := everyWay()
		answers["POST "+path] = `{"key":"k-12345678"}`
		s := newSite(t, answers, nil)
		got := follow(t, s.URL, s.URL+"/")
		require.Equal(t, "key", got.said(), got.events)
		require.Equal(t, all[:n+1], s.paths())
	}
	answers := everyWay()
	answers["POST /5/register"] = `{"key":"k-12345678"}`
	s := newSite(t, answers, nil)
	got := follow(t, s.URL, s.URL+"/")
	require.Equal(t, "way_absent", got.Code)
	require.Contains(t, got.Reason, "POST /1 ", "the first way's stop is told")
	require.Equal(t, all[:maxWays], s.paths())
}

// TestWorkflows: a step's outputs go into the next, and what a step wants of its answer is checked.
func TestWorkflows(t *testing.T) {
	const description = `{"openapi":"3.1.0","paths":{"/begin":{"post":{"operationId":"begin"}},
		"/end/{id}":{"post":{"operationId":"end","parameters":[
		{"name":"id","in":"path","required":true,"schema":{"type":"string"}}]}}}}`
	const two = `{"stepId":"a","operationId":"begin","requestBody":{"payload":{"who":"I am {$inputs.name}"}},
		"successCriteria":[{"condition":"$statusCode == 201"}],
		"outputs":{"id":"$response.body#/made/id"}},
		{"stepId":"b","operationId":"end","parameters":[
		{"name":"id","in":"path","value":"$steps.a.outputs.id"}],
		"requestBody":{"payload":{"of":"$steps.a.outputs.id"}},
		"outputs":{"made":"$response.body#/what"}}`
	const outputs = `{"id":"$steps.a.outputs.id","apiKey":"$steps.b.outputs.made"}`
	both := []string{
		`/begin {"who":"I am tollgate-37ddff8ee1"}`, `/end/acc-123456789 {"of":"acc-123456789"}`,
	}
	for name, c := range map[string]struct {
		steps, begun, ended, wanted string
		sent                        []string
	}{
		"through": {
			two, `Created: {"made":{"id":"acc-123456789"}}`, `{"what":"made-up-name"}`,
			"key", both,
		},
		"another status": {
			two, `{"made":{"id":"acc-123456789"}}`, "",
			"acquire_credential criterion_failed: The step a wants status 201 (POST /begin → 200). " +
				"It says: fields made", both[:1],
		},
		"an output that is not there": {
			two, `Created: {}`, "",
			`acquire_credential workflow_broken: The workflow cannot be gone: $steps.a.outputs.id is ` +
				`not known. It says: {"stepId":"b","operationId":"end",`, both[:1],
		},
		"the second is refused": {
			two, `Created: {"made":{"id":"acc-123456789"}}`, "Forbidden: no",
			"acquire_credential signup_refused: The product does not take the request " +
				"(POST /end/acc-123456789 → 403). It says: no", both,
		},
		"no key": {
			two, `Created: {"made":{"id":"acc-123456789"}}`, `{"fine":true}`,
			"acquire_credential no_credential_in_answer: The workflow ends, and nothing in it is a key " +
				"(POST /end/acc-123456789 → 200). It says: fields fine", both,
		},
		"an operation of nobody": {
			`{"stepId":"a","operationId":"other"}`, "", "",
			"acquire_credential workflow_broken: The workflow cannot be gone: the operation of step a " +
				`is not in a description. It says: {"stepId":"a","operationId":"other"}`, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[string]string{
				"GET /": "# A product\n\n[Steps](/arazzo.json)\n", "GET /openapi.json": description,
				"GET /arazzo.json": arazzo(c.steps, outputs), "POST /begin": c.begun,
				"POST /end/acc-123456789": c.ended,
			}
			s := newSite(t, answers, nil)
			got := follow(t, s.URL, s.URL+"/")
			require.True(t, strings.HasPrefix(got.said(), c.wanted), "%s\n%v", got.said(), got.events)
			require.Equal(t, c.sent, s.sent)
		})
	}
	foreign := strings.Replace(description, `"paths"`, `"servers":[{"url":"https://b.example"}],"paths"`, 1)
	s := newSite(t, map[string]string{
		"GET /": "[Steps](/arazzo.json)\n", "GET /openapi.json": foreign,
		"GET /arazzo.json": arazzo(two, outputs),
	}, nil)
	got := follow(t, s.URL, s.URL+"/")
	require.Equal(t, "other_host", got.Code)
	require.Contains(t, got.Reason, `It says: {"stepId":"a"`, "the step is quoted")
}

// continued is a description whose sign-up goes on with an operation that wants some fields, and
// whose answer calls the key by a name of its own.
func continued(fields ...string) string {
	return `{"openapi":"3.1.0","paths":{"/signup":{"post":{}},
"/account":{"post":{"operationId":"finishIt","requestBody":{"content":{"application/json":{"schema":
{"type":"object","required":["` + strings.Join(fields, `","`) + `"]}}}},
"responses":{"200":{"content":{"application/json":{"schema":{"properties":{
"shown":{"description":"Your API key."}}}}}}}}},
"/again":{"post":{"operationId":"verifyAgain","requestBody":{"content":{"application/json":{"schema":
{"type":"object","required":["step"]}}}}}}}}`
}

// TestWhatFollowsASignUp: an operation of the same description that finishes something goes on with
// what the answer has given, and says what its own answer calls the key; of a code that only a
// person was sent the person is asked; and after three requests it is over.
func TestWhatFollowsASignUp(t *testing.T) {
	answers := map[string]string{
		"GET /openapi.json": continued("account", "step"),
		"POST /signup":      `{"account":"acc_1","step":"two"}`,
		"POST /account":     `{"id":"sk_live_0123456789ab","shown":"the-key-of-it"}`,
	}
	s := newSite(t, answers, nil)
	got := follow(t, s.URL, s.URL+"/")
	require.Equal(t, "the-key-of-it", got.Credential, "what the description calls the key: %v", got.events)
	require.Equal(t, []string{"/signup ", `/account {"account":"acc_1","step":"two"}`}, s.sent)

	answers["GET /openapi.json"] = continued("account", "emailVerificationCode")
	answers["POST /signup"] = `{"account":"acc_1"}`
	s = newSite(t, answers, nil)
	asked := follow(t, s.URL, s.URL+"/")
	require.Equal(t, `asks: The product has sent a code by e-mail to `+
		`tollgate-37ddff8ee1@agents.example. Which one? (POST /account wants "emailVerificationCode")`, asked.said())
	resume := func(answer string) trip {
		return follow(t, s.URL, s.URL+"/", func(task *runner.Task, _ *fetch.Config) {
			task.Checkpoint, task.Answer = asked.Checkpoint, answer
		})
	}
	require.Equal(t, "the-key-of-it", resume("77").Credential)
	require.Equal(t, `/account {"account":"acc_1","emailVerificationCode":"77"}`, s.sent[1])
	silent := resume("")
	require.Contains(t, silent.Reason, `Published is: "post":{"operationId":"finishIt"`)

	// Two things are missing, or one that no e-mail brings: nobody is asked.
	answers["POST /signup"] = `{"account":"acc_1","step":"two"}`
	for _, fields := range [][]string{{"account", "code", "other"}, {"account", "password"}} {
		answers["GET /openapi.json"] = continued(fields...)
		answers["POST /again"] = `{}`
		s = newSite(t, answers, nil)
		got = follow(t, s.URL, s.URL+"/")
		require.Equal(t, "no_credential_in_answer", got.Code)
		require.Equal(t, []string{"/signup ", `/again {"step":"two"}`}, s.sent)
	}
}

// TestEvaluationsSayWhatItDoes: of descriptions that leave much unsaid an evaluation says what this
// agent then does there.
func TestEvaluationsSayWhatItDoes(t *testing.T) {
	const mailed = `,"/verify":{"post":{"requestBody":{"content":{"application/json":{"schema":{
"required":["email","code"]}}}},"responses":{"200":{"content":{"application/json":{"schema":{
"properties":{"key":{"type":"string"}}}}}}}}}`
	says := func(schema string) string {
		return `"responses":{"200":{"content":{"application/json":{"schema":` + schema + `}}}}`
	}
	wants := func(schema string) string {
		return `"requestBody":{"content":{"application/json":{"schema":` + schema + `}}}`
	}
	const key, none = `{"key":"k-12345678"}`, `{"id":"acc_1"}`
	param := func(name, in string) string {
		return `"/keys":{"post":{"parameters":[{"name":"` + name + `","in":"` + in +
			`","required":true,"schema":{"type":"string"}}]}}`
	}
	media := func(kind, schema string) string {
		return `"/keys":{"post":{"requestBody":{"content":{"` + kind + `":{"schema":` + schema + `}}}}}`
	}
	for name, c := range map[string]struct{ paths, answer, does, said string }{
		"a password in the query":  {param("password", "query"), key, "password_wanted", "needs_input"},
		"a CAPTCHA in a header":    {param("X-Captcha-Token", "header"), key, "captcha", "needs_input"},
		"a name only it can say":   {`"/orgs/{org}/keys":{"post":{}}`, key, "way_absent", "unknown"},
		"XML":                      {media("application/xml", `{}`), key, "body_not_fillable", "unknown"},
		"a file":                   {media("multipart/form-data", `{}`), key, "body_not_fillable", "unknown"},
		"a form with a form in it": {media("application/x-www-form-urlencoded", `{"required":["a"],"properties":{"a":{"type":"object"}}}`), key, "body_not_fillable", "unknown"},
		"a pattern of numbers": {
			media("application/json", `{"required":["a"],"properties":{"a":{"type":"string","pattern":"^[0-9]{4}$"}}}`),
			key, "body_not_fillable", "unknown",
		},
		"a server elsewhere": {
			`"/keys":{"servers":[{"url":"https://b.example"}],"post":{}}`, key, "other_host", "unknown",
		},
		"what cannot be filled first": {
			media("application/xml", `{}`) + `,"/signup":{"post":{}}`, key, "key", "success",
		},
		"no security anywhere": {`"/keys":{"post":{` + says(`{"properties":{"key":{}}}`) + `}}`, key, "key", "success"},
		"no answer either":     {`"/keys":{"post":{}}`, key, "key", "success"},
		"no properties":        {`"/keys":{"post":{` + says(`{"type":"object"}`) + `}}`, key, "key", "success"},
		"properties in parts": {
			`"/keys":{"post":{` + says(`{"oneOf":[{"properties":{"id":{}}}]}`) + `}}`, none,
			"no_credential_in_answer", "unknown",
		},
		"the surest makes none": {
			`"/tokens":{"post":{}},"/keys":{"post":{"summary":"Sign up",` + says(`{"properties":{"id":{}}}`) + `}}`, none,
			"no_credential_in_answer", "unknown",
		},
		"a password within": {
			`"/keys":{"post":{` + wants(`{"required":["user"],"properties":{"user":{"required":["password"]}}}`) + `}}`, key,
			"password_wanted", "needs_input",
		},
		"a card by one way of two": {
			`"/keys":{"post":{` + wants(`{"required":["pay"],"properties":{"pay":{"oneOf":[{"required":["card"]},
{"required":["name"]}]}}}`) + `}}`, key, "key", "success",
		},
		"a code that is mailed": {
			`"/signup":{"post":{` + wants(`{"required":["email"]}`) + `}}` + mailed, none, "asks", "needs_input",
		},
		"a code, and the answer is described": {
			`"/signup":{"post":{` + says(`{"properties":{"id":{}}}`) + `}}` + mailed, none, "asks", "needs_input",
		},
	} {
		s := newSite(t, map[string]string{
			"GET /openapi.json": `{"openapi":"3.1.0","paths":{` + c.paths + `}}`,
			"POST /keys":        c.answer, "POST /signup": c.answer,
		}, nil)
		saysWhatItDoes(t, name, s, c.does, c.said)
	}
	const described = `{"openapi":"3.1.0","paths":{"/register/keys":{"post":{"responses":{"200":{"content":{
"application/json":{"schema":{"properties":{"id":{}}}}}}}}}}}`
	saysWhatItDoes(t, "the surest of two descriptions makes none", newSite(t, map[string]string{
		"GET /":               "# A product\n\n[OpenAPI](/b/openapi.json)\n",
		"GET /openapi.json":   `{"openapi":"3.1.0","paths":{"/keys":{"post":{}}}}`,
		"GET /b/openapi.json": described, "POST /keys": key, "POST /register/keys": none,
	}, nil), "no_credential_in_answer", "unknown")
	saysWhatItDoes(t, "a sentence beside OAuth in a browser", newSite(t, map[string]string{
		"GET /": "# A product\n\nCreate an API key.\n",
		"GET /.well-known/oauth-authorization-server": `{"authorization_endpoint":"/a","token_endpoint":"/t"}`,
	}, nil), "no_way_published", "unknown")
	saysWhatItDoes(t, "a request of pricing.json with a password", newSite(t, map[string]string{
		"GET /pricing.json": `{"provisioning":{"url":"/keys","body":{"password":"x"}}}`,
	}, nil), "password_wanted", "needs_input")
}

// saysWhatItDoes compares what this agent does at a site with what an evaluation says of it.
func saysWhatItDoes(t *testing.T, name string, s *site, does, said string) {
	t.Helper()
	got := follow(t, s.URL, s.URL+"/")
	did := got.Code
	switch {
	case got.Question != "":
		did = "asks"
	case got.Credential != "":
		did = "key"
	}
	require.Equal(t, does, did, "%s: %v", name, got.events)
	client, _ := clientFor(t, s.URL, s.URL+"/")
	r, err := inspect.New(client, nil).Inspect(t.Context(), s.URL+"/", "Get a key.", "run_1")
	require.NoError(t, err)
	stage := r.Journey.Stages[3]
	require.Equal(t, "acquire_credential", stage.Stage)
	require.Equal(t, said, string(stage.Status), "%s: %s %s", name, stage.Rule, stage.Reason)
}

// TestAFollowedAnswerIsTheLast: the key may stand in what the third request answers, and a fourth
// is not made.
func TestAFollowedAnswerIsTheLast(t *testing.T) {
	var paths strings.Builder
	answers := map[string]string{"POST /signup": `{"step":"two"}`}
	for n := range maxFollowed + 1 {
		fmt.Fprintf(&paths, `,"/confirm%d":{"post":{"requestBody":{"content":{"application/json":{
"schema":{"type":"object","required":["step"]}}}}}}`, n)
		answers[fmt.Sprintf("POST /confirm%d", n)] = "{}"
	}
	answers["GET /openapi.json"] = `{"openapi":"3.1.0","paths":{"/signup":{"post":{}}` + paths.String() + `}}`
	s := newSite(t, answers, nil)
	got := follow(t, s.URL, s.URL+"/")
	require.Equal(t, "no_credential_in_answer", got.Code)
	require.Equal(t, []string{"/signup", "/confirm0", "/confirm1", "/confirm2"}, s.paths())
	answers["POST /confirm2"] = `{"key":"k-12345678"}`
	s = newSite(t, answers, nil)
	got = follow(t, s.URL, s.URL+"/")
	require.Equal(t, "key", got.said())
}

// TestTheSameAnswersTheSameRun: what is published twice alike is followed twice alike, with the
// same bodies, the same words and the same end, whichever of several answers came first.
func TestTheSameAnswersTheSameRun(t *testing.T) {
	variants := httptest.NewServer(sampleproduct.Site())
	defer variants.Close()
	for _, v := range sampleproduct.Variants() {
		if v == sampleproduct.Slow {
			continue
		}
		first := follow(t, variants.URL, variants.URL+"/"+string(v)+"/")
		second := follow(t, variants.URL, variants.URL+"/"+string(v)+"/")
		require.Equal(t, first.events, second.events, v)
		require.Equal(t, first.said(), second.said(), v)
	}
	answers := everyWay()
	answers["POST /4"] = `{"a":"a-12345678","b":"b-12345678"}`
	answers["GET /openapi.json"] = strings.Replace(answers["GET /openapi.json"], `"Sign up."`, `"Sign up.",
		"requestBody":{"content":{"application/x-www-form-urlencoded":{"schema":{"type":"object",
		"required":["z","y","x","email","terms"],"properties":{"terms":{"type":"boolean"},
		"x":{"type":"array","minItems":2,"items":{"type":"string"}}}}}}}`, 1)
	s := newSite(t, answers, nil)
	first := follow(t, s.URL, s.URL+"/")
	sent := s.sent
	for range 5 {
		s.sent = nil
		again := follow(t, s.URL, s.URL+"/")
		require.Equal(t, first, again)
		require.Equal(t, sent, s.sent)
	}
	require.Equal(t, "/4 email=tollgate-37ddff8ee1%40agents.example&terms=true&"+
		"x=tollgate-37ddff8ee1&x=tollgate-37ddff8ee1&y=tollgate-37ddff8ee1&z=tollgate-37ddff8ee1", sent[3])
}

// TestRulesAreDocumented: each rule that stops a run stands in DESIGN.md.
func TestRulesAreDocumented(t *testing.T) {
	design, err := os.ReadFile("DESIGN.md")
	require.NoError(t, err)
	named := regexp.MustCompile(`(?:rule:|\.rule(?:, s\.\w+)? =|\.stop\(|\brule[A-Z]\w* +=) "(\w+)"`)
	var rules []string
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	constant := regexp.MustCompile(`(?m)^(?:\t|const )[A-Z]\w* += "(\w+)"`)
	for _, file := range []string{"signup/wanted.go", "fill/fill.go"} {
		source, err := os.ReadFile("../../../inspect/" + file)
		require.NoError(t, err)
		for _, found := range constant.FindAllStringSubmatch(string(source), -1) {
			rules = append(rules, found[1])
		}
	}
	require.Contains(t, rules, fill.Unfillable)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, found := range named.FindAllStringSubmatch(string(source), -1) {
			rules = append(rules, found[1])
		}
	}
	require.Greater(t, len(rules), 25)
	for _, rule := range slices.Compact(slices.Sorted(slices.Values(rules))) {
		require.Contains(t, string(design), "`"+rule+"`", "DESIGN.md has no rule of that name")
	}
}

// TestOwnLimitsBlockNobody: a run that ends because of what this agent may use is not reported as
// blocked.
func TestOwnLimitsBlockNobody(t *testing.T) {
	for _, rule := range ownLimits {
		require.False(t, (&stop{rule: rule}).report().Blocked, rule)
	}
	require.True(t, (&stop{rule: ruleNoKey}).report().Blocked)
	slow := newSite(t, nil, map[string]http.HandlerFunc{"GET /": func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}})
	client, task := clientFor(t, slow.URL, slow.URL+"/")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	run := &session{task: task, emit: func(runner.Event) {}, web: newNetwork(client, task.Hosts)}
	report := run.run(ctx)
	require.Equal(t, ruleTime, report.Code)
	require.False(t, report.Blocked)

	_, why := run.ask(ctx, &fill.Request{Method: "GET", URL: slow.URL + "/"})
	require.Equal(t, ruleTime, why.rule)

	// A product of more addresses than are read, by its redirects.
	special := map[string]http.HandlerFunc{}
	for _, o := range []string{"/openapi.json", "/openapi.yaml", "/swagger.json", "/llms.txt", "/auth.md"} {
		for n := range 5 {
			from, to := fmt.Sprintf("GET /%d%s", n, o), fmt.Sprintf("/%d%s", n+1, o)
			if n == 0 {
				from = "GET " + o
			}
			special[from] = func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, to, http.StatusFound)
			}
		}
	}
	s := newSite(t, nil, special)
	got := follow(t, s.URL, s.URL+"/")
	require.Equal(t, ruleFetches, got.Code, got.Reason)
	require.False(t, got.Blocked)
	require.True(t, got.Reached)
}
