package cluster

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"tollgate/engine"
)

// Group is one Raft group around one state machine. It is a server.Proposer, which brings commands
// into the log from any node, and a server.Reader, which knows when this node may answer reads. All
// methods may be called from any goroutine.
type Group struct {
	*core
	*electorate
	*router
	*proposer
	*replica
	*reader
	*asker
	*elections
	*tiering
	*handover
	*membership
	*keeper
	*guard
	adapter *fsm

	closed   sync.Once
	closeErr error
}

// listeners are notified of leadership: the queues, and readers that ask the leader.
type listeners struct {
	*proposer
	index *readIndex
}

func (l listeners) moved() { l.index.abandon() }

func openGroup(p parts) (*Group, error) {
	c := newCore(p)
	g := &Group{core: c, electorate: &electorate{core: c}, guard: &guard{core: c}}
	g.lease.voters = g.voters
	g.router = newRouter(c, g.electorate)
	g.proposer = newProposer(c, g.electorate, g.router)
	g.replica = &replica{
		core: c, electorate: g.electorate, waitsFor: g.local.owner, restored: make(chan struct{}),
	}
	g.reader = newReader(c, g.router, g.replica)
	g.asker = g.reader.asker
	g.router.listener = listeners{g.proposer, &g.index}
	g.elections = &elections{core: c, electorate: g.electorate, news: make(chan struct{}, 1)}
	g.tiering = &tiering{
		core: c, electorate: g.electorate, router: g.router, proposer: g.proposer, replica: g.replica,
	}
	g.handover = &handover{
		core: c, electorate: g.electorate, router: g.router, proposer: g.proposer,
	}
	g.membership = &membership{
		core: c, electorate: g.electorate, router: g.router, handover: g.handover,
		tiering: g.tiering, changing: make(chan struct{}, 1),
	}
	g.keeper = &keeper{
		core: c, electorate: g.electorate, router: g.router, proposer: g.proposer,
		replica: g.replica, reader: g.reader, handover: g.handover, membership: g.membership,
	}
	g.adapter = &fsm{replica: g.replica}
	g.openTransport()
	if err := g.openRaft(); err != nil {
		g.cancel()
		return nil, errors.Join(err, g.transport.Close())
	}
	return g, nil
}

// openTransport wraps raft's transport.
func (g *Group) openTransport() {
	t := newTransport(g.raw, g.lease, g.config.HeartbeatTimeout, g.standsForElection)
	t.includes, t.known, t.rival, t.settled = g.includes, g.known, g.stopAtRival, g.asked
	t.lead(g.lastLeader.Term, g.lastLeader.Leader)
	t.applied = g.progress.index.Load
	t.scanned = func() { g.store.scanned.Store(true) }
	g.transport = t
	t.start()
}

func (g *Group) raftConfig(notify chan<- bool) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(g.config.NodeID)
	c.HeartbeatTimeout = g.config.HeartbeatTimeout
	c.ElectionTimeout = g.config.HeartbeatTimeout
	c.LeaderLeaseTimeout = g.config.HeartbeatTimeout
	c.CommitTimeout = g.config.CommitTimeout
	c.MaxAppendEntries = 64
	c.BatchApplyCh = true
	c.NoLegacyTelemetry = true
	c.ShutdownOnRemove = false
	c.TrailingLogs = minTrailing
	c.SnapshotInterval = time.Hour // bytes decide, see keepSnapshots
	c.SnapshotThreshold = 1 << 62  // never by count
	c.Logger = raftLogger(g.log, g.quiet, g.warnings)
	c.NotifyCh = notify
	return c
}

