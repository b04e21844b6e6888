package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// route says where proposals and reads go. It is replaced as a whole.
type route struct {
	leader string
	// ready: this node leads, in this term, and has applied everything of earlier terms.
	ready   bool
	term    uint64
	changed chan struct{} // closed when this route is no longer the newest
}

// router knows the leader, and so where proposals and reads go.
type router struct {
	*core
	electorate *electorate
	listener   listener

	route     atomic.Pointer[route]
	routeLock sync.Mutex
	led       atomic.Bool // raft says this node leads (maybe not ready yet)
}

func newRouter(c *core, e *electorate) *router {
	r := &router{core: c, electorate: e}
	r.route.Store(&route{changed: make(chan struct{})})
	return r
}

// listener is notified of leadership with the router's lock held, so it must not call back.
type listener interface {
	lead()                // this node leads, and is ready
	resign()              // it no longer does
	follow(leader string) // another node leads; "" is none
	moved()               // the route has changed
}

// followLeadership receives from raft that this node leads or no longer does. Raft waits for it:
// a proposer that outlived its term would stamp entries of a later one from an old clock.
func (r *router) followLeadership(notify <-chan bool) {
	reign := newReign(r.ctx)
	defer func() { reign.end() }()
	for {
		select {
		case leads := <-notify:
			reign.end()
			r.led.Store(leads)
			if !leads {
				r.stepDown()
				continue
			}
			r.transport.reach.begin()
			reign = newReign(r.ctx)
			ctx := reign.ctx
			r.wg.Go(func() { r.establish(ctx) })
		case <-r.closing:
			return
		}
	}
}

// reign is the time during which raft reports this node as the leader.
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
func (r *router) establish(ctx context.Context) {
	term := r.raft.CurrentTerm()
	known := r.electorate.committed.Load()
	before := configVoters(r.raft.GetConfiguration().Configuration())
	for {
		err := r.barrier(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			break
		}
		r.log.Warn("cannot lead yet", "term", term, "error", err)
		if !r.pause(ctx, retryEvery) {
			return
		}
	}
	r.routeLock.Lock()
	defer r.routeLock.Unlock()
	if ctx.Err() != nil || !r.led.Load() || r.raft.CurrentTerm() != term {
		return
	}
	// The latest configuration before the barrier is committed now, unless Apply saw a newer one.
	r.electorate.committed.CompareAndSwap(known, &before)
	r.lease.begin(term)
	r.listener.lead()
	r.setRoute(&route{leader: r.config.NodeID, ready: true, term: term})
	r.log.Info("this node leads", "term", term, "applied", r.machine.Applied())
}

// barrier waits until everything before it is applied, or ctx ends.
func (r *router) barrier(ctx context.Context) error {
	future := r.raft.Barrier(r.config.RPCTimeout)
	err := r.await(ctx, future)
	if at, ok := future.(raft.IndexFuture); ok && err == nil {
		r.progress.pass(at.Index()) // raft shows its barriers to no machine
	}
	return err
}

// stepDown ends what depends on leadership, before raft continues. Raft answers the entries in
// flight.
func (r *router) stepDown() {
	r.routeLock.Lock()
	defer r.routeLock.Unlock()
	r.transport.reach.end()
	current := r.route.Load()
	if age, ok := r.lease.age(); ok && age < time.Hour {
		at := r.lease.clock()
		at.mono -= int64(age)
		r.contact.note(at)
	}
	if current.ready {
		r.lease.end(current.term)
	}
	r.listener.resign()
	if current.leader == r.config.NodeID {
		r.setRoute(&route{})
	}
}

// followLeader keeps the route to a leader on another node.
func (r *router) followLeader(observed <-chan raft.Observation) {
	for {
		select {
		case <-observed:
		case <-time.After(routeEvery): // observations may be dropped
		case <-r.closing:
			return
		}
		r.seek()
	}
}

func (r *router) seek() {
	_, id := r.raft.LeaderWithID()
	term := r.raft.CurrentTerm()
	leader := string(id)
	r.routeLock.Lock()
	defer r.routeLock.Unlock()
	current := r.route.Load()
	if r.led.Load() || leader == r.config.NodeID {
		return // establish and stepDown maintain that route
	}
	if current.leader == leader && (leader == "" || current.term == term) {
		return
	}
	r.listener.follow(leader)
	r.setRoute(&route{leader: leader, term: term})
}

// setRoute publishes a route; the caller holds routeLock.
func (r *router) setRoute(current *route) {
	current.changed = make(chan struct{})
	old := r.route.Swap(current)
	close(old.changed)
	r.listener.moved()
	if old.leader != current.leader || old.term != current.term {
		if f := r.config.Events.OnLeader; f != nil {
			f(r.shard, current.leader, current.term)
		}
	}
}

func (r *router) setClosedRoute() {
	r.routeLock.Lock()
	defer r.routeLock.Unlock()
	r.setRoute(&route{})
}

// hold prevents a term that this node leads from ending before release; false if it does not lead
// it.
func (r *router) hold(term uint64) bool {
	r.routeLock.Lock()
	if current := r.route.Load(); current.ready && current.term == term {
		return true
	}
	r.routeLock.Unlock()
	return false
}

func (r *router) release() { r.routeLock.Unlock() }

// Leads reports whether this node leads the group and may propose; the term distinguishes one
// reign from the next.
func (r *router) Leads() (term uint64, ok bool) {
	current := r.route.Load()
	return current.term, current.ready
}

// RouteChanged is closed at the next change of the leader, of the term, or of readiness.
func (r *router) RouteChanged() <-chan struct{} { return r.route.Load().changed }
