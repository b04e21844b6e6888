package cluster

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// handshaker decides which nodes may connect, and keeps what they said about themselves.
type handshaker struct {
	*base
	infoLock  sync.Mutex
	peerInfo  map[string]greeting // by id: what a member said when it was last reached
	since     [2]uint64           // log indexes at which this folder joined, as far as is known
	ended     sync.Once
	notMember atomic.Pointer[error] // of the node that refuses this one as not a member
}

// ownInfo is this node's greeting.
func (n *handshaker) ownInfo() greeting {
	self, _ := n.config.member(n.config.NodeID)
	g := greeting{
		Node: n.config.NodeID, Disk: n.identity.Disk, HTTP: self.HTTP, Ops: self.Ops,
		Version: n.config.knownVersion(), Since: n.memberSince(),
	}
	if p := n.past.Load(); p != nil {
		g.Claim = &p.claimed
	}
	return g
}

func (n *handshaker) introduce(address string) greeting {
	g := n.ownInfo()
	if p, ok := n.at(address); ok {
		g.WantNode, g.WantDisk, g.WantSince = p.ID, p.disk, p.since
	}
	return g
}

func (n *handshaker) answer(stream byte, from greeting) greeting {
	if n.begun.Load() {
		select {
		case <-n.opened: // the members are known
		case <-n.closing:
		}
	}
	if from.WantDisk == n.identity.Disk {
		n.noteMemberSince(from.WantSince)
	}
	g := n.ownInfo()
	g.Waiting = n.waiting()
	if why := n.refuse(stream, from); why != nil {
		g.Refused, g.Why = why.code, why.text
	} else if lacks, err := n.admit(from); err != nil || lacks != "" {
		g.Refused, g.Why = refusedPast, lacks
		if err != nil {
			g.Refused, g.Why = refusedMistaken, err.Error()
		}
	}
	return g
}

// admit checks a member's claim about its folder's past and notes it. If the folder is an older
// copy, admit returns what it lacks. An error means that the claim could not be noted; it ends this
// process.
func (n *handshaker) admit(from greeting) (lacks string, err error) {
	past := n.past.Load()
	p, ok := n.member(from.Node)
	if past == nil || from.Claim == nil || !ok || p.disk != "" && p.disk != from.Disk ||
		from.Node == n.config.NodeID {
		return "", nil
	}
	n.gather()
	if lacks, err = past.admit(from.Node, from.Disk, *from.Claim); err != nil {
		n.fatal(err)
	}
	return lacks, err
}

// refuse says why this node refuses another; nil if it does not. An unknown node may use raft's
// streams if it knows this node's folder: then this node's list is older. Otherwise it has a log of
// its own, which would replace this node's.
func (n *handshaker) refuse(stream byte, from greeting) *reason {
	if from.WantNode != "" && from.WantNode != n.config.NodeID {
		return &reason{refusedMistaken, fmt.Sprintf("this is node %s, not %s",
			n.config.NodeID, from.WantNode)}
	}
	if from.WantDisk != "" && from.WantDisk != n.identity.Disk {
		return &reason{refusedMistaken, fmt.Sprintf("node %s has another data folder than the "+
			"cluster knows: it was emptied or replaced", n.config.NodeID)}
	}
	list := n.roster()
	newer := from.WantDisk == n.identity.Disk
	if stream != streamLink && !newer && n.waiting() {
		return &reason{refusedMistaken, fmt.Sprintf("node %s waits to be joined, and takes the log "+
			"only of a leader that knows its folder", n.config.NodeID)}
	}
	for _, p := range list {
		if p.ID == n.config.NodeID && p.disk == "" {
			newer = true // no leader has noted this folder yet, so no node can know it
		}
		if p.ID != from.Node {
			continue
		}
		if p.disk != "" && p.disk != from.Disk {
			if from.WantDisk == n.identity.Disk && later(from.Since, p.since) {
				return behind(stream, from)
			}
			return &reason{refusedFolder, fmt.Sprintf("the cluster knows node %s by the data "+
				"folder %s, not %s", p.ID, p.disk, from.Disk)}
		}
		return nil
	}
	if len(list) > 0 && (stream == streamLink || !newer) {
		return &reason{refusedNotMember, "node " + from.Node + " is not a member"}
	}
	return nil
}

// noteMemberSince notes the indexes at which this folder joined, from another node's list.
func (n *handshaker) noteMemberSince(since [2]uint64) {
	n.infoLock.Lock()
	defer n.infoLock.Unlock()
	for i, index := range since {
		n.since[i] = max(n.since[i], index)
	}
}

// memberSince is the indexes at which this folder joined, as far as is known.
func (n *handshaker) memberSince() [2]uint64 {
	n.infoLock.Lock()
	defer n.infoLock.Unlock()
	return n.since
}

