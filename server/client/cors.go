package client

import (
	"slices"

	"tollgate/engine/billing"
	"tollgate/server"
)

// preflight answers the question that a browser asks before it sends a request with a key: without
// one, and so for every account that lists the origin. The request itself is then allowed by the
// account that its key belongs to.
func (a *API) preflight(x *server.Exchange) bool {
	request, answer := &x.Ctx.Request.Header, &x.Ctx.Response.Header
	origin := string(request.Peek("Origin"))
	if origin == "" || len(request.Peek("Access-Control-Request-Method")) == 0 ||
		!a.machine.OriginListed(origin) {
		return false
	}
	answer.Set("Access-Control-Allow-Origin", origin)
	answer.Set("Access-Control-Allow-Methods", "GET, POST")
	answer.Set("Access-Control-Allow-Headers",
		"Authorization, Content-Type, X-API-Key, X-Read-Consistency")
	answer.Set("Access-Control-Max-Age", "600")
	answer.Set("Vary", "Origin, Access-Control-Request-Method")
	x.Status(204)
	return true
}

// allowOrigin lets a page of a listed origin read the answer to a request with a customer key.
// Answers to other keys stay unreadable: those keys do not belong into a browser.
func (a *API) allowOrigin(x *server.Exchange) {
	if principal(x).Scope != billing.ScopeCustomer {
		return
	}
	answer := &x.Ctx.Response.Header
	answer.Set("Vary", "Origin")
	origin := string(x.Ctx.Request.Header.Peek("Origin"))
	if origin == "" || !slices.Contains(a.machine.Origins(principal(x).Env), origin) {
		return
	}
	answer.Set("Access-Control-Allow-Origin", origin)
	answer.Set("Access-Control-Expose-Headers",
		"X-Request-Id, X-Staleness-Ms, RateLimit, RateLimit-Policy, Retry-After")
}
