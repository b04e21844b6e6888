package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"tollgate/engine"
)

var (
	// ErrNotLeader means that another node leads, or none.
	ErrNotLeader = errors.New("cluster: this node does not lead")
	// ErrHandOver means that leadership stayed where it was.
	ErrHandOver = errors.New("cluster: leadership was not handed over")
)

const (
	// handOverLag is how many entries the target may be behind when the leader begins to hold back
	// writes: the fewer, the shorter they wait.
	handOverLag = 64
	// handOverDrain bounds how long entries in flight may take then.
	handOverDrain = time.Second
	// retireRounds is how often a node that is to stop asks each of the others.
	retireRounds = 3
)

// HandOver gives this node's leadership to another voter: to target, or, when that is empty, to one
// that has answered lately and whose log is furthest. Writes wait meanwhile; none is refused. It
// returns nil when this node leads no longer. An error wraps ErrNotLeader or ErrHandOver, and
// nothing has changed, except that this node reads without a lease for the rest of its term.
//
// No member changes meanwhile: the target would stand without an entry that the others have, and
// nobody would lead until the next election.
func (g *Group) HandOver(ctx context.Context, target string) error {
	select {
	case g.changing <- struct{}{}:
		defer func() { <-g.changing }()
	case <-ctx.Done():
		return fmt.Errorf("%w: group %s: the members are being changed", ErrHandOver, g.name)
	case <-g.closing:
		return errHalted
	}
	return g.handOver(ctx, target)
}

// handOver is HandOver; the caller holds changing.
func (g *Group) handOver(ctx context.Context, target string) error {
	r := g.route.Load()
	if !r.ready {
		return fmt.Errorf("%w group %s", ErrNotLeader, g.name)
	}
	to, err := g.successor(r.term, target)
	if err != nil {
		return err
	}
	near := func() uint64 { return g.raft.LastIndex() - min(handOverLag, g.raft.LastIndex()) }
	if err := g.awaitMatch(ctx, r, to.ID, near); err != nil {
		return err
	}
	g.local.stop()
	if err := g.giveAway(ctx, r, to); err != nil {
		g.goOn(r)
		return err
	}
	g.log.Info("leadership was handed over", "term", r.term, "to", to.ID)
	return nil
}

// goOn takes writes again, if the term is still this node's.
func (g *Group) goOn(r *route) {
	g.routeLock.Lock()
	defer g.routeLock.Unlock()
	if g.route.Load() == r {
		g.local.start()
	}
}

// giveAway does what HandOver says; writes are held back.
func (g *Group) giveAway(ctx context.Context, r *route, to raft.Server) error {
	g.awaitFlights(ctx)
	index, err := g.announce(ctx, r.term, to.ID)
	if err != nil {
		return fmt.Errorf("%w: group %s: the log does not take it: %w", ErrHandOver, g.name, err)
	}
	beat := g.config.HeartbeatTimeout
	soon, cancel := context.WithTimeout(ctx, beat)
	defer cancel()
	if err := g.awaitMatch(soon, r, to.ID, func() uint64 { return index }); err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() {
		req := &raft.TimeoutNowRequest{RPCHeader: header()}
		sent <- g.transport.rawTransport.TimeoutNow(
			to.ID, to.Address, req, &raft.TimeoutNowResponse{})
	}()
	late := time.NewTimer(2 * beat)
	defer late.Stop()
	for {
		select {
		case err := <-sent:
			if err != nil {
				return fmt.Errorf("%w: group %s: %s refused: %w", ErrHandOver, g.name, to.ID, err)
			}
			sent = nil
		case <-r.changed:
			return nil
		case <-late.C:
			return fmt.Errorf("%w: group %s: %s was not elected", ErrHandOver, g.name, to.ID)
		case <-g.closing:
			return errHalted
		}
	}
}

// successors are the other voters that have answered within a heartbeat: first those whose disks
// have room, of these the one whose log is furthest.
func (g *Group) successors(term uint64) []raft.Server {
	var fit []raft.Server
	votes := g.voters()
	for _, s := range g.raft.GetConfiguration().Configuration().Servers {
		if s.Suffrage != raft.Voter || string(s.ID) == g.config.NodeID ||
			!slices.Contains(votes[1], s.ID) {
			continue
		}
		sent, ok := g.lease.heard(term, s.ID)
		if ok && monotonic()-sent.mono <= int64(g.config.HeartbeatTimeout) {
			fit = append(fit, s)
		}
	}
	slices.SortStableFunc(fit, func(a, b raft.Server) int {
		if roomy := g.voterRoom.has(a.ID); roomy != g.voterRoom.has(b.ID) {
			if roomy {
				return -1
			}
			return 1
		}
		x, _ := g.transport.matched.of(term, a.ID)
		y, _ := g.transport.matched.of(term, b.ID)
		return cmp.Compare(y, x)
	})
	return fit
}

