package page

import (
	"math"
	"sync/atomic"
)

const (
	// subTables bounds the slots that one growth moves: a sub-table of an index of ten million rows
	// has five thousand.
	subTables    = 2048
	subTableBits = 11
	// tombstone is the slot of a removed row. 0 is a slot that was never used.
	tombstone = uint64(1) << 32
)

// Index finds rows by a 64-bit hash of their key. It keeps 32 bits of the hash and the row in a
// slot of 8 bytes, so callers confirm a candidate. One goroutine inserts and removes, any finds,
// without a lock. It is not state: its owner rebuilds it after a restore, and may seed the hash per
// process.
type Index struct {
	subs  [subTables]subTable
	shift uint // log2 of a slot's words: the row with its hash, then its note where there are notes
	roomy bool
	live  atomic.Int64
	bytes atomic.Int64
}

// subTable is open addressing with linear probing. Slots only ever change from empty to a row, to
// tombstone and to a row again, so readers need no lock; growth publishes a new array.
type subTable struct {
	slots atomic.Pointer[[]atomic.Uint64]
	used  uint32 // rows and tombstones; for the writer
	dead  uint32 // tombstones; for the writer
}

// NewIndex makes an empty index.
func NewIndex() *Index { return &Index{} }

// NewNotingIndex makes an empty index that keeps a note of 8 bytes with each row: see Likely.
func NewNotingIndex() *Index { return &Index{shift: 1} }

// NewRoomyIndex makes an empty index for rows that come fast: its sub-tables grow half as often,
// for some 2 bytes a row.
func NewRoomyIndex() *Index { return &Index{roomy: true} }

// Len is the number of rows in the index. Any goroutine.
func (x *Index) Len() uint64 { return uint64(x.live.Load()) }

// Bytes is the memory of the index, in bytes. Any goroutine.
func (x *Index) Bytes() uint64 {
	return uint64(x.bytes.Load()) + subTables*24
}

// place is where a hash's probing starts: proportional to its tag, so that growing reads and
// writes memory in order.
func (x *Index) place(hash uint64, slots []atomic.Uint64) int {
	return int(uint64(uint32(hash))*uint64(len(slots)>>x.shift)>>32) << x.shift
}

// Find returns the row with this hash that is confirms; 0 when there is none. It allocates
// nothing as long as is does not.
func (x *Index) Find(hash uint64, is func(row uint32) bool) uint32 {
	array := x.subs[hash>>(64-subTableBits)].slots.Load()
	if array == nil {
		return 0
	}
	slots, tag := *array, uint32(hash)
	i := x.place(hash, slots)
	for range slots {
		v := slots[i].Load()
		if v == 0 {
			return 0
		}
		if uint32(v>>32) == tag && uint32(v) != 0 && is(uint32(v)) {
			return uint32(v)
		}
		if i += 1 << x.shift; i == len(slots) {
			i = 0
		}
	}
	return 0
}

// Likely is the row that Find of a hash most likely returns, and its note: the first one under the
// same 32 bits, unconfirmed; 0 when there is none. Of an index with notes.
func (x *Index) Likely(hash uint64) (row uint32, note uint64) {
	array := x.subs[hash>>(64-subTableBits)].slots.Load()
	if array == nil {
		return 0, 0
	}
	// Every check begins here: so it is find once more, without a call and for slots of two words.
	const words = 2
	slots := *array
	i := int(uint64(uint32(hash))*uint64(len(slots)/words)>>32) * words
	for range slots {
		v := slots[i].Load()
		if v == 0 {
			return 0, 0
		}
		if v>>32 == hash&math.MaxUint32 && uint32(v) != 0 {
			return uint32(v), slots[i+1].Load()
		}
		if i += words; i == len(slots) {
			i = 0
		}
	}
	return 0, 0
}

// Guess is the row of Likely, also of an index without notes.
func (x *Index) Guess(hash uint64) (row uint32) {
	if array := x.subs[hash>>(64-subTableBits)].slots.Load(); array != nil {
		if i := x.find(hash, *array, 0); i >= 0 {
			return uint32((*array)[i].Load())
		}
	}
	return 0
}

// Note notes something about a row: where the memory is that is needed next, so that it is read
// while the row is. Readers may see the note of before. For the writer, of an index with notes.
func (x *Index) Note(hash uint64, row uint32, note uint64) {
	if array := x.subs[hash>>(64-subTableBits)].slots.Load(); array != nil {
		if i := x.find(hash, *array, row); i >= 0 {
			(*array)[i+1].Store(note)
		}
	}
}

