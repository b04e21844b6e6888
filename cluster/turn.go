package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// A member's turn to write a snapshot, as it tells others.
const (
	turnNone   = 0 // no snapshot is due
	turnWanted = 1 // it waits for its turn
	turnTaken  = 2 // it writes a snapshot
)

// turnWithin bounds the question whose turn it is. No node waits for a member that does not answer.
const turnWithin = 500 * time.Millisecond

// takesTurn reports whether this node writes a snapshot now, after it has logged so many bytes
// since the last. Members write theirs one after the other: each that does has less of its disk and
// processors for clients. All write the same log and would want a snapshot at the same moment, so
// each is content with three quarters of SnapshotBytes and waits for its turn until there are
// all of them. Two that ask at the same moment may both write; that costs time, and nothing else.
func (k *keeper) takesTurn(logged int64) bool {
	if logged < k.config.SnapshotBytes/4*3 {
		k.turn.Store(turnNone)
		return false
	}
	k.turn.Store(turnWanted)
	return logged >= k.config.SnapshotBytes || k.isNext()
}

// isNext asks the other members: none of them writes a snapshot, and of those that want to, this
// node is the first by its id.
func (k *keeper) isNext() bool {
	ctx, cancel := context.WithTimeout(k.ctx, turnWithin)
	defer cancel()
	var before atomic.Bool
	var asking sync.WaitGroup
	for _, s := range k.servers().Servers {
		if string(s.ID) == k.config.NodeID {
			continue
		}
		asking.Go(func() {
			said, err := k.request(ctx, string(s.ID), callTurn, nil)
			if err == nil && len(said) == 1 && k.isBefore(s.ID, said[0]) {
				before.Store(true)
			}
		})
	}
	asking.Wait()
	return !before.Load()
}

func (k *keeper) isBefore(other raft.ServerID, turn byte) bool {
	return turn == turnTaken || turn == turnWanted && string(other) < k.config.NodeID
}

// turnNow is the answer to callTurn.
func (k *keeper) turnNow() []byte { return []byte{byte(k.turn.Load())} }
