package cluster

import (
	"context"
	"time"

	"github.com/hashicorp/raft"
)

// followLeadership takes in raft's word that this node leads or no longer does. Raft waits for it:
// a proposer that outlived its term would stamp entries of a later one from an old clock.
func (g *Group) followLeadership(notify <-chan bool) {
	reign := newReign(g.ctx)
	defer func() { reign.end() }()
	for {
		select {
		case leads := <-notify:
			reign.end()
			g.led.Store(leads)
			if !leads {
				g.stepDown()
				continue
			}
			g.transport.reach.begin()
			reign = newReign(g.ctx)
			ctx := reign.ctx
			g.wg.Go(func() { g.establish(ctx) })
		case <-g.closing:
			return
		}
	}
}

// reign is the time during which raft says that this node leads.
type reign struct {
	ctx context.Context
	end context.CancelFunc
}

func newReign(parent context.Context) reign {
	ctx, end := context.WithCancel(parent)
	return reign{ctx, end}
}

// establish makes this node ready to lead: once a barrier of its own term is applied, its state
// holds everything that any leader before acknowledged.
func (g *Group) establish(ctx context.Context) {
	term := g.raft.CurrentTerm()
	known := g.committed.Load()
	before := configVoters(g.raft.GetConfiguration().Configuration())
	for {
		err := g.barrier(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			break
		}
		g.log.Warn("cannot lead yet", "term", term, "error", err)
		if !g.pause(ctx, retryEvery) {
			return
		}
	}
	g.routeLock.Lock()
	defer g.routeLock.Unlock()
	if ctx.Err() != nil || !g.led.Load() || g.raft.CurrentTerm() != term {
		return
	}
	// What was the latest before the barrier is committed now, unless Apply saw a newer one.
	g.committed.CompareAndSwap(known, &before)
	g.lease.begin(term)
	g.resetStamp()
	g.remote.stop()
	g.remote.abandon()
	g.local.start()
	g.setRoute(&route{leader: g.config.NodeID, ready: true, term: term})
	g.log.Info("this node leads", "term", term, "applied", g.machine.Applied())
}

// barrier waits until everything before it is applied, or ctx ends.
func (g *Group) barrier(ctx context.Context) error {
	done := make(chan error, 1)
	future := g.raft.Barrier(g.config.RPCTimeout)
	go func() { // raft that shuts down may leave it unanswered
		err := future.Error()
		if at, ok := future.(raft.IndexFuture); ok && err == nil {
			g.adapter.progress.pass(at.Index()) // raft shows its barriers to no machine
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stepDown ends what rests on leadership, before raft goes on. Entries in flight are raft's to
// answer.
func (g *Group) stepDown() {
	g.routeLock.Lock()
	defer g.routeLock.Unlock()
	g.transport.reach.end()
	r := g.route.Load()
	if age, ok := g.lease.age(); ok && age < time.Hour {
		at := g.lease.clock()
		at.mono -= int64(age)
		g.noteContact(at)
	}
	if r.ready {
		g.lease.end(r.term)
	}
	g.local.stop()
	if r.leader == g.config.NodeID {
		g.setRoute(&route{})
	}
}

// followLeader keeps the route to a leader on another node.
func (g *Group) followLeader(observed <-chan raft.Observation) {
	for {
		select {
		case <-observed:
		case <-time.After(routeEvery): // observations may be dropped
		case <-g.closing:
			return
		}
		g.seek()
	}
}

func (g *Group) seek() {
	_, id := g.raft.LeaderWithID()
	term := g.raft.CurrentTerm()
	leader := string(id)
	g.routeLock.Lock()
	defer g.routeLock.Unlock()
	r := g.route.Load()
	if g.led.Load() || leader == g.config.NodeID {
		return // establish and stepDown keep that one
	}
	if r.leader == leader && (leader == "" || r.term == term) {
		return
	}
	g.remote.stop()
	g.remote.abandon()
	if leader != "" {
		g.remote.start()
	}
	g.setRoute(&route{leader: leader, term: term})
}

// setRoute publishes a route; the caller holds routeLock.
func (g *Group) setRoute(r *route) {
	r.changed = make(chan struct{})
	old := g.route.Swap(r)
	close(old.changed)
	g.index.abandon()
	if old.leader != r.leader || old.term != r.term {
		if f := g.config.Events.OnLeader; f != nil {
			f(g.shard, r.leader, r.term)
		}
	}
}

func (g *Group) heldLease(held bool) {
	if f := g.config.Events.OnLease; f != nil {
		f(g.shard, held)
	}
}

// standsForElection is false while this node's clock is far off, or not yet compared with a
// majority's, before the others had their say on its folder, after it has halted, and when it is
// about to stop.
func (g *Group) standsForElection() bool {
	return (g.asked == nil || g.asked()) && !g.retired.Load() && !g.clocks.wrong() &&
		g.clocks.sure() && g.halted.Load() == nil
}
