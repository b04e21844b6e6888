package wal

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

const (
	lockName = "LOCK"

	// keepBufferBytes is the largest encoding buffer that is kept for the next write.
	keepBufferBytes = 4 << 20
)

// Log is a raft.LogStore and raft.MonotonicLogStore on segment files. All methods may be called
// from any goroutine.
//
// Writers (StoreLogs, DeleteRange, Reset, Close) go one at a time under write and hold state only
// while they change what readers see. Readers hold state, so they wait for no fsync, and a file is
// not closed under them.
type Log struct {
	options Options
	dir     string
	lock    io.Closer

	write sync.Mutex
	buf   []byte // of the current write
	// spares are segments that left the log, of full size; their files are written over.
	spares []*segment

	state    sync.RWMutex
	segments []*segment // never empty; the last one is appended to
	first    uint64     // oldest index, 0 when empty
	last     uint64     // newest acknowledged index, 0 when empty
	closed   bool

	poison    atomic.Pointer[error]
	fatalOnce sync.Once
	bytes     atomic.Int64
	syncs     atomic.Uint64
}

var (
	_ raft.LogStore          = (*Log)(nil)
	_ raft.MonotonicLogStore = (*Log)(nil)
)

// Open makes dir if needed, recovers the log in it and returns it. When it returns, everything
// that can be read is durable.
//
// It returns a DamageError (errors.Is ErrDamaged) if acknowledged records are damaged or missing,
// and ErrLocked if the folder is open already. A torn tail is cut and reported (Options.OnCut).
func Open(dir string, o Options) (*Log, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := o.FS.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("wal: open %s: %w", dir, err)
	}
	lock, err := o.FS.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("wal: open %s: %w", dir, err)
	}
	r := recovery{fs: o.FS, dir: dir}
	if err := r.run(); err != nil {
		err = errors.Join(err, r.close(), lock.Close())
		return nil, fmt.Errorf("wal: open %s: %w", dir, err)
	}
	l := &Log{options: o, dir: dir, lock: lock, segments: r.segments}
	if next := r.nextIndex(); next > r.manifest.firstIndex {
		l.first, l.last = r.manifest.firstIndex, next-1
	}
	l.bytes.Store(sizeOf(r.segments))
	if c := r.cut; c != nil {
		o.Logger.Warn("wal: cut a torn tail, of a write that was never acknowledged",
			"file", c.File, "offset", c.Offset, "bytes", c.Bytes, "record", c.Index,
			"reason", c.Reason)
		if o.OnCut != nil {
			o.OnCut(*c)
		}
	}
	return l, nil
}

func sizeOf(segments []*segment) int64 {
	var n int64
	for _, s := range segments {
		n += s.size
	}
	return n
}

// IsMonotonic tells raft that a gap is refused, so that raft empties the log after it installed a
// snapshot.
func (l *Log) IsMonotonic() bool { return true }

// FirstIndex returns the oldest index, 0 when the log is empty.
func (l *Log) FirstIndex() (uint64, error) {
	l.state.RLock()
	defer l.state.RUnlock()
	if l.closed {
		return 0, ErrClosed
	}
	return l.first, nil
}

// LastIndex returns the newest acknowledged index, 0 when the log is empty.
func (l *Log) LastIndex() (uint64, error) {
	l.state.RLock()
	defer l.state.RUnlock()
	if l.closed {
		return 0, ErrClosed
	}
	return l.last, nil
}

// Bytes returns what the log takes on disk, the zeroes ahead of the records included, and spare
// files left out.
func (l *Log) Bytes() int64 { return l.bytes.Load() }

// SyncCount returns how many StoreLogs calls this process made durable, one fsync each.
func (l *Log) SyncCount() uint64 { return l.syncs.Load() }

// Poisoned returns the failure after which nothing is written any more, nil if there was none.
func (l *Log) Poisoned() error {
	if err := l.poison.Load(); err != nil {
		return *err
	}
	return nil
}

// GetLog reads the record at index into log and checks it: its own checksum, and that it is the
// very record that was written there. raft.ErrLogNotFound if the log does not hold index. A read
// that fails or finds damage poisons the log.
//
// Data and Extensions are the caller's; empty ones come back nil. AppendedAt comes back in UTC.
func (l *Log) GetLog(index uint64, log *raft.Log) error {
	return l.read(index, frameBytes(MaxRecordBytes, 0), (*segment).check, log)
}

