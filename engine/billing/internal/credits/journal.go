package credits

import (
	"errors"
	"fmt"
	"math"

	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
)

// Transactions leave memory for the journal, oldest first and of all kinds, so that a pool's list
// is complete. A chunk holds the same sequence numbers in every pool: 1 to 64, 65 to 128, and so
// on. credit_trace.go has what memory keeps of them.

// EvictedAtOnce is the size of a chunk: transactions that leave a pool's memory together.
const EvictedAtOnce = 64

// creditFact is a movement of a pool's credits that is in no usage event's record: all kinds but
// CONSUMPTION. A pool's totals are the sum of these and the events' draws.
type creditFact struct {
	Pool   uint32          `wire:"1"`
	Grant  uint32          `wire:"2"` // rows
	Kind   TransactionKind `wire:"3"`
	Amount decimal.Decimal `wire:"4"`
}

// archiveFact is a chunk of a pool's transactions that have left memory, by sequence. Only a
// reversal can still change them. Previous is the pool's chunk before it; its Index is 0 in the
// first one.
type archiveFact struct {
	Pool     uint32                `wire:"1"`
	Rows     []ArchivedTransaction `wire:"2"`
	Previous ChunkPlace            `wire:"3"`
}

// ArchivedTransaction is a transaction with its text, outside memory's rows.
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

// ChunkPlace is the place of a chunk in the journal. Index 0: none.
type ChunkPlace struct {
	At       int64  `wire:"1"`
	Index    uint64 `wire:"2"`
	Position uint32 `wire:"3"`
	Ordinal  uint32 `wire:"4"`
}

// Archive has what memory keeps of a pool's older transactions: the traces, linked from the oldest,
// free rows, and the place of the newest chunk.
//
//schema:row
type Archive struct {
	FirstTrace, LastTrace, Traces, Free uint32
	Rows                                ChunkPlace
}

// noteMovement writes a booked transaction to the journal, for VerifyPools.
func (t *Burner) noteMovement(x *Transaction) {
	if x.Kind == TransactionConsumption {
		return // the events' records have it
	}
	t.KeepFact(&Fact{
		Kind: FactCredits, At: x.CreatedAt, Customer: t.S.Pools.Read(x.Pool).Customer,
		Credits: creditFact{Pool: x.Pool, Grant: x.Grant, Kind: x.Kind, Amount: x.Amount},
	})
}

// transactionRow returns a row for a pool's next transaction. If there are enough, it evicts the
// oldest. Callers hold the customer's lock.
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

// evict moves a chunk of a pool's oldest transactions out of memory and notes its place.
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

// ChunkAt reads a chunk of a customer's transactions. Its record lies at its place, or behind it in
// the same entry if a later command made several records.
func ChunkAt(src journal.Source, customer uint32, c ChunkPlace) (*archiveFact, error) {
	after := journal.Cursor{
		At: c.At, Index: c.Index, Position: c.Position, Ordinal: c.Ordinal - 1,
	}
	if c.Ordinal == 0 { // the record follows at least one of a command
		after.Position, after.Ordinal = c.Position-1, math.MaxUint32
	}
	for {
		items, err := src.List(journal.Query{
			Owner: customer, From: c.At, To: c.At + 1, Kinds: journal.Kinds(journal.KindBilling),
			After: after, HasAfter: true, Limit: 1,
		})
		if err != nil {
			return nil, fmt.Errorf("billing: transactions of customer %d: %w", customer, err)
		}
		if len(items) == 1 && items[0].Index == c.Index && items[0].Ordinal < c.Ordinal {
			after = items[0].Cursor()
			continue
		}
		var facts FactRecord
		if len(items) == 1 && items[0].Index == c.Index && items[0].Ordinal == c.Ordinal {
			err = wire.Decode(items[0].Payload, &facts)
		}
		if err == nil && int(c.Ordinal) < len(facts.Facts) &&
			facts.Facts[c.Ordinal].Kind == FactArchive {
			return &facts.Facts[c.Ordinal].Archive, nil
		}
		return nil, errors.Join(err, fmt.Errorf("%w: %d.%d has no transactions of customer %d at %d",
			rows.ErrEvent, c.Index, c.Position, customer, c.Ordinal))
	}
}
