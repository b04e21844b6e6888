package workspaceapi

import (
	"strings"
	"sync/atomic"

	"tollgate/engine/workspace"
	"tollgate/server"
)

// bare answers a document that was made when the API was.
func (a *API) bare(media string, document *[]byte) func(*server.Exchange) *server.Fault {
	return func(x *server.Exchange) *server.Fault { return x.Bare(200, media, *document) }
}

// describe answers the OpenAPI document.
func (a *API) describe(x *server.Exchange) *server.Fault {
	return a.document.Answer(x)
}

// page1 answers a text about this API.
func (a *API) page1(content string) func(*server.Exchange) *server.Fault {
	text := []byte(strings.NewReplacer(
		"{base}", a.publicURL, "{origin}", a.origin()).Replace(content))
	return a.bare("text/plain; charset=utf-8", &text)
}

// home answers the home page.
func (a *API) home(x *server.Exchange) *server.Fault {
	return x.Bare(200, "text/html; charset=utf-8", []byte(homeText))
}

// listRoutes is the body of GET /v1/routes.
func (a *API) listRoutes(routes []server.Route) []byte {
	var j server.JSON
	j.Open('{')
	j.Array("routes")
	for i := range routes {
		r := &routes[i]
		j.Open('{')
		j.Text("method", r.Method)
		j.Text("path", r.Path)
		j.Text("operation", r.Operation)
		j.Text("summary", r.Summary)
		j.Array("scopes")
		for _, name := range workspace.Scopes(r.Scopes).Names() {
			j.String(name)
		}
		j.Close(']')
		j.Close('}')
	}
	j.Close(']')
	j.Close('}')
	return j
}

// resource is GET /.well-known/oauth-protected-resource (RFC 9728). There is no authorization
// server: signup gives the key.
func (a *API) resource(x *server.Exchange) *server.Fault {
	base := a.publicURL
	return x.BareObject(200, func(j *server.JSON) {
		j.Text("resource", base)
		j.Text("resource_name", "Tollgate Agent-Task Workspace API")
		j.Array("scopes_supported")
		for _, name := range anyScope.Names() {
			j.String(name)
		}
		j.Close(']')
		j.Array("bearer_methods_supported")
		j.String("header")
		j.Close(']')
		j.Text("resource_documentation", base+"/auth.md")
		j.Object("endpoints")
		j.Text("signup", base+"/v1/signup")
		j.Text("openapi", base+"/openapi.json")
		j.Text("routes", base+"/v1/routes")
		j.Text("feedback", base+"/v1/feedback")
		j.Close('}')
	})
}

// catalog is GET /.well-known/api-catalog (RFC 9727, a linkset of RFC 9264).
func (a *API) catalog(x *server.Exchange) *server.Fault {
	base := a.publicURL
	link := func(j *server.JSON, to, media string) {
		j.Open('{')
		j.Text("href", base+to)
		j.Text("type", media)
		j.Close('}')
	}
	var j server.JSON
	j.Open('{')
	j.Array("linkset")
	for _, api := range [...][2]string{
		{"/v1", "/openapi.json"}, {"/api/v1/client", "/api/v1/client/openapi.json"},
	} {
		j.Open('{')
		j.Text("anchor", base+api[0])
		j.Array("service-desc")
		link(&j, api[1], "application/json")
		j.Close(']')
		j.Array("service-doc")
		link(&j, "/llms.txt", "text/plain")
		link(&j, "/auth.md", "text/plain")
		j.Close(']')
		j.Close('}')
	}
	j.Close(']')
	j.Close('}')
	return x.Bare(200, "application/linkset+json", j)
}

// feedbacks counts reports, so that the log takes at most one of a hundred beyond the first ones.
var feedbacks atomic.Uint64

// loggedFeedback bounds what the log takes of a report's message, and of its path, in bytes.
const loggedFeedback = 200

// feedback is POST /v1/feedback. What it says is logged without what looks like a key, cut short.
func (a *API) feedback(x *server.Exchange) *server.Fault {
	b := open(x, false)
	message, path := b.text("message", 1, maxFeedback), b.text("path", 0, 500)
	status := int64(0)
	if b.has("status") {
		status = b.number("status", 100, 599)
	}
	if refused := b.close(); refused != nil {
		return refused
	}
	if n := feedbacks.Add(1); n <= 100 || n%100 == 0 {
		a.log.Info("feedback", "request_id", string(x.RequestID()), "status", status,
			"path", cut(masked(path), loggedFeedback),
			"message", cut(masked(message), loggedFeedback), "number", n)
	}
	return x.BareObject(202, func(j *server.JSON) { j.Bool("received", true) })
}

// homeText is the home page: what an agent, or a person, finds at the address alone. It needs no
// script and loads nothing.
const homeText = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Tollgate</title>
<meta property="og:site_name" content="Tollgate">
<meta name="description" content="Tests whether agents can use a product; meters and bills usage.">
<link rel="service-desc" href="/openapi.json" type="application/json">
</head>
<body>
<h1>Tollgate</h1>
<p>Two HTTP APIs over one engine. The workspace API checks whether an agent can complete a task
in a product: save the task, read what a run costs, start it, and let a verification call of ours
decide the outcome. The client API meters usage, decides whether a customer may use a feature,
and bills.</p>
<p>An agent needs no person to begin: one request to /v1/signup creates a workspace and an API
key.</p>
<ul>
<li><a href="/auth.md">How to get an API key</a></li>
<li><a href="/llms.txt">What this is, for agents</a></li>
<li><a href="/openapi.json">Workspace API, OpenAPI 3.1</a></li>
<li><a href="/api/v1/client/openapi.json">Client billing API, OpenAPI 3.0</a></li>
<li><a href="/v1/routes">All routes of the workspace API</a></li>
</ul>
</body>
</html>
`

const authText = `# How to get a key

