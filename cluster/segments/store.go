// Package segments keeps the sealed segments of a journal as files: written once, durable before
// a snapshot that lists them is final, checked by their hash, fetched from a peer when they are
// damaged, and listed per customer through side indexes. See DESIGN.md.
package segments

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"tollgate/engine/journal"
	"tollgate/wal"
)

var (
	// ErrMissing means that a segment is not on this node: not fetched yet.
	ErrMissing = errors.New("segments: a segment is missing here")
	// ErrDamaged means that a segment's file does not have the bytes that its hash names.
	ErrDamaged = errors.New("segments: a segment is damaged here")
	// ErrDropped means that the journal dropped a segment: its time is over, no node needs it.
	ErrDropped = errors.New("segments: a segment was dropped")
	// ErrClosed means that the store was closed, or has failed.
	ErrClosed = errors.New("segments: store is closed")
)

// scrubEvery is the time between two checks of all files, of which the first begins at Open, and
// scrubPace how many bytes of them are read in a second.
const (
	scrubEvery = 24 * time.Hour
	scrubPace  = 64 << 20
)

// Options are the settings of a Store; the zero value has the defaults.
type Options struct {
	// FS is the file system; nil is the real one.
	FS wal.FS
	// QueueSegments is how many segments may wait to be written (default 8, that is 64 MiB). When
	// they do, Put waits.
	QueueSegments int
	// CacheBytes bounds the memory of side indexes (default 64 MiB).
	CacheBytes int64
	// Fatal is called with an error that must end the process: a write or an fsync that failed.
	// Default: panic.
	Fatal func(error)
	// Damaged, if set, is called for each file found damaged.
	Damaged func(journal.SegmentInfo, error)
}

func (o *Options) fill() {
	o.FS = cmp.Or(o.FS, wal.OS())
	if o.QueueSegments <= 0 {
		o.QueueSegments = 8
	}
	if o.CacheBytes <= 0 {
		o.CacheBytes = 64 << 20
	}
	if o.Fatal == nil {
		o.Fatal = func(err error) { panic(err) }
	}
}

// Store keeps the segments that its journal's manifest lists. All methods are for any goroutine.
type Store struct {
	dir     string
	journal *journal.Journal
	indexer journal.Indexer
	opts    Options

	queue chan *segment
	quit  context.Context
	end   context.CancelCauseFunc
	work  sync.WaitGroup
	// writing is held while a file is made, so that two of one number never mix, and while those of
	// dropped segments are deleted. swept is how far that has come; it is guarded by writing.
	writing sync.Mutex
	swept   uint64
	holds   int // guarded by writing, too: while there are any, nothing is deleted

	lock     sync.Mutex
	segments map[key]*segment
	// changed is closed, and made anew, whenever a segment becomes durable or is dropped.
	changed chan struct{}

	cache     indexCache
	tails     [2]tailIndex // by part
	onWritten atomic.Pointer[func(journal.SegmentInfo, []byte)]
}

// key names a segment.
type key struct {
	part   journal.Part
	number uint64
}

func keyOf(info journal.SegmentInfo) key { return key{info.Part, info.Number} }

// segment is the state of one segment's file.
type segment struct {
	info journal.SegmentInfo
	// indexing is held while the side index is made.
	indexing sync.Mutex

	lock  sync.Mutex
	state state
	// sealed is the segment with its bytes while it is not on disk.
	sealed journal.Segment
	// index is the side index while it is cached; span outlives it.
	index *sideIndex
	span  *span
	used  atomic.Uint64 // the cache's clock at the last use
}

type state uint8

const (
	// absent: no file of the right length.
	absent state = iota
	// pending: in memory, to be written.
	pending
	// unchecked: a file of the right length, not read yet by this process.
	unchecked
	// stored: durable, and its hash was right when it was last read.
	stored
	// damaged: its hash was wrong.
	damaged
)

// Open opens the segments of j in dir, which it makes. ix says to whom a record belongs; it must
// not change between runs, or the side indexes must be deleted. Close ends the store.
func Open(dir string, j *journal.Journal, ix journal.Indexer, opts Options) (*Store, error) {
	opts.fill()
	s := &Store{
		dir: dir, journal: j, indexer: ix, opts: opts,
		queue:    make(chan *segment, opts.QueueSegments),
		segments: map[key]*segment{}, changed: make(chan struct{}),
		cache: indexCache{limit: opts.CacheBytes},
	}
	if err := opts.FS.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("segments: %w", err)
	}
	if err := s.clean(); err != nil {
		return nil, fmt.Errorf("segments: %w", err)
	}
	s.quit, s.end = context.WithCancelCause(context.Background())
	s.work.Go(s.write)
	s.work.Go(s.scrub)
	return s, nil
}

