package billing

import (
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"tollgate/engine"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/idempotency"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
)

// ErrKeysUncovered means that this node's files lack keys that have left memory.
var ErrKeysUncovered = errors.New("billing: the key files of this node are behind")

// DemoteKeys removes the idempotency keys before number Through from memory. From then on a usage
// event needs the verdict of files about its key: see ProbeUsage. It is proposed when a majority of
// the voters has these keys in files.
type DemoteKeys struct {
	Through uint64 `wire:"1"`
}

func (c *DemoteKeys) apply(t *turn) engine.Outcome {
	t.keys.Demote(c.Through)
	t.Fold(t.keys.Present().Memory)
	return engine.OutcomeDone
}

// KeySpan reports which idempotency keys are kept, and which of them are in memory.
func (m *Machine) KeySpan() idempotency.Span { return m.state.Load().keys.Span() }

// KeysWanted returns the number up to which files should have the keys. Half of the keys in memory
// should be ready to leave it.
func (m *Machine) KeysWanted() uint64 {
	s := m.state.Load()
	span, keep := s.keys.Span(), s.Limits.Load().MemoryKeys()/2
	return max(span.Memory, max(span.Next, keep)-keep)
}

// KeysToDemote returns the number before which keys should leave memory, as far as files have them;
// 0 while memory has room. One step frees a quarter of the room.
func (m *Machine) KeysToDemote() uint64 {
	s := m.state.Load()
	span, room := s.keys.Span(), s.Limits.Load().MemoryKeys()
	if span.InMemory() <= room {
		return 0
	}
	return span.Next - (room - room/4)
}

// Demotion returns the command that removes the keys before a number from memory.
func (m *Machine) Demotion(through uint64) engine.Record {
	payload := wire.Encode(nil, &DemoteKeys{through})
	return engine.Record{Kind: KindDemoteKeys, Payload: payload}
}

// JournalKey returns the key of a journal record and what its slot keeps; false for a record that
// is not a usage event.
func JournalKey(r journal.Record) (e idempotency.Entry, ok bool, err error) {
	if r.Kind != journal.KindUsage {
		return e, false, nil
	}
	var u usageEntry
	var c RecordUsage
	if err := errors.Join(wire.Decode(r.Payload, &u), wire.Decode(u.Record, &c)); err != nil {
		return e, false, fmt.Errorf("%w: %w", rows.ErrEvent, err)
	}
	return idempotency.Entry{Key: c.Key, Slot: idempotency.Slot{
		Attempt: c.Attempt, Fingerprint: c.Fingerprint, Outcome: uint8(u.Outcome),
	}}, true, nil
}

// probedUsage is a RecordUsage with the files' verdict about its key. The verdict is not part of
// the record, so the journal's records stay the same.
type probedUsage struct {
	Through uint64 `wire:"1"`
	After   uint64 `wire:"2"` // the number found, and one; 0: none
	Attempt uint32 `wire:"3"`
	Packed  uint32 `wire:"4"` // fingerprint, and the outcome in the upper 8 bits
	Record  []byte `wire:"5"`
}

// AppendProbedUsage appends the payload of a KindRecordProbedUsage record: the bytes of Seal, and
// the files' verdict about its key.
func AppendProbedUsage(dst, record []byte, v *idempotency.Verdict) []byte {
	c := probedUsage{Through: v.Through, Record: record}
	if v.Found {
		c.After, c.Attempt = v.Number+1, v.Slot.Attempt
		c.Packed = v.Slot.Fingerprint | uint32(v.Slot.Outcome)<<fingerprintBits
	}
	w := wire.NewEncoder(dst)
	c.Fields(&w)
	return w.Encoded()
}

// SealedKey returns the idempotency key in the bytes of Seal.
func SealedKey(record []byte) [16]byte {
	var c RecordUsage
	d := wire.NewDecoder(record)
	c.head(&d)
	return c.Key
}

func openProbedUsage(m *Machine, payload []byte) (op, error) {
	var p probedUsage
	d := wire.NewDecoder(payload)
	p.Fields(&d)
	if err := d.Close(); err != nil {
		return nil, err
	}
	c, err := openUsage(m, p.Record)
	if err != nil {
		return nil, err
	}
	u := c.(*RecordUsage)
	u.payload = p.Record
	u.verdict = idempotency.Verdict{Through: p.Through}
	if p.After > 0 {
		u.verdict.Found, u.verdict.Number = true, p.After-1
		u.verdict.Slot = idempotency.Slot{
			Attempt: p.Attempt, Fingerprint: p.Packed & (1<<fingerprintBits - 1),
			Outcome: uint8(p.Packed >> fingerprintBits),
		}
	}
	return u, nil
}

// numberOf returns the number, from 0, of a kept key's record.
func (m *journalReader) numberOf(
	keys idempotency.Finder, key [16]byte,
) (n uint64, ok bool, err error) {
	m.applying.RLock()
	s := m.state.Load()
	age, found := s.keys.Age(key)
	span := s.keys.Span()
	m.applying.RUnlock()
	switch {
	case found:
		return span.Next - 1 - age, true, nil
	case span.OnDisk() == 0:
		return 0, false, nil
	case keys == nil:
		return 0, false, ErrKeysUncovered
	}
	v, err := keys.FindKey(key)
	if err != nil {
		return 0, false, err
	}
	if v.Through < span.Memory {
		return 0, false, fmt.Errorf("%w: they have those before %d, and %d have left memory",
			ErrKeysUncovered, v.Through, span.Memory)
	}
	return v.Number, v.Found && v.Number >= span.Base, nil
}

// kept reports whether an event's key is kept.
func (r *UsageRef) kept(s *state) bool { return r.Event != 0 && s.keys.Kept(r.Event-1) }

// forgettable reports whether the key of a corrected event was dropped. The event is older than its
// first correction, so its key is gone when no key from before that is kept.
func (c *correction) forgettable(t *turn) bool {
	return c.stamp < t.keys.Oldest()
}

// FindUsage finds a recorded usage event in the journal by its key. An event whose key was dropped
// is too old to be corrected, and it is not found. The node must have applied everything that its
// caller could have seen. FindUsage waits for the entry that is being applied. keys looks up keys
// that have left memory, and may be nil if none has.
//
// Each recorded event adds one key and one KindUsage record. So as many events follow it as keys
// follow its own, which gives its number in the journal without an index by key.
func (m *journalReader) FindUsage(
	src journal.Source, keys idempotency.Finder, env uint32, key [16]byte,
) (ref UsageRef, found bool, err error) {
	number, found, err := m.numberOf(keys, key)
	if err != nil || !found {
		return ref, false, err
	}
	number++ // the journal counts from 1
	r, err := src.Event(number)
	if err != nil {
		return ref, false, fmt.Errorf("billing: find usage event %d: %w", number, err)
	}
	var u usageEntry
	var c RecordUsage
	if err := errors.Join(wire.Decode(r.Payload, &u), wire.Decode(u.Record, &c)); err != nil {
		return ref, false, fmt.Errorf("billing: usage event %d: %w", number, err)
	}
	if c.Key != key {
		return ref, false, fmt.Errorf("billing: usage event %d has another key", number)
	}
	ref = UsageRef{
		Event: number, Index: r.Index, Position: r.Position, Owner: r.Owner,
		Hash: xxhash.Sum64(r.Payload), Payload: append([]byte(nil), r.Payload...),
	}
	return ref, c.Env == env, nil
}
