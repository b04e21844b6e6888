package segments

import (
	"fmt"
	"sort"

	"tollgate/engine/journal"
)

// Event returns a usage event by its number. It reads the events between two marks of one segment,
// or the tail. It returns ErrMissing or ErrDamaged when it needs a segment that is not here.
func (s *Store) Event(number uint64) (journal.Record, error) {
	view := s.journal.View()[journal.PartUsage]
	n := sort.Search(len(view.Segments), func(i int) bool {
		return view.Segments[i].EventsThrough >= number
	})
	nth := number
	if n > 0 {
		nth -= view.Segments[n-1].EventsThrough
	}
	switch {
	case nth == 0:
		return journal.Record{}, journal.ErrNoEvent
	case n < len(view.Segments):
		return s.eventOf(s.find(view.Segments[n]), nth)
	case len(view.Tail) == 0:
		return journal.Record{}, journal.ErrNoEvent
	}
	reader, err := journal.NewReader(view.Tail)
	if err != nil {
		return journal.Record{}, err
	}
	return reader.Event(view.Tail[journal.HeaderBytes:], nth)
}

// eventOf returns the nth usage event of a segment (from 1), which has it.
func (s *Store) eventOf(seg *segment, nth uint64) (r journal.Record, err error) {
	x, err := s.sideIndex(seg)
	if err != nil {
		return r, err
	}
	run := &segmentRun{store: s, seg: seg}
	defer run.close(&err)
	if err := run.openSegment(); err != nil {
		return r, err
	}
	mark := (nth - 1) / markEvents
	if mark >= uint64(len(x.marks)) {
		return r, fmt.Errorf("%w: %d marks of %s", errIndex, len(x.marks), seg.info)
	}
	begin, end := uint64(x.marks[mark]), seg.info.Length
	if mark+1 < uint64(len(x.marks)) {
		end = uint64(x.marks[mark+1])
	}
	if begin >= end || end > seg.info.Length {
		return r, fmt.Errorf("%w: mark %d of %s", errIndex, mark, seg.info)
	}
	records := make([]byte, end-begin)
	if run.data != nil {
		copy(records, run.data[begin:end])
	} else if _, err := run.file.ReadAt(records, int64(begin)); err != nil {
		return r, err
	}
	return run.reader.Event(records, (nth-1)%markEvents+1)
}
