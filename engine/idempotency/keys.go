// Package idempotency remembers which keys were used: every key for at least the retention, in
// log time, at 35 to 39 bytes each, without work for the garbage collector. See DESIGN.md.
package idempotency

import (
	"encoding/binary"
	"hash/maphash"
	"sync/atomic"
)

// marginMS is how long keys outlive the retention (10 minutes): an event may be dated five minutes
// ahead of the log, and is refused only when it is older than the retention.
const marginMS = 10 * 60 * 1000

// generations is how many generations the time that keys are kept spans: keys stay a sixteenth
// longer than they must, and there are never more than seventeen or so.
const generations = 16

// chunkKeys is the number of records in one allocation (96 KiB).
const chunkKeys = 4096

// Slot is what is kept of the first request that used a key.
type Slot struct {
	// Attempt is the tag of the record that was carried out: the same key with the same tag is
	// that record sent again.
	Attempt uint32
	// Fingerprint is 24 bits of a hash of the body.
	Fingerprint uint32
	// Outcome is what came of it, in the numbers of the engine.
	Outcome uint8
}

// record is a key and its slot. Records never change, and are numbered from 0 in the order of
// Add for as long as the Keys live.
type record struct {
	key     [16]byte
	attempt uint32
	packed  uint32 // outcome in the upper 8 bits, fingerprint in the lower 24
}

func (r *record) slot() Slot {
	return Slot{Attempt: r.attempt, Fingerprint: r.packed & 0xffffff, Outcome: uint8(r.packed >> 24)}
}

type chunk [chunkKeys]record

// generation is a span of log time, whose keys are dropped together.
type generation struct {
	first          uint64 // number of its first record
	opened, newest int64  // stamps of its first and its last record, in milliseconds
}

// Keys is the set of used keys. One goroutine finds, adds and expires; Len and Bytes are for any.
type Keys struct {
	retention int64
	ages      []generation // oldest first; the last one is open

	base, next uint64 // numbers of the oldest record that is kept, and of the next one
	chunks     []*chunk
	chunkBase  uint64 // number of the first record of chunks[0]

	index index
	seed  maphash.Seed

	length, bytes atomic.Uint64
}

// New makes an empty set that keeps keys for retentionMS milliseconds of log time.
func New(retentionMS int64) *Keys {
	k := &Keys{retention: max(retentionMS, 1), seed: maphash.MakeSeed()}
	k.account()
	return k
}

// Len is the number of keys that are kept. Any goroutine.
func (k *Keys) Len() uint64 { return k.length.Load() }

// Bytes is the memory that they take, in bytes. Any goroutine.
func (k *Keys) Bytes() uint64 { return k.bytes.Load() }

// Retention is how long keys are kept at least, in milliseconds of log time.
func (k *Keys) Retention() int64 { return k.retention }

// SetRetention changes how long keys are kept, in milliseconds of log time, for all that are there.
func (k *Keys) SetRetention(ms int64) { k.retention = max(ms, 1) }

// Find returns what was kept of a key.
func (k *Keys) Find(key [16]byte) (Slot, bool) {
	if r, _ := k.find(key); r != nil {
		return r.slot(), true
	}
	return Slot{}, false
}

// Age is how many keys were added after this one.
func (k *Keys) Age(key [16]byte) (uint64, bool) {
	r, low := k.find(key)
	if r == nil {
		return 0, false
	}
	return k.next - 1 - k.base - uint64(low-uint32(k.base)), true
}

// find returns a key's record and the lower 32 bits of its number, or nil.
func (k *Keys) find(key [16]byte) (*record, uint32) {
	hash := k.hash(key)
	slots, tag := k.index.slots(hash), tagOf(hash)
	if len(slots) == 0 {
		return nil, 0
	}
	for i := place(tag, len(slots)); slots[i] != 0; {
		if uint32(slots[i]>>32) == tag {
			if r := k.record(uint32(slots[i])); r != nil && r.key == key {
				return r, uint32(slots[i])
			}
		}
		if i++; i == len(slots) {
			i = 0
		}
	}
	return nil, 0
}

