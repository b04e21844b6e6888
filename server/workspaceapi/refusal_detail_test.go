package workspaceapi

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine/workspace"
)

// extras are the fields that an error of a code carries beside error, message and request_id.
var extras = map[string][]string{
	"invalid_field": {"field"}, "unexpected_field": {"field"}, "invalid_url": {"field"},
	"invalid_access": {"field"}, "invalid_flow_options": {"field"}, "insufficient_scope": {"scope"},
	"insufficient_credits": {"required", "balance"}, "execution_unavailable": {"reason"},
	"payment_required":    {"next_action", "approval_url", "poll_url", "purchase"},
	"cancel_limit":        {"resetsAt"},
	"run_limit_reached":   {"limit", "resetsAt", "contact"},
	"signup_rate_limited": {"resetsAt"}, "free_capacity_exhausted": {"resetsAt"},
}

// carries checks what an error of this code has beside its code and message: fields and headers.
func (a answer) carries(code string) {
	a.t.Helper()
	for _, name := range extras[code] {
		require.Contains(a.t, a.body, name, string(a.raw))
	}
	if slices.Contains(extras[code], "resetsAt") {
		_, err := time.Parse(time.RFC3339, a.at("resetsAt").(string))
		require.NoError(a.t, err)
		after, err := strconv.Atoi(a.header.Get("Retry-After"))
		require.NoError(a.t, err, "it ends by itself, so it says when")
		require.Positive(a.t, after)
	}
	if a.status == 405 {
		require.NotEmpty(a.t, a.header.Get("Allow"))
	}
}

// TestAllowNamesTheMethods: of every path, another method than its own is 405 with those that it
// takes, with a key or without one.
func TestAllowNamesTheMethods(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	methods := map[string][]string{}
	for _, g := range grants() {
		methods[g.path] = append(methods[g.path], g.method)
	}
	for path, taken := range methods {
		slices.Sort(taken)
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			if slices.Contains(taken, method) {
				continue
			}
			a := n.send(method, filled(path), "", "", nil).is(405, "method_not_allowed")
			require.Equal(t, strings.Join(taken, ", "), a.header.Get("Allow"), "%s %s", method, path)
		}
	}
	c.call("DELETE", "/v1/account", "").is(405, "method_not_allowed")
}