1. POST {base}/v1/signup with {"label": "a name for the workspace"}. No credentials, no person.
   The answer holds the key and a claim code, once. Keep both.
2. Send the key with each request: Authorization: Bearer <key>.
3. A person takes ownership with the claim code, or by approving a purchase. The key keeps working.

Scopes, chosen with "scopes" at signup and fixed for good; all when omitted, none includes another:
  read   account, usage, flows, quotes, runs, issues, notifications, purchases
  write  save flows, requests and fix notes, inspect products
  run    start and resume runs, buy runs; the only one that spends money
There is no authorization server and no client-credentials flow.

401 invalid_key: the key is missing, malformed, unknown or revoked. 403 insufficient_scope names the
scope in "scope"; to change scopes, sign up again. 403 person_required: only the owner decides this:
approving purchases, raising the cap, replacing keys, alerts, claiming.

POST {base}/v1/keys/self/revoke ends the key that sends it. Only a person replaces keys.

# How to sign in

A key works without signing in. Where this deployment names an identity provider (503
authentication_not_configured where it does not):

- A person opens {base}/login in a browser, and decides at {base}/console: claims, purchases, the
  cap, alerts, keys, links of agents.
- An agent with an identity of its own opens {base}/login/identity?return=/ and follows the
  provider's page, which its mailbox approves. It gets a workspace of its own, or works in the one
  that the owner whom the provider names has given it: GET {base}/v1/session says which, and where
  its link stands.

The session is the cookie that the callback sets. Its value, tg_ses_…, is a bearer on /v1, too; a
write with it needs the header Origin: {origin}. It ends after 12 hours without use, after 7 days,
or by POST {base}/logout; 401 sign_in_required means that it has ended. An agent's session never
charges a card: 402 has "reason": "agent_session".

Routes: {base}/v1/routes   Description: {base}/openapi.json   Stuck? POST {base}/v1/feedback
`

const llmsText = `# Tollgate

> Checks whether an agent can complete a task in a product, and meters usage for billing.

- [How to get a key]({base}/auth.md)
- [Workspace API, OpenAPI 3.1]({base}/openapi.json)
- [Client billing API, OpenAPI 3.0]({base}/api/v1/client/openapi.json)
- [All routes of the workspace API]({base}/v1/routes)
- [The inspection document, field by field]({base}/v1/schema)

## A run, step by step

1. POST /v1/flows saves a task, and how to verify it. Nothing is started.
2. GET /v1/flows/{flow_id}/quote says the price, whether it can run, and a fingerprint.
3. POST /v1/flows/{flow_id}/run with {"fingerprint"} and the header Idempotency-Key starts it. The
   same key again is the same run.
4. GET /v1/runs/{run_id} until status is completed, failed or cancelled. The outcome is decided by
   verification calls of this service, not by what the agent says.

## What a flow says

- access: public (the agent signs up, or needs no account) or test_account (it signs in with what
  the owner has stored for the host: PUT /v1/test-access/{host}, a person).
- verification: {"url", "status", "contains"}. After the run this service calls url without
  credentials; the run has passed where the status is equal (any 2xx where it is left out) and the
  body contains the text. {run_id}, in task and contains, stands for the run's id, so that only this
  run can have made it true: "proof": "run". What was true before is "standing".
- credential: bearer, token or x-api-key. The agent is to obtain a key, and url is called with none,
  two wrong keys, the real one, none. The real key must be accepted, and all others refused;
  contains is optional then. The owner confirms once that an agent may sign up there.
- A quote with "executionAvailable": false has a reason: no_agent (the flow's agent is not
  configured), verification_missing (the flow has none), verification_open (without a key, or with
  a wrong one, the verification gave the right answer, or none), signup_not_confirmed (the owner
  has not said that an agent may sign up there), test_access_missing (no test credentials are
  stored for its host).
- Its preflight says what the verification answered before: refused (401 or 403; of wrong keys: both
  got 401 or 403), unclear (another answer than the right one: a run can pass only if the real key
  is accepted), accepted (the right answer), unknown (none, 429 or 5xx; of wrong keys: to either).

## What a product publishes, without an agent

POST /v1/interface with {"url"} reads it and answers {"run", "inspection", "comparison"} within a
minute: every verdict names its rule and what it rests on. POST /v1/evaluate with {"url", "task"}
says how far an agent would come. GET /v1/runs/{run_id} has the document again, and GET
/v1/runs/{run_id}/suggested-test a call to verify a flow by. With an Idempotency-Key the same
request is the same run.

402 payment_required says what to do in next_action: approve (give approval_url to the owner, poll
poll_url until the purchase has succeeded), purchase (POST /v1/purchases, the saved card pays), wait
(poll poll_url). Then start again with the same key.

Nothing is started or charged by a 402. A key with the scope run spends money, and only within the
monthly cap that the owner has set; approving confirms that an agent may sign up to the product.

## Errors

Errors are {"error": code, "message", "request_id"}: read the code. 503 and 429 carry Retry-After;
after outcome_unknown repeat the request with the same key.

- 400 unexpected_field, invalid_field: "field" names it. credentials_not_allowed: no password or key
  belongs in a flow. invalid_request_key: send Idempotency-Key, 8 to 128 visible ASCII characters.
- 409 quote_changed: read the quote again. flow_busy: the flow has a run that has not ended.
  execution_unavailable: "reason" says why, as the quote does. idempotency_conflict: another key.
- 429 run_limit_reached, cancel_limit, signup_rate_limited: "resetsAt" says when it ends, where time
  ends it.
- Scopes, keys and what needs a person, and how a person or an agent signs in: {base}/auth.md
`

const robotsText = `User-agent: *
Allow: /
Disallow: /approve/
`
