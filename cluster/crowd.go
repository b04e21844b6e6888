package cluster

import (
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// voterRoom is what a leader knows of the voters' disks.
type voterRoom struct {
	// cornered: its own is nearly full, and it has found nobody to hand leadership to.
	cornered atomic.Bool
	// crowded: so many are nearly full that a majority has to store what it takes on one of them.
	crowded atomic.Bool
	// full are the other voters whose disks are nearly full; nil while this node does not lead.
	full atomic.Pointer[map[raft.ServerID]bool]
}

// has is false for a voter that has said that its disk is nearly full.
func (r *voterRoom) has(id raft.ServerID) bool {
	full := r.full.Load()
	return full == nil || !(*full)[id]
}

// forget is for a node that does not lead any more.
func (r *voterRoom) forget() {
	r.crowded.Store(false)
	r.full.Store(nil)
}
