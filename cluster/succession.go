package cluster

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// When a leader falls silent, one successor should stand as soon as the others may vote. Raft alone
// checks at a random moment, up to two timeouts after the last contact; its voters refuse any
// candidate before they have checked themselves, and a refused candidate waits for another timeout:
// a failed leader cost 1.1 s as a rule and 1.8 s at times. So the voters have turns, in the order
// of their names, and a vote is free when the promise to the leader is over (transport.released).
//
// A leader whose process has ended is noticed sooner: its connection is closed, and a new one is
// refused. This does not prove that it has ended: a proxy or a firewall may do the same. So it
// shortens no promise, only the wait after it: a voter whose promise is over asks the others
// whether they would elect it, and stands if a majority would.
const (
	// firstTurn is when the first voter stands, in tenths of the heartbeat timeout since it heard of
	// the leader; if that is gone, as soon as the promise is over. A node that has just started
	// is bound for a whole heartbeat timeout, which may end later by a beat of two tenths at most.
	firstTurn = 12
	// nextTurn is how much later each of the others does, in tenths: an election takes less. One
	// whose log is behind is refused, and its turn goes by.
	nextTurn = 3
	// calmAt is when raft's own timer is restarted, so that it does not expire between turns.
	calmAt = 8
)

// elections make this node stand for election when it is its turn.
type elections struct {
	*core
	electorate *electorate
	retired    atomic.Bool // this node is about to stop: it is not to be elected
	// outdid is the term in which this node refused a candidate with a shorter log: it need not wait
	// for its turn.
	outdid atomic.Uint64
	news   chan struct{} // of a leader that is gone, or of such a candidate
}

// look makes keepSuccession look at once.
func (e *elections) look() {
	select {
	case e.news <- struct{}{}:
	default:
	}
}

// outdone records that this node has refused a candidate while it was free to vote.
func (e *elections) outdone() {
	e.outdid.Store(e.raft.CurrentTerm())
	e.look()
}

// succession is what a follower knows of its leader's silence.
type succession struct {
	term  uint64
	since time.Time // of the newest change of term or role
	calm  bool      // raft's own timer was restarted in this silence
}

// keepSuccession makes this node stand for election when it is its turn.
func (e *elections) keepSuccession() {
	s := succession{since: time.Now()}
	timer := time.NewTimer(e.tenths(calmAt))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-e.news:
		case <-e.closing:
			return
		}
		timer.Reset(e.succeed(&s))
	}
}

// succeed looks at the leader's silence, and returns when to look again.
func (e *elections) succeed(s *succession) (again time.Duration) {
	term, rank := e.raft.CurrentTerm(), e.electorate.rank()
	sinceContact := time.Since(e.raft.LastContact())
	fresh := sinceContact < e.config.HeartbeatTimeout
	if e.raft.State() != raft.Follower || rank < 0 || term != s.term && !fresh {
		s.since = time.Now()
	}
	s.term = term
	if e.outdid.Load() == term {
		rank = min(rank, 0)
	}
	silence, turn := min(sinceContact, time.Since(s.since)), e.tenths(firstTurn+rank*nextTurn)
	if _, leader := e.raft.LeaderWithID(); fresh && rank >= 0 && e.peers.gone(string(leader)) {
		return e.replaceLostLeader(silence, e.tenths(promiseTenths+rank*nextTurn))
	}
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

// replaceLostLeader makes this node stand, when it is its turn, if the leader is gone.
func (e *elections) replaceLostLeader(silence, turn time.Duration) (again time.Duration) {
	if silence < turn {
		return turn - silence
	}
	if e.standsForElection() && e.wouldWin() && e.transport.stand() {
		e.log.Info("the leader is gone: this node stands for election")
	}
	return retryEvery
}

// wouldWin asks the other voters whether they would elect this node. Raft would ask the same, and
// only once its own timer had ended.
func (e *elections) wouldWin() bool {
	own := e.mark()
	request := &raft.RequestPreVoteRequest{
		RPCHeader: header(), Term: e.raft.CurrentTerm() + 1,
		LastLogIndex: own.Last, LastLogTerm: own.LastTerm,
	}
	request.ID = []byte(e.config.NodeID)
	request.Addr = e.transport.EncodePeer("", e.transport.LocalAddr())
	_, leader := e.raft.LeaderWithID()
	ctx, cancel := context.WithTimeout(e.ctx, e.tenths(nextTurn))
	defer cancel()
	voters, granted := 0, make(chan bool, len(e.servers().Servers))
	for _, s := range e.servers().Servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		switch s.ID {
		case raft.ServerID(e.config.NodeID):
			granted <- true
		case leader:
			granted <- false
		default:
			e.wg.Go(func() {
				var answer raft.RequestPreVoteResponse
				err := e.transport.RequestPreVote(s.ID, s.Address, request, &answer)
				granted <- err == nil && answer.Granted
			})
		}
	}
	votes := 0
	for range voters {
		select {
		case yes := <-granted:
			if yes {
				votes++
			}
		case <-ctx.Done():
			return false
		}
	}
	return votes > voters/2
}

// nudge makes raft check now whether its leader has been silent for the heartbeat timeout, and
// stand if so; otherwise its timer restarts. Shortening the timeout is what makes raft check.
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
// majority's, before the others have answered for its folder, after it has halted, and when it is
// about to stop.
func (e *elections) standsForElection() bool {
	return (e.asked == nil || e.asked()) && !e.retired.Load() && !e.clocks.wrong() &&
		e.clocks.sure() && e.halted.Load() == nil
}
