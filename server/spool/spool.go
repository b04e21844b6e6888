// Package spool keeps blocks in a folder, first in first out, until their owner has moved them
// elsewhere. The files are those of github.com/tidwall/wal, which has no checksums, does not open
// after a torn write, and does not sync its folder; this package adds these.
//
// A block may come out twice: after a crash, those of the oldest file come out again. A killed
// process loses nothing that was appended, a power cut may lose the blocks of the last 100 ms.
package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tidwall/wal"
)

const (
	// syncEvery is how long appended blocks may be in the page cache alone.
	syncEvery = 100 * time.Millisecond
	// syncAgain is the longest wait for the next try after a sync that failed: each has the whole
	// spool written anew. reportEvery is how often such tries are reported.
	syncAgain   = 5 * time.Second
	reportEvery = time.Minute
	// segmentBytes is the size of a file: dropping blocks writes one of them again.
	segmentBytes = 1 << 20
	// frameBytes precede a block in its record: CRC-32C of index and block (4), index (8).
	frameBytes = 12
	// formatName is the file that identifies the folder.
	formatName = "FORMAT"
	format     = "tollgate spool 2\n"
)

var (
	// ErrForeign means that the folder was not written by this version.
	ErrForeign = errors.New(
		"it is not a spool of this version; move it away to start without it")
	// ErrFull means that a block does not fit. Nothing was appended.
	ErrFull = errors.New("the spool is full")
	// ErrEmpty means that there is no block.
	ErrEmpty = errors.New("the spool is empty")

	errDamaged = errors.New("a block of the spool is damaged")
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// Options of a spool.
type Options struct {
	// Limit is how many bytes of blocks it takes.
	Limit int64
	// Log receives reports of damage.
	Log *slog.Logger
	// Segment is the size of a file; 0 is 1 MiB.
	Segment int

	// sync makes the files of a log durable, and the names of new ones; nil is syncFiles.
	sync func(log *wal.Log, dir string) error
}

// Spool is a queue of blocks in a folder. Its methods may be called at the same time.
type Spool struct {
	dir  string
	opts Options

	mu  sync.Mutex
	log *wal.Log // nil after an error: the next call repairs the files and opens them again
	// rewrite is set when a sync failed: the files' content on disk is unknown, and the repair
	// rewrites all blocks.
	rewrite bool
	closed  bool
	synced  time.Time
	later   *time.Timer // syncs what was appended since; nil where all is durable
	// again is how long the last try waited since syncs fail. reported is when one was reported last:
	// syncs that succeed in between do not begin the minute anew.
	again    time.Duration
	reported time.Time
	// opens counts how often the files were opened; headed is that count at the last Head.
	opens, headed uint64

	first, next uint64 // the oldest block; the block that Append writes
	bytes       int64  // of the blocks from first to next
	spent       int64  // of the blocks before first that are still in the files
}

// Open opens the spool in a folder, or makes it. Bytes that are not a block move to a file whose
// name is the folder's with ".damaged", and a warning is logged.
func Open(dir string, o Options) (*Spool, error) {
	if o.Segment == 0 {
		o.Segment = segmentBytes
	}
	if o.sync == nil {
		o.sync = syncFiles
	}
	s := &Spool{dir: dir, opts: o}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("spool %s: %w", dir, err)
	}
	return s, nil
}

func (o *Options) wal() *wal.Options {
	return &wal.Options{
		NoSync: true, SegmentSize: o.Segment, SegmentCacheSize: 2, NoCopy: true, AllowEmpty: true,
		DirPerms: 0o700, FilePerms: 0o600,
	}
}

// open repairs the files and opens them. The caller has the lock, or the only reference.
func (s *Spool) open() error {
	held, err := repair(s.dir, s.first, s.rewrite, &s.opts)
	if err != nil {
		return err
	}
	var log *wal.Log
	err = guard(func() (err error) {
		log, err = wal.Open(s.dir, s.opts.wal())
		return err
	})
	if err == nil {
		err = syncDir(s.dir)
	}
	if err != nil {
		return err
	}
	s.log, s.rewrite = log, false
	s.opens++
	s.first, s.next, s.bytes, s.spent = held.first, held.next, held.bytes, held.spent
	return nil
}

// do calls f with the open log. After an error the log is not used again: its memory and its files
// may differ.
func (s *Spool) do(f func() error) error {
	if s.closed {
		return os.ErrClosed
	}
	if s.log == nil {
		if err := s.open(); err != nil {
			return fmt.Errorf("spool %s: open it again: %w", s.dir, err)
		}
	}
	err := guard(f)
	if err == nil || errors.Is(err, ErrFull) || errors.Is(err, ErrEmpty) {
		return err
	}
	log := s.log
	s.log = nil
	return fmt.Errorf("spool %s: %w", s.dir, errors.Join(err, guard(log.Close)))
}

