// Package page keeps the records of a state machine in pages: pointer-free rows that are counted
// from 1, an index that finds them, and snapshots that start in microseconds and are written
// concurrently with the writer. See DESIGN.md.
package page

import (
	"fmt"
	"iter"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"tollgate/engine/prefetch"
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
	store *Store
	id    uint16
	codec Codec[T]

	pageShift  uint // log2 of the rows of a page
	chunkShift uint // log2 of the rows of a chunk
	chunkMask  uint32

	rows   atomic.Uint32
	chunks atomic.Pointer[[]chunk[T]]

	// fixed is Len at the last Begin. The writer sets it, and only while no snapshot runs.
	fixed uint32
	// scratch is the persister's copy of the page that it takes.
	scratch []T

	freeLock sync.Mutex
	free     []*pageCopy[T]

	restoring *restore[T]
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
	t := &Table[T]{store: s, id: id, codec: c}
	t.pageShift = uint(bits.Len64(uint64(max(1, maxPageBytes/size))) - 1)
	if c.Rows > 0 {
		t.pageShift = min(t.pageShift, uint(bits.Len(c.Rows)-1))
	}
	t.chunkShift = uint(bits.Len64(uint64(chunkBytes/size)) - 1)
	t.chunkMask = 1<<t.chunkShift - 1
	t.chunks.Store(new([]chunk[T]))
	s.add(t)
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
	chunks := *t.chunks.Load()
	for uint32(len(chunks)) <= i>>t.chunkShift {
		// Appending in place is safe while others read: they hold a header with the old length.
		chunks = append(chunks, t.newChunk(len(chunks)))
		grown := chunks
		t.chunks.Store(&grown)
	}
	return &chunks[i>>t.chunkShift].rows[i&t.chunkMask]
}

// newChunk makes the chunk behind others. Where there are some, its rows will soon be written.
func (t *Table[T]) newChunk(before int) chunk[T] {
	c := chunk[T]{
		rows:  make([]T, 1<<t.chunkShift),
		taken: make([]atomic.Uint32, 1<<(t.chunkShift-t.pageShift)),
	}
	if before > 0 {
		populate(c.rows)
	}
	return c
}

// populate asks for the memory of rows that are to be written, all at once.
func populate[T any](rows []T) {
	first := (*byte)(unsafe.Pointer(unsafe.SliceData(rows)))
	if b := unsafe.Slice(first, len(rows)*int(unsafe.Sizeof(rows[0]))); !prefetch.Resident(b) {
		prefetch.Populate(b)
	}
}

// Read returns the record of a row, which must be between 1 and Len; other rows panic. Any
// goroutine may read; the record is not to be changed through this pointer.
func (t *Table[T]) Read(row uint32) *T {
	i := row - 1
	return &(*t.chunks.Load())[i>>t.chunkShift].rows[i&t.chunkMask]
}

// Write returns the record of a row for changing, after handing its page to a running snapshot
// that does not have it yet. For the writer. The pointer is good until the next Begin.
func (t *Table[T]) Write(row uint32) *T {
	i := row - 1
	c := &(*t.chunks.Load())[i>>t.chunkShift]
	if sn := t.store.running.Load(); sn != nil {
		if c.taken[i&t.chunkMask>>t.pageShift].Load() != sn.epoch {
			t.handOver(sn, i>>t.pageShift)
		}
	}
	return &c.rows[i&t.chunkMask]
}

// pages is the number of pages that the running snapshot has of this table.
func (t *Table[T]) pages() uint32 {
	return uint32((uint64(t.fixed) + 1<<t.pageShift - 1) >> t.pageShift)
}

// span returns the chunk of a page, the page's first row counted from 0, and its rows that were
// there at Begin.
func (t *Table[T]) span(p uint32) (c *chunk[T], first uint32, rows []T) {
	first = p << t.pageShift
	count := min(t.fixed-first, 1<<t.pageShift)
	c = &(*t.chunks.Load())[first>>t.chunkShift]
	at := first & t.chunkMask
	return c, first, c.rows[at : at+count]
}

