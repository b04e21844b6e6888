package segments

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"tollgate/engine/journal"
	"tollgate/wal"
)

// recordGuess is how much is read of a record at first (bytes): most usage events fit.
const recordGuess = 512

// List returns the items of an owner in the order of time, or backwards, from the segments and the
// tail. Its cost grows with the segments whose times meet the query, and with the limit. It returns
// ErrMissing or ErrDamaged when it needs a segment that is not here.
func (s *Store) List(q journal.Query) ([]journal.Item, error) {
	if q.Limit < 1 || q.From >= q.To {
		return nil, nil
	}
	// A side index that turns out to be damaged is made again, and the listing begun anew, as often
	// as there are side indexes; so it is when segments were dropped while it ran.
	for attempt := 0; ; {
		view := s.journal.View()
		items, err := s.list(q, &view)
		switch {
		case err == nil:
			return items, nil
		case view[journal.PartAudit].First != s.journal.First(journal.PartAudit):
			continue
		case !errors.Is(err, errIndex),
			attempt > len(view[journal.PartUsage].Segments)+len(view[journal.PartAudit].Segments):
			return nil, err
		}
		attempt++
	}
}

func (s *Store) list(q journal.Query, view *journal.View) (items []journal.Item, err error) {
	m := &merge{query: q, bounds: boundsOf(&q)}
	defer func() {
		for _, run := range m.runs {
			run.close(&err)
		}
	}()
	for _, part := range journal.Parts() {
		if err := s.placePart(m, &view[part], part); err != nil {
			return nil, err
		}
	}
	heap.Init(m)
	for len(items) < q.Limit && m.Len() > 0 {
		top := m.runs[0]
		item, ok, err := top.next()
		if err != nil {
			return nil, err
		}
		if ok {
			items = append(items, item)
		}
		if top.done() {
			top.close(&err)
			heap.Pop(m)
			if err != nil {
				return nil, err
			}
			continue
		}
		heap.Fix(m, 0)
	}
	return items, nil
}

// placePart puts the segments and the tail of a part that the query may meet into the heap.
func (s *Store) placePart(m *merge, view *journal.PartView, part journal.Part) error {
	only := m.query.Kinds == journal.Kinds(journal.KindAudit)
	if part == journal.PartUsage && only ||
		part == journal.PartAudit && !m.query.Kinds.Has(journal.KindAudit) {
		return nil
	}
	for _, info := range view.Segments {
		run := &segmentRun{store: s, seg: s.find(info), query: &m.query, bounds: &m.bounds}
		if err := run.place(m); err != nil {
			return err
		}
	}
	return s.placeTail(m, view.Tail, part)
}

// run is the items of the query's owner in one segment or in the tail, in order.
type run interface {
	// key is the next item's place, or for a run that was not opened a place that is listed before it.
	key() journal.Cursor
	// next returns the next item; false when the run was only opened.
	next() (journal.Item, bool, error)
	done() bool
	close(err *error)
}

// merge is a heap of runs by their keys.
type merge struct {
	query  journal.Query
	bounds bounds
	runs   []run
}

func (m *merge) Len() int           { return len(m.runs) }
func (m *merge) Less(i, j int) bool { return m.query.Order(m.runs[i].key(), m.runs[j].key()) < 0 }
func (m *merge) Swap(i, j int)      { m.runs[i], m.runs[j] = m.runs[j], m.runs[i] }
func (m *merge) Push(x any)         { m.runs = append(m.runs, x.(run)) }

func (m *merge) Pop() any {
	last := m.runs[len(m.runs)-1]
	m.runs = m.runs[:len(m.runs)-1]
	return last
}

// bounds are what lies around the entries that a query may list: they come after low, or are low
// where that is included, and before high.
type bounds struct {
	low, high entry
	included  bool
}

func boundsOf(q *journal.Query) bounds {
	b := bounds{
		low: entry{owner: q.Owner, at: q.From}, high: entry{owner: q.Owner, at: q.To}, included: true,
	}
	after := entry{
		owner: q.Owner, at: q.After.At, index: q.After.Index, position: q.After.Position,
		ordinal: q.After.Ordinal,
	}
	switch {
	case !q.HasAfter:
	case q.Descending && after.at < q.To:
		b.high = after
	case !q.Descending && after.at >= q.From:
		b.low, b.included = after, false
	}
	return b
}

