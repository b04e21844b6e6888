package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"tollgate/cluster/segments"
	"tollgate/engine"
	"tollgate/engine/fair"
	"tollgate/engine/journal"
)

var _ Segments = (*segments.Store)(nil)

// Segments keeps the sealed segments of a machine's journal on disk; *segments.Store is one.
type Segments interface {
	journal.Source
	Put(journal.Segment)
	WaitDurable(ctx context.Context, infos []journal.SegmentInfo) error
	Missing() []journal.SegmentInfo
	Read(part journal.Part, number uint64) ([]byte, error)
	Hold() (end func())
	Copy(info journal.SegmentInfo) ([]byte, error)
	Sweep() error
	Repair(ctx context.Context, fetch segments.Fetch) error
	Close() error
}

// peers is how a group reaches the same group on other nodes.
type peers interface {
	// call sends a request. reply is called exactly once, from another goroutine, unless call
	// returns an error: then nothing was sent. payload belongs to the callee.
	call(to string, k callKind, shard uint16, payload []byte, reply func([]byte, error)) error
	// fetch gets a journal segment from any peer that has it; segments.ErrDropped when one has
	// dropped it.
	fetch(ctx context.Context, shard uint16, info journal.SegmentInfo) ([]byte, error)
}

// parts are what a Group is made of. A node opens them on disk and TCP, tests in memory.
type parts struct {
	config  *Config // with defaults
	shard   uint16
	name    string
	machine engine.Machine
	// openSegments opens the journal's segments, once the journal is restored; nil without one.
	openSegments func() (Segments, error)
	// openKeys opens the files of keys that left memory, once the segments are open; nil without.
	openKeys  func(Segments) *keyTier
	transport rawTransport
	logs      raft.LogStore
	stable    raft.StableStore
	snapshots raft.SnapshotStore
	bootstrap raft.Configuration
	peers     peers
	quiet     <-chan struct{} // closed when the node begins to stop
	warnings  *peerWarnings
	// logSize is the log on disk in bytes and its fsyncs so far; nil when it is in memory.
	logSize func() (bytes int64, syncs uint64)
	// snapshotDamage says which snapshots were found to be damaged; nil: they are in memory.
	snapshotDamage func() error
	clocks         *clocks
	boot           uint64
	diskLow        *atomic.Bool
	memory         *memory
	room           func() uint64 // see disk.left
	// promised is term and vote as stored.
	promised *atomic.Pointer[mark]
	// asked reports whether the other members had their say on this folder; nil: there is nobody to
	// ask.
	asked func() bool
	// before is how far the group was known here to be committed before this start.
	before uint64
	// lastLeader is the newest leader that was followed here before this start.
	lastLeader termLeader
	// lost: this group has stored something before, so that an empty folder has lost it.
	lost bool
	// rebuild is called when raft is caught in the snapshot loop (trap 5), before Fatal.
	rebuild func() error
}

// Group is one Raft group around one state machine. It brings commands into the log from any node
// (it is a server.Proposer) and says when this node may answer reads (it is a server.Reader). Its
// methods may be called from any goroutine.
type Group struct {
	parts
	segments  Segments // nil without a journal; set before restored is closed
	keys      *keyTier // nil where no key leaves memory; set before restored is closed
	restored  chan struct{}
	running   chan struct{} // closed when raft runs
	log       *slog.Logger
	raft      *raft.Raft
	transport *transport
	lease     *lease
	adapter   *fsm
	store     *watchedLog

	local   *queue // entries, while this node leads
	remote  *queue // frames for the leader, while another does
	stamp   int64  // of the newest entry submitted; guarded by local's lock
	flights chan flight
	settled chan struct{} // closed when nobody reads flights any more
	tickets ticketPool
	waiting waitingRoom // for calls that wait for a leader

	route     atomic.Pointer[route]
	routeLock sync.Mutex
	tuning    sync.Mutex  // one change of raft's settings at a time
	retired   atomic.Bool // this node is about to stop: it is not to be elected
	voterRoom voterRoom
	arrivals  arrivals // of frames; guarded by routeLock
	sequence  atomic.Uint64
	committed atomic.Pointer[[]raft.ServerID]
	// configured is the index of the newest configuration that was applied, 0 for none since the
	// process began.
	configured atomic.Uint64
	departed   departed
	index      readIndex
	*asker
	word     newestWord
	doorbell chan struct{}
	hollows  int // see hollow; of the goroutine that looks at requests
	opened   instant
	// contact is a moment such that this node's memory holds all that was acknowledged before it;
	// nil as long as there was none.
	contact atomic.Pointer[instant]
	led     atomic.Bool // raft says this node leads (maybe not ready yet)

	batches, records atomic.Uint64
	snapshotAt       atomic.Int64 // unix milliseconds
	content          atomic.Pointer[content]

	closing chan struct{}
	// changing is one token, for who looks at the configuration to change it, or hands over.
	changing chan struct{}
	// carriedOut is the newest entry of the log that the machine was given since this start.
	carriedOut atomic.Uint64
	// applying is the entry that the machine was last given: reads may see what it has done
	// already.
	applying atomic.Uint64
	closed   sync.Once
	halted   atomic.Pointer[error]
	wg       sync.WaitGroup
	ctx      context.Context
	cancel   context.CancelFunc
	closeErr error
}

