package enginetest

import (
	"crypto/sha256"
	"fmt"

	"tollgate/engine"
	"tollgate/engine/wire"
)

// Log feeds entries to a state machine, as a Raft group would, and keeps them, so that a test can
// apply them again elsewhere.
type Log struct {
	Machine engine.Machine
	Shard   uint16
	// Index and Stamp belong to the last entry; a test moves Stamp on.
	Index uint64
	Stamp int64
	// Entries are all entries so far, when Keep is set.
	Keep    bool
	Entries [][]byte
	// Applied is what came of the last entry.
	Applied engine.Applied
}

// NewLog returns a log that begins with the machine's next entry, at a stamp.
func NewLog(m engine.Machine, stamp int64) *Log {
	return &Log{Machine: m, Index: m.Applied(), Stamp: max(stamp, m.Stamp()), Keep: true}
}

// Entry builds an entry of records at the present stamp.
func (l *Log) Entry(records ...engine.Record) []byte {
	return entryOf(l.Shard, l.Stamp, records...)
}

func entryOf(shard uint16, stamp int64, records ...engine.Record) []byte {
	e := engine.AppendHeader(nil, shard)
	for _, r := range records {
		e = engine.AppendRecord(e, r)
	}
	engine.SetStamp(e, stamp)
	return e
}

// Apply appends an entry of records and applies it.
func (l *Log) Apply(records ...engine.Record) ([]engine.Result, error) {
	return l.ApplyEntry(l.Entry(records...))
}

// ApplyEntry appends an entry and applies it.
func (l *Log) ApplyEntry(entry []byte) ([]engine.Result, error) {
	if err := l.Machine.Apply(l.Index+1, entry, &l.Applied); err != nil {
		return nil, err
	}
	l.Index++
	if l.Keep {
		l.Entries = append(l.Entries, entry)
	}
	return l.Applied.Results, nil
}

// Do applies one command in an entry of its own, and again while it is deferred, as the cluster
// would. A command that stops the replica panics.
func (l *Log) Do(kind engine.Kind, c wire.Fielder) engine.Result {
	return l.DoPayload(kind, wire.Encode(nil, c))
}

// DoPayload is Do for a payload that is encoded already.
func (l *Log) DoPayload(kind engine.Kind, payload []byte) engine.Result {
	for {
		results, err := l.Apply(engine.Record{Kind: kind, Payload: payload})
		if err != nil {
			panic(fmt.Sprintf("enginetest: %v", err))
		}
		if results[0].Outcome != engine.OutcomeDeferred {
			return results[0]
		}
	}
}

// ID makes a UUID of a name, the same one every time.
func ID(name string) (id [16]byte) {
	sum := sha256.Sum256([]byte(name))
	copy(id[:], sum[:])
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}