// TestRefusalsNameTheField: which of a body's fields was wrong, or should not be there.
func TestRefusalsNameTheField(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	ids := c.everything()
	replaced := func(old, new string) string {
		body := strings.Replace(plainFlow, old, new, 1)
		require.NotEqual(t, plainFlow, body)
		return body
	}
	verified := func(inner string) string {
		return `{` + flowText + `,"verification":{` + inner + `}}`
	}
	long := strings.Repeat("é", 2001)
	flow, issue := "/v1/flows/"+ids["flow"], "/v1/issues/"+ids["iss"]
	wants := map[string]string{ // what a person reads
		"POST /v1/signup {}":                                                                     "label is required.",
		`POST /v1/signup {"label":" "}`:                                                          "label must not be blank.",
		`POST /v1/signup {"label":"` + long[:162] + `"}`:                                         "label must have at most 80 characters.",
		"POST /v1/flows " + replaced(`"Sign up"`, `5`):                                           "name must be a string, not a number.",
		"POST /v1/flows " + replaced(`"Sign up"`, `null`):                                        "name must not be null.",
		"POST /v1/flows " + replaced(`"Sign up"`, `""`):                                          "name must not be empty.",
		"POST /v1/flows " + verified(`"url":"https://a.example/","status":"200","contains":"x"`): "verification.status must be a number, not a string.",
		"POST /v1/flows " + verified(`"url":"https://a.example/","status":200.5,"contains":"x"`): "verification.status must be a whole number from 100 to 599.",
		"POST /v1/billing/pause {}":                                                              "paused is required.",
		`POST /v1/billing/pause {"paused":"true"}`:                                               "paused must be a boolean, not a string.",
		"POST /v1/purchases {}":                                                                  "runs is required.",
		`POST /v1/purchases {"runs":0}`:                                                          "runs must be a whole number from 1 to 10.",
		"GET /v1/runs?limit=101 ":                                                                "limit must be a whole number from 1 to 100.",
	}
	for _, row := range []struct{ method, path, body, code, field string }{
		{"POST", "/v1/signup", `{}`, "invalid_field", "label"},
		{"POST", "/v1/signup", `{"label":"` + long[:162] + `"}`, "invalid_field", "label"},
		{"POST", "/v1/signup", `{"label":" "}`, "invalid_field", "label"},
		{"POST", "/v1/signup", `{"label":" \t\n\u00a0\u200b\u2060\u3000"}`, "invalid_field", "label"},
		{"POST", "/v1/signup", `{"label":"\u3164\u2800"}`, "invalid_field", "label"},
		{"POST", "/v1/flows", replaced(`"Sign up"`, `"  "`), "invalid_field", "name"},
		{"POST", "/v1/flows", replaced(`"Sign up."`, `"\n"`), "invalid_field", "task"},
		{"POST", "/v1/flows", verified(`"url":"https://a.example/","contains":" "`), "invalid_field", "verification.contains"},
		{"POST", "/v1/feedback", `{"message":" "}`, "invalid_field", "message"},
		{"POST", "/v1/purchases", `{}`, "invalid_field", "runs"},
		{"POST", "/v1/purchases", `{"runs":0}`, "invalid_field", "runs"},
		{"POST", "/v1/purchases", `{"runs":"1","zoo":1,"ape":1}`, "unexpected_field", "ape"},
		{"PATCH", issue, `{"status":"fix_ready","note":" \u200b"}`, "invalid_note", "note"},
		{"POST", "/v1/signup", `{"label":"x","scopes":"read"}`, "invalid_field", "scopes"},
		{"POST", "/v1/signup", `{"label":"x","scopes":["read","all"]}`, "invalid_field", "scopes"},
		{"POST", "/v1/signup", `{"label":"x","scopes":[1]}`, "invalid_field", "scopes"},
		{"POST", "/v1/signup", `{"label":"x","email":"a@b.c"}`, "unexpected_field", "email"},
		{"POST", "/v1/flows", replaced(`"name":"Sign up",`, ``), "invalid_field", "name"},
		{"POST", "/v1/flows", replaced(`"Sign up"`, `""`), "invalid_field", "name"},
		{"POST", "/v1/flows", replaced(`"Sign up"`, `5`), "invalid_field", "name"},
		{"POST", "/v1/flows", replaced(`"Sign up"`, `null`), "invalid_field", "name"},
		{"POST", "/v1/flows", replaced(`"Sign up"`, `"`+long[:242]+`"`), "invalid_field", "name"},
		{"POST", "/v1/flows", replaced(`"Sign up."`, `"`+long+`"`), "invalid_field", "task"},
		{"POST", "/v1/flows", replaced(`"There is an account."`, `"`+long[:2002]+`"`), "invalid_field", "successCriteria"},
		{"POST", "/v1/flows", replaced(`"url":"https://product.example/",`, ``), "invalid_field", "url"},
		{"POST", "/v1/flows", replaced(`https://product.example/"`, `product.example"`), "invalid_url", "url"},
		{"POST", "/v1/flows", replaced(`"public"`, `"secret"`), "invalid_access", "access"},
		{"POST", "/v1/flows", verified(`"contains":"x"`), "invalid_field", "verification.url"},
		{"POST", "/v1/flows", verified(`"url":"https://10.0.0.1/","contains":"x"`), "invalid_url", "verification.url"},
		{"POST", "/v1/flows", verified(`"url":"https://a.example/","status":"200","contains":"x"`), "invalid_field", "verification.status"},
		{"POST", "/v1/flows", verified(`"url":"https://a.example/","status":200.5,"contains":"x"`), "invalid_field", "verification.status"},
		{"POST", "/v1/flows", verified(`"url":"https://a.example/","contains":"` + long[:1002] + `"`), "invalid_field", "verification.contains"},
		{"POST", "/v1/flows", verified(`"url":"https://a.example/","contains":"x","more":1`), "unexpected_field", "verification.more"},
		{"POST", "/v1/flows", verified(`"url":"https://a.example/"`), "invalid_flow_options", "verification"},
		{"POST", "/v1/flows", `{` + flowText + `,"credential":"bearer"}`, "invalid_flow_options", "credential"},
		{"POST", "/v1/flows", `{` + flowText + `,"verification":[]}`, "invalid_field", "verification"},
		{"PATCH", flow, `{"name":""}`, "invalid_field", "name"},
		{"PATCH", flow, `{"colour":"red"}`, "unexpected_field", "colour"},
		{"POST", flow + "/run", `{"fingerprint":"x","agent":"nop"}`, "unexpected_field", "agent"},
		{"POST", "/v1/run-requests", `{}`, "invalid_field", "flowId"},
		{"POST", "/v1/run-requests", `{"flowId":"run_1"}`, "invalid_id", "flowId"},
		{"POST", "/v1/run-requests", `{"flowId":"` + ids["flow"] + `","url":"x"}`, "invalid_url", "url"},
		{"POST", "/v1/run-requests", `{"flowId":"` + ids["flow"] + `","note":"x"}`, "unexpected_field", "note"},
		{"PATCH", issue, `{"status":"open","note":"x"}`, "invalid_status", "status"},
		{"PATCH", issue, `{"status":"fix_ready","note":""}`, "invalid_note", "note"},
		{"PATCH", issue, `{"status":"fix_ready","note":"` + long + `"}`, "invalid_note", "note"},
		{"PATCH", issue, `{"status":"fix_ready","note":"x","by":"me"}`, "unexpected_field", "by"},
		{"POST", "/v1/purchases", `{"runs":0}`, "invalid_field", "runs"},
		{"POST", "/v1/purchases", `{"runs":-1}`, "invalid_field", "runs"},
		{"POST", "/v1/purchases", `{"runs":11}`, "invalid_field", "runs"},
		{"POST", "/v1/purchases", `{"runs":1.5}`, "invalid_field", "runs"},
		{"POST", "/v1/purchases", `{"runs":"1"}`, "invalid_field", "runs"},
		{"POST", "/v1/purchases", `{"runs":1,"card":"x"}`, "unexpected_field", "card"},
		{"POST", "/v1/billing/pause", `{}`, "invalid_field", "paused"},
		{"POST", "/v1/billing/pause", `{"paused":"true"}`, "invalid_field", "paused"},
		{"POST", "/v1/billing/pause", `{"paused":true,"workspace":"x"}`, "unexpected_field", "workspace"},
		{"POST", "/v1/billing/cap", `{"capCents":-1}`, "invalid_field", "capCents"},
		{"POST", "/v1/billing/cap", `{"capCents":20001}`, "invalid_field", "capCents"},
		{"POST", "/v1/billing/cap", `{"capCents":0.5}`, "invalid_field", "capCents"},
		{"POST", "/v1/billing/cap", `{"capCents":1,"workspace":"x"}`, "unexpected_field", "workspace"},
		{"POST", "/v1/feedback", `{"path":"/"}`, "invalid_field", "message"},
		{"POST", "/v1/feedback", `{"message":"` + long + `"}`, "invalid_field", "message"},
		{"POST", "/v1/feedback", `{"message":"x","status":99}`, "invalid_field", "status"},
		{"POST", "/v1/feedback", `{"message":"x","mail":"a@b.c"}`, "unexpected_field", "mail"},
		{"POST", "/v1/local-runs/" + ids["run"] + "/finish", `{"outcome":"won"}`, "invalid_field", "outcome"},
		{"GET", "/v1/runs?limit=101", ``, "invalid_field", "limit"},
		{"GET", "/v1/runs?cursor=" + ids["flow"], ``, "invalid_field", "cursor"},
	} {
		a := c.send(row.method, row.path, row.body, c.key, map[string]string{"Idempotency-Key": "some-key-1"})
		require.Equal(t, 400, a.status, "%s %s %.200s: %s", row.method, row.path, row.body, a.raw)
		a.is(400, row.code)
		require.Equal(t, row.field, a.body["field"], "%s %s %.200s", row.method, row.path, row.body)
		if says := wants[row.method+" "+row.path+" "+row.body]; says != "" {
			require.Equal(t, says, a.body["message"])
			delete(wants, row.method+" "+row.path+" "+row.body)
		}
	}
	require.Empty(t, wants)
	require.Len(t, c.call("GET", "/v1/flows", "").at("flows"), 1, "nothing was saved")
}