func (n *handshaker) meet(address string, from greeting) error {
	switch from.Refused {
	case "":
	case refusedFolder:
		return fmt.Errorf("%w (%s): nothing was changed; if the folder was lost, run `tollgate "+
			"cluster remove %s` on another node, empty the folder, start with `join: true`, and "+
			"run `tollgate cluster join`", ErrOtherFolder, from.Why, n.config.NodeID)
	case refusedNotMember:
		return fmt.Errorf("%w, says %s", errNotMember, from.Node)
	case refusedLater:
		return fmt.Errorf("%w: %s: %s", errLater, from.Node, from.Why)
	case refusedPast:
		return &putBackError{who: from.Node, lacks: from.Why}
	case refusedForeign:
		return &foreignError{address: address, node: from.Node, cluster: from.Cluster}
	default:
		return fmt.Errorf("%w: at %s: %s", errMistaken, address, from.Why)
	}
	if p, ok := n.at(address); ok {
		if p.ID != from.Node || p.disk != "" && p.disk != from.Disk {
			return fmt.Errorf("%w: at %s: node %s, folder %s", errMistaken, address, from.Node,
				from.Disk)
		}
	}
	if lacks, err := n.admit(from); err != nil {
		return err
	} else if lacks != "" {
		return fmt.Errorf("%w: at %s: the folder of node %s is an older copy, and lacks %s",
			errMistaken, address, from.Node, lacks)
	}
	n.infoLock.Lock()
	defer n.infoLock.Unlock()
	n.peerInfo[from.Node] = from
	return nil
}

// met is a member's greeting when this node last reached it; for this node itself, its own.
func (n *handshaker) met(id string) (greeting, bool) {
	if id == n.config.NodeID {
		return n.ownInfo(), true
	}
	n.infoLock.Lock()
	defer n.infoLock.Unlock()
	g, ok := n.peerInfo[id]
	return g, ok
}

// gather notes the promises that messages of other nodes revealed.
func (n *handshaker) gather() {
	if !n.isOpen() {
		return
	}
	for i, g := range n.groups {
		for id, m := range g.transport.overheard.take() {
			n.past.Load().learn(string(id), i, m)
		}
	}
}

// secondCluster is the error of a node that founded a cluster, or was about to, although another
// cluster runs at one of its members' addresses.
func (n *handshaker) secondCluster(other *foreignError) error {
	found := "nothing was changed"
	if n.begun.Load() {
		found = "this folder has begun one; move it away"
	}
	return fmt.Errorf("%w: node %s at %s is of cluster %[4]s; %[5]s; to restore this node from the "+
		"same backup, run `tollgate restore --cluster %[4]s`; to join that cluster, set "+
		"`cluster: %[4]s` and `join: true`, and run `tollgate cluster join %[6]s` on one of its "+
		"nodes; either needs %[7]s to be empty", ErrSecondCluster, other.node, other.address,
		other.cluster, found, n.config.NodeID, n.config.Dir)
}

// beganSecond reports whether this node's cluster is a second one: the member at that address
// belongs to the other cluster and was never met in this one. A member that was met before and is
// foreign now was restored; an operator must look, but this node goes on.
func (n *handshaker) beganSecond(other *foreignError) bool {
	p, ok := n.at(other.address)
	return ok && p.disk == "" && n.folder.Cluster == "" && !n.config.Join
}

// judge handles the result of connecting to a member. The process ends if the member knows this
// node by another folder (this one could vote again, and lacks acknowledged entries), if it belongs
// to an older cluster, or if it knows this folder to be an older copy.
func (n *handshaker) judge(err error) {
	foreign, older := (*foreignError)(nil), (*putBackError)(nil)
	switch {
	case errors.As(err, &foreign):
		if n.beganSecond(foreign) {
			n.ended.Do(func() { n.fatal(n.secondCluster(foreign)) })
		}
	case errors.As(err, &older):
		n.ended.Do(func() { n.fatal(n.past.Load().refuse(older.lacks, older.who)) })
	case errors.Is(err, ErrOtherFolder):
		n.ended.Do(func() { n.fatal(err) })
	case errors.Is(err, errNotMember):
		n.notMember.Store(&err)
	case err == nil:
		n.notMember.Store(nil)
	}
}

// later reports whether a folder joined after another in at least one group, where the other's
// removal is committed.
func later(a, b [2]uint64) bool { return a[0] > b[0] || a[1] > b[1] }

type reason struct {
	code refusal
	text string
}

// behind is the reason for a node that replaced a member of this node's list. It knows this node's
// folder, so its list is a newer state of the same log, which raft may bring here.
func behind(stream byte, from greeting) *reason {
	if stream != streamLink {
		return nil
	}
	return &reason{refusedLater, "node " + from.Node + " was replaced since this node was last " +
		"told of the members"}
}

// ErrSecondCluster means that a node with an empty folder would begin a second cluster: a node of
// another cluster, or one that does not have this node as a member, answers at an address of
// Config.Members.
var ErrSecondCluster = errors.New(
	"cluster: there is a cluster already, and this node would begin a second one")

// foreignError means that a node of another cluster answers at an address.
type foreignError struct{ address, node, cluster string }

func (e *foreignError) Error() string {
	whose := "no identity"
	if e.cluster != "" {
		whose = "cluster " + e.cluster
	}
	return fmt.Sprintf("%s: node %s at %s, of %s", errForeign, e.node, e.address, whose)
}

func (e *foreignError) Is(target error) bool { return target == errForeign }
