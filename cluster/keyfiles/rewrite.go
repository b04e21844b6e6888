package keyfiles

import (
	"context"
	"errors"
	"slices"
)

const (
	// largest is by how much the keys that are kept are divided to have the size of the largest
	// files: files go when all their keys are dropped.
	largest = 4
	// minMerged are the new files that may become one, however few keys are kept.
	minMerged = 4
	// maxSpan bounds the numbers of a file: a record has 32 bits for the distance from its first.
	maxSpan = 1 << 31
	// maxMerged bounds the files that are merged at a time.
	maxMerged = 8
	// mergePages is how many pages of a file are read at a time for a rewriting.
	mergePages = 64
)

// Rewrite does the next piece of work on the files that there are: it repairs one, or merges some.
// It takes its time, while Step goes on. kept is how many keys are kept. It returns false when
// there was nothing to do. After an error the same is tried again by the next call.
func (s *Store) Rewrite(ctx context.Context, kept uint64) (did bool, err error) {
	if !s.loaded.Load() {
		return false, nil
	}
	var failed error // a file that cannot be repaired now holds up no other
	for _, r := range s.view.Load().runs {
		if r.suspect.Load() == 0 || !s.begin(r) {
			continue
		}
		err := s.repair(ctx, r)
		if err = errors.Join(err, s.end(r)); err == nil {
			return true, nil
		}
		failed = errors.Join(failed, err)
	}
	some := s.mergeable(kept / largest)
	if len(some) == 0 || !s.begin(some...) {
		return false, failed
	}
	err = s.merge(ctx, some)
	return true, errors.Join(failed, err, s.end(some...))
}

// begin keeps files from going while they are rewritten; false when one of them has gone already.
func (s *Store) begin(some ...*run) bool {
	s.change.Lock()
	defer s.change.Unlock()
	if !all(s.view.Load().runs, some) {
		return false
	}
	for _, r := range some {
		r.busy = true
		r.readers.Add(1)
	}
	return true
}

func (s *Store) end(some ...*run) (err error) {
	s.change.Lock()
	defer s.change.Unlock()
	for _, r := range some {
		r.busy = false
		err = errors.Join(err, r.release())
	}
	return err
}

// mergeable are files that are to be merged: some that follow each other, of which one has fewer
// than twice the keys of the next. Of all such it is those where the fewest keys are written for
// each file that there are fewer then. So there are some ten files, each at least twice as large as
// the next, up to the largest; and where many of one size were made, each key is written once for
// every eightfold.
//
// What bounds a file is the numbers that it spans, not the records in it: of those, dropped ones
// are left out, and a file that took in new keys as fast as it lost old ones would never end or go.
func (s *Store) mergeable(maximum uint64) (some []*run) {
	maximum = min(max(maximum, minMerged*uint64(s.opts.BatchKeys)), maxSpan)
	v := s.view.Load()
	cost, fewer := uint64(0), uint64(0)
	for i, a := range v.runs {
		sum, due := a.records, false
		for k := i + 1; k < len(v.runs) && k < i+maxMerged; k++ {
			a, b := v.runs[k-1], v.runs[k]
			sum += b.records
			if a.through != b.from || b.through-v.runs[i].from > maximum ||
				a.suspect.Load()|b.suspect.Load() != 0 {
				break
			}
			if due = due || a.records < 2*b.records; !due {
				continue
			}
			n := uint64(k - i)
			if sum*fewer < cost*n || some == nil || sum*fewer == cost*n && n > fewer {
				some, cost, fewer = v.runs[i:k+1], sum, n
			}
		}
	}
	return some
}

// merge makes one file of some that follow each other, without the keys that were dropped. Of a key
// that several have, the newest record stays.
func (s *Store) merge(ctx context.Context, some []*run) error {
	older, newer := some[0], some[len(some)-1]
	made := scope{
		first: older.first, last: newer.last, hash: newer.hash,
		from: older.from, through: newer.through,
	}
	keys := uint64(0)
	var from []*reader
	for _, r := range some {
		keys += r.records
		from = append(from, &reader{run: r, add: uint32(r.from - older.from)})
	}
	w, err := s.newWriter(made, keys, s.newPace(ctx))
	if err != nil {
		return err
	}
	if err := w.join(from, s.view.Load().base); err != nil {
		return w.abandon(err)
	}
	if err := w.finish(); err != nil {
		return err
	}
	return s.publish(w, some)
}

// join adds the records of several sources, except keys from before base.
func (w *writer) join(from []*reader, base uint64) error {
	for _, r := range from {
		if err := r.next(); err != nil {
			return err
		}
	}
	for ended := true; ; {
		if ended {
			from = slices.DeleteFunc(from, func(r *reader) bool { return r.done })
		}
		if ended = false; len(from) == 0 {
			return nil
		}
		e := from[0].at
		for _, r := range from[1:] {
			if r.at.compare(&e) < 0 {
				e = r.at
			}
		}
		if w.from+uint64(e.offset) >= base {
			if err := w.add(&e); err != nil {
				return err
			}
		}
		for _, r := range from {
			for !r.done && r.at.sameKey(&e) {
				if err := r.next(); err != nil {
					return err
				}
				ended = ended || r.done
			}
		}
	}
}

// reader reads records in order: those of a run, or of a list.
type reader struct {
	run   *run
	add   uint32   // to offsets, which count from another run's first key
	skip  []uint64 // pages that are left out, in order
	pages []byte   // that were read and not used up; the first one is checked
	page  uint64   // number of the first of them, or of the next one to be read
	count int      // records of the first page
	index int      // of the next one in it
	list  []record // what is left of a list, where there is no run
	at    record
	done  bool
}

// next goes on to the next record; done reports whether there is none.
func (r *reader) next() error {
	if r.run == nil {
		if r.done = len(r.list) == 0; !r.done {
			r.at, r.list = r.list[0], r.list[1:]
		}
		return nil
	}
	for r.index == r.count {
		if len(r.pages) > 0 {
			r.pages, r.page = r.pages[pageBytes:], r.page+1
		}
		for len(r.skip) > 0 && r.page == r.skip[0] {
			r.skip, r.page = r.skip[1:], r.page+1
		}
		if r.done = r.page == uint64(len(r.run.dir)); r.done {
			return nil
		}
		if err := r.fill(); err != nil {
			return err
		}
	}
	r.at = parseRecord(recordOf(r.pages, r.index))
	r.at.offset += r.add
	r.index++
	return nil
}

// fill has the next page read and checked, and reads some behind it, too, when it must read.
func (r *reader) fill() (err error) {
	r.index = 0
	if len(r.pages) == 0 {
		end := uint64(len(r.run.dir))
		if len(r.skip) > 0 {
			end = r.skip[0]
		}
		r.pages = make([]byte, pageBytes*min(end-r.page, mergePages))
		if r.run.readPages(r.pages, r.page) != nil {
			r.pages = r.pages[:pageBytes] // the others may be what cannot be read
			r.count, err = r.run.readPage(r.pages, r.page)
			return err
		}
	}
	if r.count, err = checkPage(r.pages[:pageBytes]); err != nil {
		r.count, err = r.run.readPage(r.pages[:pageBytes], r.page)
	}
	return err
}
