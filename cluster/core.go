package cluster

import (
	"context"
	"errors"
	"hash/crc32"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"tollgate/cluster/rollups"
	"tollgate/cluster/segments"
	"tollgate/engine"
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
	Lend(part journal.Part, number uint64, use func(data []byte) error) error
	OnWritten(f func(info journal.SegmentInfo, data []byte))
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
	// gone reports whether a peer has hung up, and takes no new connection.
	gone(peer string) bool
	// fetch gets a journal segment from any peer that has it; segments.ErrDropped when one has
	// dropped it.
	fetch(ctx context.Context, shard uint16, info journal.SegmentInfo) ([]byte, error)
}

// parts are what a Group is made of. A node opens them on disk and TCP, tests in memory.
type parts struct {
	storage
	config  *Config // with defaults
	shard   uint16
	name    string
	machine engine.Machine
	// openSegments opens the journal's segments, once the journal is restored; nil without one.
	openSegments func() (Segments, error)
	// openKeys opens the files of idempotency keys, once the segments are open; nil without them.
	openKeys func(Segments) *keyTier
	// openRollups opens the hourly counts, once the segments are open; nil without them.
	openRollups func(Segments) *rollups.Store
	raw         rawTransport
	bootstrap   raft.Configuration
	peers       peers
	quiet       <-chan struct{} // closed when the node begins to stop
	warnings    *peerWarnings
	clocks      *clocks
	boot        uint64
	disk        *disk
	memory      *memory
	// asked reports whether the other members have checked this folder; nil if there are none.
	asked func() bool
	// before is the commit index that this node knew before this start.
	before uint64
	// lastLeader is the newest leader that this node followed before this start.
	lastLeader termLeader
	// lost: this group has stored data before, so an empty folder has lost it.
	lost bool
}

// storage is what a group keeps on disk, or in memory.
type storage struct {
	logs raft.LogStore
	// header reads an entry without its data; nil if the log is in memory.
	header    func(index uint64, l *raft.Log) error
	stable    raft.StableStore
	snapshots raft.SnapshotStore
	// logSize is the log on disk in bytes and its fsyncs so far; nil when it is in memory.
	logSize func() (bytes int64, syncs uint64)
	// snapshotDamage is the damage found in snapshots; nil if they are in memory.
	snapshotDamage func() error
	// promised is the stored term and vote.
	promised *atomic.Pointer[mark]
	// rebuild is called before Fatal if raft is in the snapshot loop (trap 5).
	rebuild func() error
}

// core is what all parts of a Group share. All of it but halted is set once, when the group opens.
type core struct {
	parts
	log       *slog.Logger
	raft      *raft.Raft
	transport *transport
	lease     *lease
	store     *watchedLog
	progress  progress
	contact   contact

	running chan struct{} // closed when raft runs
	closing chan struct{}
	halted  atomic.Pointer[error]
	tuning  sync.Mutex // one change of raft's settings at a time
	wg      sync.WaitGroup
	ctx     context.Context
	cancel  context.CancelFunc
}

func newCore(p parts) *core {
	c := &core{
		parts: p, log: p.config.Log.With("group", p.name),
		running: make(chan struct{}), closing: make(chan struct{}),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.stable = &watchedVote{p.stable, c}
	c.store = newWatchedLog(c, p.logs)
	c.lease = newLease(p.config.HeartbeatTimeout, p.config.NodeID, c.heldLease)
	return c
}

// contact is a moment: this node's memory holds everything that was acknowledged before it. Nil
// means that there was none.
type contact struct{ atomic.Pointer[instant] }

// note records such a moment.
func (c *contact) note(at instant) {
	for old := c.Load(); old == nil || old.mono < at.mono; old = c.Load() {
		if c.CompareAndSwap(old, &at) {
			return
		}
	}
}

const (
	retryEvery = 20 * time.Millisecond
	routeEvery = 100 * time.Millisecond
)

// pause waits; false when ctx ends or the group closes first.
func (c *core) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-c.closing:
	}
	return false
}

var errHalted = errors.New("cluster: this replica has stopped")

// halt stops this replica for good and ends the process.
func (c *core) halt(err error) {
	if c.halted.CompareAndSwap(nil, &err) {
		c.config.Fatal(err)
	}
}

// end halts this replica and, if the process survives that (tests run many nodes in one), ends the
// calling goroutine of raft, which would panic. Before raft runs, it returns.
func (c *core) end(err error) {
	c.halt(err)
	select {
	case <-c.running:
		<-c.closing
		runtime.Goexit()
	default:
	}
}

// retune changes raft's settings, one change at a time.
func (c *core) retune(
	change func(set func(raft.ReloadableConfig) error, now raft.ReloadableConfig) error,
) error {
	c.tuning.Lock()
	defer c.tuning.Unlock()
	return change(c.raft.ReloadConfig, c.raft.ReloadableConfig())
}

// tenths is n tenths of the heartbeat timeout.
func (c *core) tenths(n int) time.Duration {
	return c.config.HeartbeatTimeout / 10 * time.Duration(n)
}

// request calls another node and waits for the answer.
func (c *core) request(
	ctx context.Context, to string, k callKind, payload []byte,
) ([]byte, error) {
	type reply struct {
		data []byte
		err  error
	}
	replies := make(chan reply, 1)
	err := c.peers.call(to, k, c.shard, payload, func(data []byte, err error) {
		replies <- reply{data, err}
	})
	if err != nil {
		return nil, err
	}
	select {
	case r := <-replies:
		return r.data, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.closing:
		return nil, errHalted
	}
}

// await waits for raft to finish a future, which it may leave unfinished when it shuts down.
func (c *core) await(ctx context.Context, future raft.Future) error {
	done := make(chan error, 1)
	go func() { done <- future.Error() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closing:
		return errHalted
	}
}

// servers is the group's newest configuration.
func (c *core) servers() raft.Configuration { return c.raft.GetConfiguration().Configuration() }

func (c *core) heldLease(held bool) {
	if f := c.config.Events.OnLease; f != nil {
		f(c.shard, held)
	}
}

func (c *core) skips(l *raft.Log) bool { return c.config.skips(c.shard, l) }

// skips reports whether an entry of a group must not be applied.
func (c *Config) skips(shard uint16, l *raft.Log) bool {
	for _, s := range c.Skip {
		if s.Shard == shard && s.Index == l.Index {
			return crc32.Checksum(l.Data, castagnoli) == s.CRC
		}
	}
	return false
}

// newest is the newest entry applied here whose term is known.
func (c *core) newest() place {
	newest := c.progress.at()
	if newest.term > 0 {
		return newest
	}
	if found, err := c.snapshots.List(); err == nil && len(found) > 0 {
		return place{found[0].Index, found[0].Term} // it was restored, and nothing applied since
	}
	return place{}
}

// mark is what this node has promised in the group by now. All of it is on disk, since raft changes
// these values only then.
func (c *core) mark() mark {
	m := *c.promised.Load()
	applied := c.raft.AppliedIndex()
	last, err := c.store.LastIndex()
	var l raft.Log
	switch {
	case err != nil:
		return m
	case last < applied:
		m.Last = applied // of a snapshot, and there is no log behind it
	default:
		if err := c.store.LogStore.GetLog(last, &l); err == nil {
			m.LastTerm = l.Term
		} else if !errors.Is(err, raft.ErrLogNotFound) {
			return m
		}
		m.Last = last
	}
	m.Committed = min(c.raft.CommitIndex(), m.Last)
	return m
}