// within returns the part of sorted entries that is within the bounds.
func (b *bounds) within(entries []entry) (begin, end int) {
	begin = sort.Search(len(entries), func(i int) bool {
		c := entries[i].compare(&b.low)
		return c > 0 || c == 0 && b.included
	})
	end = sort.Search(len(entries), func(i int) bool { return entries[i].compare(&b.high) >= 0 })
	return begin, max(begin, end)
}

// wanted returns the entries of a block that a query lists, in its order; more reports whether the
// block that it reads next may have others.
func wanted(entries []entry, q *journal.Query, b *bounds) (list []entry, more bool) {
	begin, end := b.within(entries)
	for _, e := range entries[begin:end] {
		if q.Kinds.Has(e.kind) {
			list = append(list, e)
		}
	}
	if q.Descending {
		slices.Reverse(list)
		return list, begin == 0
	}
	return list, end == len(entries)
}

// cursor is an entry's place in the listing.
func (e *entry) cursor() journal.Cursor {
	return journal.Cursor{At: e.at, Index: e.index, Position: e.position, Ordinal: e.ordinal}
}

// tailRun lists from memory.
type tailRun struct {
	reader  journal.Reader
	data    []byte
	entries []entry
}

func (s *Store) placeTail(m *merge, tail []byte, part journal.Part) error {
	if len(tail) == 0 {
		return nil
	}
	reader, err := journal.NewReader(tail)
	if err != nil {
		return err
	}
	all, err := s.tails[part].entries(tail, m.query.Owner, s.indexer)
	if err != nil {
		return err
	}
	begin, end := m.bounds.within(all)
	run := &tailRun{reader: reader, data: tail}
	for i := range end - begin {
		e := all[begin+i]
		if m.query.Descending {
			e = all[end-1-i]
		}
		if len(run.entries) == m.query.Limit {
			break
		}
		// Entries that a later reader of the tail has added are behind what this view shows.
		if int(e.offset) < len(tail) && m.query.Kinds.Has(e.kind) {
			run.entries = append(run.entries, e)
		}
	}
	if len(run.entries) > 0 {
		m.runs = append(m.runs, run)
	}
	return nil
}

func (t *tailRun) key() journal.Cursor { return t.entries[0].cursor() }
func (t *tailRun) done() bool          { return len(t.entries) == 0 }
func (t *tailRun) close(*error)        {}

func (t *tailRun) next() (journal.Item, bool, error) {
	e := t.entries[0]
	t.entries = t.entries[1:]
	r, _, err := t.reader.Record(t.data[e.offset:])
	return journal.Item{Record: r, Time: e.at, Ordinal: e.ordinal}, true, err
}

// segmentRun lists from a segment, block by block. Its files are opened when its turn comes.
type segmentRun struct {
	store *Store
	seg   *segment
	query *journal.Query
	*bounds

	edge    journal.Cursor // listed before all that the run has
	opened  bool
	index   *sideIndex
	blocks  wal.File // the side index, nil while it is in memory
	block   int      // number of the next block
	last    bool     // no other block is wanted
	entries []entry
	scratch []entry

	data   []byte // the segment, while it is in memory
	file   wal.File
	reader journal.Reader
	record journal.Record // the record read last, at offset
	offset uint32
}

// place puts the run into the heap when the segment's times meet the query.
func (r *segmentRun) place(m *merge) error {
	sp, err := r.store.spanOf(r.seg)
	if err != nil {
		return err
	}
	if sp.maxAt < r.low.at || sp.minAt > r.high.at {
		return nil
	}
	r.edge = journal.Cursor{At: max(sp.minAt, r.low.at)}
	if r.query.Descending {
		r.edge = journal.Cursor{
			At: min(sp.maxAt, r.high.at), Index: math.MaxUint64, Position: math.MaxUint32,
			Ordinal: math.MaxUint32,
		}
	}
	m.runs = append(m.runs, r)
	return nil
}

