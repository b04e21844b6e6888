package workspace

import (
	"crypto/sha256"

	"tollgate/server"
)

// authenticate finds whom the request's key speaks for, and whether its scopes cover the route.
func (a *API) authenticate(x *server.Exchange) *server.Fault {
	unknown := server.Fault{
		Status: 401, Code: "invalid_key", Message: errorTable["invalid_key"].message,
	}
	key, ok := server.PresentedKey(x.Ctx)
	if !ok || !server.WellFormedKey(key) || server.KeyPrefix(key) != server.KeyPrefixWorkspace {
		return &unknown
	}
	hash := sha256.Sum256(key)
	principal, known := a.machine.Authenticate(hash)
	if !known {
		// It may have been made on another node a moment ago: ask before calling it invalid.
		if !a.fresh() {
			busy := server.Fault{
				Status: 503, Code: "workspace_busy", Message: errorTable["workspace_busy"].message,
				RetryAfter: 1,
			}
			return &busy
		}
		if principal, known = a.machine.Authenticate(hash); !known {
			return &unknown
		}
	}
	x.Tenant = principal
	if principal.Scopes&x.Route.Scopes == 0 {
		needed := x.Route.Scopes.Names()[0]
		x.More(func(j *server.JSON) { j.Text("scope", needed) })
		return &server.Fault{
			Status: 403, Code: "insufficient_scope",
			Message: "The key lacks the scope " + needed + ".",
		}
	}
	return nil
}
