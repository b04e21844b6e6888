// Package keyfiles keeps the idempotency keys that have left memory as sorted files behind filters,
// made by each node from its own journal. See DESIGN.md.
package keyfiles

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"tollgate/engine/idempotency"
	"tollgate/engine/journal"
	"tollgate/wal"
)

// ErrDamaged means that a file does not have the bytes that it was written with. Of the keys on
// such a page nothing is known until the file is repaired from the journal; a file without its
// filters is removed and made again.
var ErrDamaged = errors.New("keyfiles: a file of keys is damaged")

// ErrNoRoom means that a file was not written because that would use the disk's reserve. Nothing
// was changed; it is tried again.
var ErrNoRoom = errors.New("keyfiles: too little free space above the disk's reserve")

// KeyOf is the key that a journal's record used up, and what is kept of it; false for a record that
// is not a usage event.
type KeyOf func(r journal.Record) (e idempotency.Entry, ok bool, err error)

// Options are what a Store works with.
type Options struct {
	// FS is the file system; nil is the real one.
	FS wal.FS
	// Journal says which segments there are, Lend gives use the bytes of one, checked, until it
	// returns, and returns its error.
	Journal *journal.Journal
	Lend    func(part journal.Part, number uint64, use func(data []byte) error) error
	KeyOf   KeyOf
	// Room reports whether so many bytes may be written and leave the disk's reserve alone; nil:
	// always.
	Room func(bytes uint64) bool
	// BatchKeys is how many keys a new file has about (default 1 Mi): they are sorted in memory.
	BatchKeys int
	// ShardKeys bounds the keys of one filter (default 1 Mi): making it takes some 30 bytes a key.
	ShardKeys int
}

func (o *Options) fill() {
	o.FS = cmp.Or(o.FS, wal.OS())
	if o.Room == nil {
		o.Room = func(uint64) bool { return true }
	}
	if o.BatchKeys <= 0 {
		o.BatchKeys = 1 << 20
	}
	if o.ShardKeys <= 0 {
		o.ShardKeys = 1 << 20
	}
}

// Store is the files of one node. One goroutine calls Step, another one Rewrite; everything else is
// for any.
type Store struct {
	dir  string
	opts Options

	view atomic.Pointer[view]
	// change is held while the view and the names in the directory change, and never while a file
	// is read or written: a lookup does not take it.
	change sync.Mutex

	// names are the files that load has not taken in yet, and tries is how often it could not read
	// the first of them, for Step alone. loaded: there are none left.
	names  []string
	tries  int
	loaded atomic.Bool
	number atomic.Uint64 // of the last file that was begun

	probes, hits, reads, damages atomic.Uint64
}

// view is the files at one time. It never changes; its holder may use what is in memory of its
// files for good, and read them after acquire.
type view struct {
	runs    []*run // oldest first; they do not overlap
	base    uint64 // oldest key that is kept, from Step
	covered uint64 // all keys from base up to here are in runs
}

var _ idempotency.Finder = (*Store)(nil)

// Stats describes the files, for metrics.
type Stats struct {
	// Files and Keys are how many there are; Bytes is their length, Memory what is kept of them in
	// memory, in bytes.
	Files, Keys, Bytes, Memory uint64
	// Covered is the number before which all keys are in files.
	Covered uint64
	// Probes counts keys that were looked for, Hits filters that let one through, Reads pages that
	// were read, Damages files that were found damaged, all since the process began.
	Probes, Hits, Reads, Damages uint64
}

// Open returns a store of the files in dir, which need not be there. It reads nothing: the first
// Steps take in the files that an earlier process left, one each, and until they have the store
// covers nothing. The journal must be restored already.
func Open(dir string, o Options) *Store {
	o.fill()
	s := &Store{dir: dir, opts: o}
	s.view.Store(&view{})
	return s
}

// foreign reports whether a file was not made from this journal. What is not in the manifest yet,
// since an older snapshot was restored, comes again from the log, which is the same.
func foreign(r *run, list []journal.SegmentInfo) bool {
	switch {
	case r.first < 1 || r.first > r.last:
		return true
	case r.last > uint64(len(list)):
		return false
	}
	last, from := list[r.last-1], uint64(0)
	if r.first > 1 {
		from = list[r.first-2].EventsThrough
	}
	return last.Hash != r.hash || last.EventsThrough != r.through || from != r.from
}

