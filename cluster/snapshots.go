package cluster

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/raft"

	"tollgate/wal"
)

const (
	// snapshotsKept is how many snapshots stay on disk.
	snapshotsKept = 2
	// snapshotBlock is how many bytes of state are checked by one checksum, and written at once.
	snapshotBlock = 1 << 20
	// snapshotSync is how many bytes are written between two fsyncs: the last one, of a large
	// snapshot, would else take longer than the disk may, and the log wait behind it.
	snapshotSync   = 8 << 20
	snapshotSuffix = ".snap"
	snapshotMagic  = "TGSNAP\x00\x01"
	snapshotEnd    = "TGSNAPOK"
	blockHead      = 8  // length, checksum
	trailerBytes   = 24 // meta length and checksum, where it begins, magic
)

// snapshotStore keeps raft's snapshots of one group, one file each. A file counts once it has its
// name, which it gets when all of it is on disk. Damaged state is never returned, not even in part:
// Open reads all of it first.
//
//	magic; blocks of [length u32][CRC-32C u32][state], the checksum begun with the one before; meta
//	as JSON; [its length u32][its CRC-32C u32][where it begins u64]["TGSNAPOK"]
type snapshotStore struct {
	files wal.FS
	dir   string
	log   *slog.Logger

	mu      sync.Mutex
	next    uint64           // number of the next file
	damaged map[string]error // the damage found, by id
	// good is the snapshot that a start has read and found whole, until it is opened.
	good string
}

var _ raft.SnapshotStore = (*snapshotStore)(nil)

// openSnapshots opens the folder, makes it if needed, and removes what was never finished.
func openSnapshots(fsys wal.FS, dir string, log *slog.Logger) (*snapshotStore, error) {
	s := &snapshotStore{
		files: fsys, dir: filepath.Join(dir, "snapshots"), log: log, damaged: make(map[string]error),
	}
	if err := fsys.MkdirAll(s.dir); err != nil {
		return nil, fmt.Errorf("cluster: open snapshots: %w", err)
	}
	names, err := fsys.List(s.dir)
	if err != nil {
		return nil, fmt.Errorf("cluster: list snapshots: %w", err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".tmp") {
			if err := fsys.Remove(filepath.Join(s.dir, name)); err != nil {
				return nil, fmt.Errorf("cluster: remove an unfinished snapshot: %w", err)
			}
		}
		if n, ok := snapshotNumber(name); ok {
			s.next = max(s.next, n)
		}
	}
	s.next++
	return s, nil
}