// Close writes what is queued and stops. It does not wait for anything else: what is lost is made
// again from the log.
func (s *Store) Close() error {
	s.end(ErrClosed)
	s.work.Wait()
	if cause := context.Cause(s.quit); cause != ErrClosed {
		return cause
	}
	return nil
}

func (s *Store) path(k key, suffix string) string {
	return filepath.Join(s.dir, fmt.Sprintf("%s-%010d%s", k.part, k.number, suffix))
}

// lookup returns a segment's state, reading it from disk when it is not known yet.
func (s *Store) lookup(info journal.SegmentInfo) *segment {
	s.lock.Lock()
	defer s.lock.Unlock()
	seg := s.segments[keyOf(info)]
	if seg == nil || seg.info != info {
		seg = &segment{info: info}
		if size, err := s.fileSize(keyOf(info)); err == nil && size == int64(info.Length) {
			seg.state = unchecked
		}
		if !s.journal.Dropped(info) { // else a listing has an old view; it would never be forgotten again
			s.segments[keyOf(info)] = seg
		}
	}
	return seg
}

func (s *Store) fileSize(k key) (size int64, err error) {
	f, err := s.opts.FS.OpenRead(s.path(k, ".seg"))
	if err != nil {
		return 0, err
	}
	defer closing(f, &err)
	return f.Size()
}

func closing(f wal.File, err *error) {
	if closed := f.Close(); *err == nil {
		*err = closed
	}
}

// Put takes a sealed segment to be written. It waits while the queue is full, and returns at once
// when the store is closed. A segment that is already there is not written again, one that was
// dropped at once not at all.
func (s *Store) Put(sealed journal.Segment) {
	if s.journal.Dropped(sealed.SegmentInfo) {
		return
	}
	seg := s.lookup(sealed.SegmentInfo)
	seg.hold(sealed)
	select {
	case s.queue <- seg:
	case <-s.quit.Done():
	}
}

// hold keeps a segment's bytes in memory until they are on disk.
func (seg *segment) hold(sealed journal.Segment) {
	seg.lock.Lock()
	defer seg.lock.Unlock()
	if seg.state != stored {
		seg.state, seg.sealed = pending, sealed
	}
}

// bytes are for a reader, who may keep them: the segment while it is not on disk, otherwise nil.
// The caller holds lock.
func (seg *segment) bytes() []byte {
	if !seg.sealed.Share() {
		return nil
	}
	return seg.sealed.Data
}

// release lets go of the segment's bytes. If they are data, which was just written, the journal may
// reuse their buffer, unless a reader shares it.
func (seg *segment) release(next state, data []byte) {
	seg.lock.Lock()
	defer seg.lock.Unlock()
	held := seg.sealed
	seg.state, seg.sealed = next, journal.Segment{}
	// Repair may have stored other bytes of this segment while the journal's were still queued: those
	// are not released, since the writer may be reading them.
	if len(held.Data) > 0 && &held.Data[0] == &data[0] {
		held.Release()
	}
}

// write is the goroutine that writes the segments that were Put.
func (s *Store) write() {
	for {
		select {
		case seg := <-s.queue:
			s.writeQueued(seg)
			continue
		default:
		}
		select {
		case seg := <-s.queue:
			s.writeQueued(seg)
		case <-s.quit.Done():
			return
		}
	}
}

func (s *Store) writeQueued(seg *segment) {
	seg.lock.Lock()
	data := seg.sealed.Data
	seg.lock.Unlock()
	if data == nil || context.Cause(s.quit) != nil && context.Cause(s.quit) != ErrClosed {
		return
	}
	if err := s.store(seg, data); err != nil {
		s.fail(err)
	}
}

// fail ends the store: after a failed fsync it is not known what is on disk.
func (s *Store) fail(err error) {
	err = fmt.Errorf("segments: %w", err)
	s.end(err)
	s.opts.Fatal(err)
}

