package cluster

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
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
	snapshotsKept  = 2
	snapshotSuffix = ".snap"
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
		files: s.files, path: s.path(id), kept: s.reapOld,
		meta: raft.SnapshotMeta{
			Version: version, ID: id, Index: index, Term: term,
			Configuration: c, ConfigurationIndex: configIndex,
		},
	}
	var err error
	if w.file, err = s.files.CreateUncached(w.temporary()); err != nil {
		return nil, fmt.Errorf("cluster: create a snapshot: %w", err)
	}
	w.begin()
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

// reapOld reaps; a failure leaves files behind, and harms nothing else.
func (s *snapshotStore) reapOld() {
	if err := s.reap(); err != nil {
		s.log.Warn("old snapshots are still on disk", "error", err)
	}
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
