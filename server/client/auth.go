package client

import (
	"crypto/sha256"
	"strings"

	"tollgate/engine/billing"
	"tollgate/server"
)

// faultKeyUnknown answers a well-formed key that cannot be looked up now.
var faultKeyUnknown = server.FaultConsistency.With(
	"This node does not know the API key yet. Repeat the request, or ask another node.")

// authenticate finds whom the request's key speaks for, and whether its scope covers the route.
func (a *API) authenticate(x *server.Exchange) *server.Fault {
	key, ok := server.PresentedKey(x.Ctx)
	if !ok || !server.WellFormedKey(key) || !a.rightHost(x, key) {
		return &server.FaultKey
	}
	hash := sha256.Sum256(key)
	principal, known := a.machine.Authenticate(hash)
	if !known {
		// The key may have been made on another node a moment ago, or this node has just started
		// and knows nothing yet. Unless it can find out, the key is not to be called invalid.
		if !server.Fresh(a.reader, a.readDeadline()) {
			return &faultKeyUnknown
		}
		if principal, known = a.machine.Authenticate(hash); !known {
			return &server.FaultKey
		}
	}
	x.Principal = principal
	a.allowOrigin(x)
	if !a.covered(x) {
		return &server.FaultScope
	}
	return a.limits.Take(x, principal.KeyID)
}

// covered reports whether the key's scope covers the route. A customer key does so for its own
// customer; of any other it does not even learn whether there is one.
func (a *API) covered(x *server.Exchange) bool {
	p := &x.Principal
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
	p := &x.Principal
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
