// Package cluster replicates state machines: Raft groups with their log, lease, batching,
// forwarding and snapshots, and the node that runs them. See DESIGN.md.
package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"tollgate/cluster/segments"
	"tollgate/engine/journal"
	"tollgate/wal"
)

// Node is one member of a cluster: two Raft groups, one listening port, one folder.
type Node struct {
	config Config
	port   *port
	clocks *clocks
	disk   *disk
	memory memory
	folder folder
	// warnings are what raft says of the other nodes.
	warnings *peerWarnings

	readiness readiness

	groups [2]*Group
	stores [2]*stores
	layers []*layer
	bulk   chan struct{} // one token per segment that is being sent
	saving chan struct{} // one token for the backup that is being made

	past     atomic.Pointer[past] // nil as long as the folder holds nothing
	identity identity
	begun    atomic.Bool // the folder has a past
	// opened is closed when the groups are open, and with them the list of members.
	opened chan struct{}
	// settling is when that was, and asked that the others have had their say on this folder.
	settling  time.Time
	asked     atomic.Bool
	linksLock sync.Mutex
	links     map[string]*link
	cardsLock sync.Mutex
	cards     map[string]greeting // by id: what a member said when it was last reached
	since     [2]uint64           // since when this folder is a member, as far as is known
	strange   sync.Once
	outsider  atomic.Pointer[error] // who says that this node is not a member
	changing  sync.Mutex            // one change of the members at a time
	unheard   string                // under changing: whose removal may have been done

	closing chan struct{}
	wg      sync.WaitGroup
	once    sync.Once
	err     error
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
	n := &Node{
		config: c, folder: about,
		clocks: newClocks(c.Now, len(c.Members)), links: make(map[string]*link),
		bulk: make(chan struct{}, 2), closing: make(chan struct{}),
		saving: make(chan struct{}, 1),
		opened: make(chan struct{}), cards: make(map[string]greeting),
		disk:   &disk{dir: c.Dir, need: c.DiskLowBytes, measure: freeBytes},
		memory: memory{most: c.MemoryBytes, measure: c.live},
	}
	n.warnings = &peerWarnings{name: n.nameOf}
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
	if n.port, err = openPort(&n.config, n); err != nil {
		return err
	}
	n.wg.Go(n.acceptLinks)
	if err = n.askAround(); err != nil {
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
		told := fileNotices{fatal: n.fatal, began: n.disk.began}
		if f := n.config.Events.OnSync; f != nil {
			told.synced = func(d time.Duration) { f(uint16(i), d) }
		}
		st, err := openStores(&n.config, filepath.Join(n.config.Dir, name), told)
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
		told: fileNotices{fatal: n.fatal, began: n.disk.began},
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

// gather notes what the messages of the others have said of their promises.
func (n *Node) gather() {
	select {
	case <-n.opened:
	default:
		return
	}
	for i, g := range n.groups {
		for id, m := range g.transport.overheard.take() {
			n.past.Load().learn(string(id), i, m)
		}
	}
}

// settleWithin is how long a start waits for members that do not answer. Dialling takes a second.
const settleWithin = 2 * time.Second

// settled reports whether this node may vote, stand, and acknowledge: each other member has
// answered, or could not be reached, so that whoever knows this folder to be an older copy had its
// say.
func (n *Node) settled() bool {
	select {
	case <-n.opened:
	default:
		return false
	}
	if n.asked.Load() {
		return true
	}
	links := n.allLinks()
	for _, l := range links {
		if !l.tried.Load() && time.Since(n.settling) < settleWithin {
			return false
		}
	}
	n.asked.Store(true)
	return true
}

// groupNames are the names of the groups, and of their folders, by shard number.
var groupNames = [2]string{ShardBilling: "billing", ShardWorkspace: "workspace"}

// settleIn takes in the members, now that the groups know them.
func (n *Node) settleIn() error {
	n.settling = time.Now()
	close(n.opened)
	n.takeIn()
	return n.noteBeginning()
}

func (n *Node) shard(number uint16) Shard {
	if number == ShardBilling {
		return n.config.Billing
	}
	return n.config.Workspace
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
			logs: wal.NewCache(st.log, c.CacheBytes), stable: st.vote, snapshots: st.snapshots,
			promised: &st.vote.told, logSize: st.size, rebuild: st.markRebuild,
			snapshotDamage: st.snapshots.anyDamage,
		},
		asked: n.settled, bootstrap: bootstrap(c.beginners()), peers: n, lost: n.begun.Load(),
		quiet: n.closing, warnings: n.warnings, clocks: n.clocks, boot: boot,
		disk: n.disk, memory: &n.memory,
	}
	p.before, p.lastLeader = n.past.Load().before(number)
	if shard.Machine.Journal() != nil {
		p.openSegments = func() (Segments, error) { return st.openSegments(shard, n.fatal) }
		p.openKeys = func(s Segments) *keyTier { return st.openKeys(shard, s, n.disk) }
	}
	return p
}

