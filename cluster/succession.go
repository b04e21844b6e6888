package cluster

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// When a leader falls silent, its successor is to stand as soon as the others may vote, and no
// other node then. Raft alone looks at a moment that it draws, up to two timeouts after the last
// contact; its voters refuse any candidate before they have looked themselves, and a candidate who
// was refused waits for another timeout: a failed leader cost 1.1 s as a rule and 1.8 s at times.
// So the voters have turns, in the order of their names, and a vote is free when the promise to the
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

// elections have this node stand for election when it is its turn.
type elections struct {
	*core
	electorate *electorate
	retired    atomic.Bool // this node is about to stop: it is not to be elected
}

// succession is what a follower knows of its leader's silence.
type succession struct {
	term  uint64
	since time.Time // of the newest change of term or role
	calm  bool      // raft's own timer was begun anew in this silence
}

// keepSuccession has this node stand for election when it is its turn.
func (e *elections) keepSuccession() {
	s := succession{since: time.Now()}
	for wait := e.tenths(calmAt); e.pause(e.ctx, wait); {
		wait = e.succeed(&s)
	}
}

// succeed looks at the leader's silence, and returns when to look again.
func (e *elections) succeed(s *succession) (again time.Duration) {
	term, rank := e.raft.CurrentTerm(), e.electorate.rank()
	heard := time.Since(e.raft.LastContact())
	fresh := heard < e.config.HeartbeatTimeout
	if e.raft.State() != raft.Follower || rank < 0 || term != s.term && !fresh {
		s.since = time.Now()
	}
	s.term = term
	silence, turn := min(heard, time.Since(s.since)), e.tenths(firstTurn+rank*nextTurn)
	switch {
	case silence < e.tenths(calmAt):
		s.calm = false
		return min(max(e.tenths(calmAt)-silence, time.Millisecond), e.tenths(2))
	case silence < turn && (s.calm || !fresh): // a nudge would make raft stand
		return turn - silence
	case silence < turn:
		s.calm = true
	case !e.standsForElection():
		return e.tenths(1)
	}
	if err := e.nudge(); err != nil {
		e.log.Warn("raft looks after its leader in its own time", "error", err)
	}
	return e.tenths(1)
}

// nudge has raft look now whether its leader has been silent for the heartbeat timeout, and stand
// if so; else its timer begins anew. A timeout that becomes shorter is what makes raft look.
func (e *elections) nudge() error {
	return e.retune(func(set func(raft.ReloadableConfig) error, c raft.ReloadableConfig) error {
		longer := c
		longer.HeartbeatTimeout += time.Millisecond
		longer.ElectionTimeout += time.Millisecond
		if err := set(longer); err != nil {
			return err
		}
		return set(c)
	})
}

// standsForElection is false while this node's clock is far off, or not yet compared with a
// majority's, before the others had their say on its folder, after it has halted, and when it is
// about to stop.
func (e *elections) standsForElection() bool {
	return (e.asked == nil || e.asked()) && !e.retired.Load() && !e.clocks.wrong() &&
		e.clocks.sure() && e.halted.Load() == nil
}