// TestLongestTexts: as many characters as the decisions page gives are taken.
func TestLongestTexts(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	of := func(characters int) string { return strings.Repeat("é", characters) }
	n.send("POST", "/v1/signup", `{"label":"`+of(80)+`"}`, "", nil).is(201, "")
	n.send("POST", "/v1/signup", `{"label":"`+of(81)+`"}`, "", nil).is(400, "invalid_field")
	flow := func(name, task, criteria, contains int) answer {
		return c.call("POST", "/v1/flows", fmt.Sprintf(`{"name":%q,"url":"https://product.example/",`+
			`"task":%q,"successCriteria":%q,"access":"public","verification":{`+
			`"url":"https://product.example/me","contains":%q}}`,
			of(name), of(task), of(criteria), of(contains)))
	}
	a := flow(120, 2000, 1000, 500).is(201, "")
	require.Equal(t, of(2000), a.at("flow", "task"))
	require.Equal(t, of(500), a.at("flow", "verification", "contains"))
	for _, sizes := range [][4]int{{121, 1, 1, 1}, {1, 2001, 1, 1}, {1, 1, 1001, 1}, {1, 1, 1, 501}} {
		flow(sizes[0], sizes[1], sizes[2], sizes[3]).is(400, "invalid_field")
	}
	n.send("POST", "/v1/feedback", `{"message":"`+of(2000)+`"}`, "", nil).is(202, "")
	issue := "/v1/issues/" + c.everything()["iss"]
	c.call("PATCH", issue, `{"status":"fix_ready","note":"`+of(2001)+`"}`).is(400, "invalid_note")
	note := c.call("PATCH", issue, `{"status":"fix_ready","note":"`+of(2000)+`"}`).is(200, "")
	require.Equal(t, of(2000), note.at("issue", "note"))
}

