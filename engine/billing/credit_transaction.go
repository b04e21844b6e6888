package billing

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
	"tollgate/engine/wire"
)

// transactionKind says what moved a pool's balance. The numbers are part of snapshots and are never
// reused.
type transactionKind uint8

const (
	transactionGrant       transactionKind = 1
	transactionConsumption transactionKind = 2 // usage of a feature, of a subscription, on a UTC day
	transactionDeduction   transactionKind = 3
	transactionExpiration  transactionKind = 4
	transactionRollover    transactionKind = 5 // what stayed at a period's end; moves nothing
	transactionReversal    transactionKind = 6
	transactionReturn      transactionKind = 7 // credits of events that were voided or amended
)

var transactionKinds = [...]string{
	transactionGrant: "GRANT", transactionConsumption: "CONSUMPTION",
	transactionDeduction: "DEDUCTION", transactionExpiration: "EXPIRATION",
	transactionRollover: "ROLLOVER", transactionReversal: "REVERSAL",
	transactionReturn: "RETURN",
}

// String is the kind as answers have it.
func (k transactionKind) String() string {
	if int(k) < len(transactionKinds) {
		return transactionKinds[k]
	}
	return ""
}

// transaction is the record of one movement; its note is the text of the same row. The oldest of a
// pool leave memory (evict): their rows are used again, for the same pool, and have no kind until
// then.
type transaction struct {
	id, of               [16]byte // of: what a reversal reverses
	amount, balance      decimal.Decimal
	createdAt, updatedAt int64
	pool, next, sequence uint32
	grant, subscription  uint32
	feature              uint32
	kind                 transactionKind
	reversed             bool
}

var transactionCodec = page.Codec[transaction]{
	Append: func(dst []byte, x *transaction) []byte {
		dst = append(append(dst, x.id[:]...), x.of[:]...)
		dst = rows.AppendDecimal(rows.AppendDecimal(dst, x.amount), x.balance)
		dst = rows.AppendI64(rows.AppendI64(dst, x.createdAt), x.updatedAt)
		dst = rows.AppendU32(rows.AppendU32(rows.AppendU32(dst, x.pool), x.next), x.sequence)
		dst = rows.AppendU32(rows.AppendU32(rows.AppendU32(dst, x.grant), x.subscription), x.feature)
		return append(dst, byte(x.kind), flags(x.reversed))
	},
	Read: func(src []byte, x *transaction) ([]byte, error) {
		r := rows.Reader{Rest: src}
		x.id, x.of = r.ID(), r.ID()
		x.amount, x.balance = r.Decimal(), r.Decimal()
		x.createdAt, x.updatedAt = r.I64(), r.I64()
		x.pool, x.next, x.sequence = r.U32(), r.U32(), r.U32()
		x.grant, x.subscription, x.feature = r.U32(), r.U32(), r.U32()
		x.kind, x.reversed = transactionKind(r.U8()), r.U8() != 0
		return r.Rest, r.Err
	},
}

// transactionText is the cold part of a transaction: draws say which grants a deduction took.
type transactionText struct {
	Note  string `wire:"1"`
	Draws []draw `wire:"2"`
}

// book adds a transaction to its pool, whose totals it follows. The customer's lock is held.
func (t *burner) book(x *transaction, words transactionText) (row uint32) {
	p := t.s.pools.Write(x.pool)
	p.sequence++
	x.sequence, x.balance, x.updatedAt, x.next = p.sequence, p.balance(), x.createdAt, 0
	if x.id == ([16]byte{}) {
		x.id = creditID("transaction", p.id, uint64(p.sequence))
	}
	p.modifiedAt = max(p.modifiedAt, x.createdAt)
	row = t.transactionRow(x.pool)
	*t.s.transactions.Write(row) = *x
	t.s.transactionTexts.Write(row).Data = string(wire.Encode(nil, &words))
	if p.lastTransaction == 0 {
		p.firstTransaction = row
	} else {
		t.s.transactions.Write(p.lastTransaction).next = row
	}
	p.lastTransaction = row
	p.transactions++
	t.moved(x.pool)
	t.s.transactionByID.Insert(t.s.idHash(&x.id), row)
	t.noteMovement(x)
	return row
}

// transactionWith finds a transaction by its UUID; 0 when there is none. Rows of transactions are
// used again, so only Apply may ask, or who holds its lock.
func (s *vault) transactionWith(id *[16]byte) uint32 {
	return s.transactionByID.Find(s.idHash(id), func(row uint32) bool {
		return s.transactions.Read(row).id == *id
	})
}

// poolCommand is what commands that move credits have in common.
type poolCommand struct {
	env      uint32
	id, pool [16]byte
	kind     transactionKind
}