// timeoutScale is how many bytes of a snapshot add one RPCTimeout to its deadline: 5 s for 64 MiB
// is 13 MiB/s, and 80 s for 1 GiB. Raft's default gives 1 GiB more than five hours.
const timeoutScale = 64 << 20

func bootstrap(members []Member) raft.Configuration {
	var c raft.Configuration
	for _, m := range members {
		c.Servers = append(c.Servers, raft.Server{
			Suffrage: raft.Voter, ID: raft.ServerID(m.ID), Address: raft.ServerAddress(m.Raft),
		})
	}
	return c
}

// fatal ends the process on behalf of a store.
func (n *Node) fatal(err error) { n.config.Fatal(err) }

// Billing is the group of the billing state machine.
func (n *Node) Billing() *Group { return n.groups[ShardBilling] }

// Workspace is the group of the workspace state machine.
func (n *Node) Workspace() *Group { return n.groups[ShardWorkspace] }

// Addr is the address that the node listens on for other nodes.
func (n *Node) Addr() net.Addr { return n.port.Addr() }

// acceptLinks answers the other nodes.
func (n *Node) acceptLinks() {
	l := n.port.layer(streamLink, "")
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		n.wg.Go(func() { serveLink(conn, n.config.RPCTimeout, n.config.Log, n.serve) })
	}
}

// serve is a callee.
func (n *Node) serve(k callKind, shard uint16, payload []byte, answer func([]byte)) {
	if k == callClock {
		ms := uint64(n.config.Now().UnixMilli())
		answer(n.appendMarks(binary.LittleEndian.AppendUint64(nil, ms)))
		return
	}
	select {
	case <-n.opened:
	default:
		answer(nil)
		return
	}
	if int(shard) >= len(n.groups) {
		answer(nil)
		return
	}
	g := n.groups[shard]
	switch k {
	case callReadIndex:
		g.serveReadIndex(payload, answer)
	case callAsk:
		answer(g.asker.serve(payload))
	case callFrame:
		g.serveFrame(payload, answer)
	case callSegment:
		n.wg.Go(func() { answer(n.segment(g, payload)) })
	case callChange:
		n.wg.Go(func() { answer(g.serveChange(payload)) })
	case callProgress:
		answer(g.progressNow())
	default:
		answer(nil)
	}
}

// appendMarks adds what this node has promised by now: the number of its start, as 16 hex digits,
// and the marks of its groups.
func (n *Node) appendMarks(answer []byte) []byte {
	select {
	case <-n.opened:
	default:
		return answer
	}
	answer = append(answer, n.past.Load().claimed.Starts.newest()...)
	for _, g := range n.groups {
		answer = g.mark().append(answer)
	}
	return answer
}

// hearMarks takes in what a member has promised by now.
func (n *Node) hearMarks(from string, said []byte) {
	p := n.past.Load()
	if p == nil || len(said) != 2*startBytes+2*markBytes {
		return
	}
	start, said := string(said[:2*startBytes]), said[2*startBytes:]
	p.hear(from, start, [2]mark{parseMark(said), parseMark(said[markBytes:])})
}

// The answer to callSegment begins with one of these.
const (
	segmentAbsent  = 0
	segmentHere    = 1 // its bytes follow
	segmentDropped = 2
)

// segment is the answer to callSegment, which has the segment's part and number.
func (n *Node) segment(g *Group, payload []byte) []byte {
	part, head := binary.Uvarint(payload)
	number, size := binary.Uvarint(payload[max(head, 0):])
	if head <= 0 || size <= 0 || part > math.MaxUint8 || g.segments == nil {
		return []byte{segmentAbsent}
	}
	select {
	case n.bulk <- struct{}{}:
		defer func() { <-n.bulk }()
	case <-n.closing:
		return []byte{segmentAbsent}
	}
	switch data, err := g.segments.Read(journal.Part(part), number); {
	case err == nil:
		return append([]byte{segmentHere}, data...)
	case errors.Is(err, segments.ErrDropped):
		return []byte{segmentDropped}
	default:
		return []byte{segmentAbsent}
	}
}

// call sends a request over the link to a node; see peers.
func (n *Node) call(
	to string, k callKind, shard uint16, payload []byte, reply func([]byte, error),
) error {
	l := n.linkTo(to)
	if l == nil {
		return errLinkDown
	}
	return l.call(k, shard, payload, reply)
}

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
		case <-n.closing:
			return
		}
	}
}

// Close stops the node: calls that wait are answered, the groups stop, the files are closed. It
// takes a few seconds at the most.
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
