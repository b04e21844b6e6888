package billing

import (
	"fmt"
	"math"

	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
	"tollgate/engine/page"
	"tollgate/engine/wire"
)

// Transactions leave memory for the journal, the oldest first and all kinds alike, so that a pool's
// list is complete whatever its age. A chunk of them holds the same sequence numbers in every pool:
// 1 to 64, 65 to 128, and so on. What memory keeps of them is in credit_trace.go.

// evictedAtOnce is how many transactions leave a pool's memory together: a chunk.
const evictedAtOnce = 64

// creditFact is a movement of a pool's credits that no usage event has in its record: all kinds but
// CONSUMPTION. With the events' draws it is all that a pool's totals consist of.
type creditFact struct {
	Pool   uint32          `wire:"1"`
	Grant  uint32          `wire:"2"` // rows
	Kind   transactionKind `wire:"3"`
	Amount decimal.Decimal `wire:"4"`
}

// archiveFact is a chunk of a pool's transactions that have left memory, in their sequence, all
// final but for their reversal. Previous is the pool's chunk before it; its Index is 0 in the first
// one.
type archiveFact struct {
	Pool     uint32                `wire:"1"`
	Rows     []archivedTransaction `wire:"2"`
	Previous chunkPlace            `wire:"3"`
}

// archivedTransaction is a transaction with its text, outside of memory's rows.
type archivedTransaction struct {
	transaction
	transactionText
}

// Fields states the transaction's fields.
func (a *archivedTransaction) Fields(w *wire.Codec) {
	w.ID(1, &a.id)
	w.ID(2, &a.of)
	w.Decimal(3, &a.amount)
	w.Decimal(4, &a.balance)
	w.Int(5, &a.createdAt)
	w.Int(6, &a.updatedAt)
	wire.Uint(w, 7, &a.pool)
	wire.Uint(w, 8, &a.sequence)
	wire.Uint(w, 9, &a.grant)
	wire.Uint(w, 10, &a.subscription)
	wire.Uint(w, 11, &a.feature)
	wire.Uint(w, 12, &a.kind)
	w.Bool(13, &a.reversed)
	w.String(14, &a.Note)
	wire.List(w, 15, &a.Draws)
}

// chunkPlace is where in the journal a chunk is. Index 0: nowhere.
type chunkPlace struct {
	At       int64  `wire:"1"`
	Index    uint64 `wire:"2"`
	Position uint32 `wire:"3"`
	Ordinal  uint32 `wire:"4"`
}

func appendChunkPlace(dst []byte, c chunkPlace) []byte {
	dst = rows.AppendI64(rows.AppendI64(dst, c.At), int64(c.Index))
	return rows.AppendU32(rows.AppendU32(dst, c.Position), c.Ordinal)
}

func readChunkPlace(r *rows.Reader) chunkPlace {
	return chunkPlace{r.I64(), r.U64(), r.U32(), r.U32()}
}

// archive says what is left in memory of a pool's transactions that are not among its newest: the
// traces, linked from the oldest, and rows to use again. rows is where the newest chunk is.
type archive struct {
	firstTrace, lastTrace, traces, free uint32
	rows                                chunkPlace
}

var archiveCodec = page.Codec[archive]{
	Append: func(dst []byte, a *archive) []byte {
		dst = rows.AppendU32(rows.AppendU32(dst, a.firstTrace), a.lastTrace)
		dst = rows.AppendU32(rows.AppendU32(dst, a.traces), a.free)
		return appendChunkPlace(dst, a.rows)
	},
	Read: func(src []byte, a *archive) ([]byte, error) {
		r := rows.Reader{Rest: src}
		a.firstTrace, a.lastTrace = r.U32(), r.U32()
		a.traces, a.free = r.U32(), r.U32()
		a.rows = readChunkPlace(&r)
		return r.Rest, r.Err
	},
}

// noteMovement writes a booked transaction to the journal, for VerifyPools.
func (t *burner) noteMovement(x *transaction) {
	if x.kind == transactionConsumption {
		return // events have it in their records
	}
	t.keepFact(&fact{
		Kind: factCredits, At: x.createdAt, Customer: t.s.pools.Read(x.pool).customer,
		Credits: creditFact{Pool: x.pool, Grant: x.grant, Kind: x.kind, Amount: x.amount},
	})
}

// transactionRow is a row for a pool's next transaction. When there are enough of them, the oldest
// leave memory. The customer's lock is held.
func (t *burner) transactionRow(pool uint32) (row uint32) {
	if t.s.pools.Read(pool).transactions >= t.bounds.newest()+evictedAtOnce {
		t.evict(pool)
	}
	a := t.s.archives.Write(pool)
	if row = a.free; row != 0 {
		a.free = t.s.transactions.Read(row).next
		return row
	}
	row, _ = t.s.transactions.Append()
	t.s.transactionTexts.Append()
	return row
}

// evict takes a chunk of a pool's oldest transactions out of memory, and notes where it is.
func (t *burner) evict(pool uint32) {
	t.spend(evictedAtOnce)
	p, a := t.s.pools.Write(pool), t.s.archives.Write(pool)
	f := fact{
		Kind: factArchive, At: t.Stamp, Customer: p.customer,
		Archive: archiveFact{Pool: pool, Previous: a.rows},
	}
	left := chunk{pool: pool, number: chunkNumber(t.s.transactions.Read(p.firstTransaction).sequence)}
	for range evictedAtOnce {
		row := p.firstTransaction
		held := t.s.heldTransaction(row)
		p.firstTransaction, p.transactions = t.s.transactions.Read(row).next, p.transactions-1
		f.Archive.Rows = append(f.Archive.Rows, held)
		if held.reversed {
			left.reversed |= chunkBit(held.sequence)
		}
		t.s.transactionByID.Remove(t.s.idHash(&held.id), row)
		*t.s.transactions.Write(row) = transaction{pool: pool, next: a.free}
		t.s.transactionTexts.Write(row).Data = ""
		a.free = row
		t.trace(&held)
	}
	a.rows = t.keepFact(&f)
	left.place = a.rows
	t.addChunk(&left)
	t.dropTraces(pool)
}

// heldTransaction copies a transaction out of memory.
func (s *vault) heldTransaction(row uint32) archivedTransaction {
	var words transactionText
	decodeText(s.transactionTexts.Read(row).Data, &words)
	held := archivedTransaction{*s.transactions.Read(row), words}
	held.next = 0
	return held
}

// chunkAt reads a chunk of a customer's transactions.
func chunkAt(src journal.Source, customer uint32, c chunkPlace) (*archiveFact, error) {
	before := journal.Cursor{
		At: c.At, Index: c.Index, Position: c.Position, Ordinal: c.Ordinal - 1,
	}
	if c.Ordinal == 0 { // the record stands behind those of the entry's commands, of which it has one
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
		var facts factRecord
		err = wire.Decode(items[0].Payload, &facts)
		if err == nil && int(c.Ordinal) < len(facts.Facts) &&
			facts.Facts[c.Ordinal].Kind == factArchive {
			return &facts.Facts[c.Ordinal].Archive, nil
		}
	}
	return nil, fmt.Errorf("%w: %d.%d has no transactions of customer %d at %d: %w",
		ErrEvent, c.Index, c.Position, customer, c.Ordinal, err)
}