// ReadHeader is GetLog without Data and Extensions: it reads and checks no more than the record's
// header, which has a checksum of its own.
func (l *Log) ReadHeader(index uint64, log *raft.Log) error {
	return l.read(index, frameHeaderBytes, (*segment).checkHeader, log)
}

// read reads at most limit bytes of a record, which check checks and puts into log.
func (l *Log) read(index uint64, limit int64,
	check func(s *segment, b []byte, m mark, index uint64, log *raft.Log) error, log *raft.Log,
) error {
	l.state.RLock()
	if l.closed {
		l.state.RUnlock()
		return ErrClosed
	}
	if index < l.first || index > l.last || index == 0 {
		l.state.RUnlock()
		return raft.ErrLogNotFound
	}
	s := l.segments[l.holding(index)]
	b, m, err := s.readFrame(index, limit)
	l.state.RUnlock()
	if err == nil {
		if err = check(s, b, m, index, log); err == nil {
			return nil
		}
		err = &DamageError{
			File:   filepath.Join(l.dir, segmentName(s.seq)),
			Offset: int64(m.offset),
			Index:  index,
			Reason: "on reading: " + err.Error(),
		}
	}
	l.fail(fmt.Errorf("wal: read record %d: %w", index, err))
	l.settle()
	return err
}

