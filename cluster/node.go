// Package cluster replicates state machines: Raft groups with their log, lease, batching,
// forwarding and snapshots, and the node that runs them. See DESIGN.md.
package cluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"tollgate/cluster/rollups"
	"tollgate/wal"
)

// Operations is the operators' handbook, in Markdown: each of its chapters is a page of every node.
//
//go:embed OPERATIONS.md
var Operations string

// Node is one member of a cluster: two Raft groups, one listening port, one folder.
type Node struct {
	*base
	*handshaker
	*peering
	*versions
	*changes
	*health
	saver

	stores [2]*stores
	once   sync.Once
	err    error
}

// Open starts a node: it opens its files and its port, restores its state, and joins the others.
// A node whose folder is empty begins a cluster with Config.Members, or waits to be joined to one
// (Config.Join). It returns before a leader is known. Errors say what is wrong with the
// configuration, the address or the files; damage in the log is wal.ErrDamaged, a folder that a
// cluster knows this node by another of is ErrOtherFolder.
func Open(config Config) (*Node, error) {
	c, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.MkdirAll(c.Dir, 0o700), c.FS.MkdirAll(c.Dir)); err != nil {
		return nil, fmt.Errorf("cluster: data folder: %w", err)
	}
	about, err := openFolder(c.Dir, c.Cluster, c.knownVersion())
	if err != nil {
		return nil, err
	}
	if about.Format == 0 && about.Cluster != "" && !c.Join {
		return nil, notRestored(&c)
	}
	c.Cluster = about.Cluster
	b := &base{
		config: c, folder: about, clocks: newClocks(c.Now, len(c.Members)),
		disk:   &disk{dir: c.Dir, need: c.DiskLowBytes, measure: freeBytes},
		memory: memory{limit: c.MemoryBytes, measure: c.live},
		opened: make(chan struct{}), closing: make(chan struct{}),
	}
	b.warnings = &peerWarnings{name: b.nameOf}
	h := &handshaker{base: b, peerInfo: make(map[string]greeting)}
	p := &peering{
		base: b, handshaker: h, links: make(map[string]*link), bulk: make(chan struct{}, 2),
	}
	v := &versions{base: b, handshaker: h, peering: p}
	n := &Node{
		base: b, handshaker: h, peering: p, versions: v, changes: &changes{base: b, peering: p},
		health: &health{base: b, handshaker: h, peering: p, versions: v},
		saver:  saver{base: b, saving: make(chan struct{}, 1)},
	}
	if err := n.open(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (n *Node) open() error {
	if err := n.disk.look(); err != nil {
		return err
	}
	var (
		fresh bool
		err   error
	)
	if n.identity, fresh, err = openIdentity(n.config.Dir, n.config.NodeID); err != nil {
		return err
	}
	n.begun.Store(n.identity.Begun)
	if !fresh {
		if err = n.openFiles(fresh); err != nil {
			return err
		}
	}
	if n.port, err = openPort(&n.config, n.handshaker); err != nil {
		return err
	}
	n.wg.Go(n.acceptLinks)
	if err = n.askMembers(); err != nil {
		return err
	}
	if fresh { // nothing is written where a cluster must not begin
		if err = n.openFiles(fresh); err != nil {
			return err
		}
	}
	boot := mathrand.Uint64()
	for i, name := range groupNames {
		if n.groups[i], err = openGroup(n.parts(uint16(i), name, boot)); err != nil {
			return err
		}
	}
	if err = n.settleIn(); err != nil {
		return err
	}
	past := n.past.Load()
	n.wg.Go(func() { past.keep(n.closing) })
	n.wg.Go(n.followMembers)
	n.wg.Go(n.watchDisk)
	n.wg.Go(n.keepVersion)
	n.wg.Go(n.watchReadiness)
	return nil
}

// openFiles opens what the folder holds; one without a past it labels first.
func (n *Node) openFiles(fresh bool) error {
	if n.folder.Format == 0 {
		if err := n.folder.write(n.config.Dir); err != nil {
			return err
		}
		n.folder.Format = folderFormat
	}
	if fresh {
		if err := n.identity.save(n.config.Dir); err != nil {
			return err
		}
	}
	for i, name := range groupNames {
		notices := fileNotices{fatal: n.fatal, began: n.disk.began}
		if f := n.config.Events.OnSync; f != nil {
			notices.synced = func(d time.Duration) { f(uint16(i), d) }
		}
		st, err := openStores(&n.config, filepath.Join(n.config.Dir, name), notices)
		if err != nil {
			return err
		}
		n.stores[i] = st
	}
	return n.openPast()
}

// openPast begins one more start of this folder.
func (n *Node) openPast() error {
	var (
		opened [2]mark
		err    error
	)
	for i, st := range n.stores {
		if opened[i], err = st.opened(); err != nil {
			return err
		}
	}
	files := &watchedFS{
		FS: n.config.FS, limit: n.config.StoreTimeout,
		notices: fileNotices{fatal: n.fatal, began: n.disk.began},
	}
	self, _ := n.config.member(n.config.NodeID)
	p, err := openPast(files, n.config.Dir, self, n.identity.Disk, opened, n.config.Log)
	if err != nil {
		return err
	}
	p.fatal, p.gather = n.fatal, n.gather
	p.own = func() (marks [2]mark, leaders [2]termLeader) {
		for i, g := range n.groups {
			marks[i], leaders[i] = g.mark(), g.transport.leaders.now()
		}
		return marks, leaders
	}
	p.members = func() (ids []string) {
		for _, m := range n.roster() {
			ids = append(ids, m.ID)
		}
		return ids
	}
	n.past.Store(p)
	return nil
}

func (n *Node) parts(number uint16, name string, boot uint64) parts {
	c, st, shard := &n.config, n.stores[number], n.shard(number)
	self, _ := c.member(c.NodeID)
	stream := [2]byte{streamRaftBilling, streamRaftWorkspace}[number]
	layer := n.port.layer(stream, self.Raft)
	n.layers = append(n.layers, layer)
	network := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: layer, MaxPool: 3, Timeout: c.RPCTimeout, MaxRPCsInFlight: 1,
		Logger: raftLogger(c.Log.With("group", name), n.closing, n.warnings),
	})
	network.TimeoutScale = timeoutScale
	p := parts{
		config: c, shard: number, name: name, machine: shard.Machine, raw: network,
		storage: storage{
			logs: wal.NewCache(st.log, c.CacheBytes), header: st.log.ReadHeader,
			stable: st.vote, snapshots: st.snapshots,
			promised: &st.vote.published, logSize: st.size, rebuild: st.markRebuild,
			snapshotDamage: st.snapshots.anyDamage,
		},
		asked: n.settled, bootstrap: bootstrap(c.beginners()), peers: n.peering, lost: n.begun.Load(),
		quiet: n.closing, warnings: n.warnings, clocks: n.clocks, boot: boot,
		disk: n.disk, memory: &n.memory,
	}
	p.before, p.lastLeader = n.past.Load().before(number)
	if shard.Machine.Journal() != nil {
		p.openSegments = func() (Segments, error) { return st.openSegments(shard, n.fatal) }
		p.openKeys = func(s Segments) *keyTier { return st.openKeys(shard, s, n.disk) }
		p.openRollups = func(s Segments) *rollups.Store { return st.openRollups(shard, s, n.disk) }
	}
	return p
}