// find is where a row stands, or where row is 0 the first under the same 32 bits; -1 is nowhere.
func (x *Index) find(hash uint64, slots []atomic.Uint64, row uint32) int {
	i := x.place(hash, slots)
	for range slots {
		v := slots[i].Load()
		if v == 0 {
			return -1
		}
		if v>>32 == hash&math.MaxUint32 && uint32(v) != 0 && (row == 0 || uint32(v) == row) {
			return i
		}
		if i += 1 << x.shift; i == len(slots) {
			i = 0
		}
	}
	return -1
}

// Near is the memory that Find of a hash begins with, so that the misses of several searches can
// overlap: read it ahead of them. Its content is meaningless to callers.
func (x *Index) Near(hash uint64) *atomic.Uint64 {
	array := x.subs[hash>>(64-subTableBits)].slots.Load()
	if array == nil {
		return &nowhere
	}
	slots := *array
	return &slots[x.place(hash, slots)]
}

// nowhere is the result of Near for an empty sub-table. It is never written.
var nowhere atomic.Uint64

// Insert adds a row, which must not be 0, and not be there under this hash already. For the
// writer. The row's record must be complete: a reader may find it at once.
func (x *Index) Insert(hash uint64, row uint32) {
	n := hash >> (64 - subTableBits)
	sub := &x.subs[n]
	array := sub.slots.Load()
	if array == nil || int(sub.used)+1 > len(*array)>>x.shift*3/4 {
		array = x.grow(sub, int(n))
	}
	x.live.Add(1)
	slots := *array
	for i := x.place(hash, slots); ; {
		v := slots[i].Load()
		if uint32(v) == 0 {
			if x.shift > 0 {
				slots[i+1].Store(0)
			}
			if v == 0 {
				sub.used++
			} else {
				sub.dead--
			}
			slots[i].Store(uint64(uint32(hash))<<32 | uint64(row))
			return
		}
		if i += 1 << x.shift; i == len(slots) {
			i = 0
		}
	}
}

// Remove removes a row, if it is there. For the writer.
func (x *Index) Remove(hash uint64, row uint32) {
	sub := &x.subs[hash>>(64-subTableBits)]
	array := sub.slots.Load()
	if array == nil {
		return
	}
	slots := *array
	if i := x.find(hash, slots, row); row != 0 && i >= 0 {
		slots[i].Store(tombstone)
		sub.dead++
		x.live.Add(-1)
	}
}

// Reserve sizes the index for a number of rows in all, so that inserting them moves hardly any. For
// the writer, before the first Insert; later it does nothing.
func (x *Index) Reserve(rows uint32) {
	// A sixteenth less than their share: sub-tables can hold at least an eighth more than that, by
	// which those of a large index differ, and should not be larger than if they had grown.
	each := int(rows) / subTables * 15 / 16
	for n := range x.subs {
		if x.subs[n].slots.Load() == nil && each > 0 {
			x.move(&x.subs[n], sizeFor(n, each))
		}
	}
}

// grow gives a sub-table a larger array without its tombstones.
func (x *Index) grow(sub *subTable, n int) *[]atomic.Uint64 {
	size := sizeFor(n, int(sub.used-sub.dead))
	if x.roomy {
		size += size / 3
	}
	return x.move(sub, size)
}

// move gives a sub-table an array of another size without its tombstones.
func (x *Index) move(sub *subTable, size int) *[]atomic.Uint64 {
	var old []atomic.Uint64
	if p := sub.slots.Load(); p != nil {
		old = *p
	}
	array := newSlots(size << x.shift)
	slots := *array
	for i := 0; i < len(old); i += 1 << x.shift {
		v := old[i].Load()
		if uint32(v) == 0 {
			continue
		}
		at := x.place(v>>32, slots)
		for slots[at].Load() != 0 {
			if at += 1 << x.shift; at == len(slots) {
				at = 0
			}
		}
		slots[at].Store(v)
		if x.shift > 0 {
			slots[at+1].Store(old[i+1].Load())
		}
	}
	sub.used, sub.dead = sub.used-sub.dead, 0
	sub.slots.Store(array)
	x.bytes.Add(int64(8 * (len(slots) - len(old))))
	return array
}

// newSlots makes an array of n words. A short one lies behind its header, in the same cache lines.
func newSlots(n int) *[]atomic.Uint64 {
	type short struct {
		slots []atomic.Uint64
		array [13]atomic.Uint64
	}
	if n > len(short{}.array) {
		slots := make([]atomic.Uint64, n)
		return &slots
	}
	s := new(short)
	s.slots = s.array[:n]
	return &s.slots
}

// sizeFor is the number of slots that sub-table n gets for its rows: 1.6 to 1.85 times as many, by
// chance, because sub-tables fill alike and would all grow at the same time.
func sizeFor(n, live int) int {
	chance := (uint32(n)*0x9e3779b1 ^ uint32(live)*0x85ebca6b) * 0xc2b2ae35 >> 12
	return live*8/5 + 4 + int(chance)%(live/4+4)
}
