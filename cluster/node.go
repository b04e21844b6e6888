// Package cluster replicates state machines: Raft groups with their log, lease, batching,
// forwarding and snapshots, and the node that runs them. See DESIGN.md.
package cluster

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
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
	groups [2]*Group
	stores [2]*stores
	layers []*layer
	links  map[string]*link
	bulk   chan struct{} // one token per segment that is being sent
	saving chan struct{} // one token for the backup that is being made

	closing chan struct{}
	wg      sync.WaitGroup
	once    sync.Once
	err     error
}

// Open starts a node: it opens its files and its port, restores its state, and joins the others.
// A node whose folder is empty begins a cluster with Config.Members. It returns before a leader
// is known. Errors say what is wrong with the configuration, the address or the files; damage in
// the log is wal.ErrDamaged.
func Open(config Config) (*Node, error) {
	c, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.MkdirAll(c.Dir, 0o700), c.FS.MkdirAll(c.Dir)); err != nil {
		return nil, fmt.Errorf("cluster: data folder: %w", err)
	}
	about, err := openFolder(c.Dir, c.Cluster)
	if err != nil {
		return nil, err
	}
	c.Cluster = about.Cluster
	n := &Node{
		config: c, clocks: newClocks(c.Now, len(c.Members)), links: make(map[string]*link),
		bulk: make(chan struct{}, 2), closing: make(chan struct{}),
		saving: make(chan struct{}, 1),
		disk:   &disk{dir: c.Dir, need: c.DiskLowBytes, measure: freeBytes},
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
	for i, name := range groupNames {
		st, err := openStores(&n.config, filepath.Join(n.config.Dir, name), n.fatal)
		if err != nil {
			return err
		}
		n.stores[i] = st
	}
	var err error
	if n.port, err = openPort(&n.config); err != nil {
		return err
	}
	for _, m := range n.config.Members {
		if m.ID != n.config.NodeID {
			log := n.config.Log
			n.links[m.ID] = openLink(m, n.port, n.clocks, n.config.RPCTimeout, log)
		}
	}
	boot := rand.Uint64()
	for i, name := range groupNames {
		if n.groups[i], err = openGroup(n.parts(uint16(i), name, boot)); err != nil {
			return err
		}
	}
	n.wg.Go(n.acceptLinks)
	n.wg.Go(n.watchDisk)
	return nil
}

// groupNames are the names of the groups, and of their folders, by shard number.
var groupNames = [2]string{ShardBilling: "billing", ShardWorkspace: "workspace"}

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
		Logger: raftLogger(c.Log.With("group", name), n.closing),
	})
	network.TimeoutScale = timeoutScale
	p := parts{
		config: c, shard: number, name: name, machine: shard.Machine, transport: network,
		logs: wal.NewCache(st.log, c.CacheBytes), stable: st.vote, snapshots: st.snapshots,
		bootstrap: bootstrap(c.Members), peers: n, quiet: n.closing, logSize: st.size, clocks: n.clocks,
		boot: boot, diskLow: &n.disk.low, rebuild: st.markRebuild, snapshotDamage: st.snapshots.anyDamage,
	}
	if shard.Machine.Journal() != nil {
		p.openSegments = func() (Segments, error) { return st.openSegments(shard, n.fatal) }
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

// Members is the list of nodes that the configuration names.
func (n *Node) Members() []Member { return append([]Member(nil), n.config.Members...) }

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
		answer(binary.LittleEndian.AppendUint64(nil, ms))
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
	case callFrame:
		g.serveFrame(payload, answer)
	case callSegment:
		n.wg.Go(func() { answer(n.segment(g, payload)) })
	default:
		answer(nil)
	}
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
	l := n.links[to]
	if l == nil {
		return errLinkDown
	}
	return l.call(k, shard, payload, reply)
}

// fetchTimeout bounds the fetch of one segment of 8 MiB.
const fetchTimeout = 30 * time.Second

// fetch gets a journal segment from the first other node that has it, over a connection of its
// own, so that nothing waits behind it. The error is segments.ErrDropped when one has dropped it:
// it has applied more of the log than this node, whose own manifest is about to lose the segment.
func (n *Node) fetch(
	ctx context.Context, shard uint16, info journal.SegmentInfo,
) ([]byte, error) {
	err := fmt.Errorf("cluster: no other node has %s", info)
	for _, l := range n.links {
		if cerr := ctx.Err(); cerr != nil {
			return nil, cerr
		}
		data, ferr := n.fetchFrom(l.peer, shard, info)
		if ferr == nil {
			return data, nil
		}
		err = errors.Join(err, ferr)
	}
	return nil, err
}

func (n *Node) fetchFrom(m Member, shard uint16, info journal.SegmentInfo) (_ []byte, err error) {
	conn, err := n.port.dial(m.Raft, streamLink, n.config.RPCTimeout)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := conn.SetDeadline(time.Now().Add(fetchTimeout)); err != nil {
		return nil, err
	}
	w := bufio.NewWriter(conn)
	name := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(info.Part)), info.Number)
	ask := message{callSegment, shard, 1, name}
	if err := errors.Join(writeMessage(w, ask), w.Flush()); err != nil {
		return nil, err
	}
	m2, err := readMessage(bufio.NewReaderSize(conn, 256<<10), maxAnswer)
	if err != nil {
		return nil, err
	}
	switch {
	case len(m2.payload) > 0 && m2.payload[0] == segmentHere:
		return m2.payload[1:], nil
	case len(m2.payload) > 0 && m2.payload[0] == segmentDropped:
		return nil, fmt.Errorf("%w: %s, says %s", segments.ErrDropped, info, m.ID)
	}
	return nil, fmt.Errorf("cluster: %s does not have %s", m.ID, info)
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
		for _, l := range n.links {
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
		n.err = errors.Join(errs...)
	})
	return n.err
}
