package workspace

import (
	"crypto/sha256"

	state "tollgate/engine/workspace"
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
	if stale, _ := server.Consistency(x); known && !stale { // a stale read waits for nobody
		a.noteUse(&principal)
	}
	if !known || x.Route.Method != "GET" {
		// It may have been made or revoked on another node a moment ago. Reads look again, with the
		// memory that they answer from: see current.
		if !a.fresh() {
			busy := server.Fault{
				Status: 503, Code: "workspace_busy", Message: errorTable["workspace_busy"].message,
				RetryAfter: 1,
			}
			return &busy
		}
		if principal, known = a.machine.Authenticate(hash); !known {
			return a.gone(x, hash, unknown)
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

// gone says of a key that does not work that its workspace was removed, and why, where it was.
func (a *API) gone(x *server.Exchange, hash [32]byte, unknown server.Fault) *server.Fault {
	reason := ""
	switch a.machine.GoneKey(hash) {
	case state.GoneUnused:
		reason = "workspace_unused"
		unknown.Message = "The workspace of this key was removed: nobody had claimed it, and it was " +
			"not used for as long as such a workspace is kept. Sign up again."
	case state.GoneOperator:
		reason = "workspace_removed"
		unknown.Message = "The operator has removed the workspace of this key, which nobody had claimed."
	default:
		return &unknown
	}
	x.More(func(j *server.JSON) { j.Text("reason", reason) })
	return &unknown
}

// current says that the key of a request speaks for its workspace in the memory that is to be
// answered from, which is newer than that in which it was found.
func (a *API) current(x *server.Exchange) bool {
	if x.Tenant.Workspace == 0 {
		return true // an open route
	}
	key, ok := server.PresentedKey(x.Ctx)
	principal, known := a.machine.Authenticate(sha256.Sum256(key))
	return ok && known && principal.KeyID == x.Tenant.KeyID
}
