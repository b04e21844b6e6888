package cluster

import (
	"context"
	"errors"
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

// full says that this leader takes no client writes: its disk is nearly full, and it has found
// nobody to hand leadership to. Until it has looked, writes go on, into the reserve.
func (g *Group) full() bool { return g.diskLow.Load() && g.cornered.Load() }

// keepRoom hands leadership to a voter whose disk has room, while this node leads and its own has
// none: only the leader's disk decides whether writes are taken.
func (g *Group) keepRoom() {
	for g.pause(g.ctx, roomLook) {
		r := g.route.Load()
		if !r.ready || !g.diskLow.Load() {
			g.cornered.Store(false)
			continue
		}
		err := g.handToRoom(r)
		if err == nil || errors.Is(err, ErrNotLeader) {
			continue
		}
		if !g.cornered.Swap(true) {
			g.log.Warn("this node leads with a full disk: client writes are refused until there is "+
				"room, here or on another voter", "error", err)
		}
		g.pause(g.ctx, roomRetry)
	}
}

// errNoRoom says that every voter's disk is nearly full, or that the others do not answer.
var errNoRoom = errors.New("cluster: no other voter that answers has room on its disk")

// handToRoom hands leadership to the voter with the most room.
func (g *Group) handToRoom(r *route) error {
	ctx, cancel := context.WithTimeout(g.ctx, roomWait)
	defer cancel()
	to, room := g.roomiest(ctx, r.term)
	if room < roomEnough {
		return errNoRoom
	}
	g.log.Warn("the disk is nearly full: leadership goes to a node with room", "to", to,
		"roomMiB", room>>20)
	ctx, cancel = context.WithTimeout(g.ctx, roomWait)
	defer cancel()
	return g.HandOver(ctx, string(to))
}

// roomiest asks the voters that may lead next how much room their disks have.
func (g *Group) roomiest(ctx context.Context, term uint64) (to raft.ServerID, room uint64) {
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
			if said.room > room {
				to, room = s.ID, said.room
			}
		})
	}
	asking.Wait()
	return to, room
}
