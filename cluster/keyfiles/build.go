package keyfiles

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"tollgate/engine/journal"
)

// maxFiles bounds the files: no new one is made before some are merged.
const maxFiles = 512

// build makes the next file from sealed segments, where not all keys before wanted are in files.
func (s *Store) build(ctx context.Context, wanted uint64) (did bool, err error) {
	list := s.opts.Journal.Outline()[journal.PartUsage].Segments
	v := s.view.Load()
	if v.covered >= wanted || len(v.runs) >= maxFiles {
		return false, nil
	}
	begin := sort.Search(len(list), func(i int) bool { return list[i].EventsThrough > v.covered })
	limit := len(list)
	if i := slices.IndexFunc(v.runs, func(r *run) bool { return r.from >= v.covered }); i >= 0 {
		limit = min(limit, int(v.runs[i].first)-1)
	}
	if begin >= limit {
		return false, nil
	}
	made := scope{first: uint64(begin) + 1}
	if begin > 0 {
		made.from = list[begin-1].EventsThrough
	}
	var all []record
	end := begin
	for ; end < limit && len(all) < s.opts.BatchKeys; end++ {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if all, err = s.collect(all, &list[end], made.from); err != nil {
			return false, err
		}
	}
	made.last, made.hash = uint64(end), list[end-1].Hash
	made.through = list[end-1].EventsThrough
	w, err := s.newWriter(made, uint64(len(all)), nil)
	if err != nil {
		return false, err
	}
	if err := w.addAll(ordered(all)); err != nil {
		return false, w.abandon(err)
	}
	if err := w.finish(); err != nil {
		return false, err
	}
	return true, s.publish(w, nil)
}

// ordered sorts records, and leaves the newest of each key.
func ordered(all []record) []record {
	slices.SortFunc(all, func(a, b record) int { return a.compare(&b) })
	return slices.CompactFunc(all, func(a, b record) bool { return a.sameKey(&b) })
}

func (w *writer) addAll(all []record) error {
	for i := range all {
		if err := w.add(&all[i]); err != nil {
			return err
		}
	}
	return nil
}

// collect appends the keys of a segment. Their numbers follow from their places: each usage event
// adds one key.
func (s *Store) collect(
	dst []record, info *journal.SegmentInfo, from uint64,
) (_ []record, err error) {
	next := from + uint64(len(dst))
	add := func(r journal.Record) error {
		e, ok, err := s.opts.KeyOf(r)
		if err != nil || !ok {
			return err
		}
		made := parseRecord(append(e.Key[:], make([]byte, recordBytes-len(e.Key))...))
		made.attempt = e.Slot.Attempt
		made.packed = e.Slot.Fingerprint&(1<<fingerprintBits-1) |
			uint32(e.Slot.Outcome)<<fingerprintBits
		made.offset = uint32(next - from)
		dst = append(dst, made)
		next++
		return nil
	}
	err = s.opts.Lend(journal.PartUsage, info.Number, func(data []byte) error {
		return journal.Scan(data, add)
	})
	if err == nil && next != info.EventsThrough {
		err = fmt.Errorf("keyfiles: %s ends at usage event %d, not %d", info, next,
			info.EventsThrough)
	}
	return dst, err
}
