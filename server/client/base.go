package client

import (
	"cmp"
	"log/slog"
	"time"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/audit"
	"tollgate/server/billinglog"
	"tollgate/server/billingview"
	"tollgate/server/payments"
)

// base is what the handlers of all subjects use: reads, commands, deadlines, the audit recorder.
type base struct {
	machine  *billing.Machine
	proposer server.Proposer
	reader   server.Reader
	audits   *audit.Recorder
	now      func() time.Time
	log      *slog.Logger

	writeTimeout, readTimeout time.Duration
}

// customers are the rows about customers, what they may use, and their clocks.
type customers struct{ *base }

// subscriptions are the rows about plans and subscriptions.
type subscriptions struct{ *base }

// budgets are the rows about budgets.
type budgets struct{ *base }

// invoices are the rows about invoices and how they are paid.
type invoices struct {
	*base
	payments *payments.Service // nil where no provider is enabled
}

// consistency reads X-Read-Consistency.
func consistency(x *server.Exchange) (stale bool, fault *server.Fault) {
	stale, known := server.Consistency(x)
	if !known {
		return false, server.FieldFault("X-Read-Consistency", server.FieldNotAllowed,
			`must be "stale", or absent`)
	}
	return stale, nil
}

// read runs an answer that is copied out of the node's memory, at the consistency that the request
// asks for. answer may run more than once; it returns a fault, or has written the answer.
func (a *base) read(x *server.Exchange, answer func() *server.Fault) *server.Fault {
	stale, fault := consistency(x)
	if fault != nil {
		return fault
	}
	if stale {
		server.NoteStaleness(x, a.reader)
		return answer()
	}
	step := x.Step("read")
	fault, ok := server.ReadFresh(a.reader, a.readDeadline(), answer)
	step.End()
	if !ok {
		return server.FaultConsistency
	}
	return fault
}

// propose brings one command of a request into the log.
func (a *base) propose(x *server.Exchange, kind engine.Kind, payload []byte) engine.Result {
	records := [1]engine.Record{a.machine.Repeatable(kind, payload, newID)}
	var results [1]engine.Result
	billinglog.Propose(x, a.machine, a.proposer, a.writeDeadline(), records[:], results[:])
	return results[0]
}

func (a *base) writeDeadline() time.Time { return time.Now().Add(a.writeTimeout) }

func (a *base) readDeadline() time.Time { return time.Now().Add(a.readTimeout) }

func (a *base) nowMS() int64 { return a.now().UnixMilli() }

// ofCustomer answers about a customer; see read.
func (a *base) ofCustomer(
	x *server.Exchange, id string, answer func(*billing.CustomerView) *server.Fault,
) *server.Fault {
	return a.read(x, func() *server.Fault {
		customer, found := a.machine.Customer(principal(x).Env, id)
		if !found {
			return server.FaultOf(engine.OutcomeCustomerUnknown)
		}
		return answer(&customer)
	})
}

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

// guard proposes the commands of a request that has no second effect by itself. With an
// Idempotency-Key, another request under the same one is refused.
type guard struct {
	a *base
	x *server.Exchange
	// first is what is kept of the first request's answer.
	first billing.OnceReply
}

func (g *guard) propose(kind engine.Kind, payload []byte) engine.Result {
	if !keyed(g.x) {
		return g.a.propose(g.x, kind, payload)
	}
	r, first, fault := billinglog.Once(g.x, g.a.onceCommand(g.x, kind, payload))
	switch {
	case fault != nil: // answer has refused the key before
		return engine.Result{Outcome: engine.OutcomeUnknown}
	case r.Outcome != engine.OutcomeDone:
		return r
	case first.Repeated && first.Status == 0: // what it was answered is not kept
		return g.a.propose(g.x, kind, payload)
	}
	g.first, r.Value = first, first.Reply
	return r
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

// named has changes recorded under the name of the API key, where no operator asks: its label, or
// how it begins.
func (a *base) named(x *server.Exchange) {
	if x.Actor != "" {
		return
	}
	p := principal(x)
	for _, k := range a.machine.Keys(p.Env) {
		if k.ID == p.KeyID {
			x.Actor = "API key " + cmp.Or(k.Label, k.Hint)
			return
		}
	}
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
	fault := billingview.BudgetFault(server.FaultOfResult(r), r)
	if o := r.Outcome; o == engine.OutcomeOccurredTooEarly || o == engine.OutcomeOccurredTooLate {
		now, earliest, latest := a.machine.UsageWindow(env, a.nowMS())
		at := func(ms int64) string { return string(server.AppendTime(nil, ms)) }
		fault = fault.With("Nothing was recorded. The environment's clock reads " + at(now) +
			": occurredAt must be from " + at(earliest) + " to " + at(latest) + ".")
	}
	return fault
}
