package client

import (
	"slices"
	"strings"
	"time"

	"tollgate/engine/billing"
	"tollgate/engine/fair"
	"tollgate/server"
	"tollgate/server/ascii"
)

// Caller is whom a key of the client API speaks for.
type Caller billing.Principal

// Reset implements server.Caller.
func (c *Caller) Reset() { *c = Caller{} }

// Flow is the account's.
func (c *Caller) Flow() fair.Flow { return billing.FlowOf(c.Env) }

// principal is whom the request's key speaks for.
func principal(x *server.Exchange) *billing.Principal {
	return (*billing.Principal)(x.Caller.(*Caller))
}

// faultKeyUnknown answers a well-formed key that cannot be looked up now.
var faultKeyUnknown = server.FaultConsistency.With(
	"This node does not know the API key yet. Repeat the request, or ask another node.")

// authenticate finds whom the request's key speaks for, and whether its scope covers the route.
func (a *API) authenticate(x *server.Exchange) *server.Fault {
	key, hash, ok := server.HashedKey(x.Ctx)
	if !ok || !a.rightHost(x, key) {
		return server.FaultKey
	}
	found, known := a.machine.Authenticate(hash)
	if !known {
		// The key may have been made on another node a moment ago, or this node has just started
		// and knows nothing yet. Unless it can find out, the key is not to be called invalid.
		if !server.Fresh(a.reader, a.readDeadline()) {
			return faultKeyUnknown
		}
		if found, known = a.machine.Authenticate(hash); !known {
			return server.FaultKey
		}
	}
	*principal(x) = found
	a.allowOrigin(x)
	if !a.covered(x) {
		return server.FaultScope
	}
	if fault := a.limits.Take(x, found.KeyID); fault != nil {
		return fault
	}
	a.uses.request(found.Env, found.KeyID, found.UsedAt == 0)
	return a.signed(x)
}

// actorHeader names who acts with a key that several people have, as the command line does: what
// the request changes is then recorded as theirs. A program's own requests leave no record.
const (
	actorHeader = "X-Actor"
	maxActor    = 128
)

// unrecorded are writing rows that leave no record of changes, whoever asks: there are as many as
// calls of the customers' programs, and their rows would hide those of people.
var unrecorded = map[string]bool{
	"ingestEventBatch": true,
	"reserve":          true, "settleReservation": true, "extendReservation": true,
}

// signedEvents bounds the single usage events of a key on this node that are recorded as
// somebody's: those that a person sends are, and a program that names somebody hides nothing.
var signedEvents = server.RateLimit{Requests: 60, Window: time.Hour}

// signs reports whether a request of a route may name who acts.
func signs(r *server.Route) bool {
	return r.Method != "GET" && r.Access == server.AccessFull && !unrecorded[r.Operation]
}

var actorParam = server.Param{
	In: "header", Name: actorHeader, Schema: text(1, maxActor),
	About: "who acts, for the record of changes",
}

// signed has the request's changes recorded under the key's name and that of the person it names.
func (a *API) signed(x *server.Exchange) *server.Fault {
	named := x.Ctx.Request.Header.Peek(actorHeader)
	if len(named) == 0 || !signs(x.Route) {
		return nil
	}
	if len(named) > maxActor || !ascii.Printable(string(named)) {
		return server.FieldFault(actorHeader, server.FieldFormat,
			"must be 1–128 visible ASCII characters and spaces")
	}
	if x.Route.Operation == "ingestEvent" && !a.signings.Allows(principal(x).KeyID) {
		return nil
	}
	a.named(x)
	x.Actor += ": " + string(named)
	return nil
}

// covered reports whether the key's scope covers the route. A customer key does so for its own
// customer; of any other it does not even learn whether there is one.
func (a *API) covered(x *server.Exchange) bool {
	p := principal(x)
	switch x.Route.Access {
	case server.AccessFull:
		return p.Scope == billing.ScopeFull
	case server.AccessRead:
		return p.Scope != billing.ScopeCustomer
	}
	return x.Route.Parameters() == 0 || a.own(x, x.Param(0))
}

// own reports whether the key may see this customer: every key but a customer key may.
func (a *API) own(x *server.Exchange, customer []byte) bool {
	p := principal(x)
	return p.Scope != billing.ScopeCustomer ||
		a.machine.CustomerRow(p.Env, customer) == p.CustomerRow
}

// rightHost keeps live keys off the sandbox host and sandbox keys off every other.
func (a *API) rightHost(x *server.Exchange, key []byte) bool {
	prefix := server.KeyPrefix(key)
	if prefix == server.KeyPrefixAdmin {
		return false
	}
	if a.sandboxHost == "" {
		return true
	}
	host := strings.ToLower(string(x.Ctx.Request.Header.Host()))
	sandbox := host == a.sandboxHost
	if name, _, found := strings.Cut(host, ":"); found && !sandbox {
		sandbox = name == a.sandboxHost
	}
	return sandbox ==
		(prefix == server.KeyPrefixSandbox || prefix == server.KeyPrefixCustomerSandbox)
}

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
