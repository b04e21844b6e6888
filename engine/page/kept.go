package page

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"tollgate/engine/prefetch"
)

// kept is what a Table seldom needs: its chunks made, its pages taken and restored. Go compiles
// every method of a generic type again, for each instance, in each package that uses one, and the
// two machines have 66 tables. Behind an interface, these methods are compiled only where NewTable
// is called.
type kept[T any] struct {
	*Table[T]
	codec Codec[T]

	// fixed is Len at the last Begin. The writer sets it, and only while no snapshot runs.
	fixed uint32
	// scratch is the persister's copy of the page that it takes.
	scratch []T

	freeLock sync.Mutex
	free     []*pageCopy[T]
}

// grow makes chunks as far as the record with the number i, counted from 0.
func (t *kept[T]) grow(i uint32) {
	chunks := *t.chunks.Load()
	for uint32(len(chunks)) <= i>>t.chunkShift {
		// Appending in place is safe while others read: they hold a header with the old length.
		chunks = append(chunks, t.newChunk(len(chunks)))
		grown := chunks
		t.chunks.Store(&grown)
	}
}

// newChunk makes the chunk behind others. Where there are some, its rows will soon be written.
func (t *kept[T]) newChunk(before int) chunk[T] {
	c := chunk[T]{
		rows:  make([]T, 1<<t.chunkShift),
		taken: make([]atomic.Uint32, 1<<(t.chunkShift-t.pageShift)),
	}
	if before > 0 {
		first := (*byte)(unsafe.Pointer(unsafe.SliceData(c.rows)))
		populate(unsafe.Slice(first, len(c.rows)*int(unsafe.Sizeof(c.rows[0]))))
	}
	return c
}

// populate asks for the memory of rows that are to be written, all at once.
func populate(rows []byte) {
	if !prefetch.Resident(rows) {
		prefetch.Populate(rows)
	}
}

// pages is the number of pages that the running snapshot has of this table.
func (t *kept[T]) pages() uint32 {
	return uint32((uint64(t.fixed) + 1<<t.pageShift - 1) >> t.pageShift)
}

// span returns the chunk of a page, the page's first row counted from 0, and its rows that were
// there at Begin.
func (t *kept[T]) span(p uint32) (c *chunk[T], first uint32, rows []T) {
	first = p << t.pageShift
	count := min(t.fixed-first, 1<<t.pageShift)
	c = &(*t.chunks.Load())[first>>t.chunkShift]
	at := first & t.chunkMask
	return c, first, c.rows[at : at+count]
}

// pageCopy is a page as it was at Begin, on its way from the writer to the persister.
type pageCopy[T any] struct {
	table *kept[T]
	first uint32
	rows  []T
	frame []byte // instead of rows, where a part of them lies elsewhere
	next  copied // in the queue
}

func (cp *pageCopy[T]) following() *copied { return &cp.next }

// handOver gives page p to the snapshot, unless the persister was faster. It waits only when the
// queue of the persister is full.
func (t *kept[T]) handOver(sn *Snapshot, p uint32) {
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
func (t *kept[T]) take(sn *Snapshot, p uint32, dst []byte) ([]byte, bool) {
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
func (t *kept[T]) apart(rows []T) bool {
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
func (t *kept[T]) blank() *pageCopy[T] {
	t.freeLock.Lock()
	defer t.freeLock.Unlock()
	if n := len(t.free); n > 0 {
		cp := t.free[n-1]
		t.free = t.free[:n-1]
		return cp
	}
	return &pageCopy[T]{table: t, rows: make([]T, 0, 1<<t.pageShift)}
}

func (t *kept[T]) number() uint16   { return t.id }
func (t *kept[T]) fix()             { t.fixed = t.rows.Load() }
func (t *kept[T]) fixedLen() uint32 { return t.fixed }

// unfix lets go of the memory that the snapshot needed.
func (t *kept[T]) unfix() {
	t.freeLock.Lock()
	t.free = nil
	t.freeLock.Unlock()
	t.scratch = nil
}

// appendSums appends the compared bytes of count rows from first on, counted from 0.
func (t *kept[T]) appendSums(dst []byte, first, count uint32) []byte {
	sum := t.codec.Sum
	if sum == nil {
		sum = t.codec.Append
	}
	for i := first; i < first+count; i++ {
		dst = sum(dst, t.Read(i+1))
	}
	return dst
}

// appendFrame appends the encodings of rows, the first of which is first, counted from 0.
func (t *kept[T]) appendFrame(dst []byte, first uint32, rows []T) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, t.id)
	dst = binary.LittleEndian.AppendUint32(dst, first)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(rows)))
	dst = append(dst, 0, 0, 0, 0)
	begin := len(dst)
	for i := range rows {
		dst = t.codec.Append(dst, &rows[i])
	}
	binary.LittleEndian.PutUint32(dst[begin-4:], uint32(len(dst)-begin))
	return dst
}

func (t *kept[T]) restoreBegin(rows uint32) {
	t.rows.Store(0)
	t.chunks.Store(new([]chunk[T]))
	t.restoring = &restore[T]{rows: rows, chunks: map[uint32]*restoredChunk[T]{}}
}

func (t *kept[T]) restoreFrame(first, count uint32, src []byte) error {
	re := t.restoring
	if uint64(first)+uint64(count) > uint64(re.rows) {
		return fmt.Errorf("%w: table %d has no row %d", ErrSnapshot, t.id, first+count)
	}
	var err error
	var c *restoredChunk[T]
	for i := first; i < first+count; i++ {
		if c == nil || i&t.chunkMask == 0 {
			c = t.restoreChunk(i >> t.chunkShift)
		}
		word, bit := &c.seen[i&t.chunkMask/64], uint64(1)<<(i%64)
		if *word&bit != 0 {
			return fmt.Errorf("%w: row %d of table %d twice", ErrSnapshot, i+1, t.id)
		}
		*word |= bit
		if src, err = t.codec.read(i+1, src, &c.rows[i&t.chunkMask]); err != nil {
			return fmt.Errorf("%w: row %d of table %d: %w", ErrSnapshot, i+1, t.id, err)
		}
	}
	if len(src) > 0 {
		return fmt.Errorf("%w: %d bytes too many in table %d", ErrSnapshot, len(src), t.id)
	}
	re.done += count
	return nil
}

func (t *kept[T]) restoreChunk(n uint32) *restoredChunk[T] {
	c := t.restoring.chunks[n]
	if c == nil {
		c = &restoredChunk[T]{chunk: t.newChunk(int(n)), seen: make([]uint64, t.chunkMask/64+1)}
		t.restoring.chunks[n] = c
	}
	return c
}

func (t *kept[T]) restoreEnd() error {
	re := t.restoring
	t.restoring = nil
	if re.done != re.rows {
		return fmt.Errorf("%w: table %d has %d of %d rows", ErrSnapshot, t.id, re.done, re.rows)
	}
	// Every row was there once, so every chunk is there.
	chunks := make([]chunk[T], len(re.chunks))
	for n, c := range re.chunks { // any order: each chunk has its place
		chunks[n] = c.chunk
	}
	t.chunks.Store(&chunks)
	t.rows.Store(re.rows)
	return nil
}
