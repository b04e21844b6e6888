package admin

import (
	"encoding/base64"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/billinglog"
)

const (
	maxNote      = 500
	defaultMoves = 100
	maxMoves     = billing.MaxTransactions

	maxMoveCursor = 200
)

var grantTypes = []string{
	"PLAN_INCLUDED", "PURCHASED", "PROMOTIONAL", "ROLLOVER", "MANUAL", "REFUND",
}

// creditRoutes are the rows about what moves a pool's credits.
func (a *credits) creditRoutes() []server.Route {
	pool := environmentAnd(path("pool", server.UUIDSchema, ""))
	made := []server.Response{{Status: 201, About: "Booked", Data: server.RefTo("Transaction")}}
	amount, note := writtenNumbers.exact, server.May("note", text(0, maxNote))
	return []server.Route{
		{
			Method: "POST", Path: environment + "/pools/{pool}/grants", Operation: "grantCredits",
			Summary: "Add credits to a pool", Access: server.AccessOperator, Handle: a.grantCredits,
			Params: append(pool[:3:3], server.RequestKey),
			Body: server.Object(
				server.Must("amount", amount), server.May("type", server.EnumSchema(grantTypes...)),
				server.May("priority", server.IntSchema(-maxPriority, maxPriority)),
				server.May("expiresAt", server.TimeSchema), note,
			),
			Responses: made,
		},
		{
			Method: "GET", Path: environment + "/pools/{pool}/grants", Operation: "listGrants",
			Summary: "A pool's grants with something left, in the order in which they burn",
			Access:  server.AccessOperator, Handle: a.listGrants, Params: pool,
			Responses: answers(server.ArrayOf(server.RefTo("Grant"))),
		},
		{
			Method: "POST", Path: environment + "/pools/{pool}/deductions",
			Operation: "deductCredits", Summary: "Take credits out of a pool",
			Access: server.AccessOperator, Handle: a.deductCredits,
			Params: append(pool[:3:3], server.RequestKey),
			Body:   server.Object(server.Must("amount", amount), note), Responses: made,
		},
		{
			Method: "GET", Path: environment + "/pools/{pool}/transactions",
			Operation: "listTransactions",
			Summary:   "All of a pool's transactions, newest first",
			Access:    server.AccessOperator, Handle: a.listTransactions,
			Params: append(pool[:3:3],
				inQuery("limit", server.IntSchema(1, maxMoves), "100 when absent"),
				inQuery("cursor", text(1, maxMoveCursor), "nextCursor of the page before")),
			Responses: answers(pageSchema("transactions", "Transaction", maxMoveCursor)),
		},
		{
			Method: "POST", Path: environment + "/transactions/{transaction}/reverse",
			Operation: "reverseTransaction", Summary: "Take a grant or a deduction back, once",
			Access: server.AccessOperator, Handle: a.reverseTransaction,
			Params: environmentAnd(path("transaction", server.UUIDSchema, ""), server.RequestKey),
			Body:   server.Object(note), BodyOptional: true, Responses: made,
		},
	}
}

// onceFault is the answer to a refused command whose id onceIn made: ids that contradict each other
// are a key that was used for something else.
func onceFault(x *server.Exchange, o engine.Outcome) *server.Fault {
	if o == engine.OutcomeIDsContradict && len(x.Ctx.Request.Header.Peek("Idempotency-Key")) > 0 {
		return server.FaultOf(engine.OutcomeRequestKeyReused)
	}
	return server.FaultOf(o)
}

// poolCommand does what commands on a pool begin with: its id, a body, the id of what is made, the
// environment. What is wrong is answered.
func (a *credits) poolCommand(
	x *server.Exchange, what string, read func(w *walk) *server.Fault,
) (env uint32, of, id [16]byte, ok bool) {
	if of, ok = pathUUID(x, 2, what); !ok {
		return env, of, id, false
	}
	var w walk
	env, id, ok = a.onceIn(x, read(&w))
	return env, of, id, ok
}

