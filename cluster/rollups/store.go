// Package rollups keeps the counts by hour of a node's journal in sorted files, made from its
// sealed segments. See DESIGN.md.
package rollups

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"tollgate/engine/journal"
	"tollgate/engine/rollup"
	"tollgate/wal"
)

// ErrNoRoom means that a file was not written because that would use the disk's reserve.
var ErrNoRoom = errors.New("rollups: too little free space above the disk's reserve")

const (
	// fanIn is how many files of a level are merged into one of the next.
	fanIn = 16
	// maxUncounted is how many segments without a file a query counts itself.
	maxUncounted = 32
)

// maxSpan is how many segments a file may hold at the most: the audit part loses its oldest
// segments, and a file that had more of them would have to be made again each time.
var maxSpan = [...]uint64{journal.PartUsage: 1 << 40, journal.PartAudit: fanIn}

// Options are what a Store works with.
type Options struct {
	// FS is the file system; nil is the real one.
	FS wal.FS
	// Journal says which segments there are, Read has the bytes of one, checked.
	Journal *journal.Journal
	Read    func(part journal.Part, number uint64) ([]byte, error)
	Count   rollup.Counter
	// Room reports whether so many bytes may be written and leave the disk's reserve alone; nil:
	// always.
	Room func(bytes uint64) bool
	// BlockBytes is about how long a block of cells is (default 16 KiB).
	BlockBytes int
}

// Store is the files of one node. One goroutine calls Step; everything else is for any.
type Store struct {
	dir  string
	opts Options

	// change is held for reading while runs are read, and for writing while they change.
	change sync.RWMutex
	runs   [2][]*run // by part, in the order of their segments; they do not overlap
	loaded bool      // for Step alone
	bad    sync.Map  // *run: found damaged by a query
	tails  [2]tail
}

var _ rollup.Source = (*Store)(nil)

// Open returns a store of the files in dir, which need not be there. It reads nothing: the first
// Step takes in what an earlier process left.
func Open(dir string, o Options) *Store {
	if o.FS == nil {
		o.FS = wal.OS()
	}
	if o.Room == nil {
		o.Room = func(uint64) bool { return true }
	}
	if o.BlockBytes <= 0 {
		o.BlockBytes = 16 << 10
	}
	return &Store{dir: dir, opts: o}
}

// Close closes the files. Step is not called any more.
func (s *Store) Close() (err error) {
	s.change.Lock()
	defer s.change.Unlock()
	for part, runs := range s.runs {
		for _, r := range runs {
			err = errors.Join(err, r.file.Close())
		}
		s.runs[part] = nil
	}
	return err
}

// load takes in the files that an earlier process left, and removes what it cannot use.
func (s *Store) load() error {
	if err := s.opts.FS.MkdirAll(s.dir); err != nil {
		return fmt.Errorf("rollups: %w", err)
	}
	names, err := s.opts.FS.List(s.dir)
	if err != nil {
		return fmt.Errorf("rollups: %w", err)
	}
	var found [2][]*run
	for _, name := range names {
		r, err := openRun(s.opts.FS, s.dir, name)
		if err == nil {
			found[r.part] = append(found[r.part], r)
			continue
		}
		if !strings.HasSuffix(name, suffix) && !strings.HasSuffix(name, temporary) {
			continue // not ours
		}
		if err := s.opts.FS.Remove(filepath.Join(s.dir, name)); err != nil {
			return fmt.Errorf("rollups: %w", err)
		}
	}
	s.change.Lock()
	defer s.change.Unlock()
	for part, runs := range found {
		// Of two that overlap, as after a crash between a merge and its end, the longer one stays.
		slices.SortFunc(runs, func(a, b *run) int {
			return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(b.last, a.last))
		})
		for _, r := range runs {
			if n := len(s.runs[part]); n > 0 && r.first <= s.runs[part][n-1].last {
				if err := s.remove(r); err != nil {
					return err
				}
				continue
			}
			s.runs[part] = append(s.runs[part], r)
		}
	}
	return nil
}