// poolFor finds the pool of a command. Row 0: outcome says why there is nothing left to do.
func (t *burner) poolFor(c poolCommand) (e *environment, row uint32, outcome engine.Outcome) {
	if e = t.s.environment(c.env); e == nil {
		return nil, 0, engine.OutcomeAccountUnknown
	}
	if done := t.s.transactionWith(&c.id); done != 0 {
		x := t.s.transactions.Read(done)
		p := t.s.pools.Read(x.pool)
		if x.kind != c.kind || p.id != c.pool || t.s.customers.Read(p.customer).env != c.env {
			return e, 0, engine.OutcomeIDsContradict
		}
		t.replied(done)
		return e, 0, engine.OutcomeDone
	}
	if row = t.s.traceWith(&c.id); row != 0 {
		if t.s.pools.Read(t.s.traces.Read(row).pool).id != c.pool {
			return e, 0, engine.OutcomeIDsContradict
		}
		return e, 0, t.leftReply(c.env, row)
	}
	if row = t.s.poolIn(c.env, &c.pool); row == 0 {
		return e, 0, engine.OutcomePoolUnknown
	}
	return e, row, engine.OutcomeNone
}

// replied makes a transaction the command's reply.
func (t *burner) replied(row uint32) {
	t.Answer(&TransactionReply{t.s.transactionView(new(t.s.heldTransaction(row)))})
}

// DeductCredits takes credits out of a pool, in burn order: all of them, or none. A transaction of
// this ID is the same success again; once that has left memory, OutcomeTransactionLeft. The reply
// (Result.Value) is an encoded TransactionReply.
type DeductCredits struct {
	Env    uint32          `wire:"1"`
	ID     [16]byte        `wire:"2"`
	Pool   [16]byte        `wire:"3"`
	Amount decimal.Decimal `wire:"4"`
	Note   string          `wire:"5"` // ≤ 500 characters
	Actor  string          `wire:"6"`
}

func (c *DeductCredits) apply(t *turn) engine.Outcome {
	e, row, outcome := t.poolFor(poolCommand{c.Env, c.ID, c.Pool, transactionDeduction})
	if row == 0 {
		return outcome
	}
	if c.Amount.Sign() <= 0 || !plain(c.Note, 0, maxNoteCharacters) {
		return engine.OutcomeCreditsInvalid
	}
	now, p := e.now(t.Stamp), t.pools.Read(row)
	if !t.advanceCustomer(p.customer, now) {
		return engine.OutcomeDeferred
	}
	switch {
	case p.archived:
		return engine.OutcomePoolArchived
	case p.frozen:
		return engine.OutcomePoolFrozen
	case p.hard && t.balanceAt(p, now).Less(c.Amount):
		return engine.OutcomeCreditsEmpty
	case t.deductionsFull(row):
		return engine.OutcomeDeductionLimit
	}
	if _, ok := p.consumed.Add(c.Amount); !ok {
		return engine.OutcomeOverflow
	}

	draws := []draw{}
	rest := t.draw(row, c.Amount, now, &draws)
	if rest.Sign() > 0 {
		draws = append(draws, draw{Pool: row, Amount: rest})
	}
	lock := t.stripe(p.customer)
	lock.Lock()
	t.take(draws, now)
	t.replied(t.book(&transaction{
		id: c.ID, pool: row, kind: transactionDeduction, amount: c.Amount, createdAt: now,
	}, transactionText{c.Note, draws}))
	lock.Unlock()
	t.foldPool(row)
	t.note(change{
		Env: c.Env, Actor: c.Actor, Action: "credits.deducted", Subject: uuidText(c.Pool),
		Values: []FieldChange{
			{"transaction", "", uuidText(c.ID)},
			{"amount", "", c.Amount.String()},
			{"note", "", c.Note},
		},
	})
	return engine.OutcomeDone
}

// ReverseTransaction takes back what is left of a grant, or gives back a deduction. A reversal of
// this ID is the same success again. Of a deduction that has left memory it carries the journal's
// record (LeftTransaction); without that, or where the reversal itself has left memory, it is
// OutcomeTransactionLeft. The reply (Result.Value) is an encoded TransactionReply.
type ReverseTransaction struct {
	Env         uint32   `wire:"1"`
	ID          [16]byte `wire:"2"` // of the reversal
	Transaction [16]byte `wire:"3"` // what it reverses
	Note        string   `wire:"4"` // ≤ 500 characters
	Actor       string   `wire:"5"`
	Left        []byte   `wire:"6"`
}

