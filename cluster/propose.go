package cluster

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"tollgate/engine"
	"tollgate/engine/fair"
)

var errPastDeadline = errors.New("cluster: every caller's deadline has passed")

// call is one Propose: which of its records still need an attempt.
type call struct {
	records []engine.Record
	results []engine.Result
	// left are the records that the next attempt is about; nil means all.
	left []int
	// open marks records whose fate an earlier attempt left unknown: whatever refuses them later,
	// they may have been carried out.
	open []bool
	// deferred reports whether the last attempt got records as far as an entry that had done its
	// share: the next one may follow at once.
	deferred bool
	deadline time.Time
	timer    *time.Timer
}

// Propose brings records into the log, in order, on whichever node leads, and waits until each has
// an outcome or the deadline has passed. results has the length of records and receives one Result
// each. What was never proposed is OutcomeUnavailable, OutcomeOverloaded, OutcomeDiskLow or
// OutcomeTooLarge; what was, and whose fate this node cannot learn, OutcomeUnknown. A record may
// be proposed again after an unknown fate: the state machine recognises it. Payloads may be reused
// when Propose returns.
func (p *proposer) Propose(
	deadline time.Time, records []engine.Record, results []engine.Result,
) {
	p.propose(deadline, records, results, false)
}

func (p *proposer) propose(
	deadline time.Time, records []engine.Record, results []engine.Result, internal bool,
) {
	c := call{records: records, results: results, deadline: deadline}
	if !c.admit(p, internal) {
		return
	}
	c.timer = time.NewTimer(time.Until(deadline))
	defer c.timer.Stop()
	for {
		r := p.router.route.Load()
		if !p.attempt(&c, r, internal) {
			return
		}
		if c.deferred && time.Now().Before(deadline) {
			continue
		}
		if !p.awaitRetry(&c, r) {
			break
		}
	}
	for _, i := range c.left {
		c.results[i] = engine.Result{Outcome: engine.OutcomeUnavailable}
		if c.open != nil && c.open[i] {
			c.results[i].Outcome = engine.OutcomeUnknown
		}
	}
}

// admit answers what can be refused at once; false when nothing is left to do.
func (c *call) admit(p *proposer, internal bool) bool {
	refused := 0
	agreed, known := p.machine.Version()
	for i := range c.records {
		c.results[i] = engine.Result{}
		switch {
		case engine.RecordSize(c.records[i]) > engine.MaxEntryBytes-engine.HeaderSize:
			c.results[i].Outcome = engine.OutcomeTooLarge
			refused++
		case !internal && p.refuses(c.records[i]):
			c.results[i].Outcome = engine.OutcomeMemoryLow
			refused++
		case agreed < known && p.machine.Since(c.records[i]) > agreed:
			c.results[i].Outcome = engine.OutcomeUpgrading
			refused++
		}
	}
	if refused > 0 {
		c.left = make([]int, 0, len(c.records)-refused)
		for i := range c.records {
			if c.results[i].Outcome == engine.OutcomeNone {
				c.left = append(c.left, i)
			}
		}
		return len(c.left) > 0
	}
	return len(c.records) > 0
}