func (g *Group) openRaft() error {
	notify := make(chan bool) // unbuffered: raft waits until this node has noted a loss of leadership
	c := g.raftConfig(notify)
	if err := g.begin(c); err != nil {
		return fmt.Errorf("cluster: begin group %s: %w", g.name, err)
	}
	var err error
	if g.raft, err = g.newRaft(c); err != nil {
		return fmt.Errorf("cluster: open group %s: %w", g.name, err)
	}
	g.transport.view.Store(&raftView{
		voters: func() []raft.ServerID { return g.voters()[0] },
		followed: func() following {
			leader, id := g.raft.LeaderWithID()
			return following{leader, id, g.raft.LastContact()}
		},
		outdone: g.outdone,
	})
	close(g.running)
	if g.openSegments != nil {
		if g.segments, err = g.openSegments(); err != nil {
			close(g.closing) // calls that wait for segments give up
			return errors.Join(err, g.raft.Shutdown().Error())
		}
	}
	if g.openKeys != nil {
		g.keys = g.openKeys(g.segments)
	}
	if g.openRollups != nil {
		g.rollups = g.openRollups(g.segments)
	}
	close(g.restored)
	observed := make(chan raft.Observation, 16)
	g.raft.RegisterObserver(raft.NewObserver(observed, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState:
			return true
		}
		return false
	}))
	g.wg.Go(func() { g.followLeadership(notify) })
	g.wg.Go(func() { g.followLeader(observed) })
	go g.settleFlights()
	g.wg.Go(g.answerWakeups)
	g.wg.Go(g.keepTime)
	g.wg.Go(g.keepSuccession)
	g.wg.Go(g.keepSnapshots)
	g.wg.Go(g.keepSegments)
	g.wg.Go(g.keepKeys)
	g.wg.Go(g.keepRollups)
	g.wg.Go(g.keepDemoting)
	g.wg.Go(g.keepRoom)
	g.wg.Go(g.watchRoom)
	g.wg.Go(g.keepFresh)
	g.wg.Go(g.followHints)
	return nil
}

// Machine is the state machine that the group replicates.
func (g *Group) Machine() engine.Machine { return g.machine }

// Close stops the group: it accepts no more calls, gives those in flight a moment to finish, and
// stops raft. It is bounded in time.
func (g *Group) Close() error {
	g.closed.Do(func() {
		g.drain()
		close(g.closing)
		g.cancel()
		g.lease.end(math.MaxUint64)
		g.setClosedRoute()
		g.transport.reach.close()
		err := g.transport.rawTransport.Close() // ends calls in flight, so that raft can stop
		err = errors.Join(err, g.raft.Shutdown().Error())
		g.remote.abandon()
		g.local.abandon()
		g.wg.Wait()
		select {
		case <-g.settled:
		case <-time.After(closeWait): // raft left an entry unanswered: its goroutine stays behind
		}
		g.closeErr = err
	})
	return g.closeErr
}

// begin gives an empty group its first members, and checks what any other group has stored.
func (g *Group) begin(c *raft.Config) error {
	known, err := raft.HasExistingState(g.store, g.stable, g.snapshots)
	if err == nil && known {
		known, err = g.begun()
	}
	switch {
	case err != nil:
		return err
	case known:
		return g.store.countStored()
	case g.lost:
		return fmt.Errorf("%w: its data is gone from the data folder: nothing was "+
			"changed; run `tollgate cluster remove %s` on another node, empty the folder, start "+
			"with `join: true`, and run `tollgate cluster join`", ErrDamaged, g.config.NodeID)
	case len(g.bootstrap.Servers) == 0:
		return nil // waits to be joined
	case g.config.Cluster != "":
		return notRestored(g.config)
	}
	return raft.BootstrapCluster(c, g.store, g.stable, g.snapshots, g.transport, g.bootstrap)
}

// begun reports whether the group has a past. A log without a term is an error: the file with this
// node's vote is gone, and it might vote twice.
//
// If a first start was interrupted between the term and the members, begun takes the term back and
// returns false: raft would wait forever for members that no node has. Nothing was promised in term
// 1, since elections begin at 2.
func (g *Group) begun() (bool, error) {
	term, err := g.stable.GetUint64(termKey)
	if err != nil {
		return true, fmt.Errorf("%w: there is a log or a snapshot, but no term, and so no vote: %w",
			ErrDamaged, err)
	}
	if term != firstTerm {
		return true, nil
	}
	last, err := g.store.LastIndex()
	if err != nil || last > 0 {
		return true, err
	}
	found, err := g.snapshots.List()
	if err != nil || len(found) > 0 {
		return true, err
	}
	return false, g.stable.SetUint64(termKey, 0)
}

