package billing

import (
	"cmp"
	"hash/crc32"

	"tollgate/engine"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/journal"
	"tollgate/engine/machine"
	"tollgate/engine/page"
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
	ReversalMS = 30 * dayMS
)

// creditBounds are bounds of each pool; 0 stands for MaxTransactions, MaxTraces.
type creditBounds struct{ mostNewest, mostTraces uint32 }

func (b creditBounds) newest() uint32 { return cmp.Or(b.mostNewest, MaxTransactions) }
func (b creditBounds) traces() uint32 { return cmp.Or(b.mostTraces, MaxTraces) }

// trace is what memory keeps of a deduction or a reversal that has left it. sum is a checksum of
// the archivedTransaction in the journal; next is the pool's next younger trace, or of a free row
// the next free one.
type trace struct {
	id                        [16]byte
	pool, sequence, next, sum uint32
}

var traceCodec = page.Codec[trace]{
	Append: func(dst []byte, x *trace) []byte {
		dst = rows.AppendU32(rows.AppendU32(append(dst, x.id[:]...), x.pool), x.sequence)
		return rows.AppendU32(rows.AppendU32(dst, x.next), x.sum)
	},
	Read: func(src []byte, x *trace) ([]byte, error) {
		r := rows.Reader{Rest: src}
		x.id, x.pool, x.sequence, x.next, x.sum = r.ID(), r.U32(), r.U32(), r.U32(), r.U32()
		return r.Rest, r.Err
	},
}

// chunk says where a chunk of a pool's transactions is, and which of them are reversed: its lowest
// bit is that of its first transaction. It stays for good, two thirds of a byte for a transaction,
// so that nothing is reversed twice, and lists tell what is reversed.
type chunk struct {
	place        chunkPlace
	reversed     uint64
	pool, number uint32 // number: from 0; neither ever changes
}

var chunkCodec = page.Codec[chunk]{
	Append: func(dst []byte, c *chunk) []byte {
		dst = rows.AppendI64(appendChunkPlace(dst, c.place), int64(c.reversed))
		return rows.AppendU32(rows.AppendU32(dst, c.pool), c.number)
	},
	Read: func(src []byte, c *chunk) ([]byte, error) {
		r := rows.Reader{Rest: src}
		c.place, c.reversed, c.pool, c.number = readChunkPlace(&r), r.U64(), r.U32(), r.U32()
		return r.Rest, r.Err
	},
}

func chunkNumber(sequence uint32) uint32 { return (sequence - 1) / evictedAtOnce }
func chunkBit(sequence uint32) uint64    { return 1 << ((sequence - 1) % evictedAtOnce) }

// chunkHash is where the index has a chunk.
func chunkHash(pool, number uint32) uint64 {
	return machine.Fold(0, uint64(pool)<<32|uint64(number))
}

// chunkOf finds the chunk that has a pool's transaction; 0 where that is in memory.
func (s *vault) chunkOf(pool, sequence uint32) uint32 {
	number := chunkNumber(sequence)
	return s.chunkByPool.Find(chunkHash(pool, number), func(row uint32) bool {
		c := s.chunks.Read(row)
		return c.pool == pool && c.number == number
	})
}

func (t *burner) addChunk(c *chunk) {
	row, r := t.s.chunks.Append()
	*r = *c
	t.s.chunkByPool.Insert(chunkHash(c.pool, c.number), row)
	t.Fold(uint64(row) ^ c.reversed)
}

// reversedSince reports whether a transaction was reversed, though the journal's record of it may
// say otherwise.
func (s *vault) reversedSince(x *transaction) bool {
	row := s.chunkOf(x.pool, x.sequence)
	return x.reversed || row != 0 && s.chunks.Read(row).reversed&chunkBit(x.sequence) != 0
}

// setReversed notes that a transaction that has left memory is reversed. The customer's lock is
// held.
func (t *burner) setReversed(x *transaction) {
	row := t.s.chunkOf(x.pool, x.sequence)
	c := t.s.chunks.Write(row)
	c.reversed |= chunkBit(x.sequence)
	t.Fold(uint64(row) ^ c.reversed)
}

// traceWith finds the trace of a transaction by its UUID; 0 when there is none. Rows of traces are
// used again, so only Apply may ask, or who holds its lock.
func (s *vault) traceWith(id *[16]byte) uint32 {
	return s.traceByID.Find(s.idHash(id), func(row uint32) bool {
		return s.traces.Read(row).id == *id
	})
}

