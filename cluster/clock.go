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
	// clockFresh is how long a clock counts as known after an answer: on a busy machine some are late.
	clockFresh = 30 * time.Second
	// clockRecent is how long an answer counts for the median. Otherwise a wrong clock whose node is
	// gone could form a majority with another clock that goes wrong later.
	clockRecent = 5 * time.Second
	// clockTrip bounds the round trip of an answer, half of which is its error.
	clockTrip = time.Second
)

// clocks compares this node's wall clock with the other voters'. It keeps their answers relative to
// the monotonic clock, so a step of this node's wall clock affects no other.
type clocks struct {
	now func() time.Time
	// median is the median of the clocks less the monotonic clock, in milliseconds; nil until
	// another node answers.
	median atomic.Pointer[int64]

	mu sync.Mutex
	// quorum is how many clocks, this one included, must be known before this node may lead.
	quorum int
	// voters are the nodes whose clocks count; nil: all.
	voters []string
	peers  map[string]clockSample
}

type clockSample struct {
	base int64 // the peer's clock less this node's monotonic clock, in milliseconds
	at   int64 // monotonic
	trip time.Duration
}

func newClocks(now func() time.Time, voters int) *clocks {
	return &clocks{now: now, quorum: voters/2 + 1, peers: make(map[string]clockSample)}
}

func (c *clocks) follow(voters []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Equal(c.voters, voters) {
		return
	}
	c.voters, c.quorum = voters, len(voters)/2+1
	if c.median.Load() != nil {
		c.weigh()
	}
}

// base is this node's wall clock less its monotonic clock, in milliseconds.
func (c *clocks) base() int64 { return c.now().UnixMilli() - monotonic()/int64(time.Millisecond) }

// ahead is how far this node's clock is ahead of the median, in milliseconds.
func (c *clocks) ahead() int64 { return c.aheadAt(c.now().UnixMilli()) }

// aheadAt is ahead for a reading of the clock.
func (c *clocks) aheadAt(now int64) int64 {
	median := c.median.Load()
	if median == nil {
		return 0
	}
	return now - monotonic()/int64(time.Millisecond) - *median
}

// stampMS is the time to stamp an entry with: this node's clock, at most clockLead away from the
// median. Without that limit, a leader whose clock was set back would freeze log time, and nothing
// would fall due. The clock is read once: if it were set back between two readings, the difference
// would count as elapsed time.
func (c *clocks) stampMS() int64 {
	now, lead := c.now().UnixMilli(), clockLead.Milliseconds()
	ahead := c.aheadAt(now)
	return now - max(0, ahead-lead) - min(0, ahead+lead)
}

// wrong reports whether this clock is more than clockLead away from the median.
func (c *clocks) wrong() bool {
	a := c.ahead()
	return a > clockLead.Milliseconds() || a < -clockLead.Milliseconds()
}

// sure reports whether a majority of the clocks is known. Without it, a clock that is an hour ahead
// would stamp the log before anyone notices, and log time never goes back.
func (c *clocks) sure() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.recentBases(clockFresh)) >= c.quorum
}

// recentBases lists the bases of the clocks that answered recently, this node's included.
func (c *clocks) recentBases(within time.Duration) []int64 {
	bases := []int64{c.base()}
	for id, s := range c.peers {
		if c.voters != nil && !slices.Contains(c.voters, id) {
			continue
		}
		if monotonic()-s.at < int64(within) {
			bases = append(bases, s.base)
		}
	}
	return bases
}

// learn takes a peer's answer: its clock, and the round trip. A delayed answer is ignored, since it
// says too little.
func (c *clocks) learn(peer string, theirs int64, trip time.Duration) {
	if trip > clockTrip {
		return
	}
	middle := (monotonic() - int64(trip/2)) / int64(time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peers[peer] = clockSample{base: theirs - middle, at: monotonic(), trip: trip}
	c.weigh()
}

// weigh finds the median of the clocks that answered recently, this one included. Of an even number
// it takes the lower one, so that two nodes that disagree follow the earlier clock. Without a
// majority the previous median stays in force and advances with the monotonic clock.
func (c *clocks) weigh() {
	bases := c.recentBases(clockRecent)
	if len(bases) < c.quorum && c.median.Load() != nil {
		return
	}
	slices.Sort(bases)
	median := bases[(len(bases)-1)/2]
	c.median.Store(&median)
}

// sample is how far a peer's clock is ahead of this node's, in milliseconds, and the round trip of
// its last answer; false before the first.
func (c *clocks) sample(peer string) (aheadMS int64, trip time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.peers[peer]
	if !ok {
		return 0, 0, false
	}
	return s.base - c.base(), s.trip, true
}
