// Package page keeps the records of a state machine in pages: pointer-free rows that are counted
// from 1, an index that finds them, and snapshots that start in microseconds and are written
// concurrently with the writer. See DESIGN.md.
package page

import (
	"fmt"
	"iter"
	"math"
	"math/bits"
	"sync/atomic"
	"unsafe"
)

const (
	// maxPageBytes bounds a page: the bytes copied when the writer changes a page that a running
	// snapshot has not taken yet. Pages are 256–512 bytes, since a page holds a power of two of
	// rows.
	maxPageBytes = 512
	// chunkBytes bounds one allocation of a table; a new one is zeroed inside Append.
	chunkBytes = 128 << 10
)

// Codec states a record's bytes in a snapshot: a fixed layout, little endian, documented by the
// record's owner. It is not the memory layout, so a record may change without a new format.
type Codec[T any] struct {
	// Append appends r's bytes to dst.
	Append func(dst []byte, r *T) []byte
	// Read fills r, which is zero, from the front of src, and returns the rest. It must not keep
	// src.
	Read func(src []byte, r *T) (rest []byte, err error)
	// Apart, if set, reports whether a part of r lies elsewhere (Parts): a copy of r alone would
	// not suffice, so its page is encoded when it is taken, and not later. The writer changes such
	// a part only after Write of its record.
	Apart func(r *T) bool
	// ReadRow, if set, replaces Read, for records whose decoding needs the same row of another
	// table.
	ReadRow func(row uint32, src []byte, r *T) (rest []byte, err error)
	// Rows, where it is set, bounds the rows of a page: of records that are longer encoded than
	// they are in memory. It is a power of two.
	Rows uint
	// Sum, if set, appends a checksum of r, which HashNext folds in place of its bytes when those
	// take long to encode.
	Sum func(dst []byte, r *T) []byte
}

func (c *Codec[T]) read(row uint32, src []byte, r *T) (rest []byte, err error) {
	if c.ReadRow != nil {
		return c.ReadRow(row, src, r)
	}
	return c.Read(src, r)
}

// Table holds records of one type in rows 1 to Len. One goroutine writes (Append, Write), any
// goroutine reads; the owner's own lock guards the content of records.
type Table[T any] struct {
	_ [0]func() // not compared, which would be another function for each T

	store *Store
	id    uint16
	kept  keeper

	pageShift  uint // log2 of the rows of a page
	chunkShift uint // log2 of the rows of a chunk
	chunkMask  uint32

	rows   atomic.Uint32
	chunks atomic.Pointer[[]chunk[T]]

	restoring *restore[T]
}

// keeper makes the chunks of a Table, and hands its pages over to a snapshot.
type keeper interface {
	grow(i uint32)
	handOver(sn *Snapshot, p uint32)
}

// chunk is one allocation of rows, which never moves. taken holds, per page, the number of the
// newest snapshot that has the page.
type chunk[T any] struct {
	rows  []T
	taken []atomic.Uint32
}

// NewTable adds a table to s. id is its number in the snapshot format: unique within s, never
// reused. A record larger than 128 KiB, of no size, or a second table of that id, panics.
func NewTable[T any](s *Store, id uint16, c Codec[T]) *Table[T] {
	var record T
	size := unsafe.Sizeof(record)
	if size == 0 || size > chunkBytes {
		panic(fmt.Sprintf("page: record of table %d has %d bytes", id, size))
	}
	t := &Table[T]{store: s, id: id}
	t.pageShift = uint(bits.Len64(uint64(max(1, maxPageBytes/size))) - 1)
	if c.Rows > 0 {
		t.pageShift = min(t.pageShift, uint(bits.Len(c.Rows)-1))
	}
	t.chunkShift = uint(bits.Len64(uint64(chunkBytes/size)) - 1)
	t.chunkMask = 1<<t.chunkShift - 1
	t.chunks.Store(new([]chunk[T]))
	k := &kept[T]{Table: t, codec: c}
	t.kept = k
	s.add(k)
	return t
}

// Len is the number of rows. Any goroutine may ask.
func (t *Table[T]) Len() uint32 { return t.rows.Load() }

// All iterates over the rows. Any goroutine may, under the owner's lock.
func (t *Table[T]) All() iter.Seq2[uint32, *T] {
	return func(yield func(uint32, *T) bool) {
		for row := uint32(1); row <= t.Len() && yield(row, t.Read(row)); row++ {
		}
	}
}

// Bytes is the memory that the table holds, in bytes, without memory that its records point to.
func (t *Table[T]) Bytes() uint64 {
	var record T
	perChunk := uint64(unsafe.Sizeof(record))<<t.chunkShift +
		4<<(t.chunkShift-t.pageShift) + uint64(unsafe.Sizeof(chunk[T]{}))
	return uint64(len(*t.chunks.Load())) * perChunk
}

// Append adds a zeroed record and returns its row. For the writer. A reader may see the row as soon
// as Append returns: publish it to readers (in an index, by a reference) only after the record is
// complete. A table of 2³²−1 rows is full, and Append panics.
func (t *Table[T]) Append() (row uint32, rec *T) {
	n := t.rows.Load()
	if n == math.MaxUint32 {
		panic(fmt.Sprintf("page: table %d is full", t.id))
	}
	rec = t.reach(n)
	t.rows.Store(n + 1)
	return n + 1, rec
}

// reach returns the record with the number i, counted from 0, after making its chunk.
func (t *Table[T]) reach(i uint32) *T {
	if uint32(len(*t.chunks.Load())) <= i>>t.chunkShift {
		t.kept.grow(i)
	}
	return &(*t.chunks.Load())[i>>t.chunkShift].rows[i&t.chunkMask]
}

// Read returns the record of a row, which must be between 1 and Len; other rows panic. Any
// goroutine may read; the record is not to be changed through this pointer.
func (t *Table[T]) Read(row uint32) *T {
	i := row - 1
	return &(*t.chunks.Load())[i>>t.chunkShift].rows[i&t.chunkMask]
}

// Handing reports whether a snapshot is running that may have to be handed pages. While none is,
// the writer may change records that it has Read, until the next Begin.
func (t *Table[T]) Handing() bool { return t.store.running.Load() != nil }

// Write returns the record of a row for changing, after handing its page to a running snapshot
// that does not have it yet. For the writer. The pointer is good until the next Begin.
func (t *Table[T]) Write(row uint32) *T {
	i := row - 1
	c := &(*t.chunks.Load())[i>>t.chunkShift]
	if sn := t.store.running.Load(); sn != nil {
		if c.taken[i&t.chunkMask>>t.pageShift].Load() != sn.epoch {
			t.kept.handOver(sn, i>>t.pageShift)
		}
	}
	return &c.rows[i&t.chunkMask]
}