// remove closes a run that is shown no more, and deletes its file.
func (s *Store) remove(r *run) error {
	s.bad.Delete(r)
	err := errors.Join(r.file.Close(), s.opts.FS.Remove(filepath.Join(s.dir, r.name())))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// replace shows a run in the place of those that it was made of.
func (s *Store) replace(made *run, from []*run) (err error) {
	s.change.Lock()
	defer s.change.Unlock()
	runs := slices.DeleteFunc(slices.Clone(s.runs[made.part]), func(r *run) bool {
		return slices.Contains(from, r)
	})
	at, _ := slices.BinarySearchFunc(runs, made.first, func(r *run, first uint64) int {
		return cmp.Compare(r.first, first)
	})
	s.runs[made.part] = slices.Insert(runs, at, made)
	for _, r := range from {
		err = errors.Join(err, s.remove(r))
	}
	return err
}

// Sum implements rollup.Source: from the files, from segments that have none yet, and from the
// tail.
func (s *Store) Sum(q rollup.Query, yield func(rollup.Cell)) error {
	s.change.RLock()
	defer s.change.RUnlock()
	view := s.opts.Journal.View()[q.Part]
	runs, uncounted := s.runs[q.Part], 0
	for at := 0; at < len(view.Segments); {
		number := view.First + uint64(at)
		for len(runs) > 0 && runs[0].first < number {
			runs = runs[1:]
		}
		if len(runs) > 0 && runs[0].first == number && runs[0].of(&view) {
			r := runs[0]
			if err := r.sum(&q, yield); err != nil {
				s.bad.Store(r, true)
				return err
			}
			at += int(r.last - r.first + 1)
			continue
		}
		if uncounted++; uncounted > maxUncounted {
			return rollup.ErrCounting
		}
		data, err := s.opts.Read(q.Part, number)
		if err != nil {
			return err
		}
		if err := s.count(data, 0, &q, yield); err != nil {
			return err
		}
		at++
	}
	return s.sumTail(view.Tail, &q, yield)
}

// count yields the cells of a segment's records from an offset on; without a query all of them.
func (s *Store) count(data []byte, from int, q *rollup.Query, yield func(rollup.Cell)) error {
	add := yield
	if q != nil {
		add = func(c rollup.Cell) {
			if q.Has(c.Key) {
				yield(c)
			}
		}
	}
	return journal.ScanFrom(data, from, func(r journal.Record, _ int) error {
		if q == nil || q.Owner >= rollup.Environment(0) || uint64(r.Owner) == q.Owner {
			s.opts.Count(r, add)
		}
		return nil
	})
}

// tail is what the journal's open tail counts, as far as it was read.
type tail struct {
	lock  sync.Mutex
	data  []byte // its array tells one tail from another
	cells map[rollup.Key]rollup.Cell
}

// sumTail reads on in the tail from where the last query stopped: it costs nothing when no one
// asks.
func (s *Store) sumTail(data []byte, q *rollup.Query, yield func(rollup.Cell)) error {
	if len(data) == 0 {
		return nil
	}
	t := &s.tails[q.Part]
	t.lock.Lock()
	defer t.lock.Unlock()
	if len(t.data) == 0 || &t.data[0] != &data[0] || len(data) < len(t.data) {
		t.data, t.cells = nil, map[rollup.Key]rollup.Cell{}
	}
	if len(data) > len(t.data) {
		var fresh rollup.Tally
		if err := s.count(data, len(t.data), nil, fresh.Add); err != nil {
			return err
		}
		for _, c := range fresh.Cells() {
			sum := t.cells[c.Key]
			sum.Key = c.Key
			sum.Add(c.Events, c.Units)
			t.cells[c.Key] = sum
		}
		t.data = data
	}
	for key, c := range t.cells {
		if q.Has(key) {
			yield(c)
		}
	}
	return nil
}
