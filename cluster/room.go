package cluster

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// roomLook is how often a leader checks whether its disk has room.
	roomLook = 100 * time.Millisecond
	// roomWait bounds the question for the room of others, and then the hand-over.
	roomWait = 2 * time.Second
	// roomRetry is how long a leader without room waits before it looks for a successor again.
	roomRetry = 5 * time.Second
	// roomEnough is what a voter needs to be handed leadership, above its reserve: with less it
	// would soon hand it on.
	roomEnough = 16 << 20
)

// watchRoom asks the other voters for their free disk space while this node leads. Followers store
// whatever the leader accepts; without this check their disks would fill to the last byte and they
// would end one after the other. For a voter that does not answer, its last answer counts.
func (k *keeper) watchRoom() {
	r := &k.electorate.voterRoom
	for k.pause(k.ctx, diskEvery) {
		route := k.router.route.Load()
		if !route.ready {
			r.forget()
			continue
		}
		full := make(map[raft.ServerID]bool)
		if before := r.full.Load(); before != nil {
			maps.Copy(full, *before)
		}
		for id, bytes := range k.askRoom(route.term) {
			full[id] = bytes == 0
		}
		r.full.Store(&full)
		voters := k.electorate.voters()[0]
		fit := len(voters)
		for _, id := range voters {
			if full[id] { // not this node: it hands over, or has no successor
				fit--
			}
		}
		if full := fit <= len(voters)/2; full != r.majorityFull.Swap(full) && full {
			k.log.Warn("client writes are refused: the disks of too many voters are nearly full",
				"withRoom", fit, "needed", len(voters)/2+1)
		}
	}
}

// keepRoom hands leadership to a voter whose disk has room, while this node leads and its own has
// none.
func (k *keeper) keepRoom() {
	for k.pause(k.ctx, roomLook) {
		r := k.router.route.Load()
		if !r.ready || !k.disk.low.Load() {
			k.electorate.voterRoom.noSuccessor.Store(false)
			continue
		}
		err := k.handToRoom(r)
		if err == nil || errors.Is(err, ErrNotLeader) {
			continue
		}
		if !k.electorate.voterRoom.noSuccessor.Swap(true) {
			k.log.Warn("this node leads with a full disk: client writes are refused until there is "+
				"room, here or on another voter", "error", err)
		}
		k.pause(k.ctx, roomRetry)
	}
}

// errNoRoom means that every voter's disk is nearly full, or that the others do not answer.
var errNoRoom = errors.New("cluster: no other voter that answers has room on its disk")

// handToRoom hands leadership to the voter with the most room.
func (k *keeper) handToRoom(r *route) error {
	var to raft.ServerID
	most := uint64(0)
	for id, bytes := range k.askRoom(r.term) {
		if bytes > most {
			to, most = id, bytes
		}
	}
	if most < roomEnough {
		return errNoRoom
	}
	k.log.Warn("the disk is nearly full: leadership goes to a node with room", "to", to,
		"roomMiB", most>>20)
	ctx, cancel := context.WithTimeout(k.ctx, roomWait)
	defer cancel()
	return k.membership.HandOver(ctx, string(to))
}

// askRoom asks the voters that may lead next how much room their disks have; 0 is none.
func (k *keeper) askRoom(term uint64) (bytes map[raft.ServerID]uint64) {
	var ids []raft.ServerID
	for _, s := range k.handover.successors(term) {
		ids = append(ids, s.ID)
	}
	bytes = make(map[raft.ServerID]uint64)
	for id, said := range k.askProgress(roomWait, ids) {
		bytes[id] = said.room
	}
	return bytes
}
