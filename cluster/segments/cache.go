package segments

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"sync"

	"tollgate/engine/journal"
)

// indexCache bounds the side indexes in memory: the least recently used ones go.
type indexCache struct {
	limit int64

	lock  sync.Mutex
	clock uint64
	total int64
	held  map[*segment]int64 // bytes
}

// touch notes that seg's index of this size was used, and returns those that have to go.
func (c *indexCache) touch(seg *segment, size int64) (gone []*segment) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.clock++
	seg.used.Store(c.clock)
	if c.held == nil {
		c.held = map[*segment]int64{}
	}
	c.total += size - c.held[seg]
	c.held[seg] = size
	if c.total <= c.limit {
		return nil
	}
	// A quarter goes at once, so that this is done seldom.
	all := make([]*segment, 0, len(c.held))
	for other := range c.held {
		if other != seg {
			all = append(all, other)
		}
	}
	slices.SortFunc(all, func(a, b *segment) int {
		return cmp.Compare(a.used.Load(), b.used.Load())
	})
	for _, other := range all {
		if c.total <= c.limit/4*3 {
			break
		}
		c.total -= c.held[other]
		delete(c.held, other)
		gone = append(gone, other)
	}
	return gone
}

// forget drops the cached data of a segment that no longer exists.
func (c *indexCache) forget(seg *segment) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.total -= c.held[seg]
	delete(c.held, seg)
}

// sideIndex returns a segment's index: from memory, from its file, or made from the segment.
func (s *Store) sideIndex(seg *segment) (*sideIndex, error) {
	x, err := s.obtainIndex(seg)
	if err != nil {
		return nil, err
	}
	for _, other := range s.cache.touch(seg, x.bytes()) {
		other.lock.Lock()
		if other.sealed.Data == nil {
			other.index = nil
		}
		other.lock.Unlock()
	}
	if s.journal.Dropped(seg.info) { // Sweep may have been here already
		s.cache.forget(seg)
	}
	return x, nil
}

func (s *Store) obtainIndex(seg *segment) (*sideIndex, error) {
	if x := seg.cached(); x != nil {
		return x, nil
	}
	// Not under seg.lock: a Put of the segment, which Apply waits for, must not wait for this.
	seg.indexing.Lock()
	defer seg.indexing.Unlock()
	if x := seg.cached(); x != nil {
		return x, nil
	}
	x, err := s.openIndex(seg.info)
	if errors.Is(err, errIndex) || errors.Is(err, os.ErrNotExist) {
		x, err = s.makeIndex(seg)
	}
	if err != nil {
		return nil, err
	}
	seg.keep(x)
	return x, nil
}

func (seg *segment) cached() *sideIndex {
	seg.lock.Lock()
	defer seg.lock.Unlock()
	return seg.index
}

func (seg *segment) keep(x *sideIndex) {
	seg.lock.Lock()
	defer seg.lock.Unlock()
	seg.index, seg.span = x, &x.span
}

// makeIndex makes the index of a segment, and its file when the segment has one.
func (s *Store) makeIndex(seg *segment) (*sideIndex, error) {
	data, err := s.load(seg)
	if err != nil {
		return nil, err
	}
	x, err := build(data, s.indexer)
	if err != nil {
		return nil, err
	}
	seg.lock.Lock()
	inMemory := seg.sealed.Data != nil
	seg.lock.Unlock()
	if inMemory {
		return x, nil
	}
	stored, err := s.rewriteIndex(seg.info, x)
	if err == nil && s.journal.Dropped(seg.info) {
		// Sweep may have deleted the segment's files before this one came. If the segment is
		// dropped later, Sweep deletes it.
		return x, s.removeIndex(seg.info)
	}
	return stored, err
}

func (s *Store) openIndex(info journal.SegmentInfo) (x *sideIndex, err error) {
	f, err := s.opts.FS.OpenRead(s.path(keyOf(info), ".idx"))
	if err != nil {
		return nil, err
	}
	defer closing(f, &err)
	return readIndex(f, info)
}

// rewriteIndex puts a side index in place of one that was absent or damaged, and returns it
// without its blocks.
func (s *Store) rewriteIndex(info journal.SegmentInfo, x *sideIndex) (*sideIndex, error) {
	if err := s.replace(s.path(keyOf(info), ".idx"), x.encode(info), false); err != nil {
		return nil, err
	}
	return x.inFile(), nil
}

// storeIndex writes the side index of a segment that has just become a file, or was one before:
// then an index that exists is used as well, as it would be by a listing.
func (s *Store) storeIndex(seg *segment, data []byte, there bool) error {
	seg.indexing.Lock()
	defer seg.indexing.Unlock()
	if there {
		if x, err := s.openIndex(seg.info); err == nil {
			seg.keep(x)
			return nil
		}
	}
	x := seg.cached()
	if x == nil || x.body == nil {
		var err error
		if x, err = build(data, s.indexer); err != nil {
			return err
		}
	}
	x, err := s.rewriteIndex(seg.info, x)
	if err != nil {
		return err
	}
	seg.keep(x)
	return nil
}

// spanOf returns the bounds of a segment's times, reading its index when nothing is known.
func (s *Store) spanOf(seg *segment) (span, error) {
	seg.lock.Lock()
	known := seg.span
	seg.lock.Unlock()
	if known != nil {
		return *known, nil
	}
	x, err := s.sideIndex(seg)
	if err != nil {
		return span{}, err
	}
	return x.span, nil
}

// dropIndex forgets a side index whose file turned out to be damaged; it is made again.
func (s *Store) dropIndex(seg *segment, x *sideIndex) error {
	seg.indexing.Lock()
	defer seg.indexing.Unlock()
	if cached := seg.cached(); cached != x && cached != nil {
		return nil // someone else was faster; nil: the cache has let go of it
	}
	if err := s.removeIndex(seg.info); err != nil {
		return err
	}
	seg.lock.Lock()
	seg.index = nil
	seg.lock.Unlock()
	return nil
}

func (s *Store) removeIndex(info journal.SegmentInfo) error {
	err := s.opts.FS.Remove(s.path(keyOf(info), ".idx"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
