package billing

import (
	"slices"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/uuid"
)

// DeductCredits takes credits out of a pool, in burn order, completely or not at all. Repeating
// this ID is the same success; after the transaction has left memory it is OutcomeTransactionLeft.
// The reply (Result.Value) is an encoded TransactionReply.
type DeductCredits struct {
	Env    uint32          `wire:"1"`
	ID     [16]byte        `wire:"2"`
	Pool   [16]byte        `wire:"3"`
	Amount decimal.Decimal `wire:"4" json:"amount" rule:"required"`
	Note   string          `wire:"5" json:"note" rule:"max=500"`
	Actor  string          `wire:"6"`
}

func (c *DeductCredits) apply(t *turn) engine.Outcome {
	e, row, outcome := t.PoolFor(
		credits.PoolCommand{Env: c.Env, ID: c.ID, Pool: c.Pool, Kind: credits.TransactionDeduction},
	)
	if row == 0 {
		return outcome
	}
	if c.Amount.Sign() <= 0 || !rows.Plain(c.Note, 0, catalogs.MaxNoteCharacters) {
		return engine.OutcomeCreditsInvalid
	}
	now, p := e.Now(t.Stamp), t.Pools.Read(row)
	if !t.AdvanceCustomer(p.Customer, now) {
		return engine.OutcomeDeferred
	}
	if outcome = deductible(t.state, row, c.Amount, now); outcome != engine.OutcomeDone {
		return outcome
	}
	if t.DeductionsFull(row) {
		return engine.OutcomeDeductionLimit
	}

	draws := []credits.Draw{}
	rest := t.Draw(row, c.Amount, now, &draws)
	if rest.Sign() > 0 {
		draws = append(draws, credits.Draw{Pool: row, Amount: rest})
	}
	lock := t.WriteLock(p.Customer)
	t.Take(draws, now)
	t.Replied(t.Book(&credits.Transaction{
		ID: c.ID, Pool: row, Kind: credits.TransactionDeduction, Amount: c.Amount, CreatedAt: now,
	}, credits.TransactionText{Note: c.Note, Draws: draws}))
	lock.Unlock()
	t.FoldPool(row)
	t.NoteChange(c.Env, c.Actor, "credits.deducted", uuid.Text(c.Pool),
		accounts.Given("transaction", uuid.Text(c.ID)),
		accounts.Given("amount", c.Amount.String()), accounts.Given("note", c.Note))
	return engine.OutcomeDone
}

// deductible is the outcome of a deduction, but for how many a pool may have.
func deductible(s *state, row uint32, amount decimal.Decimal, now int64) engine.Outcome {
	p := s.Pools.Read(row)
	switch {
	case p.Archived:
		return engine.OutcomePoolArchived
	case p.Frozen:
		return engine.OutcomePoolFrozen
	case p.Hard && free(s, row, now).Less(amount):
		return engine.OutcomeCreditsEmpty
	}
	if _, ok := p.Consumed.Add(amount); !ok {
		return engine.OutcomeOverflow
	}
	return engine.OutcomeDone
}

// PreviewDeduction returns a pool's balance after a deduction, at a log time, and the outcome of
// the command, but for how many deductions a pool may have.
func (m *previewReader) PreviewDeduction(
	env uint32, pool [16]byte, amount decimal.Decimal, now int64,
) (balance decimal.Decimal, outcome engine.Outcome) {
	s := m.state.Load()
	row := s.PoolIn(env, &pool)
	if row == 0 {
		return balance, engine.OutcomePoolUnknown
	}
	p := s.Pools.Read(row)
	lock := s.ReadLock(p.Customer)
	defer lock.RUnlock()
	now = s.Environment(env).Now(now)
	balance, ok := s.BalanceAt(p, now).Sub(amount)
	if !ok {
		return balance, engine.OutcomeOverflow
	}
	return balance, deductible(s, row, amount, now)
}

// GrantPreview is what granting credits to a pool would do, as things are.
type GrantPreview struct {
	// Balance is the pool's afterwards.
	Balance decimal.Decimal
	// Opens are the keys of the features whose checks are denied for want of credits, and for that no
	// longer would be.
	Opens []string
}

