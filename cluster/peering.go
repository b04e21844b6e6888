package cluster

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"tollgate/cluster/segments"
	"tollgate/engine/journal"
)

// peering holds this node's port, and a link to each other member.
type peering struct {
	*base
	handshaker *handshaker
	port       *port
	layers     []*layer
	bulk       chan struct{} // one token per segment that is being sent
	linksLock  sync.Mutex
	links      map[string]*link
	// settling is when the groups were open; asked, that the others have answered for this folder.
	settling time.Time
	asked    atomic.Bool
}

var _ peers = (*peering)(nil)

// takeIn follows the list of members: it opens and closes links, and ends the connections of former
// members.
func (n *peering) takeIn() {
	list := n.roster()
	var voters []string
	wanted := make(map[string]peer)
	for _, p := range list {
		if p.voter[ShardBilling] || p.voter[ShardWorkspace] {
			voters = append(voters, p.ID)
		}
		if p.ID != n.config.NodeID {
			wanted[p.ID] = p
		} else if p.disk == n.identity.Disk {
			n.handshaker.noteMemberSince(p.since)
		}
	}
	n.clocks.follow(voters)
	var gone []*link
	n.linksLock.Lock()
	for id, l := range n.links {
		if p, ok := wanted[id]; !ok || p.Raft != l.peer.Raft {
			gone = append(gone, l)
			delete(n.links, id)
		}
	}
	select {
	case <-n.closing:
	default:
		for id, p := range wanted {
			if n.links[id] == nil {
				n.links[id] = n.openLink(p.Member)
			}
		}
	}
	n.linksLock.Unlock()
	for _, l := range gone {
		l.Close()
	}
	n.port.expel(func(stream byte, g greeting) bool { return n.handshaker.refuse(stream, g) != nil })
}

func (n *peering) openLink(peer Member) *link {
	l := &link{
		peer: peer, port: n.port, clocks: n.clocks, timeout: n.config.RPCTimeout,
		log: n.config.Log.With("peer", peer.ID), failed: n.handshaker.judge, back: n.warnings.over,
		promised: n.receiveMarks, hungUp: n.lookForLeaders,
		closing: make(chan struct{}), pending: make(map[uint64]func([]byte, error)),
	}
	l.wg.Go(l.run)
	return l
}

// linkTo is the link to a member; nil when there is none.
func (n *peering) linkTo(id string) *link {
	n.linksLock.Lock()
	defer n.linksLock.Unlock()
	return n.links[id]
}

func (n *peering) allLinks() []*link {
	n.linksLock.Lock()
	defer n.linksLock.Unlock()
	var list []*link
	for _, l := range n.links {
		list = append(list, l)
	}
	return list
}

// followMembers updates what depends on the list of members.
func (n *peering) followMembers() {
	for n.Billing().pause(n.Billing().ctx, routeEvery) {
		n.takeIn()
		if err := n.noteBeginning(); err != nil {
			n.fatal(err)
			return
		}
		for _, g := range n.groups {
			n.register(g)
		}
	}
}

// noteBeginning records that this folder has a past, as soon as it has one.
func (n *peering) noteBeginning() error {
	for _, g := range n.groups {
		if n.begun.Load() || len(g.servers().Servers) == 0 {
			return nil
		}
	}
	noted := n.identity
	noted.Begun = true
	if err := noted.save(n.config.Dir); err != nil {
		return err
	}
	n.begun.Store(true)
	return nil
}

// register writes into the configuration, where this node leads, which folder each member has, and
// where its other listeners are.
func (n *peering) register(g *Group) {
	if _, leads := g.Leads(); !leads {
		return
	}
	for _, s := range g.servers().Servers {
		p := peerOf(s, int(g.shard))
		met, ok := n.handshaker.met(p.ID)
		if p.disk != "" || !ok {
			continue
		}
		select {
		case g.changing <- struct{}{}:
		default:
			return // an operator's change: later
		}
		p.disk, p.HTTP, p.Ops = met.Disk, met.HTTP, met.Ops
		// No caller waits for it: the next round finds it done, or tries again.
		here, err := g.beginChange()
		if err == nil {
			_, err = g.readdress(s, p.address(g.shard), here.index)
		}
		if err != nil {
			g.log.Debug("cannot note a member's folder yet", "member", p.ID, "error", err)
		}
		<-g.changing
		return
	}
}

// settleWithin is how long a start waits for members that do not answer. Dialling takes a second.
const settleWithin = 2 * time.Second

// settled reports whether this node may vote, stand, and acknowledge: each other member has
// answered, or could not be reached. A member that knows this folder to be an older copy says so in
// its answer.

