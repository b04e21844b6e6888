package credits

import (
	"cmp"
	"hash/crc32"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/machine"
	"tollgate/engine/wire"
)

// A deduction can be reversed, and a repeated request must find its transaction, after the
// transaction has left memory. Memory then keeps its trace: enough to find it, and to check that
// the record which a proposer read from its journal is the one that was written.

const (
	// MaxTraces bounds the traces of a pool: 80 MB. Beyond it the oldest are dropped, once they are
	// older than a request with an Idempotency-Key may be repeated. Until then, DeductCredits is
	// OutcomeDeductionLimit.
	MaxTraces = 2_000_000
	// ReversalMS is how long a deduction can be reversed after it has left memory, in log time.
	ReversalMS = 30 * accounts.DayMS
)

// CreditBounds are bounds of each pool; 0 is MaxTransactions or MaxTraces.
type CreditBounds struct{ MaxNewest, MaxTraces uint32 }

func (b CreditBounds) newest() uint32 { return cmp.Or(b.MaxNewest, catalogs.MaxTransactions) }

func (b CreditBounds) traces() uint32 { return cmp.Or(b.MaxTraces, MaxTraces) }

// Trace is what memory keeps of a deduction or a reversal that has left it. Sum is a checksum of
// the ArchivedTransaction in the journal. Next is the pool's next younger trace, or, of a free row,
// the next free one.
//
//schema:row
type Trace struct {
	ID                        [16]byte
	Pool, Sequence, Next, Sum uint32
}

// Chunk is the place of a chunk of a pool's transactions, and which of them are reversed: the
// lowest bit is the first transaction's. It stays forever, two thirds of a byte per transaction, so
// that nothing is reversed twice and lists show reversals.
//
//schema:row
type Chunk struct {
	Place        ChunkPlace
	Reversed     uint64
	Pool, Number uint32 // number: from 0; neither ever changes
}

func chunkNumber(sequence uint32) uint32 { return (sequence - 1) / EvictedAtOnce }

func chunkBit(sequence uint32) uint64 { return 1 << ((sequence - 1) % EvictedAtOnce) }

// ChunkHash is where the index has a chunk.
func ChunkHash(pool, number uint32) uint64 {
	return machine.Fold(0, uint64(pool)<<32|uint64(number))
}

// ChunkOf finds the chunk with a pool's transaction; 0 if the transaction is in memory.
func (s *Vault) ChunkOf(pool, sequence uint32) uint32 {
	number := chunkNumber(sequence)
	return s.ChunkByPool.Find(ChunkHash(pool, number), func(row uint32) bool {
		c := s.Chunks.Read(row)
		return c.Pool == pool && c.Number == number
	})
}

func (t *Burner) addChunk(c *Chunk) {
	row, r := t.S.Chunks.Append()
	*r = *c
	t.S.ChunkByPool.Insert(ChunkHash(c.Pool, c.Number), row)
	t.Fold(uint64(row) ^ c.Reversed)
}

// ReversedSince reports whether a transaction was reversed after its record was written to the
// journal.
func (s *Vault) ReversedSince(x *Transaction) bool {
	row := s.ChunkOf(x.Pool, x.Sequence)
	return x.Reversed || row != 0 && s.Chunks.Read(row).Reversed&chunkBit(x.Sequence) != 0
}

// SetReversed marks a transaction that has left memory as reversed. Callers hold the customer's
// lock.
func (t *Burner) SetReversed(x *Transaction) {
	row := t.S.ChunkOf(x.Pool, x.Sequence)
	c := t.S.Chunks.Write(row)
	c.Reversed |= chunkBit(x.Sequence)
	t.Fold(uint64(row) ^ c.Reversed)
}

// TraceWith finds the trace of a transaction by its UUID; 0 if there is none. Rows of traces are
// reused, so only Apply, or a holder of its lock, may call it.
func (s *Vault) TraceWith(id *[16]byte) uint32 {
	return s.traceByID.Find(s.IDHash(id), func(row uint32) bool {
		return s.Traces.Read(row).ID == *id
	})
}

// trace keeps the trace of a transaction that leaves memory, if requests may look for its id.
func (t *Burner) trace(held *ArchivedTransaction) {
	if held.Kind != TransactionDeduction && held.Kind != TransactionReversal {
		return
	}
	row := t.S.FreeTrace
	if row != 0 {
		t.S.FreeTrace = t.S.Traces.Read(row).Next
	} else {
		row, _ = t.S.Traces.Append()
	}
	*t.S.Traces.Write(row) = Trace{
		ID: held.ID, Pool: held.Pool, Sequence: held.Sequence, Sum: archivedSum(held),
	}
	t.S.traceByID.Insert(t.S.IDHash(&held.ID), row)
	a := t.S.Archives.Write(held.Pool)
	if a.FirstTrace == 0 {
		a.FirstTrace = row
	} else {
		t.S.Traces.Write(a.LastTrace).Next = row
	}
	a.LastTrace = row
	a.Traces++
}

// archivedSum is the checksum of a transaction in the journal.
func archivedSum(held *ArchivedTransaction) uint32 {
	return crc32.Checksum(wire.Encode(nil, held), Castagnoli)
}

// dropTraces drops traces of a pool that are old enough: at most two chunks at a time.
func (t *Burner) dropTraces(pool uint32) {
	a := t.S.Archives.Write(pool)
	for range 2 * EvictedAtOnce {
		row := a.FirstTrace
		if row == 0 {
			return
		}
		age := t.traceAge(row)
		if age < ReversalMS && (a.Traces <= t.Bounds.traces() || age < accounts.RequestRetentionMS) {
			return
		}
		x := t.S.Traces.Write(row)
		t.S.traceByID.Remove(t.S.IDHash(&x.ID), row)
		a.FirstTrace = x.Next
		a.Traces--
		*x = Trace{Next: t.S.FreeTrace}
		t.S.FreeTrace = row
	}
}

// traceAge returns how long ago, in log time, a transaction left memory.
func (t *Burner) traceAge(row uint32) int64 {
	x := t.S.Traces.Read(row)
	return t.Stamp - t.S.Chunks.Read(t.S.ChunkOf(x.Pool, x.Sequence)).Place.At
}

// DeductionsFull reports whether a pool keeps the maximum of traces and a repeated request may ask
// for the oldest.
func (t *Burner) DeductionsFull(pool uint32) bool {
	a := t.S.Archives.Read(pool)
	return a.Traces >= t.Bounds.traces() && t.traceAge(a.FirstTrace) < accounts.RequestRetentionMS
}

// LeftReply returns the outcome of a repeated command whose transaction has left memory: the
// proposer reads it with LeftTransaction.
func (t *Burner) LeftReply(env uint32, row uint32) engine.Outcome {
	if t.S.Customers.Read(t.S.Pools.Read(t.S.Traces.Read(row).Pool).Customer).Env != env {
		return engine.OutcomeIDsContradict
	}
	return engine.OutcomeTransactionLeft
}

// LeftTransaction is the transaction of an OutcomeTransactionLeft. A ReverseTransaction of it
// carries Record.
type LeftTransaction struct {
	TransactionView
	Record []byte
}

// Brought decodes the transaction that a command carries from the journal, if it matches its trace.
func (t *Burner) Brought(row uint32, record []byte) (held ArchivedTransaction, ok bool) {
	x := t.S.Traces.Read(row)
	if len(record) == 0 || wire.Decode(record, &held) != nil {
		return held, false
	}
	return held, held.ID == x.ID && held.Pool == x.Pool && held.Sequence == x.Sequence &&
		archivedSum(&held) == x.Sum
}