// holding returns the position of the segment that holds index, which must be in the log.
func (l *Log) holding(index uint64) int {
	low, high := 0, len(l.segments)-1
	for low < high {
		middle := (low + high + 1) / 2
		if l.segments[middle].firstIndex <= index {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}

// StoreLog is StoreLogs with one record.
func (l *Log) StoreLog(log *raft.Log) error { return l.StoreLogs([]*raft.Log{log}) }

// StoreLogs appends the records with one write and one fsync and returns when they are durable.
// The first index must be behind LastIndex, any but 0 when the log is empty, and each one behind
// the one before (ErrGap). Any failure to write or fsync poisons the log: the records may be on
// disk or not, and only a restart finds out.
func (l *Log) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	l.write.Lock()
	err := l.append(logs)
	l.write.Unlock()
	l.settle()
	return err
}

func (l *Log) append(logs []*raft.Log) error {
	if err := l.writable(); err != nil {
		return err
	}
	size, err := l.admit(logs)
	if err != nil {
		return err
	}
	started := time.Now()
	s, err := l.active(size)
	if err != nil {
		return l.fail(fmt.Errorf("wal: new segment: %w", err))
	}
	marks := make([]mark, 0, len(logs))
	buf, prev, offset := l.buf[:0], s.lastCRC(), s.end
	for _, log := range logs {
		marks = append(marks, mark{offset: uint32(offset + int64(len(buf)))})
		h := frameHeader{prev: prev, batch: uint64(offset)}
		buf, prev = appendFrame(buf, log, h, s.salt)
		marks[len(marks)-1].crc = prev
	}
	end := offset + int64(len(buf))
	buf = append(buf, s.endMark(end)...)
	before := s.size
	if err := s.write(buf, l.options.SegmentBytes); err != nil {
		return l.fail(fmt.Errorf("wal: write records %d to %d: %w",
			logs[0].Index, logs[len(logs)-1].Index, err))
	}
	l.syncs.Add(1)
	l.bytes.Add(s.size - before)
	l.publish(s, logs, marks, end)
	if l.buf = buf; cap(buf) > keepBufferBytes {
		l.buf = nil
	}
	if l.options.OnSync != nil {
		l.options.OnSync(time.Since(started), len(logs), size)
	}
	return nil
}

// admit checks the indexes and returns the bytes that the records take.
func (l *Log) admit(logs []*raft.Log) (int64, error) {
	want := l.last + 1
	if l.last == 0 {
		want = max(logs[0].Index, 1)
	}
	var size int64
	for _, log := range logs {
		if log.Index != want || want == 0 {
			return 0, fmt.Errorf("%w: got %d, expected %d", ErrGap, log.Index, want)
		}
		if n := len(log.Data) + len(log.Extensions); n > MaxRecordBytes {
			return 0, fmt.Errorf("%w: record %d has %d bytes, allowed are %d",
				ErrTooLarge, log.Index, n, MaxRecordBytes)
		}
		size += frameBytes(len(log.Data), len(log.Extensions))
		want++
	}
	if size > MaxBatchBytes {
		return 0, fmt.Errorf("%w: a write of %d bytes, allowed are %d",
			ErrTooLarge, size, int64(MaxBatchBytes))
	}
	return size, nil
}

// active returns the segment that takes the next size bytes. A full one is left for good: it is
// durable, and the manifest that lists its successor says so.
func (l *Log) active(size int64) (*segment, error) {
	s := l.segments[len(l.segments)-1]
	if len(s.marks) == 0 || s.end+size <= l.options.SegmentBytes {
		return s, nil
	}
	h := segmentHeader{seq: s.seq + 1, firstIndex: l.last + 1, prev: s.lastCRC()}
	next, err := l.begin(h)
	if err != nil {
		return nil, err
	}
	m := manifest{
		firstSeq:    l.segments[0].seq,
		lastSeq:     h.seq,
		firstIndex:  l.first,
		syncedIndex: l.last,
	}
	if err := writeManifest(l.options.FS, l.dir, m); err != nil {
		return nil, errors.Join(err, next.file.Close())
	}
	l.bytes.Add(next.size)
	l.state.Lock()
	l.segments = append(l.segments, next)
	l.state.Unlock()
	return next, nil
}

// begin makes an empty segment, in a spare file if there is one.
func (l *Log) begin(h segmentHeader) (*segment, error) {
	n := len(l.spares)
	if n == 0 {
		return createSegment(l.options.FS, l.dir, h)
	}
	spare := l.spares[n-1]
	l.spares = l.spares[:n-1]
	next, err := spare.again(l.options.FS, l.dir, h)
	if err != nil {
		return nil, errors.Join(err, spare.file.Close())
	}
	return next, nil
}

// publish lets readers see what is durable now.
func (l *Log) publish(s *segment, logs []*raft.Log, marks []mark, end int64) {
	l.state.Lock()
	defer l.state.Unlock()
	if l.last == 0 {
		l.first = logs[0].Index
		s.firstIndex = l.first
	}
	l.last = logs[len(logs)-1].Index
	s.marks = append(s.marks, marks...)
	s.end = end
}

// Close notes in the manifest what is durable and gives the folder back. Reads and writes return
// ErrClosed afterwards, a second Close too.
func (l *Log) Close() error {
	l.write.Lock()
	defer l.write.Unlock()
	if l.closed {
		return ErrClosed
	}
	var errs []error
	if l.Poisoned() == nil {
		errs = append(errs, writeManifest(l.options.FS, l.dir, manifest{
			firstSeq:    l.segments[0].seq,
			lastSeq:     l.segments[len(l.segments)-1].seq,
			firstIndex:  l.first,
			syncedIndex: l.last,
		}))
	}
	l.state.Lock()
	l.closed = true
	for _, s := range append(l.segments, l.spares...) {
		errs = append(errs, s.file.Close())
	}
	l.state.Unlock()
	errs = append(errs, l.lock.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("wal: close %s: %w", l.dir, err)
	}
	return nil
}

// writable is called with write held.
func (l *Log) writable() error {
	if l.closed {
		return ErrClosed
	}
	if cause := l.Poisoned(); cause != nil {
		return fmt.Errorf("%w: %w", ErrPoisoned, cause)
	}
	return nil
}

// fail poisons the log, if it is not yet, and returns err.
func (l *Log) fail(err error) error {
	l.poison.CompareAndSwap(nil, &err)
	return err
}

// settle tells of a failure once; no lock is held.
func (l *Log) settle() {
	cause := l.Poisoned()
	if cause == nil {
		return
	}
	l.fatalOnce.Do(func() {
		l.options.Logger.Error("wal: stopped for good, nothing is written any more",
			"dir", l.dir, "err", cause)
		if l.options.OnFatal != nil {
			l.options.OnFatal(cause)
		}
	})
}
