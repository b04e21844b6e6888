package client

import (
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/billinglog"
)

// once proposes a command in the caller's environment; see billinglog.Once.
func (a *base) once(x *server.Exchange, kind engine.Kind, c wire.Fielder) (
	engine.Result, billing.OnceReply, *server.Fault,
) {
	return billinglog.Once(x, a.onceCommand(x, kind, wire.Encode(nil, c)))
}

func (a *base) onceCommand(
	x *server.Exchange, kind engine.Kind, payload []byte,
) *billinglog.OnceCommand {
	return &billinglog.OnceCommand{
		Env: principal(x).Env, Realm: "request", Kind: kind, Payload: payload,
		Propose: func(kind engine.Kind, payload []byte) engine.Result {
			return a.propose(x, kind, payload)
		},
	}
}

// keep keeps the answer that x holds, about a customer, under its Idempotency-Key: for answers that
// would be another one later.
func (a *base) keep(x *server.Exchange, customer uint32) *server.Fault {
	return billinglog.KeepAnswer(x, a.onceCommand(x, 0, nil), customer)
}

// keyed reports whether the request may be repeated safely.
func keyed(x *server.Exchange) bool {
	return len(x.Ctx.Request.Header.Peek("Idempotency-Key")) > 0
}

// carryOut proposes a command whose success has no data.
func (a *base) carryOut(x *server.Exchange, kind engine.Kind, c wire.Fielder) *server.Fault {
	if result := a.propose(x, kind, wire.Encode(nil, c)); result.Outcome != engine.OutcomeDone {
		return server.FaultOf(result.Outcome)
	}
	return x.Succeed(200)
}

// carryOutOnce is carryOut for a request that may have an Idempotency-Key.
func (a *base) carryOutOnce(x *server.Exchange, kind engine.Kind, c wire.Fielder) *server.Fault {
	result, _, fault := a.once(x, kind, c)
	if fault == nil && result.Outcome != engine.OutcomeDone {
		fault = server.FaultOf(result.Outcome)
	}
	if fault != nil {
		return fault
	}
	return x.Succeed(200)
}

// refusal is the answer to a usage event that was not recorded. One that is out of time learns the
// environment's clock: a test clock may be years ahead of the sender's.
func (a *base) refusal(env uint32, r engine.Result) *server.Fault {
	fault := server.FaultOfResult(r)
	if o := r.Outcome; o == engine.OutcomeOccurredTooEarly || o == engine.OutcomeOccurredTooLate {
		now, earliest, latest := a.machine.UsageWindow(env, a.nowMS())
		at := func(ms int64) string { return string(server.AppendTime(nil, ms)) }
		fault = fault.With("Nothing was recorded. The environment's clock reads " + at(now) +
			": occurredAt must be from " + at(earliest) + " to " + at(latest) + ".")
	}
	return fault
}