// PreviewGrant says what a grant would do, at a log time. The outcome is that of the command.
func (m *previewReader) PreviewGrant(
	env uint32, pool [16]byte, amount decimal.Decimal, now int64,
) (p GrantPreview, outcome engine.Outcome) {
	s := m.state.Load()
	row := s.PoolIn(env, &pool)
	if row == 0 {
		return p, engine.OutcomePoolUnknown
	}
	features, outcome := p.grant(s, env, row, amount, now)
	customer := s.ExternalID(s.Customers.Read(s.Pools.Read(row).Customer))
	for _, feature := range features {
		var d Decision
		q := CheckQuery{Env: env, Customer: customer, Feature: []byte(feature), Now: now}
		if m.Check(&q, &d); d.Reason == ReasonCreditsEmpty {
			p.Opens = append(p.Opens, feature)
		}
	}
	return p, outcome
}

// grant adds a grant to what the pools of a name hold. It returns the features that these credits
// could open: those that burn them, where there would be some that nothing holds.
func (p *GrantPreview) grant(
	s *state, env, row uint32, amount decimal.Decimal, now int64,
) (features []string, outcome engine.Outcome) {
	pool, e := s.Pools.Read(row), s.Environment(env)
	customer := s.Customers.Read(pool.Customer)
	lock := s.ReadLock(pool.Customer)
	defer lock.RUnlock()
	now = e.Now(now)
	var ok bool
	if p.Balance, ok = s.BalanceAt(pool, now).Add(amount); !ok {
		return nil, engine.OutcomeOverflow
	}
	if outcome = grantable(pool, amount); outcome != engine.OutcomeDone || pool.Frozen {
		return nil, outcome
	}
	purse := s.PurseOf(pool.Customer, pool.Name, now)
	balance, endless := purse.Free()
	var held decimal.Decimal
	if customer.Held {
		held = s.Held.Credits(pool.Customer, pool.Name, now)
	}
	// What a pool lacks is made up for first.
	more := decimal.Max(decimal.Min(p.Balance, amount), decimal.Decimal{})
	if endless || sums.Of(balance, more).Cmp(held) <= 0 {
		return nil, outcome
	}
	c := e.Catalog.Load()
	for at := customer.FirstSubscription; at != 0; {
		b := s.Subscriptions.Whole(at)
		if at = b.Next; !b.Active() {
			continue
		}
		v := c.Version(b.Version)
		for i := range v.Features {
			f := &v.Features[i]
			key := c.Feature(f.Feature).Document.Key
			if f.Credits.Pool == pool.Name && !slices.Contains(features, key) {
				features = append(features, key)
			}
		}
	}
	return features, outcome
}

// free returns what a pool with a hard limit has beyond its reserved credits. Other pools of the
// same name are reserved first.
func free(s *state, row uint32, now int64) decimal.Decimal {
	p := s.Pools.Read(row)
	balance := s.BalanceAt(p, now)
	if !s.Customers.Read(p.Customer).Held {
		return balance
	}
	u := s.PurseOf(p.Customer, p.Name, now)
	u.Keep(s.Held.Credits(p.Customer, p.Name, now))
	if all, endless := u.Free(); !endless {
		return decimal.Min(balance, all)
	}
	return balance
}

// ReverseTransaction reverses what is left of a grant, or returns a deduction. Repeating this ID is
// the same success. For a deduction that has left memory it carries the journal's record
// (LeftTransaction). Without the record, or if the reversal itself has left memory, it is
// OutcomeTransactionLeft. The reply (Result.Value) is an encoded TransactionReply.
type ReverseTransaction struct {
	Env         uint32   `wire:"1"`
	ID          [16]byte `wire:"2"` // of the reversal
	Transaction [16]byte `wire:"3"` // what it reverses
	Note        string   `wire:"4" json:"note" rule:"max=500"`
	Actor       string   `wire:"5"`
	Left        []byte   `wire:"6"`
}

