package machine

import (
	"errors"
	"fmt"
	"sync/atomic"

	"tollgate/engine"
)

// A Turner is the target of commands: it embeds the Turn of their entry.
type Turner interface{ Base() *Turn }

// Kernel decodes a machine's entries, closes their turns and remembers their hashes. It belongs to
// the goroutine that applies.
type Kernel[M any, T Turner] struct {
	// Shard is the number of the Raft group.
	Shard uint16
	// Table has the machine's commands.
	Table Table[M, T]
	// Snapshotting reports whether a snapshot was not released yet.
	Snapshotting atomic.Bool

	ring  engine.HashRing
	entry []Decoded[M, T]
}

// Decoded is a record of an entry.
type Decoded[M any, T Turner] struct {
	*Command[M, T]
	Op      Op[T]
	Payload []byte
}

// Builtin adds the kinds that mean the same in every machine, which a table may have a row of its
// own for.
func Builtin[M any, T Turner](t Table[M, T]) Table[M, T] {
	t[engine.KindTick].Name, t[engine.KindCheckState].Name = "Tick", "CheckState"
	t[engine.KindHandOver].Name, t[engine.KindSetVersion].Name = "HandOver", "SetVersion"
	return t
}

// Decode decodes a whole entry before its first record is applied, so that one that stops the
// replica has changed nothing. Every error wraps engine.ErrHalt. Its result is valid until the next
// entry.
func (k *Kernel[M, T]) Decode(m M, l *Log, index uint64, entry []byte) (
	Turn, []Decoded[M, T], error,
) {
	clear(k.entry)
	k.entry = k.entry[:0]
	h, records, err := engine.ParseNext(index, entry, k.Shard, l.Applied())
	if err != nil {
		return Turn{}, nil, err
	}
	for r, ok := records.Next(); ok; r, ok = records.Next() {
		row := k.Table.Find(r.Kind)
		if row == nil {
			return Turn{}, nil, fmt.Errorf("%w: entry %d has a record of the unknown kind %d",
				engine.ErrHalt, index, r.Kind)
		}
		op, err := k.open(m, row, r)
		if err != nil {
			return Turn{}, nil, fmt.Errorf("%w: entry %d, record %d (%s): %w",
				engine.ErrHalt, index, len(k.entry), row.Name, err)
		}
		k.entry = append(k.entry, Decoded[M, T]{row, op, r.Payload})
	}
	if err := records.Err(); err != nil {
		return Turn{}, nil, fmt.Errorf("%w: entry %d: %w", engine.ErrHalt, index, err)
	}
	return Turn{log: l, Index: index, Stamp: max(h.Stamp, l.Stamp()), Hash: l.hash}, k.entry, nil
}

// Close ends an entry's turn: it publishes the entry's hash, which includes the rows that next
// folds, and its stamp.
func (k *Kernel[M, T]) Close(t *Turn, next func(hash uint64) uint64) {
	t.Fold(uint64(t.Stamp))
	t.log.Publish(t.Index, t.Stamp, next(t.Hash))
	k.ring.Note(engine.CheckState{Index: t.Index, Hash: t.log.hash})
}

// Restored forgets the hashes of the state before the one that was restored.
func (k *Kernel[M, T]) Restored(l *Log) {
	k.ring.Forget()
	k.ring.Note(engine.CheckState{Index: l.index, Hash: l.hash})
}

// open decodes a record, by its row or as every machine does.
func (k *Kernel[M, T]) open(m M, row *Command[M, T], r engine.Record) (op Op[T], err error) {
	if row.Open != nil {
		return row.Open(m, r.Payload)
	}
	op = nothing[T]{}
	switch r.Kind {
	case engine.KindTick:
		err = empty(r.Payload)
	case engine.KindCheckState:
		err = k.agrees(r.Payload)
	case engine.KindHandOver:
		if _, ok := engine.ParseHandOver(r.Payload); !ok {
			err = malformed(r.Payload)
		}
	default:
		version, bad := engine.ParseSetVersion(r.Payload, engine.Version)
		op, err = setVersion[T](version), bad
	}
	return op, err
}

func malformed(payload []byte) error { return fmt.Errorf("payload of %d bytes", len(payload)) }

func empty(payload []byte) error {
	if len(payload) != 0 {
		return malformed(payload)
	}
	return nil
}

// agrees compares this replica's rolling hash with the leader's when the entry is decoded: a
// replica that disagrees applies nothing more.
func (k *Kernel[M, T]) agrees(payload []byte) error {
	c, ok := engine.ParseCheckState(payload)
	if !ok {
		return malformed(payload)
	}
	if !k.ring.Agrees(c) {
		return fmt.Errorf("after entry %d the leader's state hash was %016x, this one's differs",
			c.Index, c.Hash)
	}
	return nil
}

// nothing is a command without an effect of its own: its entry's stamp, or the decoding, was
// enough.
type nothing[T any] struct{}

func (nothing[T]) Apply(T) engine.Outcome { return engine.OutcomeDone }

// Tick is the row of KindTick of a machine that does something at ticks.
func Tick[M, T any](apply func(t T) engine.Outcome) Command[M, T] {
	return Command[M, T]{
		Always: true,
		Open:   func(_ M, payload []byte) (Op[T], error) { return ticks[T](apply), empty(payload) },
	}
}

type ticks[T any] func(t T) engine.Outcome

func (f ticks[T]) Apply(t T) engine.Outcome { return f(t) }

// setVersion raises the cluster version. One that is not newer changes nothing: two leaders may
// have asked the members.
type setVersion[T Turner] uint32

func (v setVersion[T]) Apply(turn T) engine.Outcome {
	if t := turn.Base(); uint32(v) > t.log.Version() {
		t.Fold(uint64(v))
		t.log.Agree(uint32(v))
	}
	return engine.OutcomeDone
}

// Hold begins a snapshot; false while another one was not released.
func (k *Kernel[M, T]) Hold() bool { return k.Snapshotting.CompareAndSwap(false, true) }

// errTruncated means that a record of a snapshot is cut short.
var errTruncated = errors.New("machine: truncated record in a snapshot")
