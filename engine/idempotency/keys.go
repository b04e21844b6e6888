// Package idempotency remembers which keys were used: every key for at least the retention, in log
// time, at 35 to 39 bytes each, without work for the garbage collector. The oldest may be demoted
// to files that each node makes for itself. See DESIGN.md.
package idempotency

import (
	"encoding/binary"
	"hash/maphash"
	"math"
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

// Slot describes the first request that used a key.
type Slot struct {
	// Attempt is the tag of the record that was carried out: the same key with the same tag is
	// that record sent again.
	Attempt uint32
	// Fingerprint is 24 bits of a hash of the body.
	Fingerprint uint32
	// Outcome is its outcome, in the numbers of the engine.
	Outcome uint8
}

// record is a key and its slot. Records never change, and are numbered from 0 in the order of Add
// since the beginning of the log.
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
	first          uint64   // number of its first record
	opened, newest int64    // stamps of its first and its last record, in milliseconds
	owned          []uint32 // how many of its records each owner has; those of none are not counted
}

// Keys is the set of used keys. One goroutine finds, adds and expires. Len, Span and Bytes are for
// any, and are of the last Show.
type Keys struct {
	retention int64
	ages      []generation // oldest first; the last one is open

	// base and memory are the numbers of the oldest record that is kept, and of the oldest that is
	// in memory; next is that of the next one.
	base, memory, next uint64
	held               []uint64 // not state: owned keys of all ages, summed
	chunks             []*chunk
	chunkBase          uint64 // number of the first record of chunks[0]
	dead               bool   // the index may have slots of records that left memory

	index index
	seed  maphash.Seed

	length, bytes atomic.Uint64
	shown         [2]atomic.Uint64 // base and memory
}

// Span is the range of records, by their numbers: from Base on they are kept, from Memory on they
// are in memory, and Next comes next.
type Span struct{ Base, Memory, Next uint64 }

// OnDisk is how many records are kept, and not in memory.
func (s Span) OnDisk() uint64 { return s.Memory - s.Base }

// InMemory is how many records are in memory.
func (s Span) InMemory() uint64 { return s.Next - s.Memory }

// New makes an empty set that keeps keys for retentionMS milliseconds of log time.
func New(retentionMS int64) *Keys {
	k := &Keys{retention: max(retentionMS, 1), seed: maphash.MakeSeed()}
	k.Show()
	return k
}

// Len is the number of keys that are kept, in memory and on disk. Any goroutine.
func (k *Keys) Len() uint64 { return k.length.Load() }

// Span returns the range of keys. Any goroutine; concurrently with Show it may mix two moments.
func (k *Keys) Span() Span {
	base := k.shown[0].Load()
	memory := max(base, k.shown[1].Load())
	return Span{Base: base, Memory: memory, Next: max(memory, base+k.length.Load())}
}

// Present is the Span of this instant. For the goroutine that adds.
func (k *Keys) Present() Span { return Span{Base: k.base, Memory: k.memory, Next: k.next} }

// Kept reports whether the record of a number is kept, in memory or on disk.
func (k *Keys) Kept(number uint64) bool { return number >= k.base && number < k.next }

// Oldest is the log time, in milliseconds, before which no key was added that is kept.
func (k *Keys) Oldest() int64 {
	if len(k.ages) == 0 {
		return math.MaxInt64
	}
	return k.ages[0].opened
}

// Bytes is the memory that they take, in bytes. Any goroutine.
func (k *Keys) Bytes() uint64 { return k.bytes.Load() }

// Retention is the minimum time that keys are kept, in milliseconds of log time.
func (k *Keys) Retention() int64 { return k.retention }

// SetRetention changes how long keys are kept, in milliseconds of log time, for all that are there.
func (k *Keys) SetRetention(ms int64) { k.retention = max(ms, 1) }

// Find returns the slot of a key that is in memory. hash is the key's Hash, as in Near and Add.
func (k *Keys) Find(key [16]byte, hash uint64) (Slot, bool) {
	r, _, end := k.find(key, hash)
	if r == nil {
		k.index.missed(hash, end)
		return Slot{}, false
	}
	return r.slot(), true
}

// Age is how many keys were added after this one, which is in memory. Any goroutine, while no key
// is added.
func (k *Keys) Age(key [16]byte) (uint64, bool) {
	r, low, _ := k.find(key, k.Hash(key))
	if r == nil {
		return 0, false
	}
	return k.next - 1 - k.memory - uint64(low-uint32(k.memory)), true
}

// find returns a key's record and the lower 32 bits of its number, or nil and the slot where the
// search ended. It writes nothing.
func (k *Keys) find(key [16]byte, hash uint64) (r *record, low uint32, end int) {
	sub, tag := k.index.sub(hash), tagOf(hash)
	if len(sub.slots) == 0 {
		return nil, 0, 0
	}
	i := sub.place(tag)
	for ; !ends(sub.slots[i], tag); i++ {
		if uint32(sub.slots[i]>>32) == tag {
			if r := k.record(uint32(sub.slots[i])); r != nil && r.key == key {
				return r, uint32(sub.slots[i]), i
			}
		}
	}
	return nil, 0, i
}

