package credits

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// TransactionKind is the cause of a movement of a pool's balance. The numbers are part of snapshots
// and are never reused.
//
//schema:enum
type TransactionKind uint8

const (
	TransactionGrant TransactionKind = 1 // GRANT
	// usage of a feature, of a subscription, on a UTC day
	TransactionConsumption TransactionKind = 2 // CONSUMPTION
	TransactionDeduction   TransactionKind = 3 // DEDUCTION
	TransactionExpiration  TransactionKind = 4 // EXPIRATION
	// what stayed at a period's end; moves nothing
	transactionRollover TransactionKind = 5 // ROLLOVER
	TransactionReversal TransactionKind = 6 // REVERSAL
	// credits of events that were voided or amended
	TransactionReturn TransactionKind = 7 // RETURN
)

// Transaction is the record of one movement; its note is the text of the same row. The oldest of a
// pool leave memory (evict): the same pool reuses their rows, which have no kind until then.
//
//schema:row
type Transaction struct {
	ID, Of               [16]byte // of: what a reversal reverses
	Amount, Balance      decimal.Decimal
	CreatedAt, UpdatedAt int64
	Pool, Next, Sequence uint32
	Grant, Subscription  uint32
	Feature              uint32
	Kind                 TransactionKind
	Reversed             bool
}

// TransactionText is the cold part of a transaction: Draws are the grants that a deduction took
// from.
type TransactionText struct {
	Note  string `wire:"1"`
	Draws []Draw `wire:"2"`
}

// Book adds a transaction to its pool, whose totals it follows. Callers hold the customer's lock.
func (t *Burner) Book(x *Transaction, words TransactionText) (row uint32) {
	p := t.S.Pools.Write(x.Pool)
	p.Sequence++
	x.Sequence, x.Balance, x.UpdatedAt, x.Next = p.Sequence, p.Balance(), x.CreatedAt, 0
	if x.ID == ([16]byte{}) {
		x.ID = catalogs.CreditID("transaction", p.ID, uint64(p.Sequence))
	}
	p.ModifiedAt = max(p.ModifiedAt, x.CreatedAt)
	row = t.transactionRow(x.Pool)
	*t.S.Transactions.Write(row) = *x
	t.S.TransactionTexts.Write(row).Data = string(wire.Encode(nil, &words))
	if p.LastTransaction == 0 {
		p.FirstTransaction = row
	} else {
		t.S.Transactions.Write(p.LastTransaction).Next = row
	}
	p.LastTransaction = row
	p.Transactions++
	t.moved(x.Pool)
	t.S.transactionByID.Insert(t.S.IDHash(&x.ID), row)
	t.noteMovement(x)
	return row
}

// TransactionWith finds a transaction by its UUID; 0 if there is none. Rows of transactions are
// reused, so only Apply, or a holder of its lock, may call it.
func (s *Vault) TransactionWith(id *[16]byte) uint32 {
	return s.transactionByID.Find(s.IDHash(id), func(row uint32) bool {
		return s.Transactions.Read(row).ID == *id
	})
}

// PoolCommand is what commands that move credits share.
type PoolCommand struct {
	Env      uint32
	ID, Pool [16]byte
	Kind     TransactionKind
}

// PoolFor finds the pool of a command. For row 0, outcome tells why there is nothing left to do.
func (t *Burner) PoolFor(
	c PoolCommand,
) (e *accounts.Environment, row uint32, outcome engine.Outcome) {
	if e = t.S.Environment(c.Env); e == nil {
		return nil, 0, engine.OutcomeAccountUnknown
	}
	if done := t.S.TransactionWith(&c.ID); done != 0 {
		x := t.S.Transactions.Read(done)
		p := t.S.Pools.Read(x.Pool)
		if x.Kind != c.Kind || p.ID != c.Pool || t.S.Customers.Read(p.Customer).Env != c.Env {
			return e, 0, engine.OutcomeIDsContradict
		}
		t.Replied(done)
		return e, 0, engine.OutcomeDone
	}
	if row = t.S.TraceWith(&c.ID); row != 0 {
		if t.S.Pools.Read(t.S.Traces.Read(row).Pool).ID != c.Pool {
			return e, 0, engine.OutcomeIDsContradict
		}
		return e, 0, t.LeftReply(c.Env, row)
	}
	if row = t.S.PoolIn(c.Env, &c.Pool); row == 0 {
		return e, 0, engine.OutcomePoolUnknown
	}
	return e, row, engine.OutcomeNone
}

