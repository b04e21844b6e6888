package enginetest

import (
	"cmp"
	"slices"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/idempotency"
	"tollgate/engine/journal"
	"tollgate/engine/rollup"
)

// Source lists the billing journal by reading all of it: the plainest journal.Source there is.
type Source struct {
	Journal *journal.Journal
	// Sealed are the segments that were cut so far.
	Sealed []journal.Segment
}

// Keep remembers the segments that an entry cut.
func (s *Source) Keep(a *engine.Applied) {
	for _, segment := range a.Sealed {
		segment.Data = slices.Clone(segment.Data)
		s.Sealed = append(s.Sealed, segment)
	}
}

// Event counts usage events from the first.
func (s *Source) Event(number uint64) (journal.Record, error) {
	data, before := s.Journal.Tail(journal.PartUsage), uint64(0)
	for _, segment := range s.Sealed {
		if segment.Part != journal.PartUsage {
			continue
		}
		if number <= segment.EventsThrough {
			data = segment.Data
			break
		}
		before = segment.EventsThrough
	}
	if len(data) == 0 {
		return journal.Record{}, journal.ErrNoEvent
	}
	reader, err := journal.NewReader(data)
	if err != nil {
		return journal.Record{}, err
	}
	return reader.Event(data[journal.HeaderBytes:], number-before)
}

// FindKey looks for a key among all usage events there are.
func (s *Source) FindKey(key [16]byte) (v idempotency.Verdict, err error) {
	err = s.Walk(nil, 0, func(r journal.Record) error {
		e, ok, err := billing.JournalKey(r)
		if ok && e.Key == key {
			v.Found, v.Number, v.Slot = true, v.Through, e.Slot
		}
		if ok {
			v.Through++
		}
		return err
	})
	return v, err
}

// List lists items in the order of their cursors.
func (s *Source) List(q journal.Query) ([]journal.Item, error) {
	var items []journal.Item
	collect := func(r journal.Record) error {
		r.Payload = slices.Clone(r.Payload)
		billing.IndexRecord(r, func(owner uint32, at int64, ordinal uint32) {
			it := journal.Item{Record: r, Time: at, Ordinal: ordinal}
			if owner == q.Owner && q.Kinds.Has(r.Kind) && q.Listed(it.Cursor()) {
				items = append(items, it)
			}
		})
		return nil
	}
	for _, part := range journal.Parts() {
		if err := s.scan(part, collect); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(items, func(a, b journal.Item) int { return q.Order(a.Cursor(), b.Cursor()) })
	return items[:min(len(items), q.Limit)], nil
}

// scan yields the records of a part that were not dropped.
func (s *Source) scan(part journal.Part, yield func(journal.Record) error) error {
	for _, segment := range s.Sealed {
		if segment.Part != part || s.Journal.Dropped(segment.SegmentInfo) {
			continue
		}
		if err := journal.Scan(segment.Data, yield); err != nil {
			return err
		}
	}
	return journal.Scan(s.Journal.Tail(part), yield)
}

// Walk yields the usage records of all owners from an index on.
func (s *Source) Walk(_ []uint32, from uint64, yield func(journal.Record) error) error {
	return s.scan(journal.PartUsage, func(r journal.Record) error {
		if r.Index < from {
			return nil
		}
		return yield(r)
	})
}

// Back yields the newest records first.
func (s *Source) Back(q journal.BackQuery, yield func(journal.Record) (bool, error)) error {
	var all []journal.Record
	for _, part := range journal.Parts() {
		if !q.Reads(part) {
			continue
		}
		err := s.scan(part, func(r journal.Record) error {
			if q.Reaches(&r) {
				r.Payload = slices.Clone(r.Payload)
				all = append(all, r)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	slices.SortFunc(all, func(a, b journal.Record) int {
		return cmp.Or(cmp.Compare(b.Index, a.Index), cmp.Compare(b.Position, a.Position))
	})
	for i := range all {
		if more, err := yield(all[i]); err != nil || !more {
			return err
		}
	}
	return nil
}

// Sum adds up the whole journal.
func (s *Source) Sum(q rollup.Query, yield func(rollup.Cell) error) error {
	return s.scan(q.Part, func(r journal.Record) error {
		if r.Kind.Part() != q.Part {
			return nil
		}
		var err error
		billing.CountRecord(r, func(c rollup.Cell) {
			if err == nil && q.Has(c.Key) {
				err = yield(c)
			}
		})
		return err
	})
}
