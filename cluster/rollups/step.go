package rollups

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"tollgate/engine/journal"
	"tollgate/engine/rollup"
)

// Step does the next piece of work: it reads the files of an earlier process, removes useless ones,
// counts a segment, or goes on with a merge of files. It returns false when there was nothing to
// do. It rests three times as long as it worked, so that it takes a quarter of a core at most. Work
// that fails holds up no other: its error is returned when there is nothing else to do.
func (s *Store) Step(ctx context.Context) (did bool, err error) {
	began := time.Now()
	defer func() {
		if did {
			rest(ctx, began)
		}
	}()
	if !s.loaded {
		if err := s.load(); err != nil {
			return false, err
		}
		s.loaded = true
		return true, nil
	}
	view := s.opts.Journal.Outline()
	var failed []error
	for _, work := range [...]func(journal.Part, *journal.PartView) (bool, error){
		s.sweep, s.build, s.merge,
	} {
		for _, part := range journal.Parts() {
			did, err := work(part, &view[part])
			if did {
				return true, err
			}
			failed = append(failed, err)
		}
	}
	return false, errors.Join(failed...)
}

func rest(ctx context.Context, began time.Time) {
	timer := time.NewTimer(min(3*time.Since(began), 2*time.Second))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// sweep removes runs that are damaged or gone, that have segments which the journal has dropped,
// and those of another history. What is not in the manifest yet, since an older snapshot was
// restored, stays: the log brings the same again. A file that cannot be removed is taken in and
// removed at the next start.
func (s *Store) sweep(part journal.Part, view *journal.PartView) (did bool, err error) {
	useless := func(r *run) bool {
		_, bad := s.bad.Load(r)
		later := r.first >= view.First && r.last >= view.First+uint64(len(view.Segments))
		return bad || !later && !r.of(view)
	}
	runs := s.runs[part] // Step alone changes them
	if !slices.ContainsFunc(runs, useless) {
		return false, nil
	}
	var kept, gone []*run
	for _, r := range runs {
		if useless(r) {
			gone = append(gone, r)
		} else {
			kept = append(kept, r)
		}
	}
	s.change.Lock()
	s.runs[part] = kept
	s.change.Unlock()
	for _, r := range gone {
		err = errors.Join(err, s.remove(r))
	}
	return true, err
}

// build counts the oldest segment that no run has.
func (s *Store) build(part journal.Part, view *journal.PartView) (did bool, err error) {
	next := view.First
	for _, r := range s.runs[part] {
		if r.first > next {
			break
		}
		next = r.last + 1
	}
	if next >= view.First+uint64(len(view.Segments)) {
		return false, nil
	}
	info := view.Segments[next-view.First]
	cells, counted := s.early.take(info)
	if !counted {
		var tally rollup.Tally
		err = s.opts.Lend(part, next, func(data []byte) error { return s.count(data, 0, tally.Add) })
		if err != nil {
			return false, fmt.Errorf("rollups: %w", err)
		}
		cells = tally.Cells()
	}
	w, err := s.newWriter("next", part, next, next, view, info.Length)
	if err != nil {
		return false, err
	}
	for _, c := range cells {
		w.add(&c)
	}
	made, err := w.end()
	if err != nil {
		return false, err
	}
	return true, s.replace(made, nil)
}

// Count counts a segment whose bytes are at hand, so that Step need not read them. Where Step has
// fallen behind it leaves the segment to it, and so it does with one that cannot be read. For any
// goroutine.
func (s *Store) Count(info journal.SegmentInfo, data []byte) {
	if s.early.full() {
		return
	}
	var tally rollup.Tally
	if s.count(data, 0, tally.Add) == nil {
		s.early.put(counted{info, tally.Cells()})
	}
}

// merge makes one run of fanIn of the same length that follow each other and begin at a multiple of
// the new one's length: which runs there are in the end does not depend on when they were made.
func (s *Store) merge(part journal.Part, view *journal.PartView) (did bool, err error) {
	if m := s.merging; m != nil {
		if m.part != part {
			return false, nil
		}
		return s.mergeOn(m, view)
	}
	runs := s.runs[part]
	for at := range runs {
		if at+fanIn > len(runs) {
			break
		}
		from := runs[at : at+fanIn : at+fanIn]
		length := from[0].last - from[0].first + 1
		first, last := from[0].first, from[0].first+fanIn*length-1
		other := func(r *run) bool { return r.last-r.first+1 != length || !r.of(view) }
		if (first-1)%(fanIn*length) != 0 || fanIn*length > maxSpan[part] ||
			from[fanIn-1].last != last || slices.ContainsFunc(from, other) {
			continue
		}
		if err := s.beginMerge(from, view); err != nil {
			return false, err
		}
		return s.mergeOn(s.merging, view)
	}
	return false, nil
}

// beginMerge opens runs and the file that they are merged into.
func (s *Store) beginMerge(from []*run, view *journal.PartView) error {
	size := uint64(0)
	for _, r := range from {
		for _, l := range r.dir {
			size += uint64(l.length)
		}
	}
	w, err := s.newWriter("merge", from[0].part, from[0].first, from[len(from)-1].last, view, size)
	if err != nil {
		return err
	}
	s.merging = &merging{writer: w, from: from}
	for _, r := range from {
		file, err := s.open(r)
		if err != nil {
			return errors.Join(err, s.giveUp())
		}
		s.merging.cursors = append(s.merging.cursors, cursor{run: r, file: file})
	}
	if unread, err := s.merging.begin(); err != nil {
		s.failed(unread, err)
		return errors.Join(err, s.giveUp())
	}
	return nil
}

// mergeOn writes the next piece of a merge, or ends it.
func (s *Store) mergeOn(m *merging, view *journal.PartView) (did bool, err error) {
	lost := func(r *run) bool { return !slices.Contains(s.runs[m.part], r) || !r.of(view) }
	if slices.ContainsFunc(m.from, lost) {
		return true, s.giveUp()
	}
	for begin := m.offset; len(m.heap) > 0; {
		if m.offset-begin >= s.piece {
			return true, nil
		}
		if unread, err := m.take(); err != nil {
			s.failed(unread, err)
			return false, errors.Join(err, s.giveUp())
		}
	}
	s.merging = nil
	made, err := m.end()
	if err = errors.Join(err, m.close()); err != nil {
		return false, err
	}
	return true, s.replace(made, m.from)
}

func (s *Store) newWriter(
	name string, part journal.Part, first, last uint64, view *journal.PartView, size uint64,
) (*writer, error) {
	if !s.opts.Room(size) {
		return nil, fmt.Errorf("%w: free disk space", ErrNoRoom)
	}
	w := &writer{
		files: s.opts.FS, folder: s.dir, tmp: filepath.Join(s.dir, name+temporary),
		blockBytes: s.opts.BlockBytes, counted: &s.opts.CountVersions,
		run: &run{
			part: part, first: first, last: last, from: math.MaxInt32, to: math.MinInt32,
			hash: hashOf(view.Segments[first-view.First:][:last-first+1]),
		},
	}
	file, err := s.opts.FS.Create(w.tmp)
	if err != nil {
		return nil, fmt.Errorf("rollups: %w", err)
	}
	w.file = file
	return w, nil
}