// successor finds the voter that is to lead next.
func (g *Group) successor(term uint64, target string) (raft.Server, error) {
	for _, s := range g.successors(term) {
		if target == "" || string(s.ID) == target {
			return s, nil
		}
	}
	what := "no other voter has answered lately: see `tollgate cluster status`"
	if target != "" {
		what = fmt.Sprintf("%q is this node, or no voter, or has not answered lately", target)
	}
	return raft.Server{}, fmt.Errorf("%w: group %s: %s", ErrHandOver, g.name, what)
}

// awaitMatch waits until a peer's log is as far as wanted.
func (g *Group) awaitMatch(
	ctx context.Context, r *route, peer raft.ServerID, wanted func() uint64,
) error {
	for {
		index, news := g.transport.matched.of(r.term, peer)
		if index >= wanted() {
			return nil
		}
		select {
		case <-news:
		case <-r.changed:
			return fmt.Errorf("%w group %s any more", ErrNotLeader, g.name)
		case <-ctx.Done():
			return fmt.Errorf("%w: group %s: the log of %s is %d entries behind",
				ErrHandOver, g.name, peer, wanted()-min(wanted(), index))
		case <-g.closing:
			return errHalted
		}
	}
}

// awaitFlights waits a moment for the entries in flight: what they wait for is then known here.
func (g *Group) awaitFlights(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, handOverDrain)
	defer cancel()
	for {
		if _, n := g.local.load(); n == 0 || !g.pause(ctx, time.Millisecond) {
			return
		}
	}
}

// announce writes the hand-over into the log and waits until it is committed. The lease ends first.
func (g *Group) announce(
	ctx context.Context, term uint64, to raft.ServerID,
) (index uint64, err error) {
	over := engine.HandOver{Term: term, Target: string(to)}
	g.lease.forgo(term)
	g.local.mu.Lock()
	g.stamp = max(g.stamp, g.clocks.stampMS())
	entry := engine.AppendRecord(engine.AppendHeader(nil, g.shard), engine.Record{
		Kind: engine.KindHandOver, Payload: engine.AppendHandOver(nil, over),
	})
	engine.SetStamp(entry, g.stamp)
	future := g.raft.ApplyLog(raft.Log{Data: entry}, g.config.RPCTimeout)
	g.local.mu.Unlock()
	done := make(chan error, 1)
	go func() { done <- future.Error() }() // raft that shuts down may leave it unanswered
	select {
	case err = <-done:
		if err == nil {
			g.transport.handed.note(over, future.Index())
		}
		return future.Index(), err
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-g.closing:
		return 0, errHalted
	}
}

// Retire gives away the leadership of every group that this node leads, before it stops. It tries
// one voter after the other, a few times at the most, and keeps this node from being elected again.
// An error wraps ErrHandOver: the others will elect a leader when this node is gone.
func (n *Node) Retire(ctx context.Context) error {
	errs := make([]error, len(n.groups))
	done := make(chan struct{})
	for i, g := range n.groups {
		go func() {
			defer func() { done <- struct{}{} }()
			g.retired.Store(true)
			errs[i] = g.retire(ctx)
		}()
	}
	for range n.groups {
		<-done
	}
	return errors.Join(errs...)
}

func (g *Group) retire(ctx context.Context) error {
	for round := 1; ; round++ {
		r := g.route.Load()
		if !r.ready {
			return nil
		}
		var errs []error
		for _, s := range g.successors(r.term) {
			err := g.HandOver(ctx, string(s.ID))
			if err == nil || errors.Is(err, ErrNotLeader) {
				return nil
			}
			errs = append(errs, err)
		}
		alone := len(g.voters()[0]) < 2
		if alone || round == retireRounds || !g.pause(ctx, 5*retryEvery) {
			errs = append(errs, fmt.Errorf("%w: group %s", ErrHandOver, g.name))
			return errors.Join(errs...)
		}
	}
}
