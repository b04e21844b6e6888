package cluster

import (
	"encoding/binary"
	"math"
	"sync"
	"time"

	"tollgate/engine"
)

// BeginRead returns once this node's own memory holds every write that was acknowledged anywhere
// before the call. On a leader under lease that is at once; a leader whose lease has lapsed waits
// for a majority; a follower asks the leader how far it has applied, and waits for that. The
// outcome is OutcomeDone, or OutcomeUnavailable when that did not happen before the deadline.
func (g *Group) BeginRead(deadline time.Time) (engine.ReadTicket, engine.Outcome) {
	if term, ok := g.lease.holds(); ok {
		return engine.ReadTicket{Term: term, Leader: true}, engine.OutcomeDone
	}
	return g.beginSlowRead(deadline)
}

// ReadStands says, after the value was copied out, that the ticket was valid throughout.
func (g *Group) ReadStands(t engine.ReadTicket) bool {
	return !t.Leader || g.lease.stands(t.Term)
}

func (g *Group) beginSlowRead(deadline time.Time) (engine.ReadTicket, engine.Outcome) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		r := g.route.Load()
		moment := retryEvery
		switch {
		case r.ready:
			// Confirmed by a majority after the call began: that stands for good.
			if g.lease.confirm(g.knock, timer.C) {
				return engine.ReadTicket{Term: r.term}, engine.OutcomeDone
			}
		case r.leader != "" && r.leader != g.config.NodeID:
			if g.readIndex(r, timer.C) {
				return engine.ReadTicket{Term: r.term}, engine.OutcomeDone
			}
		default:
			moment = math.MaxInt64
		}
		if !time.Now().Before(deadline) || !g.awaitRoute(r, moment, deadline) {
			return engine.ReadTicket{}, engine.OutcomeUnavailable
		}
		timer.Reset(time.Until(deadline))
	}
}

// awaitRoute waits until the route has changed, or a moment; false at the deadline.
func (g *Group) awaitRoute(r *route, moment time.Duration, deadline time.Time) bool {
	left := time.Until(deadline)
	timer := time.NewTimer(min(moment, left))
	defer timer.Stop()
	select {
	case <-r.changed:
		return true
	case <-timer.C:
		return moment < left
	case <-g.closing:
		return false
	}
}

// knock asks raft to send heartbeats now.
func (g *Group) knock() {
	select {
	case g.doorbell <- struct{}{}:
	default:
	}
}

// ring answers knocks. VerifyLeader serves as a doorbell only: its own answer counts
// acknowledgements of requests that were sent before it was asked.
func (g *Group) ring() {
	for {
		select {
		case <-g.doorbell:
			g.raft.VerifyLeader()
		case <-g.closing:
			return
		}
		if !g.pause(g.ctx, time.Millisecond) {
			return
		}
	}
}

// readIndex asks the leader how far it has applied, and waits until this node has, too.
func (g *Group) readIndex(r *route, late <-chan time.Time) bool {
	round := g.index.join(func(q *round) { g.askIndex(r, q) })
	select {
	case <-round.done:
	case <-late:
		return false
	}
	if !round.ok {
		return false
	}
	from := monotonic()
	applied := g.adapter.progress.await(g.ctx, late, round.index)
	g.noteWait(time.Duration(monotonic() - from))
	return applied
}

// readIndex coalesces questions to the leader: one is under way, later callers join the next, for
// the one under way may have been answered before they began.
type readIndex struct {
	mu           sync.Mutex
	asking, next *round
}

type round struct {
	ask   func(*round)
	index uint64
	ok    bool
	done  chan struct{}
}

func (x *readIndex) join(ask func(*round)) *round {
	x.mu.Lock()
	if x.next == nil {
		x.next = &round{ask: ask, done: make(chan struct{})}
	}
	r := x.next
	start := x.asking == nil
	if start {
		x.asking, x.next = r, nil
	}
	x.mu.Unlock()
	if start {
		r.ask(r)
	}
	return r
}

// answer ends a round and begins the next, unless that has happened already.
func (x *readIndex) answer(r *round, index uint64, ok bool) {
	x.mu.Lock()
	if x.asking != r {
		x.mu.Unlock()
		return
	}
	r.index, r.ok = index, ok
	close(r.done)
	x.asking, x.next = x.next, nil
	next := x.asking
	x.mu.Unlock()
	if next != nil {
		next.ask(next)
	}
}