// guard turns a panic into an error: the log panics where an index that it has in memory does not
// fit a file.
func guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the log panicked: %v", v)
		}
	}()
	return f()
}

// Append stores one block behind the others.
func (s *Spool) Append(block []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.do(func() error {
		size := recordBytes(len(block))
		if s.bytes+size > s.opts.Limit {
			return ErrFull
		}
		if err := s.log.Write(s.next, frame(s.next, block)); err != nil {
			return err
		}
		s.next++
		s.bytes += size
		if now := time.Now(); now.Sub(s.synced) >= syncEvery {
			s.synced = now
			return s.sync()
		}
		if s.later == nil {
			s.later = time.AfterFunc(syncEvery, s.syncLater)
		}
		return nil
	})
}

// syncLater makes durable what was appended shortly after another block. It tries until it can,
// less and less often.
func (s *Spool) syncLater() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.later = nil; s.closed {
		return
	}
	if err := s.do(s.sync); err != nil {
		if now := time.Now(); now.Sub(s.reported) >= reportEvery {
			s.reported = now
			s.opts.Log.Error("the audit spool cannot be synced", "error", err)
		}
		s.again = min(max(2*s.again, syncEvery), syncAgain)
		s.later = time.AfterFunc(s.again, s.syncLater)
	}
}

// sync makes everything that was appended durable.
func (s *Spool) sync() error {
	err := s.opts.sync(s.log, s.dir)
	if err == nil {
		s.stopLater()
		s.again = 0
	}
	s.rewrite = s.rewrite || err != nil
	return err
}

func (s *Spool) stopLater() {
	if s.later != nil {
		s.later.Stop()
		s.later = nil
	}
}

func syncFiles(log *wal.Log, dir string) error {
	if err := log.Sync(); err != nil {
		return err
	}
	return syncDir(dir)
}

// Head appends the oldest block to dst.
func (s *Spool) Head(dst []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.do(func() error {
		record, err := s.head()
		if err == nil {
			s.headed = s.opens
			dst = append(dst, record[frameBytes:]...)
		}
		return err
	})
	return dst, err
}

// head returns the record of the oldest block, which stands until the next call of the log.
func (s *Spool) head() ([]byte, error) {
	if s.first == s.next {
		return nil, ErrEmpty
	}
	record, err := s.log.Read(s.first)
	if err != nil {
		return nil, err
	}
	if index, ok := parse(record); !ok || index != s.first {
		return nil, errDamaged
	}
	return record, nil
}

// Advance drops the block that Head has returned last. The oldest file is cut when as many bytes
// were dropped as a file has, and when no block is left. Where the files were repaired since
// Head, nothing is dropped, and Head returns that block again.
func (s *Spool) Advance() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.do(func() error {
		if s.headed != s.opens {
			return nil
		}
		record, err := s.head()
		if err != nil {
			return err
		}
		size := recordBytes(len(record) - frameBytes)
		s.first++
		s.bytes -= size
		s.spent += size
		if s.first != s.next && s.spent < int64(s.opts.Segment) {
			return nil
		}
		if err := s.log.TruncateFront(s.first); err != nil {
			return err
		}
		s.spent = 0
		return syncDir(s.dir)
	})
}

// Empty reports whether there is no block.
func (s *Spool) Empty() bool {
	_, blocks := s.Size()
	return blocks == 0
}

// Size returns the number of blocks and their bytes in the files.
func (s *Spool) Size() (bytes, blocks uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uint64(s.bytes), s.next - s.first
}

// Close makes the remaining blocks durable.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.do(func() error { return errors.Join(s.sync(), s.log.Close()) })
	s.closed = true
	s.stopLater()
	return err
}

// frame makes the record of a block.
func frame(index uint64, block []byte) []byte {
	record := make([]byte, frameBytes, frameBytes+len(block))
	binary.LittleEndian.PutUint64(record[4:], index)
	record = append(record, block...)
	binary.LittleEndian.PutUint32(record, crc32.Checksum(record[4:], castagnoli))
	return record
}

// parse returns the index of a record, and whether its checksum holds.
func parse(record []byte) (index uint64, ok bool) {
	if len(record) < frameBytes {
		return 0, false
	}
	return binary.LittleEndian.Uint64(record[4:]),
		crc32.Checksum(record[4:], castagnoli) == binary.LittleEndian.Uint32(record)
}

// recordBytes is the size of a block in a file: its length, frame and bytes.
func recordBytes(block int) int64 {
	var length [binary.MaxVarintLen64]byte
	n := frameBytes + block
	return int64(binary.PutUvarint(length[:], uint64(n)) + n)
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// aside is the file that gets bytes that are not blocks.
func aside(dir string) string { return filepath.Clean(dir) + ".damaged" }
