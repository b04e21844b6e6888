package cluster

import (
	"fmt"

	"github.com/hashicorp/raft"
)

// termKey is the name under which raft stores its term.
var termKey = []byte("CurrentTerm")

// firstTerm is the term in which the first members are written, before any election.
const firstTerm = 1

// begin gives an empty group its first members, and looks at what one with a past has stored.
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
		return fmt.Errorf("%w: the data folder has none of its data, which it had before: nothing was "+
			"changed; run `tollgate cluster remove %s` on another node, empty the folder, start "+
			"with `join: true`, and run `tollgate cluster join`", ErrDamaged, g.config.NodeID)
	case len(g.bootstrap.Servers) == 0:
		return nil // waits to be joined
	case g.config.Cluster != "":
		return notRestored(g.config)
	}
	return raft.BootstrapCluster(c, g.store, g.stable, g.snapshots, g.transport, g.bootstrap)
}

// begun reports whether what is stored is a past to go on from. A log without a term is an error:
// the file with this node's vote is gone, and it might vote twice.
//
// It is false, and takes the term back, where a first start was interrupted between the term and
// the members: raft would call that a past, and wait forever for members that nobody has. Term 1
// is that of the beginning alone, elections begin at 2; so nothing was promised in it.
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

// newRaft starts raft, which panics when an entry cannot be read or the term not be written.
func (g *Group) newRaft(c *raft.Config) (r *raft.Raft, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("raft does not start: %v", p)
		}
	}()
	return raft.NewRaft(c, g.adapter, g.store, g.stable, g.snapshots, g.transport)
}
