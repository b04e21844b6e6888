package cluster

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// base is what all parts of a Node share.
type base struct {
	config   Config
	folder   folder
	identity identity
	begun    atomic.Bool          // the folder has a past
	past     atomic.Pointer[past] // nil as long as the folder holds nothing
	clocks   *clocks
	disk     *disk
	memory   memory
	// warnings are raft's warnings about the other nodes.
	warnings *peerWarnings
	groups   [2]*Group

	// opened is closed when the groups are open, and so the list of members is known.
	opened  chan struct{}
	closing chan struct{}
	wg      sync.WaitGroup
}

// fatal ends the process on behalf of a store.
func (n *base) fatal(err error) { n.config.Fatal(err) }

func (n *base) shard(number uint16) Shard {
	if number == ShardBilling {
		return n.config.Billing
	}
	return n.config.Workspace
}

// Billing is the group of the billing state machine.
func (n *base) Billing() *Group { return n.groups[ShardBilling] }

// Workspace is the group of the workspace state machine.
func (n *base) Workspace() *Group { return n.groups[ShardWorkspace] }

// isOpen reports whether the groups are open.
func (n *base) isOpen() bool {
	select {
	case <-n.opened:
		return true
	default:
		return false
	}
}

// roster is the present list of members; before the groups are open, that of the configuration.
func (n *base) roster() []peer {
	if n.isOpen() {
		return rosterOf(n.groups[0].servers(), n.groups[1].servers())
	}
	c := bootstrap(n.config.beginners())
	return rosterOf(c, c)
}

func (n *base) member(id string) (peer, bool) {
	return n.peerWith(func(p peer) bool { return p.ID == id })
}

// peerWith finds the first member of which is is true.
func (n *base) peerWith(is func(p peer) bool) (peer, bool) {
	list := n.roster()
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i], true
	}
	return peer{}, false
}

// nameOf is the id of the member that raft knows at an address, "" if there is none.
func (n *base) nameOf(at raft.ServerAddress) string {
	address, _, _ := strings.Cut(string(at), "?")
	p, _ := n.at(address)
	return p.ID
}

// Members is the list of nodes, as the cluster knows them.
func (n *base) Members() []Member {
	var list []Member
	for _, p := range n.roster() {
		list = append(list, n.config.describe(p.Member))
	}
	return list
}

// Disk is the identity of this node's data folder: 16 hex digits, drawn when the folder was first
// used, and different for every folder.
func (n *base) Disk() string { return n.identity.Disk }

// at finds the member with an address, as Raft's configuration has it.
func (n *base) at(address string) (peer, bool) {
	return n.peerWith(func(p peer) bool { return p.Raft == address })
}

// waiting reports whether this node belongs to no cluster yet.
func (n *base) waiting() bool { return n.config.Join && !n.begun.Load() && len(n.roster()) == 0 }

// agreed is the newest version that one of the groups has agreed on.
func (n *base) agreed() (version uint32) {
	for _, g := range n.groups {
		agreed, _ := g.machine.Version()
		version = max(version, agreed)
	}
	return version
}

// Now is this node's clock, within 10 s of the median of the voters' clocks, like the stamps of
// entries. Reads use it as the present; without the limit, a node with a wrong clock would answer
// as of another day.
func (n *base) Now() time.Time { return time.UnixMilli(n.clocks.stampMS()) }
