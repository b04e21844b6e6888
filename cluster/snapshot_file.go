package cluster

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"github.com/hashicorp/raft"

	"tollgate/wal"
)

const (
	// snapshotBlock is how many bytes of state are checked by one checksum.
	snapshotBlock = 1 << 20
	// snapshotSync is how many bytes are written between two fsyncs: the last one, of a large
	// snapshot, would else take longer than the disk may, and the log wait behind it.
	snapshotSync  = 8 << 20
	snapshotMagic = "TGSNAP\x00\x01"
	snapshotEnd   = "TGSNAPOK"
	blockHead     = 8 // length, checksum
	// snapshotAlign divides offset and length of each write but the last: it goes past the page
	// cache then.
	snapshotAlign = 4 << 10
	trailerBytes  = 24 // meta length and checksum, where it begins, magic
)

// snapshotSink writes one snapshot. The file is at path once it is whole, and kept is called then.
type snapshotSink struct {
	files wal.FS
	path  string
	kept  func()
	meta  raft.SnapshotMeta
	file  wal.File

	buf      []byte // the file from offset on: what is to be written
	offset   int64
	head     int    // where the open block begins in buf
	chain    uint32 // checksum of the block before
	unsynced int64
	once     sync.Once
	err      error
}

func (w *snapshotSink) temporary() string { return w.path + ".tmp" }

// ID returns the snapshot's name.
func (w *snapshotSink) ID() string { return w.meta.ID }

// begin begins the file.
func (w *snapshotSink) begin() {
	w.buf = wal.Aligned(snapshotAlign + blockHead + snapshotBlock)[:0]
	w.buf = append(w.buf, snapshotMagic...)
	w.open()
}

// open begins a block.
func (w *snapshotSink) open() {
	w.head = len(w.buf)
	w.buf = append(w.buf, make([]byte, blockHead)...)
}

// put writes the first n bytes of the buffer, and keeps those behind them.
func (w *snapshotSink) put(n int) error {
	if _, err := w.file.WriteAt(w.buf[:n], w.offset); err != nil {
		return fmt.Errorf("cluster: write a snapshot: %w", err)
	}
	w.offset += int64(n)
	w.buf = w.buf[:copy(w.buf, w.buf[n:])]
	if w.unsynced += int64(n); w.unsynced < snapshotSync {
		return nil
	}
	w.unsynced = 0
	return w.file.SyncData()
}

// Write adds state.
func (w *snapshotSink) Write(p []byte) (int, error) {
	for written := 0; ; {
		n := min(len(p)-written, w.head+blockHead+snapshotBlock-len(w.buf))
		w.buf = append(w.buf, p[written:written+n]...)
		if written += n; written == len(p) {
			return written, nil
		}
		w.seal()
		if err := w.put(len(w.buf) / snapshotAlign * snapshotAlign); err != nil {
			return written, err
		}
		w.open()
	}
}

// seal ends the block, and drops it if it is empty.
func (w *snapshotSink) seal() {
	block := w.buf[w.head:]
	state := block[blockHead:]
	if len(state) == 0 {
		w.buf = w.buf[:w.head]
		return
	}
	w.chain = crc32.Update(w.chain, castagnoli, state)
	binary.LittleEndian.PutUint32(block, uint32(len(state)))
	binary.LittleEndian.PutUint32(block[4:], w.chain)
	w.meta.Size += int64(len(state))
}

// Close makes the snapshot durable. Persist calls it, and then raft: the second call returns the
// first one's error.
func (w *snapshotSink) Close() error {
	w.once.Do(func() {
		err := w.finish()
		if err != nil {
			w.err = errors.Join(err, w.drop())
			return
		}
		w.kept()
	})
	return w.err
}

func (w *snapshotSink) finish() error {
	w.seal()
	meta, err := json.Marshal(w.meta)
	if err != nil {
		return err
	}
	le := binary.LittleEndian
	end := le.AppendUint32(slices.Clone(meta), uint32(len(meta)))
	end = le.AppendUint32(end, crc32.Checksum(meta, castagnoli))
	end = le.AppendUint64(end, uint64(w.offset)+uint64(len(w.buf)))
	w.buf = append(append(w.buf, end...), snapshotEnd...)
	if err := w.put(len(w.buf)); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		return err
	}
	if err := w.files.Rename(w.temporary(), w.path); err != nil {
		return err
	}
	if err := w.files.SyncDir(filepath.Dir(w.path)); err != nil {
		return err
	}
	return w.file.Close()
}

// Cancel removes the snapshot, unless it was closed.
func (w *snapshotSink) Cancel() error {
	w.once.Do(func() { w.err = w.drop() })
	return w.err
}

func (w *snapshotSink) drop() error {
	closed, err := w.file.Close(), w.files.Remove(w.temporary())
	if errors.Is(err, fs.ErrNotExist) { // it has its name already, and is whole
		err = nil
	}
	return errors.Join(closed, err)
}

// snapshotReader reads the state of a snapshot, block by block. It verifies a block's checksum
// before it returns any of it.
type snapshotReader struct {
	file   wal.File
	name   string
	offset int64
	rest   int64 // of the state
	chain  uint32
	block  []byte // the rest of the block
	buffer []byte
	blame  func(error) // is told of damage, unless nil
}

// Read implements io.Reader.
func (r *snapshotReader) Read(p []byte) (int, error) {
	if len(r.block) == 0 {
		if r.rest == 0 {
			return 0, io.EOF
		}
		if err := r.next(); err != nil {
			if r.blame != nil && errors.Is(err, ErrDamaged) {
				r.blame(err)
			}
			return 0, err
		}
	}
	n := copy(p, r.block)
	r.block = r.block[n:]
	return n, nil
}

func (r *snapshotReader) next() error {
	if r.buffer == nil {
		if err := r.begin(); err != nil {
			return err
		}
	}
	size := min(r.rest, snapshotBlock)
	b := r.buffer[:blockHead+size]
	if _, err := r.file.ReadAt(b, r.offset); err != nil {
		return fmt.Errorf("cluster: read a snapshot: %s: %w", r.name, err)
	}
	state := b[blockHead:]
	r.chain = crc32.Update(r.chain, castagnoli, state)
	if int64(binary.LittleEndian.Uint32(b)) != size || binary.LittleEndian.Uint32(b[4:]) != r.chain {
		return fmt.Errorf("%w: %s: the block at %d does not match its checksum",
			ErrDamaged, r.name, r.offset)
	}
	r.offset += int64(len(b))
	r.rest -= size
	r.block = state
	return nil
}

// begin checks the file's first bytes.
func (r *snapshotReader) begin() error {
	r.buffer = make([]byte, blockHead+snapshotBlock)
	head := r.buffer[:len(snapshotMagic)]
	if _, err := r.file.ReadAt(head, 0); err != nil {
		return fmt.Errorf("cluster: read a snapshot: %s: %w", r.name, err)
	}
	if string(head) != snapshotMagic {
		return fmt.Errorf("%w: %s: its beginning is not one", ErrDamaged, r.name)
	}
	r.offset = int64(len(head))
	return nil
}

// Close closes the file.
func (r *snapshotReader) Close() error { return r.file.Close() }