// trace keeps the trace of a transaction that leaves memory, where it has to be found by its id.
func (t *burner) trace(held *archivedTransaction) {
	if held.kind != transactionDeduction && held.kind != transactionReversal {
		return
	}
	row := t.s.freeTrace
	if row != 0 {
		t.s.freeTrace = t.s.traces.Read(row).next
	} else {
		row, _ = t.s.traces.Append()
	}
	*t.s.traces.Write(row) = trace{
		id: held.id, pool: held.pool, sequence: held.sequence, sum: archivedSum(held),
	}
	t.s.traceByID.Insert(t.s.idHash(&held.id), row)
	a := t.s.archives.Write(held.pool)
	if a.firstTrace == 0 {
		a.firstTrace = row
	} else {
		t.s.traces.Write(a.lastTrace).next = row
	}
	a.lastTrace = row
	a.traces++
}

// archivedSum tells what the journal has of a transaction from anything else.
func archivedSum(held *archivedTransaction) uint32 {
	return crc32.Checksum(wire.Encode(nil, held), castagnoli)
}

// dropTraces forgets traces of a pool that are old enough: at most two chunks of them at a time.
func (t *burner) dropTraces(pool uint32) {
	a := t.s.archives.Write(pool)
	for range 2 * evictedAtOnce {
		row := a.firstTrace
		if row == 0 {
			return
		}
		age := t.traceAge(row)
		if age < ReversalMS && (a.traces <= t.bounds.traces() || age < RequestRetentionMS) {
			return
		}
		x := t.s.traces.Write(row)
		t.s.traceByID.Remove(t.s.idHash(&x.id), row)
		a.firstTrace = x.next
		a.traces--
		*x = trace{next: t.s.freeTrace}
		t.s.freeTrace = row
	}
}

// traceAge is how long ago, in log time, a transaction has left memory.
func (t *burner) traceAge(row uint32) int64 {
	x := t.s.traces.Read(row)
	return t.Stamp - t.s.chunks.Read(t.s.chunkOf(x.pool, x.sequence)).place.At
}

// deductionsFull reports whether a pool keeps as many traces as it may, and that a repeated request
// may still ask for the oldest of them.
func (t *burner) deductionsFull(pool uint32) bool {
	a := t.s.archives.Read(pool)
	return a.traces >= t.bounds.traces() && t.traceAge(a.firstTrace) < RequestRetentionMS
}

// leftReply is the outcome of a repeated command whose transaction has left memory: the proposer
// reads it with LeftTransaction.
func (t *burner) leftReply(env uint32, row uint32) engine.Outcome {
	if t.s.customers.Read(t.s.pools.Read(t.s.traces.Read(row).pool).customer).env != env {
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

// LeftTransaction finds a deduction or a reversal by its UUID. What has left memory is read from
// the journal. False: there is none, or it is older than what can be reversed. It waits for the
// entry that is being applied, if there is one.
func (m *Machine) LeftTransaction(
	src journal.Source, env uint32, id [16]byte,
) (x LeftTransaction, found bool, err error) {
	held, customer, place := m.leftTransaction(&id)
	s := m.state.Load()
	if customer == 0 || s.customers.Read(customer).env != env {
		return x, false, nil
	}
	if place.Index != 0 {
		rows, err := chunkAt(src, customer, place)
		if err != nil {
			return x, false, err
		}
		for i := range rows.Rows {
			if rows.Rows[i].id == id {
				held = rows.Rows[i]
			}
		}
	}
	if held.id != id {
		return x, false, nil
	}
	x.Record = wire.Encode(nil, &held)
	lock := s.stripe(customer)
	lock.RLock()
	defer lock.RUnlock()
	x.TransactionView = s.transactionView(&held)
	return x, true, nil
}

// leftTransaction is what memory has of a transaction: all of it, or where in the journal it is.
func (m *Machine) leftTransaction(
	id *[16]byte,
) (held archivedTransaction, customer uint32, place chunkPlace) {
	m.applying.RLock()
	defer m.applying.RUnlock()
	s := m.state.Load()
	if row := s.transactionWith(id); row != 0 {
		held = s.heldTransaction(row)
		return held, s.pools.Read(held.pool).customer, place
	}
	if row := s.traceWith(id); row != 0 {
		x := s.traces.Read(row)
		place = s.chunks.Read(s.chunkOf(x.pool, x.sequence)).place
		return held, s.pools.Read(x.pool).customer, place
	}
	return held, 0, place
}

// brought is a transaction that a command has brought from the journal, if that is what its trace
// says.
func (t *burner) brought(row uint32, record []byte) (held archivedTransaction, ok bool) {
	x := t.s.traces.Read(row)
	if len(record) == 0 || wire.Decode(record, &held) != nil {
		return held, false
	}
	return held, held.id == x.id && held.pool == x.pool && held.sequence == x.sequence &&
		archivedSum(&held) == x.sum
}