// abandon ends the round under way: the leader has changed.
func (x *readIndex) abandon() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range []*round{x.asking, x.next} {
		if r != nil {
			close(r.done)
		}
	}
	x.asking, x.next = nil, nil
}

func (g *Group) askIndex(r *route, q *round) {
	ms := binary.AppendUvarint(nil, uint64(g.config.RPCTimeout.Milliseconds()))
	err := g.peers.call(r.leader, callReadIndex, g.shard, ms, func(reply []byte, err error) {
		index, n := binary.Uvarint(reply)
		if err == nil && n > 0 {
			g.hear(index, reply[n:])
		}
		g.index.answer(q, index, err == nil && n > 0)
	})
	if err != nil {
		go g.index.answer(q, 0, false) // not from here: answering asks again
	}
}

// visible is the newest entry of which a reader on this node may have seen something: the one that
// is being applied counts, since its records become visible one by one. Whoever reads elsewhere
// afterwards is to see it, too.
func (g *Group) visible() uint64 { return max(g.machine.Applied(), g.applying.Load()) }

// serveReadIndex answers a follower: how far this leader had applied at a moment after the
// question when it certainly was the leader; empty when it is not.
func (g *Group) serveReadIndex(payload []byte, reply func([]byte)) {
	ms, n := binary.Uvarint(payload)
	if n <= 0 {
		reply(nil)
		return
	}
	if term, ok := g.lease.holds(); ok {
		index := g.visible()
		if g.lease.stands(term) { // the machine may have slept since the lease was granted
			reply(g.indexAnswer(index, term))
			return
		}
	}
	wait := min(time.Duration(ms)*time.Millisecond, g.config.RPCTimeout)
	go func() { // ends with the lease when the group closes
		timer := time.NewTimer(wait)
		defer timer.Stop()
		if g.lease.confirm(g.knock, timer.C) {
			reply(g.indexAnswer(g.visible(), g.route.Load().term))
			return
		}
		reply(nil)
	}()
}

// Staleness is how old this node's own memory may be: 0 on a leader under lease; on a leader
// without, the time since a majority answered; otherwise the time since this node asked a leader
// how far it was, and came to that. Time that the machine was asleep is part of it.
func (g *Group) Staleness() time.Duration {
	if term, ok := g.lease.holds(); ok && g.lease.stands(term) {
		return 0
	}
	if age, ok := g.lease.age(); ok && age != math.MaxInt64 {
		return age
	}
	if at := g.contact.Load(); at != nil {
		return at.until(g.lease.clock())
	}
	return g.silence()
}

// silence is Staleness of a node that has not come to where a leader was since it began: its state
// is as old as its newest entry, whose stamp may be ahead of its time. Where none is applied yet,
// it is as old as can be: the others may have gone on for years. Of this node's clock and of the
// others' the later one counts: a node that has just begun may have heard a single other one, and
// that may be wrong. The clock is read once, as for stampMS.
func (g *Group) silence() time.Duration {
	now, t := g.clocks.now().UnixMilli(), g.lease.clock()
	now -= min(0, g.clocks.aheadAt(now))
	sinceEntry := time.Duration(now-g.machine.Stamp())*time.Millisecond + clockLead
	// The others' clocks are kept against the monotonic one, which stands still in a sleep.
	slept := time.Duration(max(0, t.drift-g.opened.drift))
	return max(sinceEntry+slept, g.opened.until(t))
}

// freshEvery is how often a follower finds out how far the leader is.
const freshEvery = 100 * time.Millisecond

// keepFresh asks the leader, from time to time, how far it is, and notes when this node has come to
// that. What the leader sends of its own accord would not do: an append may have been on its way
// for long, and having its entries is not having applied them.
func (g *Group) keepFresh() {
	for g.pause(g.ctx, freshEvery) {
		r := g.route.Load()
		if r.ready || r.leader == "" || r.leader == g.config.NodeID {
			continue
		}
		asked, timer := g.lease.clock(), time.NewTimer(g.config.RPCTimeout)
		if g.readIndex(r, timer.C) {
			g.noteContact(asked)
		}
		timer.Stop()
	}
}

// noteContact notes that this node's memory holds all that was acknowledged before a moment.
func (g *Group) noteContact(at instant) {
	for old := g.contact.Load(); old == nil || old.mono < at.mono; old = g.contact.Load() {
		if g.contact.CompareAndSwap(old, &at) {
			return
		}
	}
}