func snapshotNumber(name string) (uint64, bool) {
	id, ok := strings.CutSuffix(strings.TrimSuffix(name, ".tmp"), snapshotSuffix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(id, 10, 64)
	return n, err == nil
}

func (s *snapshotStore) path(id string) string { return filepath.Join(s.dir, id+snapshotSuffix) }

// ids are the snapshots that have their name, the oldest first.
func (s *snapshotStore) ids() ([]string, error) {
	names, err := s.files.List(s.dir)
	if err != nil {
		return nil, fmt.Errorf("cluster: list snapshots: %w", err)
	}
	var ids []string
	for _, name := range names {
		if _, ok := snapshotNumber(name); ok && strings.HasSuffix(name, snapshotSuffix) {
			ids = append(ids, strings.TrimSuffix(name, snapshotSuffix))
		}
	}
	return ids, nil
}

// List names the snapshots that are not known to be damaged, the newest first.
func (s *snapshotStore) List() ([]*raft.SnapshotMeta, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	var list []*raft.SnapshotMeta
	for _, id := range ids {
		if s.damage(id) != nil {
			continue
		}
		meta, err := s.meta(id)
		if errors.Is(err, ErrDamaged) {
			s.blame(id, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, meta)
	}
	slices.SortFunc(list, func(a, b *raft.SnapshotMeta) int {
		return -cmp.Or(cmp.Compare(a.Term, b.Term), cmp.Compare(a.Index, b.Index),
			cmp.Compare(a.ID, b.ID))
	})
	return list[:min(len(list), snapshotsKept)], nil
}

func (s *snapshotStore) damage(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.damaged[id]
}

// blame records that a snapshot is damaged.
func (s *snapshotStore) blame(id string, err error) {
	s.log.Error("a snapshot is damaged and will not be used", "file", s.path(id), "error", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.damaged[id] = err
}

// anyDamage is the damage found in snapshots that still exist; nil if none.
func (s *snapshotStore) anyDamage() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(s.damaged)) {
		errs = append(errs, s.damaged[id])
	}
	return errors.Join(errs...)
}

// Create begins a snapshot.
func (s *snapshotStore) Create(
	version raft.SnapshotVersion, index, term uint64, c raft.Configuration,
	configIndex uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	if version != raft.SnapshotVersionMax {
		return nil, fmt.Errorf("cluster: no snapshots of version %d", version)
	}
	s.mu.Lock()
	id := fmt.Sprintf("%020d", s.next)
	s.next++
	s.mu.Unlock()
	w := &snapshotSink{
		store: s, block: make([]byte, blockHead, blockHead+snapshotBlock),
		meta: raft.SnapshotMeta{
			Version: version, ID: id, Index: index, Term: term,
			Configuration: c, ConfigurationIndex: configIndex,
		},
	}
	var err error
	if w.file, err = s.files.Create(w.temporary()); err != nil {
		return nil, fmt.Errorf("cluster: create a snapshot: %w", err)
	}
	if err := w.put([]byte(snapshotMagic)); err != nil {
		return nil, errors.Join(err, w.Cancel())
	}
	return w, nil
}

// Open checks all of a snapshot and returns its state. If it is damaged, the error is ErrDamaged
// and the snapshot is no longer listed. It does not read again what checkOnce has just read.
func (s *snapshotStore) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	check := s.check
	if s.take(id) {
		check = s.meta
	}
	meta, err := check(id)
	if errors.Is(err, ErrDamaged) {
		s.blame(id, err)
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := s.files.OpenRead(s.path(id))
	if err != nil {
		return nil, nil, fmt.Errorf("cluster: open a snapshot: %w", err)
	}
	blame := func(err error) { s.blame(id, err) }
	return meta, &snapshotReader{file: f, name: s.path(id), rest: meta.Size, blame: blame}, nil
}

// checkOnce is check for a start, which asks several times before it opens the snapshot.
func (s *snapshotStore) checkOnce(id string) error {
	if s.take(id) {
		s.found(id)
		return nil
	}
	_, err := s.check(id)
	if err == nil {
		s.found(id)
	}
	return err
}

// take reports whether a start has found a snapshot whole, and forgets it.
func (s *snapshotStore) take(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.good == id && id != ""
	if known {
		s.good = ""
	}
	return known
}

func (s *snapshotStore) found(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.good = id
}

// check reads all of a snapshot.
func (s *snapshotStore) check(id string) (*raft.SnapshotMeta, error) {
	meta, err := s.meta(id)
	if err != nil {
		return nil, err
	}
	f, err := s.files.OpenRead(s.path(id))
	if err != nil {
		return nil, fmt.Errorf("cluster: open a snapshot: %w", err)
	}
	r := &snapshotReader{file: f, name: s.path(id), rest: meta.Size}
	_, err = io.Copy(io.Discard, r)
	return meta, errors.Join(err, r.Close())
}

// meta reads a snapshot's metadata, at its end.
func (s *snapshotStore) meta(id string) (_ *raft.SnapshotMeta, err error) {
	f, err := s.files.OpenRead(s.path(id))
	if err != nil {
		return nil, fmt.Errorf("cluster: open a snapshot: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("cluster: open a snapshot: %w", err)
	}
	bad := func(reason string) error {
		return fmt.Errorf("%w: %s: %s", ErrDamaged, s.path(id), reason)
	}
	var end [trailerBytes]byte
	if size < int64(len(snapshotMagic)+trailerBytes) {
		return nil, bad("it is too short")
	}
	if _, err := f.ReadAt(end[:], size-int64(len(end))); err != nil {
		return nil, fmt.Errorf("cluster: read a snapshot: %w", err)
	}
	le := binary.LittleEndian
	length, begin := int64(le.Uint32(end[:])), int64(le.Uint64(end[8:]))
	if string(end[16:]) != snapshotEnd || begin < int64(len(snapshotMagic)) ||
		begin > size || begin+length+trailerBytes != size {
		return nil, bad("its end is not one")
	}
	b := make([]byte, length)
	if _, err := f.ReadAt(b, begin); err != nil {
		return nil, fmt.Errorf("cluster: read a snapshot: %w", err)
	}
	meta := &raft.SnapshotMeta{}
	if crc32.Checksum(b, castagnoli) != le.Uint32(end[4:]) || json.Unmarshal(b, meta) != nil {
		return nil, bad("its description does not match its checksum")
	}
	meta.ID = id
	return meta, nil
}

// reap removes what is older than the snapshots that are kept, damaged ones included.
func (s *snapshotStore) reap() error {
	list, err := s.List()
	if err != nil {
		return err
	}
	ids, err := s.ids()
	if err != nil || len(list) == 0 {
		return err
	}
	keep := make(map[string]bool)
	for _, meta := range list {
		keep[meta.ID] = true
	}
	for _, id := range ids {
		if keep[id] {
			continue
		}
		if err := s.files.Remove(s.path(id)); err != nil {
			return fmt.Errorf("cluster: remove an old snapshot: %w", err)
		}
		s.mu.Lock()
		delete(s.damaged, id)
		s.mu.Unlock()
	}
	return nil
}

// snapshotSink writes one snapshot.
type snapshotSink struct {
	store *snapshotStore
	meta  raft.SnapshotMeta
	file  wal.File

	block    []byte // head, and state not written yet
	chain    uint32 // checksum of the block before
	offset   int64
	unsynced int64
	once     sync.Once
	err      error
}

func (w *snapshotSink) temporary() string { return w.store.path(w.meta.ID) + ".tmp" }

// ID returns the snapshot's name.
func (w *snapshotSink) ID() string { return w.meta.ID }

// put appends bytes to the file.
func (w *snapshotSink) put(b []byte) error {
	if _, err := w.file.WriteAt(b, w.offset); err != nil {
		return fmt.Errorf("cluster: write a snapshot: %w", err)
	}
	w.offset += int64(len(b))
	if w.unsynced += int64(len(b)); w.unsynced < snapshotSync {
		return nil
	}
	w.unsynced = 0
	return w.file.SyncData()
}

// Write adds state.
func (w *snapshotSink) Write(p []byte) (int, error) {
	for written := 0; ; {
		n := min(len(p)-written, blockHead+snapshotBlock-len(w.block))
		w.block = append(w.block, p[written:written+n]...)
		if written += n; written == len(p) {
			return written, nil
		}
		if err := w.flush(); err != nil {
			return written, err
		}
	}
}

// flush writes the block.
func (w *snapshotSink) flush() error {
	state := w.block[blockHead:]
	if len(state) == 0 {
		return nil
	}
	w.chain = crc32.Update(w.chain, castagnoli, state)
	binary.LittleEndian.PutUint32(w.block, uint32(len(state)))
	binary.LittleEndian.PutUint32(w.block[4:], w.chain)
	w.meta.Size += int64(len(state))
	err := w.put(w.block)
	w.block = w.block[:blockHead]
	return err
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
		if err := w.store.reap(); err != nil {
			w.store.log.Warn("old snapshots are still on disk", "error", err)
		}
	})
	return w.err
}

func (w *snapshotSink) finish() error {
	if err := w.flush(); err != nil {
		return err
	}
	meta, err := json.Marshal(w.meta)
	if err != nil {
		return err
	}
	le := binary.LittleEndian
	end := le.AppendUint32(slices.Clone(meta), uint32(len(meta)))
	end = le.AppendUint32(end, crc32.Checksum(meta, castagnoli))
	end = le.AppendUint64(end, uint64(w.offset))
	if err := w.put(append(end, snapshotEnd...)); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		return err
	}
	fsys := w.store.files
	if err := fsys.Rename(w.temporary(), w.store.path(w.meta.ID)); err != nil {
		return err
	}
	if err := fsys.SyncDir(w.store.dir); err != nil {
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
	closed, err := w.file.Close(), w.store.files.Remove(w.temporary())
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