// TestBodiesOf32KB: a body of 32,768 bytes is taken and one of 32,769 is not, announced or in
// chunks; what is too large is not read further than that.
func TestBodiesOf32KB(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	padded := func(size int) string { return plainFlow + strings.Repeat(" ", size-len(plainFlow)) }
	chunked := func(body string) answer {
		conn, err := net.Dial("tcp", n.addr)
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close()) }()
		_, err = fmt.Fprintf(conn, "POST /v1/flows HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
			"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", c.key, len(body), body)
		require.NoError(t, err)
		return readAnswer(t, bufio.NewReader(conn))
	}
	const limit = 32 * 1024
	c.call("POST", "/v1/flows", padded(limit)).is(201, "")
	chunked(padded(limit)).is(201, "")
	c.call("POST", "/v1/flows", padded(limit+1)).is(413, "request_too_large")
	chunked(padded(limit+1)).is(413, "request_too_large")
	require.Len(t, c.call("GET", "/v1/flows", "").at("flows"), 2)
	for _, g := range grants() {
		if g.method == "GET" || g.path == "/approve/{token}" {
			continue
		}
		a := c.call(g.method, filled(g.path), padded(limit+1))
		require.Equal(t, 413, a.status, "%s %s", g.method, g.path)
	}
	c.call("GET", "/v1/account", "").is(200, "")
}

// atHour moves the clock on to an hour of a later UTC day.
func (n *node) atHour(hour, minute int) time.Time {
	now := n.Now().UTC()
	at := time.Date(now.Year(), now.Month(), now.Day()+1, hour, minute, 0, 0, time.UTC)
	n.Later(at.Sub(now))
	return at
}

// TestLimitsEndAtMidnight: what a day limits says the next UTC midnight and in how many seconds it
// is, refuses until then, and is open again from then on.
func TestLimitsEndAtMidnight(t *testing.T) {
	n := start(t)
	n.policy(func(p *workspace.SetPolicy) {
		p.RunsPerDay, p.FreeRunsPerDay, p.LocalRunsPerDay, p.FreeRunsPerMonth = 1, 1, 1, 100
	})
	c, other := n.signUp(""), n.signUp("")
	c.claim()
	other.claim()
	at := n.atHour(23, 30)
	flow, theirs := c.flow(plainFlow), other.flow(plainFlow)
	c.finished(c.start(flow, "start-one").is(202, "").at("run", "id").(string))
	c.call("POST", "/v1/local-runs", `{}`).is(201, "")
	c.cancels(workspace.MaxCancelsPerDay)
	tries := map[string]func() answer{
		"run_limit_reached":       func() answer { return c.start(flow, "start-two") },
		"free_capacity_exhausted": func() answer { return other.start(theirs, "start-two") },
		"cancel_limit":            c.cancelNewest,
		"local":                   func() answer { return c.call("POST", "/v1/local-runs", `{}`) },
	}
	midnight := time.Date(at.Year(), at.Month(), at.Day()+1, 0, 0, 0, 0, time.UTC)
	refused := func() {
		for code, try := range tries {
			earliest := midnight.Sub(n.Now())
			a := try()
			latest := midnight.Sub(n.Now())
			require.Contains(t, []int{429, 503}, a.status, "%s: %s", code, a.raw)
			if code != "local" {
				a.is(a.status, code)
			}
			require.Equal(t, midnight.Format("2006-01-02T15:04:05.000Z"), a.at("resetsAt"), code)
			seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
			require.NoError(t, err, code)
			require.LessOrEqual(t, float64(seconds), earliest.Seconds()+1, code)
			require.GreaterOrEqual(t, float64(seconds), latest.Seconds(), code)
		}
	}
	refused()
	n.Later(20 * time.Minute)
	refused()
	n.Later(midnight.Sub(n.Now()))
	for code, try := range tries {
		a := try()
		require.Less(t, a.status, 300, "%s: %s", code, a.raw)
		n.policy(func(p *workspace.SetPolicy) { p.FreeRunsPerDay = 100 })
	}
}