func (c *ReverseTransaction) apply(t *turn) engine.Outcome {
	e := t.environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	if done := t.transactionWith(&c.ID); done != 0 {
		if x := t.transactions.Read(done); x.kind == transactionReversal && x.of == c.Transaction {
			t.replied(done)
			return engine.OutcomeDone
		}
		return engine.OutcomeIDsContradict
	}
	if left := t.traceWith(&c.ID); left != 0 {
		return t.leftReply(c.Env, left)
	}
	x := c.reversible(t)
	if x.pool == 0 || t.customers.Read(t.pools.Read(x.pool).customer).env != c.Env {
		return engine.OutcomeTransactionUnknown
	}
	if !plain(c.Note, 0, maxNoteCharacters) {
		return engine.OutcomeCreditsInvalid
	}
	p, now := t.pools.Read(x.pool), e.now(t.Stamp)
	if !t.advanceCustomer(p.customer, now) {
		return engine.OutcomeDeferred
	}
	x = c.reversible(t) // what was due may have let it leave memory
	if x.pool == 0 {
		return engine.OutcomeTransactionUnknown
	}
	if p.archived {
		return engine.OutcomePoolArchived
	}
	switch {
	case x.missing:
		return engine.OutcomeTransactionLeft
	case x.reversed:
		return engine.OutcomeTransactionFinal
	case x.kind == transactionGrant:
		if p.frozen {
			return engine.OutcomePoolFrozen
		}
		if !t.grants.Read(x.grant).Live(now) {
			return engine.OutcomeTransactionFinal
		}
	case x.kind != transactionDeduction:
		return engine.OutcomeTransactionFinal
	}
	if t.deductionsFull(x.pool) {
		return engine.OutcomeDeductionLimit
	}

	lock := t.stripe(p.customer)
	lock.Lock()
	t.replied(c.reverse(t, &x, now))
	lock.Unlock()
	t.foldPool(x.pool)
	t.note(change{
		Env: c.Env, Actor: c.Actor, Action: "credits.reversed", Subject: uuidText(p.id),
		Values: []FieldChange{
			{"transaction", "", uuidText(c.ID)},
			{"of", "", uuidText(c.Transaction)},
			{"note", "", c.Note},
		},
	})
	return engine.OutcomeDone
}

// reversible is a transaction that may be reversed: in memory, in row, or as the command has
// brought it from the journal. missing says that the command has not.
type reversible struct {
	archivedTransaction
	row     uint32
	missing bool
}

// reversible finds what the command reverses. A grant whose transaction has left memory is found by
// its own row, which never does. A pool of 0: there is nothing to reverse.
func (c *ReverseTransaction) reversible(t *turn) (x reversible) {
	if row := t.transactionWith(&c.Transaction); row != 0 {
		return reversible{archivedTransaction: t.heldTransaction(row), row: row}
	}
	if left := t.traceWith(&c.Transaction); left != 0 {
		held, ok := t.brought(left, c.Left)
		x = reversible{archivedTransaction: held, missing: !ok}
		x.pool = t.traces.Read(left).pool
		x.reversed = ok && t.reversedSince(&held.transaction)
		return x
	}
	if grant := t.grantWith(&c.Transaction); grant != 0 {
		g := t.grants.Read(grant)
		x.transaction = transaction{
			id: g.ID, pool: g.pool, kind: transactionGrant, amount: g.amount, grant: grant,
			reversed: g.end == grantReversed,
		}
	}
	return x
}

// reverse books the reversal of a transaction that can be reversed.
func (c *ReverseTransaction) reverse(t *turn, x *reversible, now int64) uint32 {
	switch {
	case x.row != 0:
		t.transactions.Write(x.row).reversed = true
	case x.kind == transactionDeduction:
		t.setReversed(&x.transaction)
	}
	var lost []draw
	r := transaction{
		id: c.ID, of: c.Transaction, pool: x.pool, kind: transactionReversal, amount: x.amount,
		grant: x.grant, createdAt: now,
	}
	t.expire(x.pool, now)
	if x.kind == transactionGrant {
		g := t.grants.Write(r.grant)
		p := t.pools.Write(r.pool)
		r.amount = g.Remaining
		p.reversed = more(p.reversed, g.Remaining)
		g.Remaining, g.end = decimal.Decimal{}, grantReversed
		t.prune(r.pool)
	} else {
		lost = t.giveBack(x.Draws, now)
	}
	booked := t.book(&r, transactionText{Note: c.Note})
	t.lose(lost, now)
	return booked
}

// decodeText decodes what this machine has encoded.
func decodeText(data string, v wire.Fielder) {
	if err := wire.Decode([]byte(data), v); err != nil {
		panic("billing: a text in memory does not decode: " + err.Error())
	}
}

// sameDay reports whether two instants lie on one UTC day.
func sameDay(a, b int64) bool { return floorDay(a) == floorDay(b) }

func floorDay(at int64) int64 {
	day := at / dayMS
	if at%dayMS < 0 {
		day--
	}
	return day
}
