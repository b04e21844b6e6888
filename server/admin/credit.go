package admin

import (
	"cmp"
	"encoding/base64"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/billinglog"
	"tollgate/server/form"
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
	const pool = environment + "/pools/{pool}"
	made := server.Gives(201, "Booked", server.RefTo("Transaction"))
	return []server.Route{
		row("POST", pool+"/grants", "grantCredits", "Add credits to a pool", of(a.grantCredits), keyed,
			server.Takes(server.DocumentSchema[grantRequest](
				server.May("priority", server.IntSchema(-maxPriority, maxPriority)))), made),
		row("GET", pool+"/grants", "listGrants",
			"A pool's grants with something left, in the order in which they burn",
			a.one(a.listGrants), answers(server.ArrayOf(server.RefTo("Grant")))),
		row("POST", pool+"/deductions", "deductCredits", "Take credits out of a pool",
			of(a.deductCredits), keyed,
			server.Takes(server.DocumentSchema[billing.DeductCredits]()), made),
		row("GET", pool+"/transactions", "listTransactions", "All of a pool's transactions, newest first",
			of(a.listTransactions), pages("transactions", "Transaction", maxMoves, "100", maxMoveCursor)),
		row("POST", environment+"/transactions/{transaction}/reverse", "reverseTransaction",
			"Take a grant or a deduction back, once", of(a.reverseTransaction), keyed,
			server.MayTake(server.DocumentSchema[billing.ReverseTransaction]()), made),
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

// grantRequest is the body of POST …/grants.
//
//schema:described admin GrantRequest
type grantRequest struct {
	Amount   decimal.Decimal `json:"amount" rule:"required"`
	Type     string          `json:"type" rule:"oneof=PLAN_INCLUDED|PURCHASED|PROMOTIONAL|ROLLOVER|MANUAL|REFUND"`
	Priority int64           `json:"priority"`
	// ExpiresAt is absent where the credits live for good.
	ExpiresAt int64  `json:"expiresAt" as:"time"`
	Note      string `json:"note" rule:"max=500"`
}

func (a *credits) grantCredits(x *server.Exchange, pool [16]byte) (fault *server.Fault) {
	c := billing.GrantCredits{Type: "MANUAL", Pool: pool, Actor: x.By()}
	var w walk
	c.Env, c.ID, fault = a.onceIn(x, body(x, &w, map[string]reader{
		"type": w.word(&c.Type, grantTypes...), "amount": w.positive(&c.Amount),
		"priority": w.integer(&c.Priority, maxPriority), "note": w.plain(&c.Note, 0, maxNote),
		"expiresAt": func(t *tree, place string) {
			if w.instant(&c.ExpiresAt)(t, place); c.ExpiresAt == 0 {
				c.ExpiresAt = 1 // 0 is never, and 1970 is over
			}
		},
	}, "amount"))
	if fault != nil {
		return fault
	}
	b := booking{kind: billing.KindGrantCredits, command: &c, env: c.Env, id: c.ID}
	return a.book(x, &b, func(v *billing.TransactionView) bool {
		return v.Amount == c.Amount && v.GrantType == c.Type && v.ExpiresAt == c.ExpiresAt &&
			v.Note == c.Note
	})
}

func (a *credits) deductCredits(x *server.Exchange, pool [16]byte) (fault *server.Fault) {
	c := billing.DeductCredits{Pool: pool, Actor: x.By()}
	var w walk
	c.Env, c.ID, fault = a.onceIn(x, tagged(x, &w, &c, map[string]reader{
		"amount": w.positive(&c.Amount),
	}))
	if fault != nil {
		return fault
	}
	b := booking{kind: billing.KindDeductCredits, command: &c, env: c.Env, id: c.ID}
	return a.book(x, &b, func(v *billing.TransactionView) bool {
		return v.Kind == "DEDUCTION" && v.Amount == c.Amount && v.Note == c.Note
	})
}

func (a *credits) reverseTransaction(x *server.Exchange, id [16]byte) (fault *server.Fault) {
	c := billing.ReverseTransaction{Transaction: id, Actor: x.By()}
	if len(x.Body) > 0 {
		var w walk
		fault = tagged(x, &w, &c, nil)
	}
	if c.Env, c.ID, fault = a.onceIn(x, fault); fault != nil {
		return fault
	}
	b := booking{
		kind: billing.KindReverseTransaction, command: &c, env: c.Env, id: c.ID,
		bring: func() (found bool, fault *server.Fault) {
			original, found, fault := a.leftTransaction(x, c.Env, c.Transaction)
			c.Left = original.Record
			return found, fault
		},
	}
	return a.book(x, &b, func(v *billing.TransactionView) bool {
		return v.Kind == "REVERSAL" && v.Of == c.Transaction && v.Note == c.Note
	})
}

// keep keeps the answer that x holds, about a pool; see billinglog.KeepAnswer.
func (a *credits) keep(x *server.Exchange, env uint32, pool [16]byte) *server.Fault {
	view, _ := a.machine.Pool(env, pool)
	customer := a.machine.CustomerRow(env, []byte(view.Customer))
	return billinglog.KeepAnswer(x, a.onceCommand(x, env, 0, nil), customer)
}

// booking is a command that books a transaction: in which environment, under which id. bring, where
// it is set, lets the command carry what the journal has of the transaction that it reverses.
type booking struct {
	kind    engine.Kind
	command wire.Fielder
	env     uint32
	id      [16]byte
	bring   func() (found bool, fault *server.Fault)
}

// leftTransaction reads a transaction that has left memory from the journal.
func (a *credits) leftTransaction(x *server.Exchange, env uint32, id [16]byte) (
	left billing.LeftTransaction, found bool, fault *server.Fault,
) {
	if fault = a.noJournal(); fault != nil {
		return left, false, fault
	}
	fault = a.read(x, func() (fault *server.Fault) {
		var err error
		if left, found, err = a.machine.LeftTransaction(a.events, env, id); err != nil {
			fault = a.journalFailed(x, err)
		}
		return fault
	})
	return left, found && fault == nil, fault
}

// book proposes a command that books a transaction, and answers with it. same reports whether it is
// what the request asks for: under a repeated key it may be what another request asked for.
func (a *credits) book(
	x *server.Exchange, b *booking, same func(*billing.TransactionView) bool,
) *server.Fault {
	result, replayed, fault := a.make(x, b.env, b.kind, b.command)
	if replayed || fault != nil {
		return fault
	}
	if result.Outcome == engine.OutcomeTransactionLeft {
		made, repeated, fault := a.leftTransaction(x, b.env, b.id)
		if repeated {
			return answerTransaction(x, &made.TransactionView, same)
		}
		brought := false
		if fault == nil && b.bring != nil {
			brought, fault = b.bring()
		}
		if fault == nil && brought {
			result, replayed, fault = a.make(x, b.env, b.kind, b.command)
		}
		if replayed || fault != nil {
			return fault
		}
	}
	switch result.Outcome {
	case engine.OutcomeDone:
	case engine.OutcomeCreditsInvalid:
		return server.FieldFault("expiresAt", server.FieldOutOfRange,
			"must be ahead of the environment's clock")
	case engine.OutcomeCreditsEmpty:
		return onceFault(x, result.Outcome).Saying("The pool has a hard limit, and its balance " +
			"without reserved credits is below the amount").With("Nothing was changed.")
	default:
		return onceFault(x, result.Outcome)
	}
	var reply billing.TransactionReply
	if err := wire.Decode(result.Value, &reply); err != nil {
		a.log.Error("a transaction's reply does not decode", "error", err)
		return server.FaultInternal
	}
	if fault := answerTransaction(x, &reply.Transaction, same); fault != nil {
		return fault
	}
	return a.keep(x, b.env, reply.Transaction.PoolID)
}

// answerTransaction answers with what a request has booked, if that is what it asks for.
func answerTransaction(
	x *server.Exchange, v *billing.TransactionView, same func(*billing.TransactionView) bool,
) *server.Fault {
	if !same(v) {
		return server.FaultOf(engine.OutcomeRequestKeyReused)
	}
	return server.One(x, 201, v, writePoolTransaction)
}

func (a *credits) listGrants(x *server.Exchange, env uint32, pool [16]byte) *server.Fault {
	grants, found := a.machine.Grants(env, pool)
	if !found {
		return server.FaultOf(engine.OutcomePoolUnknown)
	}
	return server.List(x, grants, writeGrant)
}

func (a *credits) listTransactions(x *server.Exchange, pool [16]byte) *server.Fault {
	var w walk
	q := billing.TransactionQuery{Pool: pool}
	q.Limit = pageSize(x, &w, defaultMoves, maxMoves)
	if text := string(x.Ctx.QueryArgs().Peek("cursor")); text != "" {
		b, ok := server.Cursor(text)
		w.wrong(!ok || len(text) > maxMoveCursor || wire.Decode(b, &q.Cursor) != nil, "cursor",
			form.NotCursor)
	}
	if fault := cmp.Or(w.fault(), a.noJournal()); fault != nil {
		return fault
	}
	return a.environment(x, func(env uint32) *server.Fault {
		q.Env = env
		moved, found, err := a.machine.Transactions(a.events, q)
		switch {
		case err != nil:
			return a.journalFailed(x, err)
		case !found:
			return server.FaultOf(engine.OutcomePoolUnknown)
		}
		next := ""
		if moved.More {
			next = base64.RawURLEncoding.EncodeToString(wire.Encode(nil, &moved.Next))
		}
		return server.Page(x, "transactions", moved.List, writePoolTransaction, next)
	})
}
