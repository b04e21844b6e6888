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
