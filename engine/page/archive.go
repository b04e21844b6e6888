package page

import (
	"encoding/binary"
	"sync/atomic"
)

const (
	// unitBytes is the unit of places, so that 31 bits reach 8 GiB.
	unitBytes  = 4
	unitsShift = 15 // log2 of the units of a chunk
	maxPlace   = 1<<31 - 1
)

// Archive stores byte strings that never change and are never removed, one after the other, for
// rows that hold their place: 31 bits, 0 is none. It is memory without a snapshot of its own: the
// codec of the table whose rows name the places writes the bytes that they stand for. One goroutine
// puts; any goroutine that may read a row may read its bytes.
type Archive struct {
	chunks atomic.Pointer[[][]byte]
	// current is the chunk that is being filled, used its units that are; for the writer.
	current, used int
	bytes         atomic.Uint64
}

// NewArchive returns an empty archive.
func NewArchive() *Archive {
	a := &Archive{current: -1}
	a.chunks.Store(new([][]byte))
	return a
}

// Put keeps b, which it copies, and returns its place; 0 when the archive is full. For the writer.
func (a *Archive) Put(b []byte) (place uint32) {
	var head [binary.MaxVarintLen64]byte
	size := binary.PutUvarint(head[:], uint64(len(b)))
	units := (size + len(b) + unitBytes - 1) / unitBytes
	chunk, unit := a.reach(units)
	if place = uint32(chunk<<unitsShift | unit); chunk > maxPlace>>unitsShift {
		return 0
	}
	to := (*a.chunks.Load())[chunk][unit*unitBytes:]
	copy(to[copy(to, head[:size]):], b)
	return place
}

// reach finds space for a number of units. A string larger than a chunk gets its own.
func (a *Archive) reach(units int) (chunk, unit int) {
	chunks := *a.chunks.Load()
	if a.current >= 0 && a.used+units <= 1<<unitsShift {
		a.used += units
		return a.current, a.used - units
	}
	chunk, room := len(chunks), 1<<unitsShift
	if chunk == 0 {
		unit = 1 // place 0 is none
	}
	if unit+units <= room {
		a.current, a.used = chunk, unit+units
	} else {
		room = unit + units
	}
	if chunk <= maxPlace>>unitsShift {
		// Appending in place is safe: readers hold a header with the old length.
		grown := append(chunks, make([]byte, room*unitBytes))
		a.chunks.Store(&grown)
		a.bytes.Add(uint64(room * unitBytes))
	}
	return chunk, unit
}

// Read returns the bytes at a place, which the caller must not change.
func (a *Archive) Read(place uint32) []byte {
	b := (*a.chunks.Load())[place>>unitsShift][place%(1<<unitsShift)*unitBytes:]
	size, n := binary.Uvarint(b)
	return b[n : n+int(size) : n+int(size)]
}

// Bytes is the memory of the archive, in bytes. Any goroutine.
func (a *Archive) Bytes() uint64 { return a.bytes.Load() }
