package keyfiles

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"tollgate/engine/journal"
)

// repairLooks is how often to read an unreadable page before its records are taken from the
// journal: a disk error may be temporary.
const repairLooks = 3

// repair looks at the suspect page of a file. Where it is good by now, nothing is to be done; where
// it is not, all that is wrong with the file is found, and a file without it is put in its place,
// with the keys of those pages from the journal. Until then, the other pages are looked into.
func (s *Store) repair(ctx context.Context, r *run) error {
	number := r.suspect.Load() - 1
	page := make([]byte, pageBytes)
	_, err := r.readPage(page, number)
	if err == nil {
		r.looks = 0
		r.suspect.Store(0)
		return nil
	}
	if r.looks++; r.looks < repairLooks && !errors.Is(err, ErrDamaged) {
		return fmt.Errorf("keyfiles: %w; it is tried again", err)
	}
	p := s.newPace(ctx)
	bad, err := r.badPages(p)
	if err != nil {
		return err
	}
	if len(bad) == 0 {
		r.suspect.Store(0)
		return nil
	}
	lost, err := s.recover(r, bad, p)
	if err != nil {
		return err
	}
	if lost == nil {
		return s.drop(r)
	}
	w, err := s.newWriter(r.scope, r.records+uint64(len(lost)), p)
	if err != nil {
		return err
	}
	from := []*reader{{run: r, skip: bad}, {list: lost}}
	if err := w.join(from, s.view.Load().base); err != nil {
		return w.abandon(err)
	}
	if err := w.finish(); err != nil {
		return err
	}
	s.damages.Add(1)
	return s.publish(w, []*run{r})
}

// badPages are the pages of a file that cannot be read or have a wrong checksum, in order.
func (r *run) badPages(p *pace) (bad []uint64, err error) {
	room := make([]byte, pageBytes*mergePages)
	for at, end := uint64(0), uint64(len(r.dir)); at < end; {
		some := room[:pageBytes*min(end-at, mergePages)]
		whole := r.readPages(some, at) == nil
		for ; len(some) > 0; some, at = some[pageBytes:], at+1 {
			page := some[:pageBytes]
			ok := whole
			if !ok {
				ok = r.readPages(page, at) == nil
			}
			if ok {
				_, err := checkPage(page)
				ok = err == nil
			}
			if !ok {
				bad = append(bad, at)
			}
			if err := p.did(pageBytes); err != nil {
				return nil, err
			}
		}
	}
	return bad, nil
}

// recover takes the records of damaged pages from the journal, and with them some of the pages
// next to them, which begin or end with the same eight bytes; nil where they are too many: the file
// is to be dropped, and made again in pieces.
func (s *Store) recover(r *run, bad []uint64, p *pace) (lost []record, err error) {
	most := max(2*s.opts.BatchKeys, 2*pageRecords)
	if len(bad)*pageRecords > most {
		return nil, nil
	}
	list := s.opts.Journal.Outline()[journal.PartUsage].Segments
	if r.last > uint64(len(list)) {
		return nil, fmt.Errorf("keyfiles: %s is ahead of the journal, which the log brings to it; "+
			"it is repaired then", r.path)
	}
	lost = []record{}
	for _, info := range list[r.first-1 : r.last] {
		from := r.from
		if info.Number > r.first {
			from = list[info.Number-2].EventsThrough
		}
		some, err := s.collect(nil, &info, from)
		if err != nil {
			return nil, err
		}
		for i := range some {
			e := &some[i]
			if e.offset += uint32(from - r.from); !r.within(bad, e.high) {
				continue
			}
			if lost = append(lost, *e); len(lost) > most {
				return nil, nil
			}
		}
		if err := p.did(len(some) * recordBytes); err != nil {
			return nil, err
		}
	}
	return ordered(lost), nil
}

// within reports whether a key of these first eight bytes may be on one of the pages.
func (r *run) within(pages []uint64, prefix uint64) bool {
	i := sort.Search(len(pages), func(i int) bool {
		next := pages[i] + 1
		return next >= uint64(len(r.dir)) || r.dir[next] >= prefix
	})
	return i < len(pages) && r.dir[pages[i]] <= prefix
}

// drop removes a file that is damaged beyond repair: it is made again.
func (s *Store) drop(r *run) error {
	s.change.Lock()
	defer s.change.Unlock()
	v := s.view.Load()
	at := slices.Index(v.runs, r)
	if at < 0 {
		return nil
	}
	s.damages.Add(1)
	s.show(slices.Delete(slices.Clone(v.runs), at, at+1), v.base)
	return s.remove([]*run{r}, "")
}
