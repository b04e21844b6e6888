// Package machine is what the state machines have in common: how an entry is decoded and closed, a
// machine's position in its log, the table of commands, rings of records and blocks of snapshots.
// It knows no domain. See DESIGN.md.
package machine

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"tollgate/engine"
	"tollgate/engine/wire"
)

// Log is a state's position in the log that it follows from. Apply is its only writer; any
// goroutine reads.
type Log struct {
	applied atomic.Uint64
	stamp   atomic.Int64
	version atomic.Uint32
	// mu guards the pair that Hash returns; Apply, which alone changes it, reads it without.
	mu          sync.Mutex
	index, hash uint64
}

// Applied is the index of the newest entry.
func (l *Log) Applied() uint64 { return l.applied.Load() }

// Stamp is the newest stamp, in milliseconds since 1970 UTC.
func (l *Log) Stamp() int64 { return l.stamp.Load() }

// Version is the cluster version that was agreed on.
func (l *Log) Version() uint32 { return l.version.Load() }

// Agree makes a version the one that was agreed on.
func (l *Log) Agree(version uint32) { l.version.Store(version) }

// Hash is the rolling hash, and the index that it belongs to.
func (l *Log) Hash() (index, hash uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index, l.hash
}

// Publish makes an entry's index, stamp and hash known to queries.
func (l *Log) Publish(index uint64, stamp int64, hash uint64) {
	l.mu.Lock()
	l.index, l.hash = index, hash
	l.mu.Unlock()
	l.stamp.Store(stamp)
	l.applied.Store(index)
}

// Asked answers queries about the log, which every machine has. A machine embeds it.
type Asked struct{ log func() *Log }

// Ask returns the answers about the log of a machine's present state.
func Ask(log func() *Log) Asked { return Asked{log} }

// Applied is the index of the last entry that was applied, or restored from a snapshot.
func (a Asked) Applied() uint64 { return a.log().Applied() }

// Stamp is the newest stamp that was applied, in milliseconds since 1970 UTC.
func (a Asked) Stamp() int64 { return a.log().Stamp() }

// Clock is the log time of a query: the newest stamp, or the node's own clock where that is ahead.
func (a Asked) Clock(nowMS int64) int64 { return max(a.Stamp(), nowMS) }

// StateHash is the rolling hash of everything applied so far, and the index that it belongs to.
func (a Asked) StateHash() (index, hash uint64) { return a.log().Hash() }

// Version is the cluster version that the log has agreed on, and the newest that this build knows.
func (a Asked) Version() (agreed, known uint32) { return a.log().Version(), engine.Version }

// Turn is an entry's turn in Apply, and that of the record that is carried out.
type Turn struct {
	log *Log
	// Index and Position are the record's place in the log, Stamp is its time.
	Index    uint64
	Position uint32
	Stamp    int64
	// Payload is the record as the log carries it, Reply becomes Result.Value.
	Payload, Reply []byte
	// Hash is the rolling hash so far.
	Hash uint64
}

// Base returns the turn itself: machines embed it in turns of their own.
func (t *Turn) Base() *Turn { return t }

// Fold mixes a value into the rolling hash.
func (t *Turn) Fold(v uint64) { t.Hash = Fold(t.Hash, v) }

// replyBytes is room for the usual reply.
const replyBytes = 256

// Answer makes a reply the record's.
func (t *Turn) Answer(reply wire.Fielder) {
	t.Reply = wire.Encode(make([]byte, 0, replyBytes), reply)
}

// Conclude folds a record's outcome and adds its result.
func (t *Turn) Conclude(o engine.Outcome, out *engine.Applied) {
	t.Fold(uint64(o))
	out.Results = append(out.Results, engine.Result{Outcome: o, Value: t.Reply})
}

// Fold mixes v into a rolling hash: one multiplication to 128 bits, halves joined, as wyhash does.
// It detects divergence, not malice.
func Fold(hash, v uint64) uint64 {
	high, low := bits.Mul64(hash^0xa0761d6478bd642f, v^0xe7037ed1a0b428db)
	return high ^ low ^ v
}