// ticket is what the next attempt puts into a queue. Where no record has been tried before, results
// go straight to their places.
func (c *call) ticket(pool *ticketPool) *ticket {
	t := pool.take()
	t.deadline = c.deadline
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

// attempt tries once; true when some records must be tried again, which c.left then lists.
func (p *proposer) attempt(c *call, r *route, internal bool) bool {
	c.deferred = false
	t := c.ticket(&p.tickets)
	results, took, wait := t.results, engine.OutcomeNone, time.Duration(0)
	var q *queue
	switch {
	case r.ready && !internal && p.full():
		took = engine.OutcomeDiskLow
	case r.ready:
		q = p.local
	case r.leader != "" && r.leader != p.config.NodeID:
		q = p.remote
	}
	if q != nil {
		took, wait = q.add(t)
	}
	if took == engine.OutcomeDone {
		c.await(p, q, t)
	} else {
		refuse(results, took, wait)
		p.tickets.release(t)
	}
	var again []int
	for i := range results {
		if at := c.place(i); c.settle(at, results[i]) {
			again = append(again, at)
		}
	}
	c.left = again
	return len(again) > 0
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

// await waits until a ticket's records have their results, or until the deadline: what has not left
// by then is taken back.
func (c *call) await(p *proposer, q *queue, t *ticket) {
	select {
	case <-t.done:
		p.tickets.release(t)
	case <-c.timer.C:
		q.withdraw(t)
		c.timer.Reset(0) // whoever waits next must see it, too
	}
}

// settle takes one result; true when the record must be tried again. The cluster's own refusal is
// final for a record that was never proposed; for one whose fate is unknown it proves nothing. Nor
// does it that the machine cannot tell whether the record's key was used: an earlier copy may have
// used it, and the key may have left memory since. To send it again would be answered the same.
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

// notProposed reports whether an outcome is the cluster's own refusal, not the state machine's.
func notProposed(o engine.Outcome) bool {
	switch o {
	case engine.OutcomeUnavailable, engine.OutcomeOverloaded, engine.OutcomeShareFull,
		engine.OutcomeDiskLow, engine.OutcomeMemoryLow, engine.OutcomeTooLarge:
		return true
	}
	return false
}

// awaitRetry waits for another leader, or a moment; false at the deadline.
func (p *proposer) awaitRetry(c *call, r *route) bool {
	var moment <-chan time.Time
	if r.leader != "" {
		moment = time.After(retryEvery)
	}
	if c.open == nil { // others were admitted once, and a queue's bound counted them
		flow, size := c.records[0].Flow, c.leftBytes()
		if !p.waiting.enter(flow, p.local.weightOf(flow), size) {
			return false
		}
		defer p.waiting.leave(flow, size)
	}
	select {
	case <-r.changed:
	case <-moment:
	case <-c.timer.C:
		return false
	case <-p.closing:
		return false
	}
	return true
}

func (c *call) leftBytes() int {
	n := 0
	for _, i := range c.left {
		n += engine.RecordSize(c.records[i])
	}
	return n
}

// waitingRoom bounds the bytes of calls that wait for a leader, and each flow's part of them.
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

// flight is an entry that raft has.
type flight struct {
	batch  *batch
	future raft.ApplyFuture
}

// resetStamp makes stamps go on from the newest that is applied.
func (p *proposer) resetStamp() {
	p.local.mu.Lock()
	defer p.local.mu.Unlock()
	p.stamp = p.machine.Stamp()
}

// submitEntry stamps a batch and hands it to raft. The queue's lock keeps stamps in log order.
// Neither send can block: at most depthEntries batches and a barrier are on their way, and both
// channels hold 64.
func (p *proposer) submitEntry(b *batch) {
	p.stamp = max(p.stamp, p.clocks.stampMS())
	engine.SetStamp(b.data, p.stamp)
	var future raft.ApplyFuture
	if time.Now().Before(b.deadline) {
		future = p.raft.ApplyLog(raft.Log{Data: b.data}, 0)
	}
	p.flights <- flight{b, future}
	p.batches.Add(1)
	p.records.Add(uint64(b.records))
	if f := p.config.Events.OnBatch; f != nil {
		f(p.shard, b.records, len(b.data))
	}
}

// handIn stamps a record and hands it to raft past the queue, in an entry of its own.
func (p *proposer) handIn(r engine.Record) raft.ApplyFuture {
	p.local.mu.Lock()
	defer p.local.mu.Unlock()
	p.stamp = max(p.stamp, p.clocks.stampMS())
	entry := engine.AppendRecord(engine.AppendHeader(nil, p.shard), r)
	engine.SetStamp(entry, p.stamp)
	return p.raft.ApplyLog(raft.Log{Data: entry}, p.config.RPCTimeout)
}

// holdBack takes no more writes; callers wait.
func (p *proposer) holdBack() { p.local.stop() }

// goOn takes writes again, if the term is still this node's.
func (p *proposer) goOn(r *route) {
	if p.router.hold(r.term) {
		p.local.start()
		p.router.release()
	}
}

// handOverDrain bounds how long entries in flight may take while leadership is handed over.
const handOverDrain = time.Second

// awaitFlights waits a moment for the entries in flight: what they wait for is then known here.
func (p *proposer) awaitFlights(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, handOverDrain)
	defer cancel()
	for {
		if _, n := p.local.load(); n == 0 || !p.pause(ctx, time.Millisecond) {
			return
		}
	}
}

// settleFlights waits for raft's word on each entry, in order.
func (p *proposer) settleFlights() {
	defer close(p.settled)
	for {
		select {
		case f := <-p.flights:
			err := errPastDeadline
			if f.future != nil {
				err = decided(f)
			}
			p.land(f.batch, err)
		case <-p.closing:
			return
		}
	}
}

// decided waits until an entry is applied, or can never be.
var decided = func(f flight) error { return f.future.Error() }

func (p *proposer) land(b *batch, err error) {
	fate := fateOf(err)
	if fate == fateDecided && (b.index == 0 || !b.complete()) {
		fate = fateUnknown // applied by a replica that stopped, or on the operator's skip list
	}
	if f := p.config.Events.OnCommit; f != nil && fate == fateDecided {
		f(p.shard, time.Since(b.submittedAt))
	}
	p.local.finish(b, fate)
}

func (b *batch) complete() bool {
	return len(b.applied.Results) == b.records
}
