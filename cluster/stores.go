package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"tollgate/cluster/keyfiles"
	"tollgate/cluster/rollups"
	"tollgate/cluster/segments"
	"tollgate/wal"
)

// stores are the files of one group: log/, vote, snapshots/, segments/.
type stores struct {
	files     wal.FS
	log       *wal.Log
	vote      *voteFile
	snapshots *snapshotStore
	segments  *segments.Store // nil without a journal, and until it is restored
	keys      *keyfiles.Store // nil if no key leaves memory
	rollups   *rollups.Store  // nil if nothing is counted
	dir       string
}

// rebuildMark is the name of the file that asks the next start to empty the log.
const rebuildMark = "rebuild-log"

// lockWait is how long another process may go on holding a group's files.
const lockWait = 2 * time.Second

func openStores(c *Config, dir string, notices fileNotices) (*stores, error) {
	files := &watchedFS{FS: c.FS, limit: c.StoreTimeout, notices: notices}
	if err := files.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("cluster: data folder: %w", err)
	}
	st := &stores{dir: dir, files: files}
	if err := st.open(c, notices.fatal); err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return st, nil
}

// open opens the log first, because the log has the lock. Opening creates a missing log, so
// checkLogIsThere comes before.
func (s *stores) open(c *Config, fatal func(error)) (err error) {
	if err := s.checkLogIsThere(); err != nil {
		return err
	}
	options := wal.Options{
		FS: s.files, Logger: c.Log, OnFatal: fatal, SegmentBytes: c.logSegment,
		SpareBytes: c.SnapshotBytes, // files that a snapshot frees are reused until the next one
	}
	for end := time.Now().Add(lockWait); ; time.Sleep(lockWait / 20) {
		s.log, err = wal.Open(filepath.Join(s.dir, "log"), options)
		if !errors.Is(err, wal.ErrLocked) || time.Now().After(end) {
			break
		}
	}
	if err != nil {
		return err
	}
	if s.vote, err = openVote(s.files, s.dir, c.Log); err != nil {
		return err
	}
	if s.snapshots, err = openSnapshots(s.files, s.dir, c.Log); err != nil {
		return err
	}
	if err := s.checkLog(); err != nil {
		return err
	}
	return s.align(c.Log)
}