func (r *segmentRun) key() journal.Cursor {
	if !r.opened {
		return r.edge
	}
	return r.entries[0].cursor()
}

func (r *segmentRun) done() bool { return r.opened && len(r.entries) == 0 }

func (r *segmentRun) close(err *error) {
	for _, f := range []*wal.File{&r.blocks, &r.file} {
		if *f != nil {
			closing(*f, err)
			*f = nil
		}
	}
}

func (r *segmentRun) next() (journal.Item, bool, error) {
	if !r.opened {
		r.opened = true
		return journal.Item{}, false, r.open()
	}
	e := r.entries[0]
	r.entries = r.entries[1:]
	if err := r.read(e.offset); err != nil {
		return journal.Item{}, false, err
	}
	if len(r.entries) == 0 {
		if err := r.fill(); err != nil {
			return journal.Item{}, false, err
		}
	}
	return journal.Item{Record: r.record, Time: e.at, Ordinal: e.ordinal}, true, nil
}

// open finds the first wanted entry.
func (r *segmentRun) open() (err error) {
	if r.index, err = r.store.sideIndex(r.seg); err != nil {
		return err
	}
	if r.index.body == nil {
		if r.blocks, err = r.store.opts.FS.OpenRead(r.store.path(keyOf(r.seg.info), ".idx")); err != nil {
			return errors.Join(errIndex, err, r.store.dropIndex(r.seg, r.index))
		}
	}
	if r.block = r.index.seek(&r.low); r.query.Descending {
		r.block = r.index.seek(&r.high)
	}
	return r.fill()
}

// fill reads blocks until one has wanted entries.
func (r *segmentRun) fill() error {
	for len(r.entries) == 0 && !r.last && r.block >= 0 && r.block < len(r.index.dir) {
		b, err := r.index.block(r.blocks, r.block)
		if err == nil {
			r.scratch, err = readBlock(b, r.scratch)
		}
		if err != nil {
			return errors.Join(err, r.store.dropIndex(r.seg, r.index))
		}
		if r.block++; r.query.Descending {
			r.block -= 2
		}
		list, more := wanted(r.scratch, r.query, r.bounds)
		r.entries, r.last = list, !more
	}
	return nil
}

// read makes the record at an offset the current one. The items of a block of checks follow each
// other often, so the last record is kept.
func (r *segmentRun) read(offset uint32) error {
	if offset != 0 && offset == r.offset {
		return nil
	}
	if err := r.openSegment(); err != nil {
		return err
	}
	var err error
	if r.data != nil {
		if int(offset) >= len(r.data) {
			return fmt.Errorf("%w: offset %d", errIndex, offset)
		}
		r.record, _, err = r.reader.Record(r.data[offset:])
	} else {
		r.record, err = r.readAt(int64(offset))
	}
	r.offset = offset
	return err
}

func (r *segmentRun) readAt(offset int64) (journal.Record, error) {
	rest := int64(r.seg.info.Length) - offset
	for size := int64(recordGuess); ; {
		size = min(size, rest)
		buf := make([]byte, max(size, 0))
		if _, err := r.file.ReadAt(buf, offset); err != nil {
			return journal.Record{}, err
		}
		record, need, err := r.reader.Record(buf)
		if err == nil || int64(need) <= size || size >= rest {
			return record, err
		}
		size = int64(need)
	}
}

// openSegment gets at the segment's bytes, after checking them once in the life of the process.
func (r *segmentRun) openSegment() (err error) {
	if r.data != nil || r.file != nil {
		return nil
	}
	s, seg := r.store, r.seg
	if err := s.check(seg); err != nil {
		return err
	}
	seg.lock.Lock()
	r.data = seg.bytes()
	seg.lock.Unlock()
	if r.data != nil {
		r.reader, err = journal.NewReader(r.data)
		return err
	}
	if r.file, err = s.opts.FS.OpenRead(s.path(keyOf(seg.info), ".seg")); err != nil {
		return err
	}
	var head [journal.HeaderBytes]byte
	if _, err := r.file.ReadAt(head[:], 0); err != nil {
		return err
	}
	r.reader, err = journal.NewReader(head[:])
	return err
}