// Near is the memory that Find and Add of a key begin with, so that the misses of several keys can
// overlap: read it ahead of them. Its content is meaningless to callers.
func (k *Keys) Near(hash uint64) *uint64 {
	sub := k.index.sub(hash)
	if len(sub.slots) == 0 {
		return &k.index.total
	}
	return &sub.slots[sub.place(tagOf(hash))]
}

// Hash is where the index has a key. It is seeded per process: callers choose their keys, and must
// not be able to choose keys that collide in one sub-table. The state does not depend on it.
func (k *Keys) Hash(key [16]byte) uint64 { return maphash.Bytes(k.seed, key[:]) }

// record returns the record whose number has these lower 32 bits; nil when it left memory.
func (k *Keys) record(low uint32) *record {
	distance := low - uint32(k.memory)
	if uint64(distance) >= k.next-k.memory {
		return nil
	}
	n := k.memory + uint64(distance) - k.chunkBase
	return &k.chunks[n/chunkKeys][n%chunkKeys]
}

// Add keeps a key that neither Find nor the files of demoted keys have. stamp is the log's time in
// milliseconds, which never goes backwards. Fingerprint is cut to 24 bits. owner is a number below
// 65,536, for Held; 0 stands for none. No more than 2³²−1 keys may be in memory at a time; callers
// watch that by Span.
func (k *Keys) Add(key [16]byte, hash uint64, s Slot, stamp int64, owner uint32) {
	k.age(stamp)
	if owner > 0 {
		k.own(&k.ages[len(k.ages)-1], owner, 1)
	}
	n := k.next - k.chunkBase
	if n == uint64(len(k.chunks))*chunkKeys {
		k.chunks = append(k.chunks, new(chunk))
	}
	// Assigned one by one: copying a composite literal stalls on store forwarding (bench/JOURNAL).
	r := &k.chunks[n/chunkKeys][n%chunkKeys]
	r.key, r.attempt = key, s.Attempt
	r.packed = s.Fingerprint&0xffffff | uint32(s.Outcome)<<24
	gone := k.gone
	if !k.dead {
		gone = nil
	}
	k.index.insert(hash, uint32(k.next), gone)
	k.next++
}

// age opens a generation when there is none, or when the open one is old enough, and notes stamp.
func (k *Keys) age(stamp int64) {
	span := (k.retention + marginMS) / generations
	if n := len(k.ages); n == 0 || stamp-k.ages[n-1].opened >= span {
		k.ages = append(k.ages, generation{first: k.next, opened: stamp})
	}
	k.ages[len(k.ages)-1].newest = stamp
}

// own counts records of a generation for their owner.
func (k *Keys) own(g *generation, owner, records uint32) {
	if int(owner) >= len(g.owned) {
		g.owned = append(g.owned, make([]uint32, int(owner)+1-len(g.owned))...)
	}
	g.owned[owner] += records
	if int(owner) >= len(k.held) {
		k.held = append(k.held, make([]uint64, int(owner)+1-len(k.held))...)
	}
	k.held[owner] += uint64(records)
}

// Held is how many keys of an owner are kept, in memory and on disk.
func (k *Keys) Held(owner uint32) uint64 {
	if int(owner) >= len(k.held) {
		return 0
	}
	return k.held[owner]
}

// gone reports whether the record with these lower 32 bits has left memory.
func (k *Keys) gone(low uint32) bool {
	return uint64(low-uint32(k.memory)) >= k.next-k.memory
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
	for i := range k.ages[:n] {
		for owner, owned := range k.ages[i].owned {
			k.held[owner] -= uint64(owned)
		}
	}
	// A new slice: a snapshot may hold the old one.
	k.ages = append([]generation(nil), k.ages[n:]...)
	k.release(max(k.memory, k.base))
}

// Demote lets the records before a number leave memory; files that have them must answer for them
// from then on. They are kept until Expire drops them. It touches no key.
func (k *Keys) Demote(through uint64) {
	if through = min(through, k.next); through > k.memory {
		k.release(through)
	}
}

// release lets whole chunks go. The index forgets their records when its parts grow.
func (k *Keys) release(memory uint64) {
	k.memory, k.dead = memory, true
	// A new slice: chunks that go must not hang on to the old one.
	gone := (k.memory - k.chunkBase) / chunkKeys
	k.chunks = append([]*chunk(nil), k.chunks[gone:]...)
	k.chunkBase += gone * chunkKeys
	k.Show()
}

// Show lets any goroutine see how many keys there are, and their memory. An atomic store waits for
// all stores before it, so it is done once an entry, not with each key.
func (k *Keys) Show() {
	k.shown[0].Store(k.base)
	k.shown[1].Store(k.memory)
	k.length.Store(k.next - k.base)
	k.bytes.Store(uint64(len(k.chunks))*chunkKeys*24 + uint64(cap(k.chunks))*8 + k.index.bytes())
}

func (r *record) append(dst []byte) []byte {
	dst = append(dst, r.key[:]...)
	dst = binary.LittleEndian.AppendUint32(dst, r.attempt)
	return binary.LittleEndian.AppendUint32(dst, r.packed)
}
