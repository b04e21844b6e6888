package cluster

import (
	"sync/atomic"
	"time"

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
	settled chan struct{} // closed when nobody reads flights any more
	tickets ticketPool
	waiting waitingRoom // for calls that wait for a leader

	arrivals         arrivals // of frames; guarded by the router's lock
	sequence         atomic.Uint64
	batches, records atomic.Uint64
}

const (
	// eagerEntries is how many entries may be in flight while none is full: more only makes
	// smaller entries (measured: over HTTP with single events, one beats four).
	eagerEntries = 1
	depthEntries = 4
	// eagerFrames is two, so that one frame is in the leader's open batch while another is in the
	// entry before it.
	eagerFrames = 2
	// frameApart is how much of a flow may wait on a follower until it travels in frames of its
	// own.
	frameApart = 32 << 10
)

func newProposer(c *core, e *electorate, r *router) *proposer {
	p := &proposer{
		core: c, electorate: e, router: r,
		flights: make(chan flight, 64), settled: make(chan struct{}),
		waiting: waitingRoom{share: fair.NewShare(c.config.QueueBytes)},
	}
	p.local = newQueue(queueLimits{
		batchBytes: engine.MaxEntryBytes, bytes: c.config.QueueBytes,
		eager: eagerEntries, depth: depthEntries,
	}, engine.AppendHeader(nil, c.shard), p.submitEntry)
	frame := p.frameHeader()
	p.remote = newQueue(queueLimits{ // what fits an entry fits a frame
		batchBytes: engine.MaxEntryBytes - engine.HeaderSize + len(frame), bytes: c.config.QueueBytes,
		eager: eagerFrames, depth: c.config.ForwardBytes / engine.MaxEntryBytes, apart: frameApart,
	}, frame, p.submitFrame)
	if weight := c.config.Weight; weight != nil {
		p.local.weight = func(f fair.Flow) int { return weight(c.shard, f) }
		p.remote.weight = p.local.weight
	}
	return p
}

// lead takes records for entries, whose stamps go on from the newest that is applied.
func (p *proposer) lead() {
	p.resetStamp()
	p.remote.stop()
	p.remote.abandon()
	p.local.start()
}

// resign leaves entries in flight to raft, which answers them.
func (p *proposer) resign() { p.local.stop() }

// follow takes records for frames to another leader.
func (p *proposer) follow(leader string) {
	p.remote.stop()
	p.remote.abandon()
	if leader != "" {
		p.remote.start()
	}
}

// closeWait bounds how long Close waits for entries in flight.
const closeWait = 2 * time.Second

// drain takes no more calls and lets what is in flight finish for a moment.
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

// full reports whether this leader takes no client writes: the disks of too many voters are nearly
// full, or its own is, and it has found nobody to hand leadership to. Until it has looked, writes
// go on, into the reserve.
func (p *proposer) full() bool {
	r := &p.electorate.voterRoom
	return r.crowded.Load() || p.disk.low.Load() && r.cornered.Load()
}

// tickWait bounds the leader's own proposals.
const tickWait = 5 * time.Second

func (p *proposer) proposeOwn(r engine.Record) bool {
	var result [1]engine.Result
	p.propose(time.Now().Add(tickWait), []engine.Record{r}, result[:], true)
	return result[0].Outcome == engine.OutcomeDone
}

// refuses reports whether a record is not to be proposed, since it would make the state grow.
func (p *proposer) refuses(r engine.Record) bool {
	return p.memory.low.Load() && p.config.Grows != nil && p.config.Grows(p.shard, r)
}

// growth splits a frame's runs, while memory is low, so that each holds only records that make the
// state grow, or none. grows says which do.
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