// Near is the memory that Find and Add of a key begin with, so that the misses of several keys can
// overlap: read it ahead of them. What stands there means nothing to anyone else.
func (k *Keys) Near(key [16]byte) *uint64 {
	hash := k.hash(key)
	slots := k.index.slots(hash)
	if len(slots) == 0 {
		return &k.index.total
	}
	return &slots[place(tagOf(hash), len(slots))]
}

// hash is seeded per process: callers choose their keys, and must not be able to choose those
// that meet in one sub-table. Nothing of the state depends on it.
func (k *Keys) hash(key [16]byte) uint64 { return maphash.Bytes(k.seed, key[:]) }

// record returns the record whose number has these lower 32 bits; nil when it was dropped.
func (k *Keys) record(low uint32) *record {
	distance := low - uint32(k.base)
	if uint64(distance) >= k.next-k.base {
		return nil
	}
	n := k.base + uint64(distance) - k.chunkBase
	return &k.chunks[n/chunkKeys][n%chunkKeys]
}

// Add keeps a key that Find did not find. stamp is the log's time in milliseconds, which never
// goes backwards. Fingerprint is cut to 24 bits. At most 2³²−1 keys are kept at a time; that is
// the caller's budget to watch, by Len.
func (k *Keys) Add(key [16]byte, s Slot, stamp int64) {
	k.age(stamp)
	n, slots := k.next-k.chunkBase, k.index.total
	more := n == uint64(len(k.chunks))*chunkKeys
	if more {
		k.chunks = append(k.chunks, new(chunk))
	}
	k.chunks[n/chunkKeys][n%chunkKeys] = record{
		key: key, attempt: s.Attempt, packed: s.Fingerprint&0xffffff | uint32(s.Outcome)<<24,
	}
	dropped := k.dropped
	if k.base == 0 {
		dropped = nil
	}
	k.index.insert(k.hash(key), uint32(k.next), dropped)
	k.next++
	if more || k.index.total != slots {
		k.account()
	} else {
		k.length.Store(k.next - k.base)
	}
}

// age opens a generation when there is none, or when the open one is old enough, and notes stamp.
func (k *Keys) age(stamp int64) {
	span := (k.retention + marginMS) / generations
	if n := len(k.ages); n == 0 || stamp-k.ages[n-1].opened >= span {
		k.ages = append(k.ages, generation{first: k.next, opened: stamp})
	}
	k.ages[len(k.ages)-1].newest = stamp
}

// dropped says whether the record with these lower 32 bits is gone.
func (k *Keys) dropped(low uint32) bool {
	return uint64(low-uint32(k.base)) >= k.next-k.base
}

// Expire drops the generations whose keys are all older than the retention and ten minutes. The
// index forgets them when its parts grow, so this touches no key.
func (k *Keys) Expire(stamp int64) {
	n := 0
	for n < len(k.ages) && stamp-k.ages[n].newest > k.retention+marginMS {
		n++
	}
	if n == 0 {
		return
	}
	k.base = k.next
	if n < len(k.ages) {
		k.base = k.ages[n].first
	}
	// A new slice: a snapshot may hold the old one, and dropped chunks must not hang on to it.
	k.ages = append([]generation(nil), k.ages[n:]...)
	gone := (k.base - k.chunkBase) / chunkKeys
	k.chunks = append([]*chunk(nil), k.chunks[gone:]...)
	k.chunkBase += gone * chunkKeys
	k.account()
}

func (k *Keys) account() {
	k.length.Store(k.next - k.base)
	k.bytes.Store(uint64(len(k.chunks))*chunkKeys*24 + uint64(cap(k.chunks))*8 + k.index.bytes())
}

func (r *record) append(dst []byte) []byte {
	dst = append(dst, r.key[:]...)
	dst = binary.LittleEndian.AppendUint32(dst, r.attempt)
	return binary.LittleEndian.AppendUint32(dst, r.packed)
}
