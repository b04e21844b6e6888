package page

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"sync"
)

const (
	// handedPages (about 2 MiB) and handedShare of all pages, whichever is more, bound the copies
	// that wait for the persister. A writer that finds them all in use waits for it, that is for
	// the disk.
	handedPages = 4096
	handedShare = 4
	// blockBytes is the length at which a block of the snapshot is written.
	blockBytes = 64 << 10
	stripes    = 1024
)

// ErrReleased means that a snapshot was released before it was written.
var ErrReleased = errors.New("page: snapshot was released")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Snapshot is the state of a Store at Begin. It is written by one goroutine, the persister,
// concurrently with the writer.
type Snapshot struct {
	store     *Store
	epoch     uint32
	hashTable uint16
	hashRow   uint32
	total     uint64 // pages

	handed  *handed
	stopped sync.Once
	// writing is held by WriteTo, so that Release can wait for it.
	writing sync.Mutex
	locks   [stripes]sync.Mutex
}

// Begin fixes the present state in microseconds, whatever its size. For the writer, between two
// commands. WriteTo or Release must follow soon: a writer that has changed a quarter of all pages
// waits for them. Only one snapshot may exist at a time; Begin panics when there is another.
func (s *Store) Begin() *Snapshot {
	if s.running.Load() != nil {
		panic("page: a snapshot is running")
	}
	if s.epoch++; s.epoch == 0 {
		s.epoch = 1
	}
	sn := &Snapshot{
		store: s, epoch: s.epoch, hashTable: s.hashTable, hashRow: s.hashRow,
	}
	for _, t := range s.tables {
		t.fix()
		sn.total += uint64(t.pages())
	}
	sn.handed = newHanded(int(max(handedPages, sn.total/handedShare)))
	s.running.Store(sn)
	return sn
}

func (sn *Snapshot) stripe(id uint16, p uint32) *sync.Mutex {
	return &sn.locks[(p+uint32(id)*97)%stripes]
}

// Release ends the snapshot, written or not; a WriteTo that still runs is stopped first. Any
// goroutine, any number of times.
func (sn *Snapshot) Release() {
	sn.end()
	sn.writing.Lock()
	defer sn.writing.Unlock()
	sn.detach()
}

// end lets a waiting writer go on.
func (sn *Snapshot) end() { sn.stopped.Do(func() { close(sn.handed.stop) }) }

// detach makes the writer forget the snapshot. The persister must not touch pages any more.
func (sn *Snapshot) detach() {
	if sn.store.running.Load() != sn {
		return
	}
	for _, t := range sn.store.tables {
		t.unfix()
	}
	sn.store.running.Store(nil)
}

// Pressed reports whether a quarter of the copies that may wait for WriteTo do. Any goroutine.
func (sn *Snapshot) Pressed() bool { return sn.handed.count.Load() > int64(sn.handed.limit/4) }

// WriteTo writes the snapshot in blocks of about 64 KiB, each with its CRC32C, and ends it. It may
// be called once. Pages that the writer changes meanwhile come earlier than their turn, so two
// snapshots of one state may differ in the order of pages, never in what they restore.
func (sn *Snapshot) WriteTo(w io.Writer) (int64, error) {
	sn.writing.Lock()
	defer sn.writing.Unlock()
	select {
	case <-sn.handed.stop:
		return 0, ErrReleased
	default:
	}
	defer sn.detach()
	defer sn.end()
	out := &blocks{w: w, buf: make([]byte, blockHeader, 2*blockBytes)}
	out.begin(sn)
	if err := out.cut(); err != nil {
		return out.written, err
	}
	if err := sn.writePages(out); err != nil {
		return out.written, err
	}
	if err := out.cut(); err != nil {
		return out.written, err
	}
	return out.written, out.end()
}

// writePages writes every page once: those that the writer hands over first, the rest in order.
func (sn *Snapshot) writePages(out *blocks) error {
	emitted := uint64(0)
	for _, t := range sn.store.tables {
		pages := t.pages()
		for p := uint32(0); p < pages; p++ {
			for cp := sn.handed.next(); cp != nil; cp = sn.handed.next() {
				if err := out.page(cp); err != nil {
					return err
				}
				emitted++
			}
			select {
			case <-sn.handed.stop:
				return ErrReleased
			default:
			}
			var took bool
			if out.buf, took = t.take(sn, p, out.buf); took {
				emitted++
				if err := out.cutFull(); err != nil {
					return err
				}
			}
		}
	}
	// The rest is on its way: marked as taken by a writer that has not handed it over yet.
	for ; emitted < sn.total; emitted++ {
		cp := sn.handed.await()
		if cp == nil {
			return ErrReleased
		}
		if err := out.page(cp); err != nil {
			return err
		}
	}
	return nil
}

// blockHeader is the number of bytes before a block: length (4), CRC32C of what follows (4).
const blockHeader = 8

// blocks writes blocks. buf is the block under construction, its header included.
type blocks struct {
	w       io.Writer
	buf     []byte
	written int64
}

// begin appends the first block: the snapshot's table of contents.
func (b *blocks) begin(sn *Snapshot) {
	b.buf = append(b.buf, magic...)
	b.buf = binary.LittleEndian.AppendUint16(b.buf, formatVersion)
	b.buf = binary.LittleEndian.AppendUint16(b.buf, sn.hashTable)
	b.buf = binary.LittleEndian.AppendUint32(b.buf, sn.hashRow)
	count := len(b.buf)
	b.buf = append(b.buf, 0, 0, 0, 0)
	listed := uint32(0)
	for _, t := range sn.store.tables {
		if t.fixedLen() == 0 {
			continue // a build that does not know the table yet takes the snapshot
		}
		b.buf = binary.LittleEndian.AppendUint16(b.buf, t.number())
		b.buf = binary.LittleEndian.AppendUint32(b.buf, t.fixedLen())
		listed++
	}
	binary.LittleEndian.PutUint32(b.buf[count:], listed)
}

func (b *blocks) page(cp copied) error {
	b.buf = cp.encode(b.buf)
	return b.cutFull()
}

func (b *blocks) cutFull() error {
	if len(b.buf) < blockBytes {
		return nil
	}
	return b.cut()
}

// cut writes the block, if there is anything in it, and begins the next.
func (b *blocks) cut() error {
	if len(b.buf) == blockHeader {
		return nil
	}
	body := b.buf[blockHeader:]
	binary.LittleEndian.PutUint32(b.buf, uint32(len(body)))
	binary.LittleEndian.PutUint32(b.buf[4:], crc32.Checksum(body, castagnoli))
	return b.write()
}

// end writes the empty block that ends the snapshot.
func (b *blocks) end() error {
	b.buf = append(b.buf[:0], make([]byte, blockHeader)...)
	return b.write()
}

func (b *blocks) write() error {
	n, err := b.w.Write(b.buf)
	b.written += int64(n)
	b.buf = b.buf[:blockHeader]
	return err
}
