package page

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

const (
	magic         = "TGPG"
	formatVersion = 1
	// headerFixed is the part of the first block before the list of tables.
	headerFixed = 16
	// frameHeader: table (2), first row counted from 0 (4), rows (2), bytes of records (4).
	frameHeader = 12
	// maxBlockBytes bounds a block that is read. A block is cut at 64 KiB,
	// but may end with a page of large blobs. stepBytes is how much of it is read at a time.
	maxBlockBytes = 256 << 20
	stepBytes     = 1 << 20
)

// ErrSnapshot means that bytes are not a complete snapshot of this format.
var ErrSnapshot = errors.New("page: malformed snapshot")

// Restore replaces the rows of all tables by those of a Snapshot, under the same row numbers; a
// table that the snapshot does not know becomes empty. It reads the snapshot's bytes and no more.
// Neither the writer nor readers nor a snapshot may run concurrently. After an error the content of
// the tables is undefined.
func (s *Store) Restore(r io.Reader) error {
	if s.running.Load() != nil {
		panic("page: Restore while a snapshot is running")
	}
	in := &blockReader{r: r}
	head, err := in.next()
	if err != nil {
		return err
	}
	if err := s.restoreHeader(head); err != nil {
		return err
	}
	for {
		block, err := in.next()
		if err != nil {
			return err
		}
		if len(block) == 0 {
			break
		}
		if err := s.restoreBlock(block); err != nil {
			return err
		}
	}
	for _, t := range s.tables {
		if err := t.restoreEnd(); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) restoreHeader(b []byte) error {
	if len(b) < headerFixed || string(b[:4]) != magic {
		return fmt.Errorf("%w: no header", ErrSnapshot)
	}
	if v := binary.LittleEndian.Uint16(b[4:]); v != formatVersion {
		return fmt.Errorf("%w: version %d, this build reads %d", ErrSnapshot, v, formatVersion)
	}
	s.hashTable = binary.LittleEndian.Uint16(b[6:])
	s.hashRow = binary.LittleEndian.Uint32(b[8:])
	count := binary.LittleEndian.Uint32(b[12:])
	b = b[headerFixed:]
	if uint64(len(b)) != 6*uint64(count) {
		return fmt.Errorf("%w: list of %d tables", ErrSnapshot, count)
	}
	for _, t := range s.tables {
		t.restoreBegin(0)
	}
	for ; len(b) > 0; b = b[6:] {
		id := binary.LittleEndian.Uint16(b)
		t := s.table(id)
		if t == nil {
			return fmt.Errorf("%w: unknown table %d", ErrSnapshot, id)
		}
		t.restoreBegin(binary.LittleEndian.Uint32(b[2:]))
	}
	return nil
}

func (s *Store) table(id uint16) tabular {
	for _, t := range s.tables {
		if t.number() == id {
			return t
		}
	}
	return nil
}

func (s *Store) restoreBlock(b []byte) error {
	for len(b) > 0 {
		if len(b) < frameHeader {
			return fmt.Errorf("%w: frame of %d bytes", ErrSnapshot, len(b))
		}
		id := binary.LittleEndian.Uint16(b)
		first := binary.LittleEndian.Uint32(b[2:])
		count := uint32(binary.LittleEndian.Uint16(b[6:]))
		size := binary.LittleEndian.Uint32(b[8:])
		b = b[frameHeader:]
		t := s.table(id)
		if t == nil || uint64(size) > uint64(len(b)) {
			return fmt.Errorf("%w: frame of table %d with %d bytes", ErrSnapshot, id, size)
		}
		if err := t.restoreFrame(first, count, b[:size]); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

// restore is the state of a table while it is being restored. Its chunks are made as rows arrive,
// in any order, so that a header cannot make the process allocate more than the bytes back.
type restore[T any] struct {
	rows, done uint32
	chunks     map[uint32]*restoredChunk[T]
}

type restoredChunk[T any] struct {
	chunk[T]
	seen []uint64 // a bit per row
}

// Restored returns a record that a Restore which runs has read already, for codecs of records that
// belong to it.
func (t *Table[T]) Restored(row uint32) (rec *T, ok bool) {
	i := row - 1
	if t.restoring == nil || row == 0 {
		return nil, false
	}
	c := t.restoring.chunks[i>>t.chunkShift]
	if c == nil || c.seen[i&t.chunkMask/64]&(1<<(i%64)) == 0 {
		return nil, false
	}
	return &c.rows[i&t.chunkMask], true
}

// blockReader reads blocks and checks them.
type blockReader struct {
	r   io.Reader
	buf []byte
}

// next returns the next block, which is good until the call after; an empty one is the end.
func (in *blockReader) next() ([]byte, error) {
	var head [blockHeader]byte
	if _, err := io.ReadFull(in.r, head[:]); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size > maxBlockBytes {
		return nil, fmt.Errorf("%w: block of %d bytes", ErrSnapshot, size)
	}
	in.buf = in.buf[:0]
	for rest := int(size); rest > 0; {
		step := min(rest, stepBytes)
		at := len(in.buf)
		in.buf = append(in.buf, make([]byte, step)...)
		if _, err := io.ReadFull(in.r, in.buf[at:]); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
		}
		rest -= step
	}
	if crc32.Checksum(in.buf, castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, fmt.Errorf("%w: checksum of a block", ErrSnapshot)
	}
	return in.buf, nil
}
