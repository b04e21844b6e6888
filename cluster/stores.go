package cluster

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"tollgate/cluster/segments"
	"tollgate/wal"
)

// stores are the files of one group: log/, state.db (term and vote), snapshots/, segments/.
type stores struct {
	log       *wal.Log
	stable    *raftboltdb.BoltStore
	snapshots *snapshotStore
	segments  *segments.Store // nil without a journal, and until it is restored
	dir       string
}

// rebuildMark is the name of the file that asks the next start to empty the log.
const rebuildMark = "rebuild-log"

// lockWait is how long another process may go on holding a group's files.
const lockWait = 2 * time.Second

func openStores(c *Config, dir string, fatal func(error)) (*stores, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cluster: data folder: %w", err)
	}
	st := &stores{dir: dir}
	if err := st.open(c, fatal); err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return st, nil
}

func (s *stores) open(c *Config, fatal func(error)) (err error) {
	s.stable, err = raftboltdb.New(raftboltdb.Options{
		Path:        filepath.Join(s.dir, "state.db"),
		BoltOptions: &bbolt.Options{Timeout: lockWait},
	})
	if err != nil {
		return fmt.Errorf("cluster: open term and vote (is another process running?): %w", err)
	}
	if err := syncDir(s.dir); err != nil {
		return err
	}
	if s.snapshots, err = openSnapshots(s.dir, c.Log); err != nil {
		return err
	}
	s.log, err = wal.Open(filepath.Join(s.dir, "log"),
		wal.Options{FS: c.LogFS, Logger: c.Log, OnFatal: fatal})
	if err != nil {
		return err
	}
	return s.align(c.Log)
}

// openSegments opens the files of a journal that is restored already, so that all of them are
// checked from the start.
func (s *stores) openSegments(shard Shard, fatal func(error)) (Segments, error) {
	dir := filepath.Join(s.dir, "segments")
	store, err := segments.Open(
		dir, shard.Machine.Journal(), shard.Indexer, segments.Options{Fatal: fatal})
	if err != nil {
		return nil, err
	}
	s.segments = store
	return store, nil
}

// align makes log and newest snapshot fit before raft starts on both, and empties the log when the
// process before this one asked for it.
func (s *stores) align(log *slog.Logger) error {
	found, err := s.snapshots.List()
	if err != nil {
		return fmt.Errorf("cluster: list snapshots: %w", err)
	}
	var newest raft.SnapshotMeta
	if len(found) > 0 {
		newest = *found[0]
	}
	if err := s.rebuild(newest, log); err != nil {
		return err
	}
	return s.log.AlignTo(newest.Index)
}

// rebuild empties the log if the mark is there and the entry at the newest snapshot's index is of
// another term: then it and everything behind it was never committed, and nobody counts on it.
func (s *stores) rebuild(newest raft.SnapshotMeta, log *slog.Logger) error {
	mark := filepath.Join(s.dir, rebuildMark)
	if _, err := os.Stat(mark); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("cluster: look for a mark: %w", err)
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
	if err := os.Remove(mark); err != nil {
		return fmt.Errorf("cluster: remove a mark: %w", err)
	}
	return syncDir(s.dir)
}

// markRebuild asks the next start to empty the log.
func (s *stores) markRebuild() error {
	f, err := os.Create(filepath.Join(s.dir, rebuildMark))
	if err != nil {
		return fmt.Errorf("cluster: mark the log: %w", err)
	}
	return errors.Join(f.Sync(), f.Close(), syncDir(s.dir))
}

func (s *stores) size() (bytes int64, syncs uint64) { return s.log.Bytes(), s.log.SyncCount() }

// Close closes what was opened.
func (s *stores) Close() error {
	var errs []error
	if s.segments != nil {
		errs = append(errs, s.segments.Close())
	}
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	if s.stable != nil {
		errs = append(errs, s.stable.Close())
	}
	return errors.Join(errs...)
}

// snapshotStore is raft's FileSnapshotStore with three things corrected: leftovers of snapshots
// that a crash interrupted are removed, writes of any size reach the disk in large blocks, and the
// snapshot's own folder is synced, too. (The library syncs both files and the folder above.)
type snapshotStore struct {
	*raft.FileSnapshotStore
	dir string
}

// snapshotsKept is how many snapshots stay on disk.
const snapshotsKept = 2

func openSnapshots(dir string, log *slog.Logger) (*snapshotStore, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	inner, err := raft.NewFileSnapshotStoreWithLogger(dir, snapshotsKept, raftLogger(log, nil))
	if err != nil {
		return nil, fmt.Errorf("cluster: open snapshots: %w", err)
	}
	s := &snapshotStore{FileSnapshotStore: inner, dir: filepath.Join(dir, "snapshots")}
	return s, s.removeLeftovers()
}

func (s *snapshotStore) removeLeftovers() error {
	found, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("cluster: list snapshots: %w", err)
	}
	for _, f := range found {
		if strings.HasSuffix(f.Name(), ".tmp") {
			if err := os.RemoveAll(filepath.Join(s.dir, f.Name())); err != nil {
				return fmt.Errorf("cluster: remove an unfinished snapshot: %w", err)
			}
		}
	}
	return nil
}

// Create begins a snapshot.
func (s *snapshotStore) Create(
	version raft.SnapshotVersion, index, term uint64, c raft.Configuration,
	configIndex uint64, t raft.Transport,
) (raft.SnapshotSink, error) {
	inner, err := s.FileSnapshotStore.Create(version, index, term, c, configIndex, t)
	if err != nil {
		return nil, err
	}
	return &snapshotSink{
		SnapshotSink: inner, w: bufio.NewWriterSize(inner, 1<<20),
		dir: filepath.Join(s.dir, inner.ID()),
	}, nil
}

// Open reads a snapshot, in large blocks.
func (s *snapshotStore) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, src, err := s.FileSnapshotStore.Open(id)
	if err != nil {
		return nil, nil, err
	}
	return meta, readCloser{bufio.NewReaderSize(src, 1<<20), src}, nil
}

type readCloser struct {
	io.Reader
	io.Closer
}

type snapshotSink struct {
	raft.SnapshotSink
	w    *bufio.Writer
	dir  string
	once sync.Once
	err  error
}

func (s *snapshotSink) Write(p []byte) (int, error) { return s.w.Write(p) }

// Close makes the snapshot durable. Raft calls it after Persist has: the second call answers what
// the first one did.
func (s *snapshotSink) Close() error {
	s.once.Do(func() {
		if err := s.w.Flush(); err != nil {
			s.err = errors.Join(err, s.SnapshotSink.Cancel())
			return
		}
		if s.err = s.SnapshotSink.Close(); s.err == nil {
			s.err = syncDir(s.dir)
		}
	})
	return s.err
}

// Cancel removes the snapshot, unless it was closed.
func (s *snapshotSink) Cancel() error {
	s.once.Do(func() { s.err = s.SnapshotSink.Cancel() })
	return s.err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("cluster: sync a folder: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}
