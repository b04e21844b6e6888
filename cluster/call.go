package cluster

import (
	"math"
	"sync"
	"time"

	"tollgate/engine"
	"tollgate/engine/fair"
)

// call is one Propose: which of its records still need an attempt.
type call struct {
	records []engine.Record
	results []engine.Result
	// left are the records of the next attempt; nil means all.
	left []int
	// open marks records whose fate an earlier attempt left unknown: a later refusal does not prove
	// that they were not carried out.
	open []bool
	// deferred reports whether an entry had reached its work limit: the next attempt follows at once.
	deferred bool
	deadline time.Time
}

// ticket is what the next attempt puts into a queue. On the first attempt, results go straight to
// their places.
func (c *call) ticket(pool *ticketPool) *ticket {
	t := pool.take()
	t.deadline, t.timed = c.deadline, true
	if c.left == nil {
		t.records, t.results = c.records, c.results
	} else {
		t.records = make([]engine.Record, len(c.left))
		t.results = make([]engine.Result, len(c.left))
		for i, at := range c.left {
			t.records[i] = c.records[at]
		}
	}
	t.flow = t.records[0].Flow
	return t
}

func (c *call) place(i int) int {
	if c.left == nil {
		return i
	}
	return c.left[i]
}

// settle takes one result and reports whether the record must be tried again. The cluster's own
// refusal is final for a record that was never proposed, and proves nothing for one of unknown
// fate. OutcomeKeyUnproven proves nothing either: an earlier copy may have used the key, which may
// have left memory since; trying again would get the same answer.
func (c *call) settle(at int, res engine.Result) bool {
	switch {
	case res.Outcome == engine.OutcomeNone:
		return true
	case res.Outcome == engine.OutcomeDeferred:
		c.deferred = true
		return true
	case res.Outcome == engine.OutcomeUnknown:
		if c.open == nil {
			c.open = make([]bool, len(c.records))
		}
		c.open[at] = true
		return true
	case c.open != nil && c.open[at] && notProposed(res.Outcome):
		return true
	case c.open != nil && c.open[at] && res.Outcome == engine.OutcomeKeyUnproven:
		res = engine.Result{Outcome: engine.OutcomeUnknown}
	}
	c.results[at] = res
	return false
}

func (c *call) leftBytes() int {
	n := 0
	for _, i := range c.left {
		n += engine.RecordSize(c.records[i])
	}
	return n
}

// notProposed reports whether an outcome is the cluster's own refusal, not the state machine's.
func notProposed(o engine.Outcome) bool {
	switch o {
	case engine.OutcomeUnavailable, engine.OutcomeOverloaded, engine.OutcomeShareFull,
		engine.OutcomeDiskLow, engine.OutcomeMemoryLow, engine.OutcomeTooLarge:
		return true
	}
	return false
}

// refuse gives each record the cluster's own refusal.
func refuse(results []engine.Result, o engine.Outcome, wait time.Duration) {
	refusal := engine.Result{Outcome: o}
	if o == engine.OutcomeShareFull {
		refusal.Value = []byte{byte(min((wait+time.Second-1)/time.Second, math.MaxUint8))}
	}
	for i := range results {
		results[i] = refusal
	}
}

// waitingRoom bounds the bytes of calls that wait for a leader, and each flow's share of them.
type waitingRoom struct {
	mu    sync.Mutex
	share *fair.Share
}

func (w *waitingRoom) enter(f fair.Flow, weight, bytes int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.share.Take(f, weight, bytes) == fair.RoomTaken
}

func (w *waitingRoom) leave(f fair.Flow, bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.share.Give(f, bytes)
}

func (w *waitingRoom) bytes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.share.Used()
}