// pageCopy is a page as it was at Begin, on its way from the writer to the persister.
type pageCopy[T any] struct {
	table *Table[T]
	first uint32
	rows  []T
	frame []byte // instead of rows, where a part of them lies elsewhere
	next  copied // in the queue
}

func (cp *pageCopy[T]) following() *copied { return &cp.next }

// handOver gives page p to the snapshot, unless the persister was faster. It waits only when the
// queue of the persister is full.
func (t *Table[T]) handOver(sn *Snapshot, p uint32) {
	if p >= t.pages() {
		return // all of the page's rows are newer than the snapshot
	}
	c, first, rows := t.span(p)
	taken := &c.taken[p&(1<<(t.chunkShift-t.pageShift)-1)]
	lock := sn.stripe(t.id, p)
	lock.Lock()
	if taken.Load() == sn.epoch {
		lock.Unlock()
		return
	}
	cp := t.blank()
	cp.first, cp.rows, cp.frame = first, cp.rows[:0], cp.frame[:0]
	if t.apart(rows) {
		cp.frame = t.appendFrame(cp.frame, first, rows)
	} else {
		cp.rows = append(cp.rows, rows...)
	}
	taken.Store(sn.epoch)
	lock.Unlock()
	sn.handed.put(cp) // outside the lock: the persister may need that lock before it removes a copy
}

// take appends page p to dst for the persister, unless the writer has handed it over.
func (t *Table[T]) take(sn *Snapshot, p uint32, dst []byte) ([]byte, bool) {
	c, first, rows := t.span(p)
	taken := &c.taken[p&(1<<(t.chunkShift-t.pageShift)-1)]
	if taken.Load() == sn.epoch {
		return dst, false
	}
	lock := sn.stripe(t.id, p)
	lock.Lock()
	if taken.Load() == sn.epoch {
		lock.Unlock()
		return dst, false
	}
	if t.apart(rows) {
		dst = t.appendFrame(dst, first, rows)
		taken.Store(sn.epoch)
		lock.Unlock()
		return dst, true
	}
	t.scratch = append(t.scratch[:0], rows...)
	taken.Store(sn.epoch)
	lock.Unlock()
	return t.appendFrame(dst, first, t.scratch), true
}

// apart reports whether a part of one of the rows lies elsewhere.
func (t *Table[T]) apart(rows []T) bool {
	if t.codec.Apart == nil {
		return false
	}
	for i := range rows {
		if t.codec.Apart(&rows[i]) {
			return true
		}
	}
	return false
}

// encode appends the copy to dst and returns the copy to its table.
func (cp *pageCopy[T]) encode(dst []byte) []byte {
	t := cp.table
	if len(cp.frame) > 0 {
		dst = append(dst, cp.frame...)
	} else {
		dst = t.appendFrame(dst, cp.first, cp.rows)
	}
	t.freeLock.Lock()
	t.free = append(t.free, cp)
	t.freeLock.Unlock()
	return dst
}

// blank returns an unused page copy.
func (t *Table[T]) blank() *pageCopy[T] {
	t.freeLock.Lock()
	defer t.freeLock.Unlock()
	if n := len(t.free); n > 0 {
		cp := t.free[n-1]
		t.free = t.free[:n-1]
		return cp
	}
	return &pageCopy[T]{table: t, rows: make([]T, 0, 1<<t.pageShift)}
}

func (t *Table[T]) number() uint16   { return t.id }
func (t *Table[T]) fix()             { t.fixed = t.rows.Load() }
func (t *Table[T]) fixedLen() uint32 { return t.fixed }

// unfix lets go of the memory that the snapshot needed.
func (t *Table[T]) unfix() {
	t.freeLock.Lock()
	t.free = nil
	t.freeLock.Unlock()
	t.scratch = nil
}

// appendSums appends the compared bytes of count rows from first on, counted from 0.
func (t *Table[T]) appendSums(dst []byte, first, count uint32) []byte {
	sum := t.codec.Sum
	if sum == nil {
		sum = t.codec.Append
	}
	for i := first; i < first+count; i++ {
		dst = sum(dst, t.Read(i+1))
	}
	return dst
}
