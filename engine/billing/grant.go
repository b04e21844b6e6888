package billing

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/credit"
	"tollgate/engine/decimal"
)

// GrantCredits adds credits to a pool. ID names the grant and its transaction; repeating the
// command is the same success, forever. The reply (Result.Value) is an encoded TransactionReply.
type GrantCredits struct {
	Env       uint32          `wire:"1"`
	ID        [16]byte        `wire:"2"`
	Pool      [16]byte        `wire:"3"`
	Type      string          `wire:"4"` // a GrantType's word; empty: MANUAL
	Amount    decimal.Decimal `wire:"5"`
	Priority  int64           `wire:"6"` // ±1,000,000; lower burns first
	ExpiresAt int64           `wire:"7"` // on the environment's clock, ahead of it; 0: never
	Note      string          `wire:"8"` // ≤ 500 characters
	Actor     string          `wire:"9"`
}

func (c *GrantCredits) apply(t *turn) engine.Outcome {
	if outcome := c.repeated(t); outcome != engine.OutcomeNone {
		return outcome
	}
	e, row, outcome := t.PoolFor(
		credits.PoolCommand{Env: c.Env, ID: c.ID, Pool: c.Pool, Kind: credits.TransactionGrant},
	)
	if row == 0 {
		return outcome
	}
	now, p := e.Now(t.Stamp), t.Pools.Read(row)
	if !t.AdvanceCustomer(p.Customer, now) {
		return engine.OutcomeDeferred
	}
	kind, ok := credits.GrantTypeOf(c.Type)
	if !ok || c.Amount.Sign() <= 0 || !rows.Plain(c.Note, 0, catalogs.MaxNoteCharacters) ||
		c.Priority < -catalogs.MaxCreditPriority || c.Priority > catalogs.MaxCreditPriority ||
		c.ExpiresAt != 0 && c.ExpiresAt <= now {
		return engine.OutcomeCreditsInvalid
	}
	if p.Archived {
		return engine.OutcomePoolArchived
	}
	if p.Grants >= catalogs.MaxGrants {
		return engine.OutcomePoolLimit
	}
	if _, ok := p.Granted.Add(c.Amount); !ok {
		return engine.OutcomeOverflow
	}

	lock := t.WriteLock(p.Customer)
	t.Expire(row, now)
	g := credits.Grant{Grant: credit.Grant{
		ID: c.ID, Remaining: c.Amount, Priority: int32(c.Priority), CreatedAt: now,
		ExpiresAt: c.ExpiresAt,
	}, Amount: c.Amount, Pool: row, Kind: kind}
	t.Replied(t.Grant(&g, c.Note))
	lock.Unlock()
	t.FoldPool(row)
	t.NoteChange(c.Env, c.Actor, "credits.granted", rows.UUIDText(c.Pool),
		accounts.Given("transaction", rows.UUIDText(c.ID)), accounts.Given("type", kind.String()),
		accounts.Given("amount", c.Amount.String()), accounts.Given("note", c.Note))
	return engine.OutcomeDone
}

// repeated answers a grant whose transaction has left memory from the grant's own row, which lacks
// only the balance of that time. It returns OutcomeNone if this ID granted nothing, or if the
// transaction answers.
func (c *GrantCredits) repeated(t *turn) engine.Outcome {
	row := t.GrantWith(&c.ID)
	if row == 0 {
		return engine.OutcomeNone
	}
	g := t.Grants.Read(row)
	p := t.Pools.Read(g.Pool)
	kind, _ := credits.GrantTypeOf(c.Type)
	if p.ID != c.Pool || t.Customers.Read(p.Customer).Env != c.Env || g.Returned ||
		g.Booked() != kind || g.Amount != c.Amount || int64(g.Priority) != c.Priority ||
		g.ExpiresAt != c.ExpiresAt || g.Note != credits.NoteSum(c.Note) {
		return engine.OutcomeIDsContradict
	}
	if t.TransactionWith(&c.ID) != 0 {
		return engine.OutcomeNone
	}
	view := t.TransactionView(&credits.ArchivedTransaction{Transaction: credits.Transaction{
		ID: g.ID, Pool: g.Pool, Kind: credits.TransactionGrant, Amount: g.Amount, Grant: row,
		Subscription: g.Subscription, Sequence: g.Sequence,
		CreatedAt: g.CreatedAt, UpdatedAt: g.CreatedAt,
	}, TransactionText: credits.TransactionText{Note: c.Note}})
	view.BalanceUnknown = true
	t.Answer(&credits.TransactionReply{Transaction: view})
	return engine.OutcomeDone
}