// cancels cancels purchases one after the other, and leaves one that waits.
func (c *caller) cancels(times int) {
	c.t.Helper()
	for range times {
		c.keyed("/v1/purchases", "buy-"+rand8(), `{"runs":1}`).is(402, "payment_required")
		c.cancelNewest().is(200, "")
	}
	c.keyed("/v1/purchases", "buy-"+rand8(), `{"runs":1}`).is(402, "payment_required")
}

func (c *caller) cancelNewest() answer {
	newest := c.call("GET", "/v1/purchases?limit=1", "").at("purchases").([]any)[0].(map[string]any)
	return c.call("POST", "/v1/purchases/"+newest["id"].(string)+"/cancel", "")
}

// TestSignupsAnHour: the limit is of an address and an hour from its first signup.
func TestSignupsAnHour(t *testing.T) {
	n := start(t)
	for range 10 {
		n.signUp("")
	}
	again := func() answer { return n.send("POST", "/v1/signup", `{"label":"x"}`, "", nil) }
	a := again().is(429, "signup_rate_limited")
	seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
	require.NoError(t, err)
	require.InDelta(t, 3600, seconds, 600)
	n.Later(time.Duration(seconds-600) * time.Second)
	again().is(429, "signup_rate_limited")
	n.Later(601 * time.Second)
	again().is(201, "")
}

// TestNoRouteTakesUnknownFields: of every route that has a body, and of those that need none.
func TestNoRouteTakesUnknownFields(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := n.signUp("")
	ids := c.everything()
	c.twice(ids)
	fingerprint := c.quote(ids["flow"])["fingerprint"].(string)
	asked := 0
	before := c.shown(ids)
	for _, g := range grants() {
		if g.method == "GET" || g.method == "DELETE" || g.path == "/approve/{token}" {
			continue
		}
		if g.path == "/logout" {
			continue // a form, of server/identity
		}
		path := filled(g.path)
		mark := path[strings.LastIndex(path[:max(strings.IndexByte(path, '_'), 0)], "/")+1:]
		mark, _, _ = strings.Cut(mark, "_")
		if strings.Contains(g.path, "{") && !g.session {
			path = parameter.ReplaceAllString(g.path, ids[mark])
		}
		body := map[string]string{
			"POST /v1/signup": `{"label":"x"}`, "POST /v1/feedback": `{"message":"x"}`,
			"POST /v1/flows": plainFlow, "PATCH /v1/flows/{flow_id}": `{"name":"x"}`,
			"POST /v1/flows/{flow_id}/run": `{"fingerprint":"` + fingerprint + `"}`,
			"POST /v1/run-requests":        `{"flowId":"` + ids["flow"] + `"}`,
			"PATCH /v1/issues/{id}":        `{"status":"fix_ready","note":"x"}`,
			"POST /v1/purchases":           `{"runs":1}`, "POST /v1/billing/pause": `{"paused":true}`,
			"POST /v1/billing/cap":            `{"capCents":1}`,
			"POST /v1/local-runs/{id}/finish": `{"outcome":"passed"}`,
		}[g.method+" "+g.path]
		body = strings.TrimPrefix(body, "{")
		if body == "" {
			body = "}"
		} else {
			body = "," + body
		}
		a := c.send(g.method, path, `{"zebra":1`+body, c.key, map[string]string{"Idempotency-Key": "the-key-9"})
		asked++
		if a.status == 403 {
			a.is(403, "person_required") // whatever the body says
			continue
		}
		require.Equal(t, 400, a.status, "%s %s: %s", g.method, g.path, a.raw)
		a.is(400, "unexpected_field")
		require.Equal(t, "zebra", a.at("field"), "%s %s", g.method, g.path)
	}
	require.Greater(t, asked, 20)
	require.Equal(t, before, c.shown(ids), "nothing was changed")
	c.call("GET", "/v1/account", "").is(200, "")
}