// Close closes the files; reads in progress finish. Step and Rewrite must not be called any more.
func (s *Store) Close() (err error) {
	s.change.Lock()
	defer s.change.Unlock()
	runs := s.view.Load().runs
	s.show(nil, 0)
	for _, r := range runs {
		err = errors.Join(err, r.release())
	}
	return err
}

// Covered is the number before which all keys that are kept are in files.
func (s *Store) Covered() uint64 { return s.view.Load().covered }

// Stats describes the files.
func (s *Store) Stats() Stats {
	v := s.view.Load()
	st := Stats{
		Files: uint64(len(v.runs)), Covered: v.covered, Probes: s.probes.Load(),
		Hits: s.hits.Load(), Reads: s.reads.Load(), Damages: s.damages.Load(),
	}
	for _, r := range v.runs {
		st.Keys += r.records
		st.Bytes += r.size
		st.Memory += r.memory()
	}
	return st
}

// Step does the next piece of work: it takes in a file that was left, removes those whose keys were
// all dropped, or makes one from the journal, where the keys before wanted are not all in files.
// base is the oldest key that is kept. It returns false when there was nothing to do. After an
// error the same is tried again by the next call.
func (s *Store) Step(ctx context.Context, base, wanted uint64) (did bool, err error) {
	if v := s.view.Load(); base > v.base {
		s.change.Lock()
		s.show(s.view.Load().runs, base)
		s.change.Unlock()
	}
	if did, err = s.load(); did || err != nil {
		return did, err
	}
	if did, err = s.sweep(); did || err != nil {
		return did, err
	}
	return s.build(ctx, wanted)
}

// sweep removes files that are of no use. One that is being rewritten without its dropped keys
// stays until it is.
func (s *Store) sweep() (did bool, err error) {
	list := s.opts.Journal.Outline()[journal.PartUsage].Segments
	s.change.Lock()
	defer s.change.Unlock()
	v := s.view.Load()
	var kept, gone []*run
	for _, r := range v.runs {
		switch {
		case foreign(r, list):
			s.damages.Add(1)
			gone = append(gone, r)
		case r.through <= v.base && !r.busy:
			gone = append(gone, r)
		default:
			kept = append(kept, r)
		}
	}
	if len(gone) == 0 {
		return false, nil
	}
	s.show(kept, v.base)
	return true, s.remove(gone, "")
}

// remove deletes files that are in no view any more, but not what has the name kept since. The
// caller holds change.
func (s *Store) remove(gone []*run, kept string) (err error) {
	for _, r := range gone {
		err = errors.Join(err, r.release())
		if r.path != kept {
			err = errors.Join(err, s.opts.FS.Remove(r.path))
		}
	}
	return err
}

// show makes runs what is looked into, and counts up to where there is no gap. The caller holds
// change.
func (s *Store) show(runs []*run, base uint64) {
	v := &view{runs: runs, base: base, covered: base}
	for _, r := range runs {
		if r.from <= v.covered {
			v.covered = max(v.covered, r.through)
		}
	}
	s.view.Store(v)
}

// publish puts a file that was written in place of those that it was made from. Where one of
// them is not shown any more, it is removed again.
func (s *Store) publish(w *writer, from []*run) (err error) {
	made := w.run
	// Opened under its first name, so that nothing can fail once it has its last one.
	if made.file, err = s.opts.FS.OpenRead(w.tmp); err != nil {
		return w.remove(err)
	}
	made.readers.Store(1)
	s.change.Lock()
	defer s.change.Unlock()
	v := s.view.Load()
	if !all(v.runs, from) {
		return w.remove(made.file.Close())
	}
	if err := s.opts.FS.Rename(w.tmp, made.path); err != nil {
		return w.remove(joinClose(err, made.file))
	}
	// The name is durable before the files that it was made from go: making it again takes long.
	if err := s.opts.FS.SyncDir(s.dir); err != nil {
		return joinClose(err, made.file)
	}
	runs := slices.DeleteFunc(slices.Clone(v.runs), func(r *run) bool {
		return slices.Contains(from, r)
	})
	at, _ := slices.BinarySearchFunc(runs, made.first, func(r *run, first uint64) int {
		return cmp.Compare(r.first, first)
	})
	s.show(slices.Insert(runs, at, made), v.base)
	return s.remove(from, made.path)
}

func all(runs, of []*run) bool {
	return !slices.ContainsFunc(of, func(r *run) bool { return !slices.Contains(runs, r) })
}