// Replied makes a transaction the command's reply.
func (t *Burner) Replied(row uint32) {
	t.Answer(&TransactionReply{t.S.TransactionView(new(t.S.HeldTransaction(row)))})
}

// Reversible is a transaction that may be reversed: in memory, in row, or carried by the command
// from the journal. missing reports that the command lacks it.
type Reversible struct {
	ArchivedTransaction
	Row     uint32
	Missing bool
}

// floorDay numbers UTC days.
func floorDay(at int64) int64 {
	day := at / accounts.DayMS
	if at%accounts.DayMS < 0 {
		day--
	}
	return day
}

// TransactionView is one movement of a pool's credits.
//
//schema:answer admin PoolTransaction
type TransactionView struct {
	ID       [16]byte `wire:"1" json:"id"`
	PoolID   [16]byte `wire:"2" json:"poolId"`
	Sequence uint32   `wire:"3" json:"sequence"` // within the pool, from 1, without gaps
	Kind     string   `wire:"4" json:"kind" rule:"oneof=GRANT|CONSUMPTION|DEDUCTION|EXPIRATION|ROLLOVER|REVERSAL|RETURN"`
	// GrantType is the grant's, if there is one.
	GrantType string          `wire:"5" json:"grantType,omitzero" rule:"oneof=PLAN_INCLUDED|PURCHASED|PROMOTIONAL|ROLLOVER|MANUAL|REFUND"`
	Amount    decimal.Decimal `wire:"6" json:"amount"`                      // above 0
	Balance   decimal.Decimal `wire:"7" json:"balance" if:"BalanceKnown()"` // of the pool after it
	// GrantID, SubscriptionID and FeatureKey are set if the movement concerns one; Of is the
	// transaction that a reversal reverses.
	GrantID        [16]byte `wire:"8" json:"grantId,omitzero"`
	SubscriptionID [16]byte `wire:"9" json:"subscriptionId,omitzero"`
	FeatureKey     string   `wire:"11" json:"featureKey,omitzero" rule:"min=1,max=128"`
	Note           string   `wire:"12" json:"note,omitzero" rule:"max=500"`
	Reversed       bool     `wire:"13" json:"reversed"`
	Of             [16]byte `wire:"10" json:"reverses,omitzero"`
	CreatedAt      int64    `wire:"14" json:"createdAt" as:"time"`
	UpdatedAt      int64    `wire:"15" json:"updatedAt" as:"time"`
	ExpiresAt      int64    `wire:"16" json:"expiresAt,omitzero" as:"time"`
	// BalanceUnknown reports whether Balance is no longer known: in the answer to a repeated grant
	// whose transaction has left memory.
	BalanceUnknown bool `wire:"17"`
}

// BalanceKnown reports whether Balance is known.
func (v *TransactionView) BalanceKnown() bool { return !v.BalanceUnknown }

// TransactionReply is the reply of commands that book a transaction.
type TransactionReply struct {
	Transaction TransactionView `wire:"1"`
}

// TransactionView must be called by Apply, or under the customer's lock.
func (s *Vault) TransactionView(held *ArchivedTransaction) TransactionView {
	x := &held.Transaction
	p := s.Pools.Read(x.Pool)
	view := TransactionView{
		ID: x.ID, PoolID: p.ID, Sequence: x.Sequence, Kind: x.Kind.String(),
		Amount: x.Amount, Balance: x.Balance, Of: x.Of, Note: held.Note,
		FeatureKey: s.FeatureKey(s.Customers.Read(p.Customer).Env, x.Feature),
		Reversed:   s.ReversedSince(x), CreatedAt: x.CreatedAt, UpdatedAt: x.UpdatedAt,
	}
	if x.Grant != 0 {
		g := s.Grants.Read(x.Grant)
		view.GrantID, view.GrantType, view.ExpiresAt = g.ID, g.Kind.String(), g.ExpiresAt
		if x.Kind == TransactionGrant {
			view.Reversed = g.End == GrantReversed // also after the transaction has left memory
			view.GrantType = g.Booked().String()   // its value at that time
		}
	}
	if x.Subscription != 0 {
		view.SubscriptionID = s.Subscriptions.Read(x.Subscription).ID
	}
	return view
}
