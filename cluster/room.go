package cluster

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// roomLook is how often a leader looks whether its disk has room.
	roomLook = 100 * time.Millisecond
	// roomWait bounds the question for the room of others, and then the hand-over.
	roomWait = 2 * time.Second
	// roomRetry is how long a leader without room waits before it looks for another again.
	roomRetry = 5 * time.Second
	// roomEnough is what a voter needs to be handed leadership, besides its reserve: with less it
	// would hand it on in a moment.
	roomEnough = 16 << 20
)

// full reports whether this leader takes no client writes: the disks of too many voters are nearly
// full, or its own is, and it has found nobody to hand leadership to. Until it has looked, writes
// go on, into the reserve.
func (g *Group) full() bool {
	return g.voterRoom.crowded.Load() || g.diskLow.Load() && g.voterRoom.cornered.Load()
}

// watch asks the other voters for their room, while this node leads. Followers store whatever
// it takes, so that without this they would fill up to the last byte and end one after the other. A
// voter that does not answer counts as what it said last.
func (r *voterRoom) watch(g *Group) {
	for g.pause(g.ctx, diskEvery) {
		route := g.route.Load()
		if !route.ready {
			r.forget()
			continue
		}
		full := make(map[raft.ServerID]bool)
		if before := r.full.Load(); before != nil {
			maps.Copy(full, *before)
		}
		for id, bytes := range g.askRoom(route.term) {
			full[id] = bytes == 0
		}
		r.full.Store(&full)
		voters := g.voters()[0]
		fit := len(voters)
		for _, id := range voters {
			if full[id] { // not this node: it hands over, or is cornered
				fit--
			}
		}
		if crowded := fit <= len(voters)/2; crowded != r.crowded.Swap(crowded) && crowded {
			g.log.Warn("client writes are refused: the disks of too many voters are nearly full",
				"withRoom", fit, "needed", len(voters)/2+1)
		}
	}
}

// keepRoom hands leadership to a voter whose disk has room, while this node leads and its own has
// none.
func (g *Group) keepRoom() {
	for g.pause(g.ctx, roomLook) {
		r := g.route.Load()
		if !r.ready || !g.diskLow.Load() {
			g.voterRoom.cornered.Store(false)
			continue
		}
		err := g.handToRoom(r)
		if err == nil || errors.Is(err, ErrNotLeader) {
			continue
		}
		if !g.voterRoom.cornered.Swap(true) {
			g.log.Warn("this node leads with a full disk: client writes are refused until there is "+
				"room, here or on another voter", "error", err)
		}
		g.pause(g.ctx, roomRetry)
	}
}

// errNoRoom means that every voter's disk is nearly full, or that the others do not answer.
var errNoRoom = errors.New("cluster: no other voter that answers has room on its disk")

// handToRoom hands leadership to the voter with the most room.
func (g *Group) handToRoom(r *route) error {
	var to raft.ServerID
	most := uint64(0)
	for id, bytes := range g.askRoom(r.term) {
		if bytes > most {
			to, most = id, bytes
		}
	}
	if most < roomEnough {
		return errNoRoom
	}
	g.log.Warn("the disk is nearly full: leadership goes to a node with room", "to", to,
		"roomMiB", most>>20)
	ctx, cancel := context.WithTimeout(g.ctx, roomWait)
	defer cancel()
	return g.HandOver(ctx, string(to))
}

// askRoom asks the voters that may lead next how much room their disks have; 0 is none.
func (g *Group) askRoom(term uint64) (bytes map[raft.ServerID]uint64) {
	ctx, cancel := context.WithTimeout(g.ctx, roomWait)
	defer cancel()
	bytes = make(map[raft.ServerID]uint64)
	var found sync.Mutex
	var asking sync.WaitGroup
	for _, s := range g.successors(term) {
		asking.Go(func() {
			reply, err := g.request(ctx, string(s.ID), callProgress, nil)
			said, ok := standingOf(reply)
			if err != nil || !ok {
				return
			}
			found.Lock()
			defer found.Unlock()
			bytes[s.ID] = said.room
		})
	}
	asking.Wait()
	return bytes
}
