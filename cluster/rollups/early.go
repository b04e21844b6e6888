package rollups

import (
	"slices"
	"sync"

	"tollgate/engine/journal"
	"tollgate/engine/rollup"
)

// maxEarly is how many segments are counted before Step comes to write their files: their cells are
// in memory.
const maxEarly = 8

// early is what was counted of segments that have no file yet.
type early struct {
	lock     sync.Mutex
	segments []counted
}

type counted struct {
	info  journal.SegmentInfo
	cells []rollup.Cell
}

func (e *early) full() bool {
	e.lock.Lock()
	defer e.lock.Unlock()
	return len(e.segments) == maxEarly
}

func (e *early) put(c counted) {
	e.lock.Lock()
	defer e.lock.Unlock()
	if len(e.segments) < maxEarly {
		e.segments = append(e.segments, c)
	}
}

// take returns the cells of the segment that is to be written next, if it was counted, and forgets
// those of its part before it, which are written or dropped, and those of its number in another
// history.
func (e *early) take(info journal.SegmentInfo) (cells []rollup.Cell, ok bool) {
	e.lock.Lock()
	defer e.lock.Unlock()
	e.segments = slices.DeleteFunc(e.segments, func(c counted) bool {
		if c.info == info {
			cells, ok = c.cells, true
		}
		return c.info.Part == info.Part && c.info.Number <= info.Number
	})
	return cells, ok
}