// store makes a segment durable: file, fsync, rename, fsync of the directory, side index.
func (s *Store) store(seg *segment, data []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.lock.Lock()
	current := s.segments[keyOf(seg.info)] == seg
	s.lock.Unlock()
	if !current || s.journal.Dropped(seg.info) {
		// The journal was restored to another history meanwhile, or the segment's time is over.
		seg.release(absent, data)
		return nil
	}
	there := s.has(seg.info, data)
	if !there {
		if err := s.replace(s.path(keyOf(seg.info), ".seg"), data, true); err != nil {
			return err
		}
	}
	if err := s.opts.FS.SyncDir(s.dir); err != nil {
		return err
	}
	if err := s.storeIndex(seg, data, there); err != nil {
		return err
	}
	if f := s.onWritten.Load(); f != nil && !there {
		(*f)(seg.info, data)
	}
	seg.release(stored, data)
	s.wake()
	return nil
}

// wake makes WaitDurable check again.
func (s *Store) wake() {
	s.lock.Lock()
	defer s.lock.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// replace puts a file in place of name, atomically.
func (s *Store) replace(name string, data []byte, sync bool) error {
	f, err := s.opts.FS.CreateUncached(name + ".tmp")
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil && sync {
		err = f.Sync()
	}
	closing(f, &err)
	if err != nil {
		return err
	}
	return s.opts.FS.Rename(name+".tmp", name)
}

// compareBytes is how much of a file is read at a time to compare it.
const compareBytes = 1 << 20

// has reports whether a segment's file is there with these bytes, as when the log is replayed. The
// caller holds writing.
func (s *Store) has(info journal.SegmentInfo, data []byte) (same bool) {
	f, err := s.opts.FS.OpenReadUncached(s.path(keyOf(info), ".seg"))
	if err != nil {
		return false // whatever it is: the file is written, and says so
	}
	defer func() { same = f.Close() == nil && same }()
	if size, err := f.Size(); err != nil || size != int64(len(data)) {
		return false
	}
	buf := wal.Aligned(min(compareBytes, len(data)))
	for at := 0; at < len(data); at += len(buf) {
		buf = buf[:min(len(buf), len(data)-at)]
		if _, err := f.ReadAt(buf, int64(at)); err != nil || !bytes.Equal(buf, data[at:at+len(buf)]) {
			return false
		}
	}
	return true
}

// readBuffers are memory that segments are read into by whoever does not keep their bytes: new
// memory for each costs more than reading it. The garbage collector frees it after two cycles
// without use.
var readBuffers = sync.Pool{New: func() any { return new(readBuffer) }}

type readBuffer struct{ data []byte }

// ofLength returns n bytes, whatever they are; a nil buffer has new ones.
func (b *readBuffer) ofLength(n uint64) []byte {
	if b == nil {
		return make([]byte, n)
	}
	if n > uint64(cap(b.data)) {
		const step = 1 << 20 // segments differ in length by little
		b.data = wal.Aligned(int(n/step*step + step))
	}
	return b.data[:n]
}

// opener is one of the ways of a wal.FS to open a file: uncached for one pass over it, else so that
// it can be read again from the page cache.
type opener func(name string) (wal.File, error)

// readFile reads a segment's file, which may be damaged, into buf.
func (s *Store) readFile(
	info journal.SegmentInfo, open opener, buf *readBuffer,
) (data []byte, err error) {
	f, err := open(s.path(keyOf(info), ".seg"))
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("%w: %s", ErrMissing, info)
		}
		return nil, err
	}
	defer closing(f, &err)
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size != int64(info.Length) {
		return nil, fmt.Errorf("%w: %s has %d of %d bytes", ErrDamaged, info, size, info.Length)
	}
	data = buf.ofLength(info.Length)
	if _, err := f.ReadAt(data, 0); err != nil {
		return nil, err
	}
	return data, nil
}

// load returns a segment's bytes, checked.
func (s *Store) load(seg *segment) ([]byte, error) {
	seg.lock.Lock()
	defer seg.lock.Unlock()
	return s.loadLocked(seg, s.opts.FS.OpenRead, nil)
}

func (s *Store) loadLocked(seg *segment, open opener, buf *readBuffer) ([]byte, error) {
	if data := seg.bytes(); data != nil {
		return data, nil
	}
	if seg.state == absent {
		return nil, fmt.Errorf("%w: %s", ErrMissing, seg.info)
	}
	data, err := s.readFile(seg.info, open, buf)
	if err == nil && xxhash.Sum64(data) != seg.info.Hash {
		err = fmt.Errorf("%w: %s", ErrDamaged, seg.info)
	}
	if err == nil {
		seg.state = stored
		return data, nil
	}
	if s.journal.Dropped(seg.info) { // and Sweep deleted the file
		return nil, fmt.Errorf("%w: %s", ErrDropped, seg.info)
	}
	if seg.state != damaged && s.opts.Damaged != nil {
		s.opts.Damaged(seg.info, err)
	}
	seg.state = damaged
	return nil, err
}

