package rollups

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"path/filepath"
	"slices"
	"time"

	"tollgate/engine/journal"
	"tollgate/engine/rollup"
)

// Step does the next piece of work: it takes in what was left, removes what is of no use, counts a
// segment, or merges files. It returns false when there was nothing to do. It rests three times as
// long as it worked, so that it takes a quarter of a core at the most.
func (s *Store) Step(ctx context.Context) (did bool, err error) {
	began := time.Now()
	defer func() {
		if did && err == nil {
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
	for _, part := range journal.Parts() {
		view := s.opts.Journal.View()[part]
		if did, err := s.sweep(part, &view); did || err != nil {
			return did, err
		}
		if did, err := s.build(part, &view); did || err != nil {
			return did, err
		}
		if did, err := s.merge(ctx, part, &view); did || err != nil {
			return did, err
		}
	}
	return false, nil
}

func rest(ctx context.Context, began time.Time) {
	timer := time.NewTimer(min(3*time.Since(began), 2*time.Second))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// sweep removes runs that are damaged, that have segments which the journal has dropped, and those
// of another history. What is not in the manifest yet, since an older snapshot was restored, stays:
// the log brings the same again.
func (s *Store) sweep(part journal.Part, view *journal.PartView) (did bool, err error) {
	s.change.Lock()
	defer s.change.Unlock()
	var gone []*run
	kept := slices.DeleteFunc(slices.Clone(s.runs[part]), func(r *run) bool {
		_, bad := s.bad.Load(r)
		later := r.first >= view.First && r.last >= view.First+uint64(len(view.Segments))
		if !bad && (later || r.of(view)) {
			return false
		}
		gone = append(gone, r)
		return true
	})
	s.runs[part] = kept
	for _, r := range gone {
		err = errors.Join(err, s.remove(r))
	}
	return len(gone) > 0, err
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
	data, err := s.opts.Read(part, next)
	if err != nil {
		return false, fmt.Errorf("rollups: %w", err)
	}
	var tally rollup.Tally
	if err := s.count(data, 0, nil, tally.Add); err != nil {
		return false, fmt.Errorf("rollups: %w", err)
	}
	w, err := s.newWriter(part, next, next, view, uint64(len(data)))
	if err != nil {
		return false, err
	}
	for _, c := range tally.Cells() {
		w.add(&c)
	}
	made, err := w.end()
	if err != nil {
		return false, err
	}
	return true, s.replace(made, nil)
}

// merge makes one run of fanIn of the same length that follow each other and begin at a multiple of
// the new one's length: which runs there are in the end does not depend on when they were made.
func (s *Store) merge(
	ctx context.Context, part journal.Part, view *journal.PartView,
) (did bool, err error) {
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
		return true, s.mergeRuns(ctx, from, view)
	}
	return false, nil
}

// cursor reads a run in order, a block at a time.
type cursor struct {
	run   *run
	at    int
	cells []rollup.Cell
	next  int
}

// fill has a cell at next, or none are left.
func (c *cursor) fill() error {
	for c.next == len(c.cells) && c.at < len(c.run.dir) {
		c.cells, c.next = c.cells[:0], 0
		err := c.run.block(c.at, func(cell rollup.Cell) { c.cells = append(c.cells, cell) })
		if err != nil {
			return err
		}
		c.at++
	}
	return nil
}

func (s *Store) mergeRuns(ctx context.Context, from []*run, view *journal.PartView) error {
	size := uint64(0)
	for _, r := range from {
		for _, l := range r.dir {
			size += uint64(l.length)
		}
	}
	w, err := s.newWriter(from[0].part, from[0].first, from[len(from)-1].last, view, size)
	if err != nil {
		return err
	}
	cursors := make([]cursor, len(from))
	for i, r := range from {
		cursors[i].run = r
	}
	for began, written := time.Now(), w.offset; ; {
		var least *cursor
		for i := range cursors {
			c := &cursors[i]
			if err := c.fill(); err != nil {
				s.bad.Store(c.run, true)
				return errors.Join(err, w.remove())
			}
			if c.next < len(c.cells) &&
				(least == nil || c.cells[c.next].Compare(least.cells[least.next].Key) < 0) {
				least = c
			}
		}
		if least == nil {
			break
		}
		w.merge(&least.cells[least.next])
		least.next++
		if w.offset-written > 1<<20 {
			rest(ctx, began)
			if ctx.Err() != nil {
				return errors.Join(ctx.Err(), w.remove())
			}
			began, written = time.Now(), w.offset
		}
	}
	made, err := w.end()
	if err != nil {
		return err
	}
	return s.replace(made, from)
}

// writer writes a run. The first error stays, until end returns it.
type writer struct {
	*run
	store  *Store
	tmp    string
	offset uint64 // of the next block
	at     int64  // end of what is written
	block  []byte
	start  rollup.Key
	last   rollup.Cell // of the block
	open   rollup.Cell // what merge collects
	opened bool
	err    error
}

func (s *Store) newWriter(
	part journal.Part, first, last uint64, view *journal.PartView, size uint64,
) (*writer, error) {
	if !s.opts.Room(size) {
		return nil, fmt.Errorf("%w: nothing was changed; give the disk more room", ErrNoRoom)
	}
	w := &writer{store: s, run: &run{
		part: part, first: first, last: last, from: math.MaxInt32, to: math.MinInt32,
		hash: hashOf(view.Segments[first-view.First:][:last-first+1]),
	}}
	w.tmp = filepath.Join(s.dir, "next"+temporary)
	file, err := s.opts.FS.Create(w.tmp)
	if err != nil {
		return nil, fmt.Errorf("rollups: %w", err)
	}
	w.file = file
	return w, nil
}

// merge adds a cell whose key may come again.
func (w *writer) merge(c *rollup.Cell) {
	if w.opened && w.open.Key == c.Key {
		w.open.Add(c.Events, c.Units)
		return
	}
	w.flush()
	w.open, w.opened = *c, true
}

func (w *writer) flush() {
	if w.opened && !w.open.Empty() {
		w.add(&w.open)
	}
	w.opened = false
}

// add appends a cell; keys ascend.
func (w *writer) add(c *rollup.Cell) {
	if len(w.block) == 0 {
		w.start, w.last = c.Key, rollup.Cell{}
	}
	w.block = rollup.AppendCell(w.block, &w.last, c)
	w.last = *c
	w.cells++
	w.from, w.to = min(w.from, c.Hour), max(w.to, c.Hour)
	if len(w.block) >= w.store.opts.BlockBytes {
		w.cut()
	}
}

func (w *writer) cut() {
	if len(w.block) == 0 {
		return
	}
	w.dir = append(w.dir, line{
		Key: w.start, offset: w.offset, length: uint32(len(w.block)),
		sum: crc32.Checksum(w.block, castagnoli),
	})
	w.offset += uint64(len(w.block))
	w.write(w.block)
	w.block = w.block[:0]
}

func (w *writer) write(data []byte) {
	if w.err == nil {
		_, w.err = w.file.WriteAt(data, w.at)
		w.at += int64(len(data))
	}
}

// end writes what stands behind the blocks and gives the file its name. A crash may leave less than
// that on the disk: checksums tell, and it is made again.
func (w *writer) end() (*run, error) {
	w.flush()
	w.cut()
	var directory []byte
	for i := range w.dir {
		l := &w.dir[i]
		directory = binary.LittleEndian.AppendUint64(directory, l.Owner)
		directory = binary.LittleEndian.AppendUint32(directory, l.Item)
		directory = binary.LittleEndian.AppendUint32(directory, uint32(l.Hour))
		directory = binary.LittleEndian.AppendUint64(directory, l.offset)
		directory = binary.LittleEndian.AppendUint32(directory, l.length)
		directory = binary.LittleEndian.AppendUint32(directory, l.sum)
	}
	w.write(directory)
	w.write(w.footer(directory))
	if w.err != nil {
		return nil, errors.Join(fmt.Errorf("rollups: %w", w.err), w.remove())
	}
	if err := w.file.Close(); err != nil {
		return nil, fmt.Errorf("rollups: %w", err)
	}
	fs := w.store.opts.FS
	if err := fs.Rename(w.tmp, filepath.Join(w.store.dir, w.name())); err != nil {
		return nil, fmt.Errorf("rollups: %w", err)
	}
	return openRun(fs, w.store.dir, w.name())
}

func (w *writer) remove() error {
	return errors.Join(w.file.Close(), w.store.opts.FS.Remove(w.tmp))
}