// timeoutScale is how many bytes of a snapshot add one RPCTimeout to its deadline: 5 s for 64 MiB
// is 13 MiB/s, and 80 s for 1 GiB. Raft's default gives 1 GiB more than five hours.
const timeoutScale = 64 << 20

func (n *Node) watchDisk() {
	ticker := time.NewTicker(diskEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := n.disk.look(); err != nil {
				n.config.Log.Warn("free space is unknown", "error", err)
			}
			n.memory.look(n.config.Log)
			if n.disk.low.Load() {
				n.dropSpares()
			}
		case <-n.closing:
			return
		}
	}
}

// dropSpares gives back what the logs keep of files that they no longer need.
func (n *Node) dropSpares() {
	for _, st := range n.stores {
		if err := st.log.DropSpares(); err != nil {
			n.config.Log.Warn("spare files of a log stay", "error", err)
		}
	}
}

// Close stops the node: calls that wait are answered, the groups stop, the files are closed. It
// takes a few seconds at most.
func (n *Node) Close() error {
	n.once.Do(func() {
		var errs []error
		for _, g := range n.groups {
			if g != nil {
				g.drain()
			}
		}
		close(n.closing)
		for _, l := range n.allLinks() {
			l.Close()
		}
		for _, l := range n.layers {
			errs = append(errs, l.Close())
		}
		if n.port != nil {
			errs = append(errs, n.port.Close())
		}
		for _, g := range n.groups {
			if g != nil {
				errs = append(errs, g.Close())
			}
		}
		n.wg.Wait()
		for _, s := range n.stores {
			if s != nil {
				errs = append(errs, s.Close())
			}
		}
		if p := n.past.Load(); p != nil {
			errs = append(errs, p.close())
		}
		n.err = errors.Join(errs...)
	})
	return n.err
}

// Retire gives away the leadership of every group that this node leads, before it stops. It tries
// one voter after the other, a few times at most, and keeps this node from being elected again.
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

// RefusesFolder reports whether a node does not start because of its data folder: an operator must
// act, and another start fails the same way.
func RefusesFolder(err error) bool {
	for _, refusal := range []error{
		ErrDamaged, wal.ErrDamaged, ErrOtherFolder, ErrOtherNode, ErrOtherCluster,
		ErrNewerData, ErrOlderData, ErrHalfRestored, ErrSecondCluster,
		ErrNotRestored, ErrNotEmpty, ErrPutBack,
	} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}
