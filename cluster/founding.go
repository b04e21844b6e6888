package cluster

import (
	"errors"
	"fmt"

	"tollgate/wal"
)

// ErrSecondCluster means that a node with an empty folder would begin a second cluster: a node of
// another cluster, or one that does not have this node as a member, answers at an address of
// Config.Members.
var ErrSecondCluster = errors.New(
	"cluster: there is a cluster already, and this node would begin a second one")

// ErrNotRestored means that a cluster with an identity cannot begin with an empty folder: such a
// cluster begins with a restore.
var ErrNotRestored = errors.New("cluster: the data folder is empty, and the configuration names " +
	"the identity of a restored cluster (cluster:)")

// strangerError reports whether a node of another cluster answers at an address.
type strangerError struct{ address, node, cluster string }

func (e *strangerError) Error() string {
	whose := "no identity"
	if e.cluster != "" {
		whose = "cluster " + e.cluster
	}
	return fmt.Sprintf("%s: node %s at %s, of %s", errStranger, e.node, e.address, whose)
}

func (e *strangerError) Is(target error) bool { return target == errStranger }

// askAround asks the other members, before a node with an empty folder begins a cluster, whether
// they know this one by another folder, or are of a cluster without it. A member that has not
// started yet does not answer, which is how every cluster begins.
func (n *Node) askAround() error {
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
		stranger := (*strangerError)(nil)
		switch {
		case errors.Is(err, ErrOtherFolder):
			known = err
		case known != nil:
		case errors.Is(err, errOutsider):
			known = fmt.Errorf("%w: %w; nothing was changed; start it with `join: true` in place of "+
				"`members`, and run `tollgate cluster join` on a node of the cluster",
				ErrSecondCluster, err)
		case errors.As(err, &stranger) && n.folder.Cluster == "":
			known = n.besideOf(stranger)
		}
	}
	return known
}

// besideOf is the error of a node that began a cluster, or was about to, while another one lives at
// one of its members' addresses.
func (n *Node) besideOf(other *strangerError) error {
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

// beganBeside reports whether this node's cluster began beside another: the member at that address
// is of the other cluster, and was never met in this one. A member that was met and is a stranger
// now was restored, while this cluster goes on: that is for an operator to see, and no reason to
// end.
func (n *Node) beganBeside(other *strangerError) bool {
	p, ok := n.at(other.address)
	return ok && p.disk == "" && n.folder.Cluster == "" && !n.config.Join
}

// notRestored is the error of a node that is to be of a cluster with an identity, and has none of
// its data. Begun all the same, an empty majority would elect a leader, and take in what it loses
// when the restored nodes come.
func notRestored(c *Config) error {
	return fmt.Errorf("%w: nothing was changed; restore this node with `tollgate restore --cluster "+
		"%s`, or start it with `join: true` and run `tollgate cluster join %s` on a node of that "+
		"cluster", ErrNotRestored, c.Cluster, c.NodeID)
}

// RefusesFolder reports whether a node does not start because of what its data folder holds, or
// lacks: an operator has to act first, and another start finds the same.
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

// judge takes in what came of reaching another member. One that knows this node by another folder
// ends the process: it could vote a second time, and has not what it acknowledged. So does one of
// another cluster, beside which this node's began, and one that knows this folder to be an older
// copy.
func (n *Node) judge(err error) {
	stranger, older := (*strangerError)(nil), (*putBackError)(nil)
	switch {
	case errors.As(err, &stranger):
		if n.beganBeside(stranger) {
			n.strange.Do(func() { n.fatal(n.besideOf(stranger)) })
		}
	case errors.As(err, &older):
		n.strange.Do(func() { n.fatal(n.past.Load().refuse(older.lacks, older.who)) })
	case errors.Is(err, ErrOtherFolder):
		n.strange.Do(func() { n.fatal(err) })
	case errors.Is(err, errOutsider):
		n.outsider.Store(&err)
	case err == nil:
		n.outsider.Store(nil)
	}
}
