package idempotency

import "math"

const (
	// subTables bounds the slots that one growth moves: with ten million keys a sub-table has
	// 1,200.
	subTables    = 8192
	subTableBits = 13
)

// index finds a record's number by the hash of its key: 8-byte slots of 32 bits of the hash and
// the lower 32 bits of the number, open addressing with linear probing, at most three quarters
// full. It is not state, and is rebuilt after a restore.
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

type subTable struct {
	slots []uint64
	used  uint32
}

func (x *index) slots(hash uint64) []uint64 { return x.subs[hash>>(64-subTableBits)].slots }

func (x *index) bytes() uint64 { return 8*x.total + subTables*32 }

// tagOf is the part of a hash that a slot keeps, never 0, so that a slot in use is not 0.
func tagOf(hash uint64) uint32 { return uint32(hash) | 1 }

// place is where probing starts: proportional to the tag, so that growing goes through memory in
// order.
func place(tag uint32, slots int) int { return int(uint64(tag) * uint64(slots) >> 32) }

func (x *index) insert(hash uint64, low uint32, gone func(low uint32) bool) {
	n := hash >> (64 - subTableBits)
	sub := &x.subs[n]
	if int(sub.used)+1 > len(sub.slots)*3/4 {
		x.grow(sub, int(n), gone)
	}
	v := slotWith(hash, low)
	if i := x.free; hash == x.missing && i < len(sub.slots) && sub.slots[i] == 0 {
		sub.slots[i] = v
	} else {
		put(sub.slots, v)
	}
	sub.used++
}

// missed notes where the search for a hash ended.
func (x *index) missed(hash uint64, free int) { x.missing, x.free = hash, free }

func slotWith(hash uint64, low uint32) uint64 { return uint64(tagOf(hash))<<32 | uint64(low) }

// fill inserts slots of sub-table n, after a restore: no record has left memory.
func (x *index) fill(n int, slots []uint64) {
	sub := &x.subs[n]
	if used := int(sub.used) + len(slots); used > len(sub.slots)*3/4 {
		x.resize(sub, sizeFor(n, used), nil)
	}
	for _, v := range slots {
		put(sub.slots, v)
	}
	sub.used += uint32(len(slots))
}

func put(slots []uint64, v uint64) {
	i := place(uint32(v>>32), len(slots))
	for slots[i] != 0 {
		if i++; i == len(slots) {
			i = 0
		}
	}
	slots[i] = v
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

// resize moves a sub-table's records to new slots, but for those that are gone.
func (x *index) resize(sub *subTable, size int, gone func(low uint32) bool) {
	old := sub.slots
	sub.slots = make([]uint64, size)
	x.free = math.MaxInt
	for _, v := range old {
		if v != 0 && (gone == nil || !gone(uint32(v))) {
			put(sub.slots, v)
		}
	}
	x.total += uint64(len(sub.slots)) - uint64(len(old))
}

// sizeFor is the number of slots that sub-table n gets for its keys: 1.6 to 1.85 times as many, by
// chance, because sub-tables fill alike and would all grow at the same time.
func sizeFor(n, live int) int {
	chance := (uint32(n)*0x9e3779b1 ^ uint32(live)*0x85ebca6b) * 0xc2b2ae35 >> 12
	return live*8/5 + 4 + int(chance)%(live/4+4)
}