// newRaft starts raft, which panics if it cannot read an entry or write the term.
func (g *Group) newRaft(c *raft.Config) (r *raft.Raft, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("raft does not start: %v", p)
		}
	}()
	return raft.NewRaft(c, g.adapter, g.store, g.stable, g.snapshots, g.transport)
}

// reasons are what keeps this group, and with it its node, from being ready.
func (g *Group) reasons() []Reason {
	var why []Reason
	add := func(cause Cause, format string, args ...any) {
		why = append(why, Reason{cause, g.name, fmt.Sprintf(format, args...)})
	}
	if g.route.Load().leader == "" {
		add(CauseNoLeader, "no leader is known")
	}
	if _, leads := g.lease.age(); !leads && g.contact.Load() == nil {
		add(CauseNotCaughtUp, "not caught up since this node began")
	}
	switch stale := g.Staleness(); {
	case stale <= readyStaleness:
	case g.machine.Stamp() == 0:
		add(CauseBehind, "it has applied nothing yet")
	default:
		add(CauseBehind, "behind by %d ms", stale.Milliseconds())
	}
	if g.segments != nil {
		if missing := len(g.segments.Missing()); missing > 0 {
			add(CauseSegmentsMissing, "%d journal segments are missing", missing)
		}
	}
	if g.keys != nil {
		if behind := g.keys.behind(); behind > 0 {
			add(CauseKeysUncovered, "%d idempotency keys have yet to be put into files", behind)
		}
	}
	return why
}

// Status describes the group on this node.
func (g *Group) Status() GroupStatus {
	r := g.route.Load()
	stats := g.raft.Stats()
	number := func(key string) uint64 {
		v, err := strconv.ParseUint(stats[key], 10, 64)
		if err != nil {
			return 0
		}
		return v
	}
	s := GroupStatus{
		Shard: g.shard, Name: g.name, Role: strings.ToLower(stats["state"]),
		Leader: r.leader, Term: number("term"),
		CommitIndex: number("commit_index"), AppliedIndex: g.machine.Applied(),
		LastIndex: number("last_log_index"), SnapshotIndex: number("last_snapshot_index"),
		LeaseAgeMS: -1, LastContactMS: -1, StalenessMS: g.Staleness().Milliseconds(),
		WorkStatus:        WorkStatus{Batches: g.batches.Load(), Records: g.records.Load()},
		StandsForElection: g.standsForElection(), Stamp: g.machine.Stamp(),
	}
	if number("applied_index") < s.CommitIndex || number("fsm_pending") > 0 {
		s.Lag = s.CommitIndex - min(s.AppliedIndex, s.CommitIndex)
	}
	s.Version, _ = g.machine.Version()
	_, s.Lease = g.lease.holds()
	if age, ok := g.lease.age(); ok {
		s.LeaseAgeMS, s.LastContactMS = age.Milliseconds(), 0
	} else if at := g.contact.Load(); at != nil {
		s.LastContactMS = at.until(g.lease.clock()).Milliseconds()
	}
	s.QueueBytes, s.InFlight = g.local.load()
	s.ForwardBytes, _ = g.remote.load()
	s.WaitingBytes, s.QueueLimitBytes = g.proposer.waiting.bytes(), g.config.QueueBytes
	if g.logSize != nil {
		s.LogBytes, s.Syncs = g.logSize()
	}
	if g.segments != nil {
		s.SegmentsMissing = len(g.segments.Missing())
	}
	if g.keys != nil {
		s.Keys = g.keys.status()
	}
	if first, err := g.store.FirstIndex(); err == nil { // a log that cannot be read ends the process
		s.FirstIndex = first
	}
	index, hash := g.machine.StateHash()
	s.StateIndex, s.StateHash = index, fmt.Sprintf("%016x", hash)
	if ms := g.snapshotAt.Load(); ms != 0 {
		s.SnapshotAt = time.UnixMilli(ms).UTC()
	}
	return s
}
