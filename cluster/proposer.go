package cluster

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"tollgate/engine"
	"tollgate/engine/fair"
)

// proposer brings records into the log: into its own queue where this node leads, and else into
// frames for the leader.
type proposer struct {
	*core
	electorate *electorate
	router     *router

	local   *queue // entries, while this node leads
	remote  *queue // frames for the leader, while another does
	stamp   int64  // of the newest entry submitted; guarded by local's lock
	flights chan flight
	settled chan struct{} // closed when flights is no longer read
	tickets ticketPool
	waiting waitingRoom // for calls that wait for a leader

	arrivals         arrivals // of frames; guarded by the router's lock
	sequence         atomic.Uint64
	batches, records atomic.Uint64
}

const (
	// eagerEntries is how many entries may be in flight while none is full. A higher limit only
	// makes entries smaller (measured over HTTP with single events: one beats four).
	eagerEntries = 1
	// depthEntries may be in flight while more wait: together a mebibyte.
	depthEntries = 16
	// entryBytes is the size at which an entry is full. Smaller ones are shorter turns of Apply, and
	// decoded they stay in the cache.
	entryBytes = 64 << 10
	// eagerFrames is two, so that one frame is in the leader's open batch while another is in the
	// entry before it.
	eagerFrames = 2
	// frameApart is how much of a flow may wait on a follower before it is sent in separate frames.
	frameApart = 32 << 10
)

func newProposer(c *core, e *electorate, r *router) *proposer {
	p := &proposer{
		core: c, electorate: e, router: r,
		flights: make(chan flight, 64), settled: make(chan struct{}),
		waiting: waitingRoom{share: fair.NewShare(c.config.QueueBytes)},
	}
	p.local = newQueue(queueLimits{
		batchBytes: entryBytes, bytes: c.config.QueueBytes,
		eager: eagerEntries, depth: depthEntries,
	}, engine.AppendHeader(nil, c.shard), p.submitEntry)
	frame := p.frameHeader()
	p.remote = newQueue(queueLimits{ // a record that fits an entry fits a frame
		batchBytes: engine.MaxEntryBytes - engine.HeaderSize + len(frame), bytes: c.config.QueueBytes,
		eager: eagerFrames, depth: c.config.ForwardBytes / engine.MaxEntryBytes, apart: frameApart,
	}, frame, p.submitFrame)
	if weight := c.config.Weight; weight != nil {
		p.local.weight = func(f fair.Flow) int { return weight(c.shard, f) }
		p.remote.weight = p.local.weight
	}
	return p
}

// lead starts accepting records for entries; their stamps continue from the newest one applied.
func (p *proposer) lead() {
	p.resetStamp()
	p.remote.stop()
	p.remote.abandon()
	p.local.start()
}

// resign leaves entries in flight to raft, which answers them.
func (p *proposer) resign() { p.local.stop() }

// follow starts accepting records for frames to another leader.
func (p *proposer) follow(leader string) {
	p.remote.stop()
	p.remote.abandon()
	if leader != "" {
		p.remote.start()
	}
}

// closeWait bounds how long Close waits for entries in flight.
const closeWait = 2 * time.Second

// drain refuses new calls and waits a moment for those in flight.
func (p *proposer) drain() {
	p.local.stop()
	p.remote.stop()
	end := time.Now().Add(closeWait)
	for time.Now().Before(end) && p.halted.Load() == nil {
		if _, n := p.local.load(); n == 0 {
			return
		}
		if !p.pause(p.ctx, 5*time.Millisecond) {
			return
		}
	}
}

// full reports whether this leader refuses client writes: the disks of too many voters are nearly
// full, or its own is and no other voter can take leadership. Until it has checked, writes
// continue, into the reserve.
func (p *proposer) full() bool {
	r := &p.electorate.voterRoom
	return r.majorityFull.Load() || p.disk.low.Load() && r.noSuccessor.Load()
}

// tickWait bounds the leader's own proposals.
const tickWait = 5 * time.Second

func (p *proposer) proposeOwn(r engine.Record) bool {
	var result [1]engine.Result
	p.propose(time.Now().Add(tickWait), []engine.Record{r}, result[:], true)
	return result[0].Outcome == engine.OutcomeDone
}

// refuses reports whether a record must not be proposed because it would make the state grow.
func (p *proposer) refuses(r engine.Record) bool {
	return p.memory.low.Load() && p.config.Grows != nil && p.config.Grows(p.shard, r)
}

// growth splits a frame's runs while memory is low, so that each holds only records that make the
// state grow, or only others. grows reports which do.
func (p *proposer) growth(f *frame) (runs []flowRun, grows []bool) {
	if !p.memory.low.Load() || p.config.Grows == nil {
		return f.runs, nil
	}
	_, walk, err := engine.ParseEntry(f.entry)
	if err != nil {
		return f.runs, nil // it was parsed before
	}
	for _, run := range f.runs {
		for i := range run.count {
			r, _ := walk.Next()
			growing := p.refuses(r)
			if last := len(runs) - 1; i > 0 && grows[last] == growing {
				runs[last].count++
				continue
			}
			runs, grows = append(runs, flowRun{1, run.flow}), append(grows, growing)
		}
	}
	return runs, grows
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

// admit refuses what can be refused at once; false if nothing is left to do.
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
		<-t.done
		if !t.gone {
			p.tickets.release(t)
		}
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

// awaitRetry waits for another leader, or a moment; false at the deadline.
func (p *proposer) awaitRetry(c *call, r *route) bool {
	var moment <-chan time.Time
	if r.leader != "" {
		moment = time.After(retryEvery)
	}
	if c.open == nil { // the others were admitted before, and a queue's bound counted them
		flow, size := c.records[0].Flow, c.leftBytes()
		if !p.waiting.enter(flow, p.local.weightOf(flow), size) {
			return false
		}
		defer p.waiting.leave(flow, size)
	}
	late := time.NewTimer(time.Until(c.deadline))
	defer late.Stop()
	select {
	case <-r.changed:
	case <-moment:
	case <-late.C:
		return false
	case <-p.closing:
		return false
	}
	return true
}

// flight is an entry that raft has.
type flight struct {
	batch  *batch
	future raft.ApplyFuture
}

// resetStamp makes stamps continue from the newest one applied.
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

// holdBack stops accepting writes; callers wait.
func (p *proposer) holdBack() { p.local.stop() }

// goOn accepts writes again, if this node still leads the term.
func (p *proposer) goOn(r *route) {
	if p.router.hold(r.term) {
		p.local.start()
		p.router.release()
	}
}

// handOverDrain bounds how long entries in flight may take while leadership is handed over.
const handOverDrain = time.Second

// awaitFlights waits a moment for the entries in flight, so that their results are known here.
func (p *proposer) awaitFlights(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, handOverDrain)
	defer cancel()
	for {
		if _, n := p.local.load(); n == 0 || !p.pause(ctx, time.Millisecond) {
			return
		}
	}
}

// settleFlights waits until raft has answered for each entry, in order.
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
		fate = fateUnknown // the replica stopped, or the entry is on the operator's skip list
	}
	if f := p.config.Events.OnCommit; f != nil && fate == fateDecided {
		f(p.shard, time.Since(b.submittedAt))
	}
	p.local.finish(b, fate)
}

func (b *batch) complete() bool {
	return len(b.applied.Results) == b.records
}
