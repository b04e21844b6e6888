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

// A deduction can be reversed, and a repeated request must find what it made, after the transaction
// has left memory. What memory keeps then is its trace: enough to find it, and to tell whether what
// a proposer has read in its journal is what this machine wrote there.

const (
	// MaxTraces is how many traces of a pool are kept: 80 MB. Beyond it the oldest go once they are
	// as old as a request that is repeated under its Idempotency-Key may be. As long as they are
	// not, DeductCredits is OutcomeDeductionLimit.
	MaxTraces = 2_000_000
	// ReversalMS is how long a deduction can be reversed after it has left memory, in log time.
	ReversalMS = 30 * accounts.DayMS
)

// CreditBounds are bounds of each pool; 0 stands for MaxTransactions, MaxTraces.
type CreditBounds struct{ MaxNewest, MostTraces uint32 }

func (b CreditBounds) newest() uint32 { return cmp.Or(b.MaxNewest, catalogs.MaxTransactions) }

func (b CreditBounds) traces() uint32 { return cmp.Or(b.MostTraces, MaxTraces) }

// Trace is what memory keeps of a deduction or a reversal that has left it. sum is a checksum of
// the ArchivedTransaction in the journal; next is the pool's next younger trace, or of a free row
// the next free one.
//
//schema:row
type Trace struct {
	ID                        [16]byte
	Pool, Sequence, Next, Sum uint32
}

// Chunk says where a chunk of a pool's transactions is, and which of them are reversed: its lowest
// bit is that of its first transaction. It stays forever, two thirds of a byte for a transaction,
// so that nothing is reversed twice, and lists show what is reversed.
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

// ChunkOf finds the chunk that has a pool's transaction; 0 where that is in memory.
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

// ReversedSince reports whether a transaction was reversed, though the journal's record of it may
// say otherwise.
func (s *Vault) ReversedSince(x *Transaction) bool {
	row := s.ChunkOf(x.Pool, x.Sequence)
	return x.Reversed || row != 0 && s.Chunks.Read(row).Reversed&chunkBit(x.Sequence) != 0
}

// SetReversed notes that a transaction that has left memory is reversed. The customer's lock is
// held.
func (t *Burner) SetReversed(x *Transaction) {
	row := t.S.ChunkOf(x.Pool, x.Sequence)
	c := t.S.Chunks.Write(row)
	c.Reversed |= chunkBit(x.Sequence)
	t.Fold(uint64(row) ^ c.Reversed)
}

// TraceWith finds the trace of a transaction by its UUID; 0 when there is none. Rows of traces are
// used again, so only Apply may ask, or who holds its lock.
func (s *Vault) TraceWith(id *[16]byte) uint32 {
	return s.traceByID.Find(s.IDHash(id), func(row uint32) bool {
		return s.Traces.Read(row).ID == *id
	})
}

// trace keeps the trace of a transaction that leaves memory, where it has to be found by its id.
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

// archivedSum tells what the journal has of a transaction from anything else.
func archivedSum(held *ArchivedTransaction) uint32 {
	return crc32.Checksum(wire.Encode(nil, held), Castagnoli)
}

// dropTraces forgets traces of a pool that are old enough: at most two chunks of them at a time.
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

// traceAge is how long ago, in log time, a transaction has left memory.
func (t *Burner) traceAge(row uint32) int64 {
	x := t.S.Traces.Read(row)
	return t.Stamp - t.S.Chunks.Read(t.S.ChunkOf(x.Pool, x.Sequence)).Place.At
}

// DeductionsFull reports whether a pool keeps as many traces as it may, and that a repeated request
// may still ask for the oldest of them.
func (t *Burner) DeductionsFull(pool uint32) bool {
	a := t.S.Archives.Read(pool)
	return a.Traces >= t.Bounds.traces() && t.traceAge(a.FirstTrace) < accounts.RequestRetentionMS
}

// LeftReply is the outcome of a repeated command whose transaction has left memory: the proposer
// reads it with LeftTransaction.
func (t *Burner) LeftReply(env uint32, row uint32) engine.Outcome {
	if t.S.Customers.Read(t.S.Pools.Read(t.S.Traces.Read(row).Pool).Customer).Env != env {
		return engine.OutcomeIDsContradict
	}
	return engine.OutcomeTransactionLeft
}

// LeftTransaction is a transaction that OutcomeTransactionLeft speaks of. Record is what a
// ReverseTransaction of it carries.
type LeftTransaction struct {
	TransactionView
	Record []byte
}

// Brought is a transaction that a command has brought from the journal, if that is what its trace
// says.
func (t *Burner) Brought(row uint32, record []byte) (held ArchivedTransaction, ok bool) {
	x := t.S.Traces.Read(row)
	if len(record) == 0 || wire.Decode(record, &held) != nil {
		return held, false
	}
	return held, held.ID == x.ID && held.Pool == x.Pool && held.Sequence == x.Sequence &&
		archivedSum(&held) == x.Sum
}
