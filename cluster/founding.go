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