// check reads a segment that this process has not read yet.
func (s *Store) check(seg *segment) error {
	seg.lock.Lock()
	defer seg.lock.Unlock()
	if seg.state == stored || seg.state == pending {
		return nil
	}
	buf := readBuffers.Get().(*readBuffer)
	defer readBuffers.Put(buf)
	_, err := s.loadLocked(seg, s.opts.FS.OpenReadUncached, buf)
	return err
}

// WaitDurable returns when every listed segment is on disk with the right bytes, or was dropped. A
// segment that is missing is waited for: it comes by Put or by Repair.
func (s *Store) WaitDurable(ctx context.Context, infos []journal.SegmentInfo) error {
	for _, info := range infos {
		if err := s.waitOne(ctx, info); err != nil {
			return fmt.Errorf("%s is not on disk: %w", info, err)
		}
	}
	return nil
}

func (s *Store) waitOne(ctx context.Context, info journal.SegmentInfo) error {
	for !s.journal.Dropped(info) {
		seg := s.lookup(info)
		s.lock.Lock()
		changed := s.changed
		s.lock.Unlock()
		if err := s.check(seg); err == nil {
			seg.lock.Lock()
			done := seg.state == stored
			seg.lock.Unlock()
			if done {
				return nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.quit.Done():
			return context.Cause(s.quit)
		}
	}
	return nil
}

// Missing lists the segments of the manifest that are absent here, or known to be damaged.
func (s *Store) Missing() []journal.SegmentInfo {
	var list []journal.SegmentInfo
	for _, info := range s.journal.Manifest() {
		seg := s.find(info)
		seg.lock.Lock()
		if seg.state == absent || seg.state == damaged {
			list = append(list, info)
		}
		seg.lock.Unlock()
	}
	return list
}

// Read returns the bytes of a segment that the manifest lists, checked, for a peer. They must not
// be changed. It is ErrDropped when the journal no longer has it: the peer's log will drop it, too.
func (s *Store) Read(part journal.Part, number uint64) ([]byte, error) {
	seg, err := s.listed(part, number)
	if err != nil {
		return nil, err
	}
	seg.lock.Lock()
	defer seg.lock.Unlock()
	return s.loadLocked(seg, s.opts.FS.OpenReadUncached, nil)
}

// Lend is Read for a caller that does not keep the bytes: use has them until it returns.
func (s *Store) Lend(part journal.Part, number uint64, use func(data []byte) error) error {
	seg, err := s.listed(part, number)
	if err != nil {
		return err
	}
	buf := readBuffers.Get().(*readBuffer)
	defer readBuffers.Put(buf)
	seg.lock.Lock()
	data, err := s.loadLocked(seg, s.opts.FS.OpenReadUncached, buf)
	seg.lock.Unlock()
	if err != nil {
		return err
	}
	return use(data)
}

// listed finds a segment in the manifest.
func (s *Store) listed(part journal.Part, number uint64) (*segment, error) {
	if !slices.Contains(journal.Parts(), part) {
		return nil, fmt.Errorf("%w: there is no part %d", ErrMissing, part)
	}
	view := s.journal.Outline()[part]
	switch {
	case number < view.First:
		return nil, fmt.Errorf("%w: %s %d", ErrDropped, part, number)
	case number-view.First >= uint64(len(view.Segments)):
		return nil, fmt.Errorf("%w: %s %d is not in the manifest", ErrMissing, part, number)
	}
	return s.find(view.Segments[number-view.First]), nil
}

// OnWritten has f called with each segment that is written, while its bytes are in memory. f must
// not keep them, and the next segment waits for it.
func (s *Store) OnWritten(f func(info journal.SegmentInfo, data []byte)) { s.onWritten.Store(&f) }

// find is lookup that knows a segment whose Put is on the way.
func (s *Store) find(info journal.SegmentInfo) *segment {
	seg := s.lookup(info)
	seg.lock.Lock()
	known := seg.state != absent
	seg.lock.Unlock()
	if known {
		return seg
	}
	if sealed, ok := s.journal.Sealed(info); ok {
		seg.hold(sealed)
	}
	return seg
}
