package cluster

import (
	"time"

	"github.com/hashicorp/raft"
)

// When a leader falls silent, its successor is to stand as soon as the others may vote, and nobody
// beside it. Raft alone looks at a moment that it draws, up to two timeouts after the last contact;
// its voters refuse whoever asks before they have looked themselves, and a candidate who was
// refused waits for another timeout: a failed leader cost 1.1 s as a rule and 1.8 s at times. So
// the voters have turns, in the order of their names, and a vote is free when the promise to the
// leader is over (transport.released).
const (
	// firstTurn is when the first voter stands, in tenths of the heartbeat timeout since it heard of
	// the leader: others may have heard of it later, by a beat of two tenths at the most, and are
	// bound for the whole of one since then.
	firstTurn = 12
	// nextTurn is how much later each of the others does, in tenths: an election takes less. One
	// whose log is behind is refused, and its turn goes by.
	nextTurn = 3
	// calmAt is when raft's own timer is made to begin anew, so that it does not end amid the turns.
	calmAt = 8
)

// succession is what a follower knows of its leader's silence.
type succession struct {
	term  uint64
	since time.Time // of the newest change of term or role
	calm  bool      // raft's own timer was begun anew in this silence
}

// keepSuccession has this node stand for election when it is its turn.
func (g *Group) keepSuccession() {
	s := succession{since: time.Now()}
	for wait := g.tenths(calmAt); g.pause(g.ctx, wait); {
		wait = g.succeed(&s)
	}
}

// tenths is so many tenths of the heartbeat timeout.
func (g *Group) tenths(n int) time.Duration {
	return g.config.HeartbeatTimeout / 10 * time.Duration(n)
}

// succeed looks at the leader's silence, and returns when to look again.
func (g *Group) succeed(s *succession) (again time.Duration) {
	term, rank := g.raft.CurrentTerm(), g.rank()
	heard := time.Since(g.raft.LastContact())
	fresh := heard < g.config.HeartbeatTimeout
	if g.raft.State() != raft.Follower || rank < 0 || term != s.term && !fresh {
		s.since = time.Now()
	}
	s.term = term
	silence, turn := min(heard, time.Since(s.since)), g.tenths(firstTurn+rank*nextTurn)
	switch {
	case silence < g.tenths(calmAt):
		s.calm = false
		return min(max(g.tenths(calmAt)-silence, time.Millisecond), g.tenths(2))
	case silence < turn && (s.calm || !fresh): // a nudge would make raft stand
		return turn - silence
	case silence < turn:
		s.calm = true
	case !g.standsForElection():
		return g.tenths(1)
	}
	if err := g.nudge(); err != nil {
		g.log.Warn("raft looks after its leader in its own time", "error", err)
	}
	return g.tenths(1)
}

// rank is how many voters have their turn before this node; -1 where it has no vote.
func (g *Group) rank() int {
	_, leader := g.raft.LeaderWithID()
	self, rank, votes := raft.ServerID(g.config.NodeID), 0, false
	for _, id := range g.voters()[0] {
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

// nudge has raft look now whether its leader has been silent for the heartbeat timeout, and stand
// if so; else its timer begins anew. A timeout that becomes shorter is what makes raft look.
func (g *Group) nudge() error {
	return g.retune(func(set func(raft.ReloadableConfig) error, c raft.ReloadableConfig) error {
		longer := c
		longer.HeartbeatTimeout += time.Millisecond
		longer.ElectionTimeout += time.Millisecond
		if err := set(longer); err != nil {
			return err
		}
		return set(c)
	})
}

// retune changes raft's settings, one change at a time.
func (g *Group) retune(
	change func(set func(raft.ReloadableConfig) error, c raft.ReloadableConfig) error,
) error {
	g.tuning.Lock()
	defer g.tuning.Unlock()
	return change(g.raft.ReloadConfig, g.raft.ReloadableConfig())
}