// hasLog reports whether a log was begun here.
func (s *stores) hasLog() (bool, error) {
	names, err := s.files.List(filepath.Join(s.dir, "log"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cluster: look for the log: %w", err)
	}
	return slices.Contains(names, "MANIFEST"), nil
}

// checkLogIsThere returns an error if the log is missing although this node had one: a node that
// took part in an election had, because the log holds the first members. It changes nothing, so the
// next start returns the same error.
func (s *stores) checkLogIsThere() error {
	known, err := s.hasLog()
	if err != nil || known {
		return err
	}
	term, err := storedTerm(s.files, s.dir)
	if err == nil && term > firstTerm {
		return fmt.Errorf("%w: %s: term and vote are there, and the log is gone, with entries that "+
			"this node acknowledged; %s", ErrDamaged, filepath.Join(s.dir, "log"), wal.Rejoin)
	}
	return err
}

// checkLog compares log and vote: a log has no entries of a later term than its node has seen.
func (s *stores) checkLog() error {
	term, err := s.vote.GetUint64(termKey)
	if err != nil && !errors.Is(err, errNoValue) {
		return err
	}
	last, err := s.log.LastIndex()
	if err != nil || last == 0 {
		return err
	}
	var l raft.Log
	if err := s.log.GetLog(last, &l); err != nil {
		return err
	}
	if l.Term > term {
		return fmt.Errorf("%w: %s: it is older than the log, or missing (term %d, and entry %d is of "+
			"term %d): no vote of this node would be safe; %s", ErrDamaged,
			filepath.Join(s.dir, voteName), term, last, l.Term, wal.Rejoin)
	}
	return nil
}

// openSegments opens the files of a restored journal and checks all of them from the start.
func (s *stores) openSegments(shard Shard, fatal func(error)) (Segments, error) {
	dir := filepath.Join(s.dir, "segments")
	store, err := segments.Open(dir, shard.Machine.Journal(), shard.Indexer,
		segments.Options{FS: s.files, Fatal: fatal})
	if err != nil {
		return nil, err
	}
	s.segments = store
	return store, nil
}

// align makes log and newest snapshot agree before raft starts on both, and empties the log if the
// previous process asked for it. It skips a damaged snapshot if the log reaches back to the one
// before.
func (s *stores) align(log *slog.Logger) error {
	newest, err := s.newestSnapshot()
	if err != nil {
		return err
	}
	first, err := s.log.FirstIndex()
	if err != nil {
		return err
	}
	if damage := s.snapshots.anyDamage(); first > newest.Index+1 || first == 0 && damage != nil {
		if damage == nil {
			damage = errors.New("it is missing")
		}
		return fmt.Errorf("%w: %s: the snapshot that the log goes on from (the log begins at %d, the "+
			"newest good snapshot ends at %d): %w; nothing was changed; %s", ErrDamaged,
			s.snapshots.dir, first, newest.Index, damage, wal.Rejoin)
	}
	if err := s.rebuild(newest, log); err != nil {
		return err
	}
	return s.log.AlignTo(newest.Index)
}

// newestSnapshot returns the newest intact snapshot; the zero value if there is none.
func (s *stores) newestSnapshot() (raft.SnapshotMeta, error) {
	for {
		found, err := s.snapshots.List()
		if err != nil || len(found) == 0 {
			return raft.SnapshotMeta{}, err
		}
		switch err := s.snapshots.checkOnce(found[0].ID); {
		case err == nil:
			return *found[0], nil
		case errors.Is(err, ErrDamaged):
			s.snapshots.blame(found[0].ID, err)
		default:
			return raft.SnapshotMeta{}, err
		}
	}
}

// rebuild empties the log if the mark exists and the entry at the newest snapshot's index has
// another term: then it and everything after it was never committed, and nothing depends on it.
func (s *stores) rebuild(newest raft.SnapshotMeta, log *slog.Logger) error {
	mark := filepath.Join(s.dir, rebuildMark)
	names, err := s.files.List(s.dir)
	if err != nil {
		return fmt.Errorf("cluster: look for a mark: %w", err)
	}
	if !slices.Contains(names, rebuildMark) {
		return nil
	}
	var l raft.Log
	switch err := s.log.GetLog(newest.Index, &l); {
	case err == nil && l.Term != newest.Term:
		log.Warn("the log is emptied: it contradicts the snapshot",
			"index", newest.Index, "term", newest.Term, "logTerm", l.Term)
		if err := s.log.Reset(); err != nil {
			return err
		}
	case err != nil && !errors.Is(err, raft.ErrLogNotFound):
		return err
	}
	if err := s.files.Remove(mark); err != nil {
		return fmt.Errorf("cluster: remove a mark: %w", err)
	}
	return s.files.SyncDir(s.dir)
}

// markRebuild asks the next start to empty the log.
func (s *stores) markRebuild() error {
	f, err := s.files.Create(filepath.Join(s.dir, rebuildMark))
	if err != nil {
		return fmt.Errorf("cluster: mark the log: %w", err)
	}
	return errors.Join(f.Sync(), f.Close(), s.files.SyncDir(s.dir))
}

func (s *stores) size() (bytes int64, syncs uint64) { return s.log.Bytes(), s.log.SyncCount() }

// Close closes what was opened.
func (s *stores) Close() error {
	var errs []error
	if s.rollups != nil {
		errs = append(errs, s.rollups.Close())
	}
	if s.keys != nil {
		errs = append(errs, s.keys.Close())
	}
	if s.segments != nil {
		errs = append(errs, s.segments.Close())
	}
	if s.vote != nil {
		errs = append(errs, s.vote.Close())
	}
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	return errors.Join(errs...)
}

// opened returns the vote and the end of the log as the files have them, before raft runs on them.
func (s *stores) opened() (mark, error) {
	m := *s.vote.published.Load()
	newest, err := s.newestSnapshot()
	if err != nil {
		return m, err
	}
	m.LastTerm, m.Last = newest.Term, newest.Index
	last, err := s.log.LastIndex()
	if err != nil {
		return m, err
	}
	if last > m.Last {
		var l raft.Log
		if err := s.log.GetLog(last, &l); err != nil {
			return m, err
		}
		m.LastTerm, m.Last = l.Term, last
	}
	if m.Last == 0 && m.Term <= firstTerm {
		m.Term = 0 // an interrupted beginning, which begun undoes
	}
	return m, nil
}

// openKeys opens the key files of a machine with an open journal; nil if a shard keeps none. They
// are read later, while the rest of the node starts.
func (s *stores) openKeys(shard Shard, from Segments, on *disk) *keyTier {
	machine, ok := shard.Machine.(demoter)
	if !ok || shard.KeyOf == nil {
		return nil
	}
	s.keys = keyfiles.Open(filepath.Join(s.dir, "keys"), keyfiles.Options{
		FS: s.files, Journal: machine.Journal(), Lend: from.Lend, KeyOf: shard.KeyOf,
		Room: on.room,
	})
	return &keyTier{Store: s.keys, machine: machine}
}

// openRollups opens the hourly counts of an open journal; nil if a shard has none.
func (s *stores) openRollups(shard Shard, from Segments, on *disk) *rollups.Store {
	if shard.Count == nil {
		return nil
	}
	s.rollups = rollups.Open(filepath.Join(s.dir, "rollups"), rollups.Options{
		FS: s.files, Journal: shard.Machine.Journal(), Lend: from.Lend, Count: shard.Count,
		CountVersions: shard.CountVersions, Room: on.room,
	})
	from.OnWritten(s.rollups.Count)
	return s.rollups
}

// Together calls functions concurrently, waits for all of them, and joins their errors. A panic
// of one becomes the caller's.
func Together(parts ...func() error) error {
	var wg sync.WaitGroup
	failed, panicked := make([]error, len(parts)), make([]any, len(parts))
	for i, part := range parts {
		wg.Go(func() {
			defer func() { panicked[i] = recover() }()
			failed[i] = part()
		})
	}
	wg.Wait()
	for _, p := range panicked {
		if p != nil {
			panic(p)
		}
	}
	return errors.Join(failed...)
}
