package idempotency

import "slices"

const (
	// subTables bounds the slots that one growth moves: with ten million keys a sub-table has
	// 1,200.
	subTables    = 8192
	subTableBits = 13
)

// index finds a record's number by the hash of its key: 8-byte slots of 32 bits of the hash and
// the lower 32 bits of the number, open addressing with linear probing, at most 13 sixteenths full.
// It is not state, and is rebuilt after a restore.
//
// A sub-table's slots are in ascending order, empty ones between them: so a search ends at the
// first that is greater, and growing is one pass that writes in order, without searches.
//
// Slots of records that left memory stay until their sub-table grows. Numbers wrap after 2³²
// records; a slot that old cannot be left, since a sub-table is rebuilt after as many insertions as
// it has free slots, and if one were, the comparison of the whole key would reject it.
type index struct {
	subs  [subTables]subTable
	total uint64 // slots of all sub-tables

	// missing is the hash that the last search did not find, and free the slot where that search
	// ended: insert begins there, since a key is added right after it was not found.
	missing uint64
	free    int
}

// subTable has its slots at their places or, where those were taken, behind them with no empty slot
// between. The last slot is always empty.
type subTable struct {
	slots  []uint64
	used   uint32
	places uint32 // slots behind them take what runs over the end
}

func (x *index) sub(hash uint64) *subTable { return &x.subs[hash>>(64-subTableBits)] }

func (x *index) bytes() uint64 { return 8*x.total + subTables*32 }

// tagOf is the part of a hash that a slot keeps, never 0, so that a slot in use is not 0.
func tagOf(hash uint64) uint32 { return uint32(hash) | 1 }

// place is where probing starts: proportional to the tag, so that slots are in order.
func (t *subTable) place(tag uint32) int { return int(uint64(tag) * uint64(t.places) >> 32) }

// ends reports whether a search for a tag ends at a slot: it is empty, or greater.
func ends(slot uint64, tag uint32) bool { return uint32(slot>>32)-1 >= tag }

func (x *index) insert(hash uint64, low uint32, gone func(low uint32) bool) {
	n := int(hash >> (64 - subTableBits))
	sub := &x.subs[n]
	if int(sub.used)+1 > fullAt(sub.places) {
		x.grow(sub, n, gone)
	}
	i := sub.place(tagOf(hash))
	if hash == x.missing {
		i = max(i, x.free)
	}
	x.total += sub.put(i, slotWith(hash, low))
	sub.used++
}

// missed notes where the search for a hash ended.
func (x *index) missed(hash uint64, free int) { x.missing, x.free = hash, free }

func slotWith(hash uint64, low uint32) uint64 { return uint64(tagOf(hash))<<32 | uint64(low) }

// fill inserts slots of sub-table n, after a restore: no record has left memory.
func (x *index) fill(n int, slots []uint64) {
	sub := &x.subs[n]
	if used := int(sub.used) + len(slots); used > fullAt(sub.places) {
		x.resize(sub, sizeFor(n, used), nil)
	}
	for _, v := range slots {
		x.total += sub.put(sub.place(uint32(v>>32)), v)
	}
	sub.used += uint32(len(slots))
}

// put inserts a slot in order, not before i, and returns how many slots more that took.
func (t *subTable) put(i int, v uint64) (more uint64) {
	for t.slots[i] != 0 && t.slots[i] < v {
		i++
	}
	last := i
	for t.slots[last] != 0 {
		last++
	}
	if last == len(t.slots)-1 {
		t.slots, more = slices.Concat(t.slots, make([]uint64, spill)), spill
	}
	slots := t.slots
	for ; i < last; last-- {
		slots[last] = slots[last-1]
	}
	slots[i] = v
	return more
}

// grow makes room in a sub-table and leaves records behind that left memory; a nil gone means that
// there are none.
func (x *index) grow(sub *subTable, n int, gone func(low uint32) bool) {
	live := int(sub.used)
	if gone != nil {
		live = 0
		for _, v := range sub.slots {
			if v != 0 && !gone(uint32(v)) {
				live++
			}
		}
	}
	sub.used = uint32(live)
	x.resize(sub, sizeFor(n, live), gone)
}

// resize moves a sub-table's records to slots of a number of places, but for those that are gone.
func (x *index) resize(sub *subTable, places int, gone func(low uint32) bool) {
	old, slots, next := sub.slots, make([]uint64, places+spill), 0
	sub.places = uint32(places)
	for _, v := range old {
		if gone != nil && v != 0 && gone(uint32(v)) {
			continue
		}
		i := max(next, sub.place(uint32(v>>32)))
		if i == len(slots)-1 {
			slots = slices.Concat(slots, make([]uint64, spill))
		}
		slots[i] = v
		if v != 0 {
			next = i + 1
		}
	}
	sub.slots, x.free = slots, 0
	x.total += uint64(len(slots)) - uint64(len(old))
}

// spill is how many slots a sub-table has beyond its places, and gets where they do not do.
const spill = 4

// fullAt is how many keys a sub-table has in its places before it grows.
func fullAt(places uint32) int { return int(places) * 13 / 16 }

// sizeFor is the number of slots that sub-table n gets for its keys: 1.7 to 1.9 times as many, by
// chance, because sub-tables fill alike and would all grow at the same time.
func sizeFor(n, live int) int {
	chance := (uint32(n)*0x9e3779b1 ^ uint32(live)*0x85ebca6b) * 0xc2b2ae35 >> 12
	return live*17/10 + 2 + int(chance)%(live/5+2)
}