func (c *ReverseTransaction) apply(t *turn, e *accounts.Environment) engine.Outcome {
	if done := t.TransactionWith(&c.ID); done != 0 {
		x := t.Transactions.Read(done)
		if x.Kind == credits.TransactionReversal && x.Of == c.Transaction {
			t.Replied(done)
			return engine.OutcomeDone
		}
		return engine.OutcomeIDsContradict
	}
	if left := t.TraceWith(&c.ID); left != 0 {
		return t.LeftReply(c.Env, left)
	}
	x := c.reversible(t)
	if x.Pool == 0 || t.Customers.Read(t.Pools.Read(x.Pool).Customer).Env != c.Env {
		return engine.OutcomeTransactionUnknown
	}
	if !rows.Plain(c.Note, 0, catalogs.MaxNoteCharacters) {
		return engine.OutcomeCreditsInvalid
	}
	p, now := t.Pools.Read(x.Pool), e.Now(t.Stamp)
	if !t.AdvanceCustomer(p.Customer, now) {
		return engine.OutcomeDeferred
	}
	x = c.reversible(t) // events that fell due may have moved it out of memory
	if x.Pool == 0 {
		return engine.OutcomeTransactionUnknown
	}
	if p.Archived {
		return engine.OutcomePoolArchived
	}
	switch {
	case x.Missing:
		return engine.OutcomeTransactionLeft
	case x.Reversed:
		return engine.OutcomeTransactionFinal
	case x.Kind == credits.TransactionGrant:
		if p.Frozen {
			return engine.OutcomePoolFrozen
		}
		g := t.Grants.Read(x.Grant)
		if !g.Live(now) {
			return engine.OutcomeTransactionFinal
		}
		if p.Hard && t.Customers.Read(p.Customer).Held && free(t.state, x.Pool, now).Less(g.Remaining) {
			return engine.OutcomeCreditsEmpty
		}
	case x.Kind != credits.TransactionDeduction:
		return engine.OutcomeTransactionFinal
	}
	if t.DeductionsFull(x.Pool) {
		return engine.OutcomeDeductionLimit
	}

	lock := t.WriteLock(p.Customer)
	t.Replied(c.reverse(t, &x, now))
	lock.Unlock()
	t.FoldPool(x.Pool)
	t.NoteChange(c.Env, c.Actor, "credits.reversed", uuid.Text(p.ID),
		accounts.Given("transaction", uuid.Text(c.ID)),
		accounts.Given("of", uuid.Text(c.Transaction)), accounts.Given("note", c.Note))
	return engine.OutcomeDone
}

// reversible finds what the command reverses. It finds a grant whose transaction has left memory by
// the grant's own row, which stays. Pool 0 means that there is nothing to reverse.
func (c *ReverseTransaction) reversible(t *turn) (x credits.Reversible) {
	if row := t.TransactionWith(&c.Transaction); row != 0 {
		return credits.Reversible{ArchivedTransaction: t.HeldTransaction(row), Row: row}
	}
	if left := t.TraceWith(&c.Transaction); left != 0 {
		held, ok := t.Brought(left, c.Left)
		x = credits.Reversible{ArchivedTransaction: held, Missing: !ok}
		x.Pool = t.Traces.Read(left).Pool
		x.Reversed = ok && t.ReversedSince(&held.Transaction)
		return x
	}
	if grant := t.GrantWith(&c.Transaction); grant != 0 {
		g := t.Grants.Read(grant)
		x.Transaction = credits.Transaction{
			ID: g.ID, Pool: g.Pool, Kind: credits.TransactionGrant, Amount: g.Amount, Grant: grant,
			Reversed: g.End == credits.GrantReversed,
		}
	}
	return x
}

// reverse books the reversal.
func (c *ReverseTransaction) reverse(t *turn, x *credits.Reversible, now int64) uint32 {
	switch {
	case x.Row != 0:
		t.Transactions.Write(x.Row).Reversed = true
	case x.Kind == credits.TransactionDeduction:
		t.SetReversed(&x.Transaction)
	}
	var lost []credits.Draw
	r := credits.Transaction{
		ID: c.ID, Of: c.Transaction, Pool: x.Pool, Kind: credits.TransactionReversal, Amount: x.Amount,
		Grant: x.Grant, CreatedAt: now,
	}
	t.Expire(x.Pool, now)
	if x.Kind == credits.TransactionGrant {
		g := t.Grants.Write(r.Grant)
		p := t.Pools.Write(r.Pool)
		r.Amount = g.Remaining
		p.Reversed = credits.More(p.Reversed, g.Remaining)
		g.Remaining, g.End = decimal.Decimal{}, credits.GrantReversed
		t.Prune(r.Pool)
	} else {
		lost = t.GiveBack(x.Draws, now)
	}
	booked := t.Book(&r, credits.TransactionText{Note: c.Note})
	t.Lose(lost, now)
	return booked
}