// route says where proposals and reads go. It is replaced as a whole.
type route struct {
	leader string
	// ready: this node leads, in this term, and has applied everything of earlier terms.
	ready   bool
	term    uint64
	changed chan struct{} // closed when this route is no longer the newest
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

func openGroup(p parts) (*Group, error) {
	c := p.config
	g := &Group{
		parts: p, log: c.Log.With("group", p.name),
		flights: make(chan flight, 64), doorbell: make(chan struct{}, 1),
		settled: make(chan struct{}), closing: make(chan struct{}),
		changing: make(chan struct{}, 1), opened: now(),
		restored: make(chan struct{}), running: make(chan struct{}),
		word: newestWord{heard: make(chan struct{}, 1)},
	}
	g.stable = &watchedVote{p.stable, g}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.route.Store(&route{changed: make(chan struct{})})
	g.lease = newLease(c.HeartbeatTimeout, c.NodeID, g.heldLease)
	g.lease.voters = g.voters
	g.asker = newAsker(g)
	g.transport = newTransport(p.transport, g.lease, c.HeartbeatTimeout, g.standsForElection)
	includes := g.includes
	g.transport.includes.Store(&includes)
	known := g.known
	g.transport.known.Store(&known)
	if g.asked != nil {
		g.transport.settled.Store(&g.asked)
	}
	g.transport.lead(g.lastLeader.Term, g.lastLeader.Leader)
	rival := g.stopAtRival
	g.transport.rival.Store(&rival)
	g.adapter = &fsm{group: g}
	g.transport.applied = g.adapter.progress.index.Load
	g.store = newWatchedLog(g, p.logs)
	g.waiting.share = fair.NewShare(c.QueueBytes)
	g.local = newQueue(queueLimits{
		batchBytes: engine.MaxEntryBytes, bytes: c.QueueBytes,
		eager: eagerEntries, depth: depthEntries,
	}, engine.AppendHeader(nil, g.shard), g.submitEntry)
	frame := g.frameHeader()
	g.remote = newQueue(queueLimits{ // what fits an entry fits a frame
		batchBytes: engine.MaxEntryBytes - engine.HeaderSize + len(frame), bytes: c.QueueBytes,
		eager: eagerFrames, depth: c.ForwardBytes / engine.MaxEntryBytes, apart: frameApart,
	}, frame, g.submitFrame)
	if c.Weight != nil {
		g.local.weight = func(f fair.Flow) int { return c.Weight(g.shard, f) }
		g.remote.weight = g.local.weight
	}
	if err := g.openRaft(); err != nil {
		g.cancel()
		return nil, errors.Join(err, g.transport.Close())
	}
	return g, nil
}

func newAsker(g *Group) *asker {
	return &asker{
		lease: g.lease, timeout: g.config.RPCTimeout, closing: g.closing,
		leader: func() string {
			if leader := g.route.Load().leader; leader != g.config.NodeID {
				return leader
			}
			return ""
		},
		call: func(to string, payload []byte, reply func([]byte, error)) error {
			return g.peers.call(to, callAsk, g.shard, payload, reply)
		},
	}
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
	c.SnapshotInterval = time.Hour // bytes decide, see snapshot.go
	c.SnapshotThreshold = 1 << 62  // never by count
	c.Logger = raftLogger(g.log, g.quiet, g.warnings)
	c.NotifyCh = notify
	return c
}

func (g *Group) openRaft() error {
	notify := make(chan bool) // unbuffered: raft waits until a loss of leadership was taken in
	c := g.raftConfig(notify)
	if err := g.begin(c); err != nil {
		return fmt.Errorf("cluster: begin group %s: %w", g.name, err)
	}
	var err error
	if g.raft, err = g.newRaft(c); err != nil {
		return fmt.Errorf("cluster: open group %s: %w", g.name, err)
	}
	voters := func() []raft.ServerID { return g.voters()[0] }
	g.transport.voters.Store(&voters)
	followed := func() following {
		leader, id := g.raft.LeaderWithID()
		return following{leader, id, g.raft.LastContact()}
	}
	g.transport.followed.Store(&followed)
	close(g.running)
	if g.openSegments != nil {
		if g.segments, err = g.openSegments(); err != nil {
			close(g.closing) // whoever waits for segments gives up
			return errors.Join(err, g.raft.Shutdown().Error())
		}
	}
	if g.openKeys != nil {
		g.keys = g.openKeys(g.segments)
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
	g.wg.Go(g.ring)
	g.wg.Go(g.keepTime)
	g.wg.Go(g.keepSuccession)
	g.wg.Go(g.keepSnapshots)
	g.wg.Go(g.keepSegments)
	g.wg.Go(g.keepKeys)
	g.wg.Go(g.keepDemoting)
	g.wg.Go(g.keepRoom)
	g.wg.Go(func() { g.voterRoom.watch(g) })
	g.wg.Go(g.keepFresh)
	g.wg.Go(g.followWord)
	return nil
}

// voters are the voters of the latest and of the committed configuration.
func (g *Group) voters() [2][]raft.ServerID {
	var both [2][]raft.ServerID
	if g.raft == nil {
		return both
	}
	both[0] = configVoters(g.raft.GetConfiguration().Configuration())
	both[1] = both[0]
	if c := g.committed.Load(); c != nil {
		both[1] = *c
	}
	return both
}

func configVoters(c raft.Configuration) []raft.ServerID {
	var ids []raft.ServerID
	for _, s := range c.Servers {
		if s.Suffrage == raft.Voter {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

const (
	retryEvery = 20 * time.Millisecond
	routeEvery = 100 * time.Millisecond
)

// pause waits; false when ctx ends or the group closes first.
func (g *Group) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-g.closing:
	}
	return false
}

var errHalted = errors.New("cluster: this replica has stopped")

// Machine is the state machine that the group replicates.
func (g *Group) Machine() engine.Machine { return g.machine }

// Events is where listings of the machine's journal come from; nil without a journal.
func (g *Group) Events() journal.Source {
	if g.segments == nil {
		return nil
	}
	return g.segments
}

// Leads reports whether this node leads the group and may propose; the term tells one reign from
// the next.
func (g *Group) Leads() (term uint64, ok bool) {
	r := g.route.Load()
	return r.term, r.ready
}

// RouteChanged is closed at the next change of the leader, of the term, or of readiness.
func (g *Group) RouteChanged() <-chan struct{} { return g.route.Load().changed }

// halt stops this replica: it never answers again. The process is to end.
func (g *Group) halt(err error) {
	if g.halted.CompareAndSwap(nil, &err) {
		g.config.Fatal(err)
	}
}

// closeWait bounds how long Close waits for entries in flight.
const closeWait = 2 * time.Second

// drain takes no more calls and lets what is in flight finish for a moment.
func (g *Group) drain() {
	g.local.stop()
	g.remote.stop()
	end := time.Now().Add(closeWait)
	for time.Now().Before(end) && g.halted.Load() == nil {
		if _, n := g.local.load(); n == 0 {
			return
		}
		if !g.pause(g.ctx, 5*time.Millisecond) {
			return
		}
	}
}

// Close stops the group: it takes no more calls, lets what is in flight finish for a moment, and
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

func (g *Group) setClosedRoute() {
	g.routeLock.Lock()
	defer g.routeLock.Unlock()
	g.setRoute(&route{})
}
