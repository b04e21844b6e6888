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
	return server.Once(x, a.onceCommand(x, kind, payload))
}

func (a *API) onceCommand(
	x *server.Exchange, kind engine.Kind, payload []byte,
) *server.OnceCommand {
	return &server.OnceCommand{
		Env: x.Principal.Env, Realm: "request", Kind: kind, Payload: payload,
		Propose: func(kind engine.Kind, payload []byte) engine.Result {
			return a.propose(x, kind, payload)
		},
	}
}

// keep keeps the answer that x holds, about a customer, under its Idempotency-Key: for answers that
// would be another one later.
func (a *API) keep(x *server.Exchange, customer uint32) {
	server.KeepAnswer(x, a.onceCommand(x, 0, nil), customer)
}

// keyed reports whether the request may be repeated safely.
func keyed(x *server.Exchange) bool {
	return len(x.Ctx.Request.Header.Peek("Idempotency-Key")) > 0
}
