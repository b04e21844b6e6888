package fair

import "sync/atomic"

const (
	// places is the number of flows that a Counter distinguishes; beyond it, some are counted as
	// one.
	places = 4096
	// special is how many special flows there may be; each is counted alone.
	special = 8
)

// Special is a flow for callers without one of their own; n is from 0 to 7.
func Special(n uint8) Flow { return 1<<31 | Flow(n%special) }

// Counter is a Share without a lock, for resources that are taken and returned all the time. The
// total of all flows is exact. Safe for concurrent use.
type Counter struct {
	max, used atomic.Int64
	held      [places + special]atomic.Int64
}

// NewCounter shares out so much.
func NewCounter(maximum int64) *Counter {
	c := new(Counter)
	c.max.Store(maximum)
	return c
}

// Take takes n for a flow, by the rule of Share, except that free never falls below zero.
func (c *Counter) Take(f Flow, weight int, n int64) Room {
	most := c.max.Load()
	free := most - (c.used.Add(n) - n)
	held := c.place(f).Add(n) - n
	switch {
	case f != 0 && held > 0 && (held/int64(max(1, weight)) >= free || n > free):
		c.Give(f, n)
		return RoomFlow
	case n > free:
		c.Give(f, n)
		return RoomAll
	}
	return RoomTaken
}

// place is where a flow is counted. The flows of another kind, with a high bit, begin elsewhere.
func (c *Counter) place(f Flow) *atomic.Int64 {
	if f>>31 == 1 {
		return &c.held[places+f%special]
	}
	return &c.held[(f^f>>19)%places]
}

// Give gives back n that the flow took.
func (c *Counter) Give(f Flow, n int64) {
	c.used.Add(-n)
	c.place(f).Add(-n)
}

// Used is what all flows hold.
func (c *Counter) Used() int64 { return c.used.Load() }

// Max is how much there is.
func (c *Counter) Max() int64 { return c.max.Load() }
