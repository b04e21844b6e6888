package workspace

import (
	"strings"
	"sync/atomic"

	"tollgate/server"
)

// bare answers a document that was made when the API was.
func (a *API) bare(media string, document *[]byte) func(*server.Exchange) {
	return func(x *server.Exchange) { x.Bare(200, media, *document) }
}

// page1 answers a text about this API.
func (a *API) page1(content string) func(*server.Exchange) {
	body := []byte(strings.ReplaceAll(content, "{base}", strings.TrimSuffix(a.config.PublicURL, "/")))
	return func(x *server.Exchange) { x.Bare(200, "text/plain; charset=utf-8", body) }
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
		for _, name := range r.Scopes.Names() {
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
func (a *API) resource(x *server.Exchange) {
	base := a.config.PublicURL
	j := x.BeginBare()
	j.Open('{')
	j.Text("resource", base)
	j.Text("resource_name", "Tollgate Agent-Task Workspace API")
	j.Array("authorization_servers")
	j.Close(']')
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
	j.Close('}')
	x.EndBare(200)
}

// catalog is GET /.well-known/api-catalog (RFC 9727, a linkset of RFC 9264).
func (a *API) catalog(x *server.Exchange) {
	base := a.config.PublicURL
	var j server.JSON
	j.Open('{')
	j.Array("linkset")
	for _, api := range [...][2]string{
		{"/v1", "/openapi.json"}, {"/api/v1/client", "/api/v1/client/openapi.json"},
	} {
		j.Open('{')
		j.Text("anchor", base+api[0])
		j.Array("service-desc")
		j.Open('{')
		j.Text("href", base+api[1])
		j.Text("type", "application/json")
		j.Close('}')
		j.Close(']')
		j.Close('}')
	}
	j.Close(']')
	j.Close('}')
	x.Bare(200, "application/linkset+json", j)
}

// noSignIn answers /login/identity while no issuer is configured.
func (a *API) noSignIn(x *server.Exchange) { a.refuse(x, no("authentication_not_configured")) }

// feedbacks counts reports, so that the log takes at most one of a hundred beyond the first ones.
var feedbacks atomic.Uint64

// feedback is POST /v1/feedback. What it says is logged, cut short.
func (a *API) feedback(x *server.Exchange) {
	b := open(x, false)
	message, path := b.text("message", 1, longestFeedback), b.text("path", 0, 500)
	status := int64(0)
	if b.has("status") {
		status = b.number("status", 100, 599)
	}
	if refused := b.close(""); refused != nil {
		a.refuse(x, *refused)
		return
	}
	if n := feedbacks.Add(1); n <= 100 || n%100 == 0 {
		a.config.Log.Info("feedback", "request_id", string(x.RequestID()), "path", path,
			"status", status, "message", message[:min(len(message), 200)], "number", n)
	}
	j := x.BeginBare()
	j.Open('{')
	j.Bool("received", true)
	j.Close('}')
	x.EndBare(202)
}

const authText = `# How to get a key

1. POST {base}/v1/signup with {"label": "a name for the workspace"}. No credentials, no person.
   The answer holds the key and a claim code, once. Keep both.
2. Send the key with each request: Authorization: Bearer <key>.
3. A person takes ownership with the claim code, or by approving a purchase. The key keeps working.

Scopes: read, write, run. Choose them with "scopes" at signup; all when omitted. There is no
authorization server and no client-credentials flow.

Routes: {base}/v1/routes   Description: {base}/openapi.json   Stuck? POST {base}/v1/feedback
`

const llmsText = `# Tollgate

> Checks whether an agent can complete a task in a product, and meters usage for billing.

- [How to get a key]({base}/auth.md)
- [Workspace API, OpenAPI 3.1]({base}/openapi.json)
- [Client billing API, OpenAPI 3.0]({base}/api/v1/client/openapi.json)
- [All routes of the workspace API]({base}/v1/routes)
`

const robotsText = `User-agent: *
Allow: /
Disallow: /approve/
`