// grantCredits is POST …/pools/{pool}/grants.
func (a *credits) grantCredits(x *server.Exchange) {
	c := billing.GrantCredits{Type: "MANUAL", Actor: x.By()}
	var ok bool
	c.Env, c.Pool, c.ID, ok = a.poolCommand(x, "the pool's id", func(w *walk) *server.Fault {
		return body(x, w, map[string]reader{
			"type": w.word(&c.Type, grantTypes...), "amount": w.positive(&c.Amount),
			"priority": w.integer(&c.Priority, maxPriority), "note": w.plain(&c.Note, 0, maxNote),
			"expiresAt": func(t *tree, place string) {
				if w.instant(&c.ExpiresAt)(t, place); c.ExpiresAt == 0 {
					c.ExpiresAt = 1 // 0 is never, and 1970 is over
				}
			},
		}, "amount")
	})
	if !ok {
		return
	}
	b := booking{kind: billing.KindGrantCredits, command: &c, env: c.Env, id: c.ID}
	a.book(x, &b, func(v *billing.TransactionView) bool {
		return v.Amount == c.Amount && v.GrantType == c.Type && v.ExpiresAt == c.ExpiresAt &&
			v.Note == c.Note
	})
}

// deductCredits is POST …/pools/{pool}/deductions.
func (a *credits) deductCredits(x *server.Exchange) {
	c := billing.DeductCredits{Actor: x.By()}
	var ok bool
	c.Env, c.Pool, c.ID, ok = a.poolCommand(x, "the pool's id", func(w *walk) *server.Fault {
		return body(x, w, map[string]reader{
			"amount": w.positive(&c.Amount), "note": w.plain(&c.Note, 0, maxNote),
		}, "amount")
	})
	if !ok {
		return
	}
	b := booking{kind: billing.KindDeductCredits, command: &c, env: c.Env, id: c.ID}
	a.book(x, &b, func(v *billing.TransactionView) bool {
		return v.Kind == "DEDUCTION" && v.Amount == c.Amount && v.Note == c.Note
	})
}

// reverseTransaction is POST …/transactions/{transaction}/reverse.
func (a *credits) reverseTransaction(x *server.Exchange) {
	c := billing.ReverseTransaction{Actor: x.By()}
	read := func(w *walk) *server.Fault {
		if len(x.Body) == 0 {
			return nil
		}
		return body(x, w, map[string]reader{"note": w.plain(&c.Note, 0, maxNote)})
	}
	var ok bool
	c.Env, c.Transaction, c.ID, ok = a.poolCommand(x, "the transaction's id", read)
	if !ok {
		return
	}
	b := booking{
		kind: billing.KindReverseTransaction, command: &c, env: c.Env, id: c.ID,
		bring: func() (found bool) {
			original, found := a.leftTransaction(x, c.Env, c.Transaction)
			c.Left = original.Record
			return found
		},
	}
	a.book(x, &b, func(v *billing.TransactionView) bool {
		return v.Kind == "REVERSAL" && v.Of == c.Transaction && v.Note == c.Note
	})
}

// keep keeps the answer that x holds, about a pool; see billinglog.KeepAnswer.
func (a *credits) keep(x *server.Exchange, env uint32, pool [16]byte) {
	view, _ := a.machine.Pool(env, pool)
	customer := a.machine.CustomerRow(env, []byte(view.Customer))
	billinglog.KeepAnswer(x, a.onceCommand(x, env, 0, nil), customer)
}

// booking is a command that books a transaction: in which environment, under which id. bring, where
// it is set, lets the command carry what the journal has of the transaction that it reverses.
type booking struct {
	kind    engine.Kind
	command wire.Fielder
	env     uint32
	id      [16]byte
	bring   func() (found bool)
}

// leftTransaction reads a transaction that has left memory from the journal; what goes wrong is
// answered.
func (a *credits) leftTransaction(
	x *server.Exchange, env uint32, id [16]byte,
) (left billing.LeftTransaction, found bool) {
	if a.events == nil {
		x.Refuse(faultJournal)
		return left, false
	}
	a.read(x, func() *server.Fault {
		var err error
		if left, found, err = a.machine.LeftTransaction(a.events, env, id); err != nil {
			found = false
			a.journalFailed(x, err)
		}
		return nil
	})
	return left, found
}

