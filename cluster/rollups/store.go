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

// maxSpan is how many segments a file may hold at most: the audit part loses its oldest
// segments, and a file that had more of them would have to be made again each time.
var maxSpan = [...]uint64{journal.PartUsage: 1 << 40, journal.PartAudit: fanIn}

// Options are what a Store works with.
type Options struct {
	// FS is the file system; nil is the real one.
	FS wal.FS
	// Journal says which segments there are, Lend gives use the bytes of one, checked, until it
	// returns, and returns its error.
	Journal *journal.Journal
	Lend    func(part journal.Part, number uint64, use func(data []byte) error) error
	Count   rollup.Counter
	// CountVersions names what Count counts: files of a part that another version made are made again.
	CountVersions rollup.Versions
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
	bad    sync.Map  // *run: found damaged or gone by a reader
	tails  [2]tail
	early  early

	// For Step alone:
	loaded  bool
	merging *merging // nil when no merge is under way
	piece   uint64   // how many bytes a merge writes in one Step
}

var _ rollup.Source = (*Store)(nil)

// Open returns a store of the files in dir, which need not be there. It reads nothing: the first
// Step reads the files of an earlier process.
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
	return &Store{dir: dir, opts: o, piece: 1 << 20}
}

// Close gives up a merge that is under way. Step is not called any more.
func (s *Store) Close() error { return s.giveUp() }

// giveUp ends a merge that is under way without a result.
func (s *Store) giveUp() (err error) {
	m := s.merging
	if m == nil {
		return nil
	}
	s.merging = nil
	return errors.Join(m.close(), m.remove())
}

// load takes in the files that an earlier process left, and removes what it cannot use. Where it
// fails, as when no descriptor is left, it has changed nothing and is called again.
func (s *Store) load() error {
	if err := s.opts.FS.MkdirAll(s.dir); err != nil {
		return fmt.Errorf("rollups: %w", err)
	}
	names, err := s.opts.FS.List(s.dir)
	if err != nil {
		return fmt.Errorf("rollups: %w", err)
	}
	var found, kept [2][]*run
	var useless []string
	for _, name := range names {
		if strings.HasSuffix(name, temporary) {
			useless = append(useless, name)
			continue
		}
		if !strings.HasSuffix(name, suffix) {
			continue // not ours
		}
		r, err := readRun(s.opts.FS, s.dir, name, &s.opts.CountVersions)
		switch {
		case err == nil:
			found[r.part] = append(found[r.part], r)
		case errors.Is(err, ErrDamaged):
			useless = append(useless, name)
		default:
			return err
		}
	}
	for part, runs := range found {
		// Of two that overlap, as after a crash between a merge and its end, the longer one stays.
		slices.SortFunc(runs, func(a, b *run) int {
			return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(b.last, a.last))
		})
		for _, r := range runs {
			if n := len(kept[part]); n > 0 && r.first <= kept[part][n-1].last {
				useless = append(useless, r.name())
				continue
			}
			kept[part] = append(kept[part], r)
		}
	}
	for _, name := range useless {
		if err := s.removeFile(name); err != nil {
			return err
		}
	}
	s.change.Lock()
	defer s.change.Unlock()
	s.runs = kept
	return nil
}

// remove deletes the file of a run that is shown no more.
func (s *Store) remove(r *run) error {
	s.bad.Delete(r)
	return s.removeFile(r.name())
}

