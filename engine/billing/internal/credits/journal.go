package credits

import (
	"fmt"
	"math"

	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
)

// Transactions leave memory for the journal, the oldest first and all kinds alike, so that a pool's
// list is complete whatever its age. A chunk of them holds the same sequence numbers in every pool:
// 1 to 64, 65 to 128, and so on. What memory keeps of them is in credit_trace.go.

// EvictedAtOnce is how many transactions leave a pool's memory together: a chunk.
const EvictedAtOnce = 64

// creditFact is a movement of a pool's credits that no usage event has in its record: all kinds but
// CONSUMPTION. With the events' draws it is all that a pool's totals consist of.
type creditFact struct {
	Pool   uint32          `wire:"1"`
	Grant  uint32          `wire:"2"` // rows
	Kind   TransactionKind `wire:"3"`
	Amount decimal.Decimal `wire:"4"`
}

// archiveFact is a chunk of a pool's transactions that have left memory, in their sequence, all
// final but for their reversal. Previous is the pool's chunk before it; its Index is 0 in the first
// one.
type archiveFact struct {
	Pool     uint32                `wire:"1"`
	Rows     []ArchivedTransaction `wire:"2"`
	Previous ChunkPlace            `wire:"3"`
}

// ArchivedTransaction is a transaction with its text, outside of memory's rows.
type ArchivedTransaction struct {
	Transaction
	TransactionText
}

// Fields states the transaction's fields.
func (a *ArchivedTransaction) Fields(w *wire.Codec) {
	w.ID(1, &a.ID)
	w.ID(2, &a.Of)
	w.Decimal(3, &a.Amount)
	w.Decimal(4, &a.Balance)
	w.Int(5, &a.CreatedAt)
	w.Int(6, &a.UpdatedAt)
	wire.Uint(w, 7, &a.Pool)
	wire.Uint(w, 8, &a.Sequence)
	wire.Uint(w, 9, &a.Grant)
	wire.Uint(w, 10, &a.Subscription)
	wire.Uint(w, 11, &a.Feature)
	wire.Uint(w, 12, &a.Kind)
	w.Bool(13, &a.Reversed)
	w.String(14, &a.Note)
	wire.List(w, 15, &a.Draws)
}

// ChunkPlace is where in the journal a chunk is. Index 0: nowhere.
type ChunkPlace struct {
	At       int64  `wire:"1"`
	Index    uint64 `wire:"2"`
	Position uint32 `wire:"3"`
	Ordinal  uint32 `wire:"4"`
}

// Archive says what is left in memory of a pool's transactions that are not among its newest: the
// traces, linked from the oldest, and rows to use again. rows is where the newest chunk is.
//
//schema:row
type Archive struct {
	FirstTrace, LastTrace, Traces, Free uint32
	Rows                                ChunkPlace
}

// noteMovement writes a booked transaction to the journal, for VerifyPools.
func (t *Burner) noteMovement(x *Transaction) {
	if x.Kind == TransactionConsumption {
		return // events have it in their records
	}
	t.KeepFact(&Fact{
		Kind: FactCredits, At: x.CreatedAt, Customer: t.S.Pools.Read(x.Pool).Customer,
		Credits: creditFact{Pool: x.Pool, Grant: x.Grant, Kind: x.Kind, Amount: x.Amount},
	})
}

// transactionRow is a row for a pool's next transaction. When there are enough of them, the oldest
// leave memory. The customer's lock is held.
func (t *Burner) transactionRow(pool uint32) (row uint32) {
	if t.S.Pools.Read(pool).Transactions >= t.Bounds.newest()+EvictedAtOnce {
		t.evict(pool)
	}
	a := t.S.Archives.Write(pool)
	if row = a.Free; row != 0 {
		a.Free = t.S.Transactions.Read(row).Next
		return row
	}
	row, _ = t.S.Transactions.Append()
	t.S.TransactionTexts.Append()
	return row
}

// evict takes a chunk of a pool's oldest transactions out of memory, and notes where it is.
func (t *Burner) evict(pool uint32) {
	t.Spend(EvictedAtOnce)
	p, a := t.S.Pools.Write(pool), t.S.Archives.Write(pool)
	f := Fact{
		Kind: FactArchive, At: t.Stamp, Customer: p.Customer,
		Archive: archiveFact{Pool: pool, Previous: a.Rows},
	}
	left := Chunk{Pool: pool, Number: chunkNumber(t.S.Transactions.Read(p.FirstTransaction).Sequence)}
	for range EvictedAtOnce {
		row := p.FirstTransaction
		held := t.S.HeldTransaction(row)
		p.FirstTransaction, p.Transactions = t.S.Transactions.Read(row).Next, p.Transactions-1
		f.Archive.Rows = append(f.Archive.Rows, held)
		if held.Reversed {
			left.Reversed |= chunkBit(held.Sequence)
		}
		t.S.transactionByID.Remove(t.S.IDHash(&held.ID), row)
		*t.S.Transactions.Write(row) = Transaction{Pool: pool, Next: a.Free}
		t.S.TransactionTexts.Write(row).Data = ""
		a.Free = row
		t.trace(&held)
	}
	a.Rows = t.KeepFact(&f)
	left.Place = a.Rows
	t.addChunk(&left)
	t.dropTraces(pool)
}

// HeldTransaction copies a transaction out of memory.
func (s *Vault) HeldTransaction(row uint32) ArchivedTransaction {
	var words TransactionText
	rows.DecodeText(s.TransactionTexts.Read(row).Data, &words)
	held := ArchivedTransaction{*s.Transactions.Read(row), words}
	held.Next = 0
	return held
}

// ChunkAt reads a chunk of a customer's transactions.
func ChunkAt(src journal.Source, customer uint32, c ChunkPlace) (*archiveFact, error) {
	before := journal.Cursor{
		At: c.At, Index: c.Index, Position: c.Position, Ordinal: c.Ordinal - 1,
	}
	if c.Ordinal == 0 { // the record follows those of the entry's commands, at least one
		before.Position, before.Ordinal = c.Position-1, math.MaxUint32
	}
	items, err := src.List(journal.Query{
		Owner: customer, From: c.At, To: c.At + 1, Kinds: journal.Kinds(journal.KindBilling),
		After: before, HasAfter: true, Limit: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("billing: transactions of customer %d: %w", customer, err)
	}
	if len(items) == 1 && items[0].Index == c.Index && items[0].Ordinal == c.Ordinal {
		var facts FactRecord
		err = wire.Decode(items[0].Payload, &facts)
		if err == nil && int(c.Ordinal) < len(facts.Facts) &&
			facts.Facts[c.Ordinal].Kind == FactArchive {
			return &facts.Facts[c.Ordinal].Archive, nil
		}
	}
	return nil, fmt.Errorf("%w: %d.%d has no transactions of customer %d at %d: %w",
		rows.ErrEvent, c.Index, c.Position, customer, c.Ordinal, err)
}
