package segments

import (
	"errors"
	"math"
	"slices"

	"tollgate/engine/journal"
)

const (
	// fewRecords is how many records of a segment are read one by one; for more it is read whole.
	fewRecords = 256
	// blocksPerOwner is how many blocks of a side index there must be for each owner that is looked
	// up in it; where there are fewer, the segment is read whole.
	blocksPerOwner = 4
)

// Walk yields the usage part's records in the order of the log: what there is when it is called. Of
// a segment it holds at most the bytes and the entries of the owners. It returns ErrMissing or
// ErrDamaged when it needs a segment that is not here.
func (s *Store) Walk(owners []uint32, from uint64, yield func(journal.Record) error) error {
	view := s.journal.View()[journal.PartUsage]
	later := func(r journal.Record) error {
		if r.Index < from {
			return nil
		}
		return yield(r)
	}
	for _, info := range view.Segments {
		if info.LastIndex < from {
			continue
		}
		if err := s.walkSegment(s.find(info), owners, later); err != nil {
			return err
		}
	}
	return journal.Scan(view.Tail, later)
}

func (s *Store) walkSegment(
	seg *segment, owners []uint32, yield func(journal.Record) error,
) error {
	offsets, few, err := s.offsetsOf(seg, owners)
	if err != nil && !errors.Is(err, errIndex) { // a damaged index was dropped, and is made again
		return err
	}
	if few && err == nil {
		return s.walkOffsets(seg, offsets, yield)
	}
	data, err := s.load(seg)
	if err != nil {
		return err
	}
	return journal.Scan(data, yield)
}

// walkOffsets yields the records at offsets.
func (s *Store) walkOffsets(
	seg *segment, offsets []uint32, yield func(journal.Record) error,
) (err error) {
	run := &segmentRun{store: s, seg: seg}
	defer run.close(&err)
	for _, offset := range offsets {
		if err := run.read(offset); err != nil {
			return err
		}
		if err := yield(run.record); err != nil {
			return err
		}
	}
	return nil
}

// offsetsOf says where in a segment the owners' records are, in order; few is false where it is
// cheaper to read all of it.
func (s *Store) offsetsOf(seg *segment, owners []uint32) (offsets []uint32, few bool, err error) {
	if len(owners) == 0 {
		return nil, false, nil
	}
	x, err := s.sideIndex(seg)
	if err != nil {
		return nil, false, err
	}
	if len(owners) > max(1, len(x.dir)/blocksPerOwner) {
		return nil, false, nil
	}
	for _, owner := range owners {
		offsets, err = s.appendOffsets(offsets, seg, owner)
		if err != nil || len(offsets) > fewRecords {
			return nil, false, err
		}
	}
	slices.Sort(offsets)
	return slices.Compact(offsets), true, nil // a record may have several items of one owner
}

// appendOffsets appends where an owner's items are, a few more than fewRecords at most.
func (s *Store) appendOffsets(
	offsets []uint32, seg *segment, owner uint32,
) (_ []uint32, err error) {
	all := journal.Query{Owner: owner, From: math.MinInt64, To: math.MaxInt64}
	run := &segmentRun{store: s, seg: seg, query: &all, bounds: new(boundsOf(&all))}
	defer run.close(&err)
	if err = run.open(); err != nil {
		return nil, err
	}
	for len(run.entries) > 0 && len(offsets) <= fewRecords {
		for _, e := range run.entries {
			offsets = append(offsets, e.offset)
		}
		run.entries = nil
		if err = run.fill(); err != nil {
			return nil, err
		}
	}
	return offsets, nil
}