func (s *Store) removeFile(name string) error {
	err := s.opts.FS.Remove(filepath.Join(s.dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("rollups: %w", err)
	}
	return nil
}

// replace publishes a run in place of those that it was merged from.
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
func (s *Store) Sum(q rollup.Query, yield func(rollup.Cell) error) error {
	view := s.opts.Journal.View()[q.Part]
	uncounted, err := s.sumRuns(&view, &q, yield)
	if err != nil {
		return err
	}
	for _, number := range uncounted {
		err := s.opts.Lend(q.Part, number, func(data []byte) error {
			return s.sumRecords(data, &q, yield)
		})
		if err != nil {
			return err
		}
	}
	return s.sumTail(&view, &q, yield)
}

// sumRuns adds the files up and returns the numbers of the segments that have none.
func (s *Store) sumRuns(
	view *journal.PartView, q *rollup.Query, yield func(rollup.Cell) error,
) (uncounted []uint64, err error) {
	s.change.RLock()
	defer s.change.RUnlock()
	var use []*run
	runs := s.runs[q.Part]
	for at := 0; at < len(view.Segments); {
		number := view.First + uint64(at)
		for len(runs) > 0 && runs[0].first < number {
			runs = runs[1:]
		}
		if len(runs) > 0 && runs[0].first == number && runs[0].of(view) {
			use = append(use, runs[0])
			at += int(runs[0].last - number + 1)
			continue
		}
		if uncounted = append(uncounted, number); len(uncounted) > maxUncounted {
			return nil, rollup.ErrCounting
		}
		at++
	}
	for _, r := range use {
		if q.From > r.to || q.To <= r.from {
			continue
		}
		file, err := s.open(r)
		if err != nil {
			return nil, err
		}
		err = r.sum(file, q, yield)
		s.failed(r, err)
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, err
		}
	}
	return uncounted, nil
}

func (s *Store) open(r *run) (wal.File, error) {
	file, err := s.opts.FS.OpenRead(filepath.Join(s.dir, r.name()))
	if err != nil {
		s.failed(r, err)
		return nil, fmt.Errorf("rollups: %w", err)
	}
	return file, nil
}

// failed marks a run bad, so that Step makes it again, where an error means that its file is
// damaged or gone. Any other error means only that it cannot be read now.
func (s *Store) failed(r *run, err error) {
	for _, bad := range [...]error{ErrDamaged, rollup.ErrBlock, fs.ErrNotExist} {
		if errors.Is(err, bad) {
			s.bad.Store(r, true)
		}
	}
}

// count adds all cells of a segment's records from an offset on.
func (s *Store) count(data []byte, from int, add func(rollup.Cell)) error {
	return journal.ScanFrom(data, from, func(r journal.Record, _ int) error {
		s.opts.Count(r, add)
		return nil
	})
}

// sumRecords yields the cells of a segment's records that are asked for. A record without an owner,
// such as a block of checks, may count for any.
func (s *Store) sumRecords(
	data []byte, q *rollup.Query, yield func(rollup.Cell) error,
) (err error) {
	add := func(c rollup.Cell) {
		if err == nil && q.Has(c.Key) {
			err = yield(c)
		}
	}
	return journal.Scan(data, func(r journal.Record) error {
		if r.Owner == 0 || q.Last() >= rollup.Environment(0) ||
			q.Owner <= uint64(r.Owner) && uint64(r.Owner) <= q.Last() {
			s.opts.Count(r, add)
		}
		return err
	})
}

// tail is what the journal's open tail counts, as far as it was read.
type tail struct {
	lock   sync.Mutex
	number uint64 // of the segment that the tail becomes
	data   []byte // its array tells one tail from another
	cells  map[rollup.Key]rollup.Cell
}

// sumTail reads on in the tail from where the last query stopped: it costs nothing when no one
// asks. A query that saw less of the same tail gets what was counted; one that saw the tail before
// counts that itself.
func (s *Store) sumTail(
	view *journal.PartView, q *rollup.Query, yield func(rollup.Cell) error,
) error {
	data, number := view.Tail, view.First+uint64(len(view.Segments))
	if len(data) == 0 {
		return nil
	}
	t := &s.tails[q.Part]
	t.lock.Lock()
	if len(t.data) == 0 || &t.data[0] != &data[0] {
		if number < t.number {
			t.lock.Unlock()
			return s.sumRecords(data, q, yield)
		}
		t.number, t.data, t.cells = number, nil, map[rollup.Key]rollup.Cell{}
	}
	defer t.lock.Unlock()
	if len(data) > len(t.data) {
		var fresh rollup.Tally
		if err := s.count(data, len(t.data), fresh.Add); err != nil {
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
			if err := yield(c); err != nil {
				return err
			}
		}
	}
	return nil
}
