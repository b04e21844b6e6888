package client

import (
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
)

// once proposes a command in the caller's environment; see server.Once.
func (a *API) once(x *server.Exchange, kind engine.Kind, payload []byte) (
	engine.Result, billing.OnceReply, *server.Fault,
) {
	return server.Once(x, &server.OnceCommand{
		Env: x.Principal.Env, Realm: "request", Kind: kind, Payload: payload,
		Propose: func(kind engine.Kind, payload []byte) engine.Result {
			return a.propose(x, kind, payload)
		},
	})
}

// keyed says that the request may be repeated safely.
func keyed(x *server.Exchange) bool {
	return len(x.Ctx.Request.Header.Peek("Idempotency-Key")) > 0
}