func (n *peering) settled() bool {
	if !n.isOpen() {
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

// settleIn connects to the members, now that the groups know them.
func (n *peering) settleIn() error {
	n.settling = time.Now()
	close(n.opened)
	n.takeIn()
	return n.noteBeginning()
}

// Addr is the address that the node listens on for other nodes.
func (n *peering) Addr() net.Addr { return n.port.Addr() }

// acceptLinks answers the other nodes.
func (n *peering) acceptLinks() {
	l := n.port.layer(streamLink, "")
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		n.wg.Go(func() { serveLink(conn, n.config.RPCTimeout, n.config.Log, n.serve) })
	}
}

// serve answers a call of another node.
func (n *peering) serve(k callKind, shard uint16, payload []byte, answer func([]byte)) {
	if k == callClock {
		ms := uint64(n.config.Now().UnixMilli())
		answer(n.appendMarks(binary.LittleEndian.AppendUint64(nil, ms)))
		return
	}
	if !n.isOpen() {
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
	case callTurn:
		answer(g.progress.turnNow())
	default:
		answer(nil)
	}
}

// appendMarks adds what this node has promised by now: the number of its start, as 16 hex digits,
// and the marks of its groups.
func (n *peering) appendMarks(answer []byte) []byte {
	if !n.isOpen() {
		return answer
	}
	answer = append(answer, n.past.Load().claimed.Starts.newest()...)
	for _, g := range n.groups {
		answer = g.mark().append(answer)
	}
	return answer
}

// receiveMarks records what a member has promised so far.
func (n *peering) receiveMarks(from string, said []byte) {
	p := n.past.Load()
	if p == nil || len(said) != 2*startBytes+2*markBytes {
		return
	}
	start, said := string(said[:2*startBytes]), said[2*startBytes:]
	p.receive(from, start, [2]mark{parseMark(said), parseMark(said[markBytes:])})
}

// The answer to callSegment begins with one of these.
const (
	segmentAbsent  = 0
	segmentHere    = 1 // its bytes follow
	segmentDropped = 2
)

// segment is the answer to callSegment, which has the segment's part and number.
func (n *peering) segment(g *Group, payload []byte) []byte {
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
func (n *peering) call(
	to string, k callKind, shard uint16, payload []byte, reply func([]byte, error),
) error {
	l := n.linkTo(to)
	if l == nil {
		return errLinkDown
	}
	return l.call(k, shard, payload, reply)
}

// gone reports whether a member has hung up, and takes no new connection; see peers.
func (n *peering) gone(id string) bool {
	l := n.linkTo(id)
	return l != nil && l.gone.Load()
}

// lookForLeaders notifies the groups that a member is gone.
func (n *peering) lookForLeaders() {
	if !n.isOpen() {
		return
	}
	for _, g := range n.groups {
		g.look()
	}
}

// askMembers asks the other members, before a node with an empty folder begins a cluster, whether
// they know this one by another folder, or are of a cluster without it. A member that has not
// started yet does not answer, which is how every cluster begins.
func (n *peering) askMembers() error {
	if n.begun.Load() {
		return nil
	}
	answers := make(chan error)
	asked := 0
	for _, m := range n.config.beginners() {
		if m.ID == n.config.NodeID {
			continue
		}
		asked++
		go func() {
			conn, err := n.port.dial(m.Raft, streamLink, n.config.RPCTimeout)
			if err == nil {
				err = conn.Close()
			}
			answers <- err
		}()
	}
	var known error
	for range asked {
		err := <-answers
		foreign := (*foreignError)(nil)
		switch {
		case errors.Is(err, ErrOtherFolder):
			known = err
		case known != nil:
		case errors.Is(err, errNotMember):
			known = fmt.Errorf("%w: %w; nothing was changed; start it with `join: true` in place of "+
				"`members`, and run `tollgate cluster join` on a node of the cluster",
				ErrSecondCluster, err)
		case errors.As(err, &foreign) && n.folder.Cluster == "":
			known = n.handshaker.secondCluster(foreign)
		}
	}
	return known
}

// fetchTimeout bounds the fetch of one segment of 8 MiB.
const fetchTimeout = 30 * time.Second

// fetch gets a journal segment from the first other node that has it, over a separate connection,
// so that nothing waits behind it. The error is segments.ErrDropped when one has dropped it:
// it has applied more of the log than this node, whose own manifest is about to lose the segment.
func (n *peering) fetch(
	ctx context.Context, shard uint16, info journal.SegmentInfo,
) ([]byte, error) {
	err := fmt.Errorf("cluster: no other node has %s", info)
	for _, l := range n.allLinks() {
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

func (n *peering) fetchFrom(
	m Member, shard uint16, info journal.SegmentInfo,
) (_ []byte, err error) {
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