// book proposes a command that books a transaction, and answers with it. same says that it is what
// the request asks for: under a repeated key it may be what another request asked for.
func (a *credits) book(x *server.Exchange, b *booking, same func(*billing.TransactionView) bool) {
	result, ok := a.make(x, b.env, b.kind, b.command)
	if !ok {
		return
	}
	if result.Outcome == engine.OutcomeTransactionLeft {
		made, repeated := a.leftTransaction(x, b.env, b.id)
		if repeated {
			answerTransaction(x, &made.TransactionView, same)
		}
		if x.Answered() {
			return
		}
		if b.bring != nil && b.bring() {
			if result, ok = a.make(x, b.env, b.kind, b.command); !ok {
				return
			}
		}
		if x.Answered() {
			return
		}
	}
	if result.Outcome != engine.OutcomeDone {
		fault := onceFault(x, result.Outcome)
		switch result.Outcome {
		case engine.OutcomeCreditsInvalid:
			fault = server.FieldFault("expiresAt", server.FieldOutOfRange,
				"must be ahead of the environment's clock")
		case engine.OutcomeCreditsEmpty:
			fault = fault.Saying("The pool's balance does not cover it, and it has a hard limit").
				With("Nothing was changed.")
		}
		x.Refuse(fault)
		return
	}
	var reply billing.TransactionReply
	if err := wire.Decode(result.Value, &reply); err != nil {
		a.log.Error("a transaction's reply does not decode", "error", err)
		x.Refuse(server.FaultInternal)
		return
	}
	answerTransaction(x, &reply.Transaction, same)
	a.keep(x, b.env, reply.Transaction.PoolID)
}

// answerTransaction answers with what a request has booked, if that is what it asks for.
func answerTransaction(
	x *server.Exchange, v *billing.TransactionView, same func(*billing.TransactionView) bool,
) {
	if !same(v) {
		x.Refuse(server.FaultOf(engine.OutcomeRequestKeyReused))
		return
	}
	server.One(x, 201, v, writePoolTransaction)
}

// listGrants is GET …/pools/{pool}/grants.
func (a *credits) listGrants(x *server.Exchange) {
	id, ok := pathUUID(x, 2, "the pool's id")
	if !ok {
		return
	}
	a.environment(x, func(env uint32) *server.Fault {
		grants, found := a.machine.Grants(env, id)
		if !found {
			return server.FaultOf(engine.OutcomePoolUnknown)
		}
		return server.List(x, grants, writeGrant)
	})
}

// listTransactions is GET …/pools/{pool}/transactions.
func (a *credits) listTransactions(x *server.Exchange) {
	id, ok := pathUUID(x, 2, "the pool's id")
	if !ok {
		return
	}
	var w walk
	q := billing.TransactionQuery{Pool: id}
	q.Limit = pageSize(x, &w, defaultMoves, maxMoves)
	if text := string(x.Ctx.QueryArgs().Peek("cursor")); text != "" {
		b, ok := server.Cursor(text)
		if !ok || len(text) > maxMoveCursor || wire.Decode(b, &q.Cursor) != nil {
			w.problem("cursor", server.FieldFormat, "must be nextCursor of the page before")
		}
	}
	if fault := w.fault(); fault != nil {
		x.Refuse(fault)
		return
	}
	if a.events == nil {
		x.Refuse(faultJournal)
		return
	}
	a.environment(x, func(env uint32) *server.Fault {
		q.Env = env
		moved, found, err := a.machine.Transactions(a.events, q)
		if err != nil {
			a.journalFailed(x, err)
			return nil
		}
		if !found {
			return server.FaultOf(engine.OutcomePoolUnknown)
		}
		next := ""
		if moved.More {
			next = base64.RawURLEncoding.EncodeToString(wire.Encode(nil, &moved.Next))
		}
		return server.Page(x, "transactions", moved.List, writePoolTransaction, next)
	})
}
