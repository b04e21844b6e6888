package cluster

import (
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// electorate is what a group knows about its voters.
type electorate struct {
	*core
	// committed are the voters of the newest configuration that was applied; nil before the first.
	committed atomic.Pointer[[]raft.ServerID]
	// configured is the index of that configuration, 0 for none since the process began.
	configured atomic.Uint64
	voterRoom  voterRoom
}

// followMembers records a committed configuration.
func (e *electorate) followMembers(members raft.Configuration, index uint64) {
	voters := configVoters(members)
	e.committed.Store(&voters)
	e.configured.Store(index)
}

// voters are the voters of the latest and of the committed configuration.
func (e *electorate) voters() [2][]raft.ServerID {
	var both [2][]raft.ServerID
	if e.raft == nil {
		return both
	}
	both[0] = configVoters(e.raft.GetConfiguration().Configuration())
	both[1] = both[0]
	if c := e.committed.Load(); c != nil {
		both[1] = *c
	}
	return both
}

func configVoters(c raft.Configuration) []raft.ServerID {
	var ids []raft.ServerID
	for _, s := range c.Servers {
		if s.Suffrage == raft.Voter {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// configIndex is the index of the committed configuration: the newest that this node has applied or
// has in a snapshot. Raft's GetConfiguration reports none, despite its documentation.
func (e *electorate) configIndex() (uint64, error) {
	index := e.configured.Load()
	found, err := e.snapshots.List()
	if err == nil && len(found) > 0 {
		index = max(index, found[0].ConfigurationIndex)
	}
	return index, err
}

// rank is how many voters have their turn before this node; -1 if it has no vote.
func (e *electorate) rank() int {
	_, leader := e.raft.LeaderWithID()
	self, rank, votes := raft.ServerID(e.config.NodeID), 0, false
	for _, id := range e.voters()[0] {
		votes = votes || id == self
		if id < self && id != leader {
			rank++
		}
	}
	if !votes {
		return -1
	}
	return rank
}

// voterRoom is what a leader knows about the voters' disks.
type voterRoom struct {
	// noSuccessor: the leader's disk is nearly full, and no other voter can take over.
	noSuccessor atomic.Bool
	// majorityFull: every majority has a voter whose disk is nearly full.
	majorityFull atomic.Bool
	// full are the other voters whose disks are nearly full; nil while this node does not lead.
	full atomic.Pointer[map[raft.ServerID]bool]
}

// has is false for a voter that reported a nearly full disk.
func (r *voterRoom) has(id raft.ServerID) bool {
	full := r.full.Load()
	return full == nil || !(*full)[id]
}

// forget resets what only a leader knows.
func (r *voterRoom) forget() {
	r.majorityFull.Store(false)
	r.full.Store(nil)
}
