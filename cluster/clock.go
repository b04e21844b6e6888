package cluster

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// clockLead is how far ahead of the median of the voters' clocks an entry may be stamped.
	clockLead = 10 * time.Second
	// clockEvery is how often nodes ask each other for the time.
	clockEvery = time.Second
	// clockFresh is how long an answer counts.
	clockFresh = 30 * time.Second
)

// clocks compares this node's wall clock with the other voters'.
type clocks struct {
	now func() time.Time
	// quorum is how many clocks, this one included, must be known before this node may lead.
	quorum int
	// back is how much stamps are held back so that they are no more than clockLead ahead of the
	// median; ahead is how far this clock is ahead of the median. Milliseconds.
	back, ahead atomic.Int64

	mu      sync.Mutex
	offsets map[string]clockSample
}

type clockSample struct {
	aheadMS int64 // the peer's clock against this one
	at      int64 // monotonic
	trip    time.Duration
}

func newClocks(now func() time.Time, voters int) *clocks {
	return &clocks{now: now, quorum: voters/2 + 1, offsets: make(map[string]clockSample)}
}

// stampMS is the time to stamp an entry with: this node's clock, bounded.
func (c *clocks) stampMS() int64 { return c.now().UnixMilli() - c.back.Load() }

// wrong says that this clock is more than clockLead away from the median.
func (c *clocks) wrong() bool {
	a := c.ahead.Load()
	return a > clockLead.Milliseconds() || a < -clockLead.Milliseconds()
}

// sure says that a majority of the clocks is known: without, one that is an hour ahead would stamp
// the log before anyone notices, and log time never goes back.
func (c *clocks) sure() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.fresh()) >= c.quorum
}

// fresh lists how far each known clock is ahead of this one, this one included.
func (c *clocks) fresh() []int64 {
	aheads := []int64{0}
	for _, s := range c.offsets {
		if monotonic()-s.at < int64(clockFresh) {
			aheads = append(aheads, s.aheadMS)
		}
	}
	return aheads
}

// learn takes a peer's answer: its clock, when it was asked, and how long that took.
func (c *clocks) learn(peer string, theirs int64, trip time.Duration) {
	middle := c.now().Add(-trip / 2).UnixMilli()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offsets[peer] = clockSample{aheadMS: theirs - middle, at: monotonic(), trip: trip}
	c.weigh()
}

// weigh finds the median of all clocks that are known, this one included; of an even number the
// lower one, so that two nodes that disagree follow the earlier clock and stamps stay in reach.
func (c *clocks) weigh() {
	aheads := c.fresh()
	slices.Sort(aheads)
	median := aheads[(len(aheads)-1)/2]
	c.ahead.Store(-median)
	c.back.Store(max(0, -median-clockLead.Milliseconds()))
}

func (c *clocks) sample(peer string) (clockSample, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.offsets[peer]
	return s, ok
}
