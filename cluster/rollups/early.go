package rollups

import (
	"slices"
	"sync"

	"tollgate/engine/journal"
	"tollgate/engine/rollup"
)

// No segment is counted early while maxEarly of them wait for Step to write their files, or
// maxEarlyCells (10 MB).
const (
	maxEarly      = 8
	maxEarlyCells = 1 << 18
)

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
	return e.isFull()
}

// isFull is full for a holder of the lock.
func (e *early) isFull() bool {
	cells := 0
	for _, c := range e.segments {
		cells += len(c.cells)
	}
	return len(e.segments) >= maxEarly || cells >= maxEarlyCells
}

func (e *early) put(c counted) {
	e.lock.Lock()
	defer e.lock.Unlock()
	if !e.isFull() {
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
