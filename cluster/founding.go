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
