package cluster

import (
	"sync/atomic"
	"time"

	"tollgate/engine"
)

const (
	// slowApply is how long a follower takes to apply what its leader has applied before it counts
	// as behind, and behindFor is how long it counts as that.
	slowApply = 10 * time.Millisecond
	behindFor = time.Second
	// maxAsked bounds the questions of one node that the leader has not answered yet.
	maxAsked = 32
)

// asker has the leader answer questions of a node that applies entries so late that the leader
// answers sooner.
type asker struct {
	*core
	router *router

	until   atomic.Int64 // monotonic nanoseconds; 0: this node never was behind
	waiting atomic.Int32 // questions that the leader has not answered yet
}

// noteWait takes in how long this node had to wait until it had applied what its leader had.
func (a *asker) noteWait(waited time.Duration) {
	if waited >= slowApply {
		a.until.Store(monotonic() + int64(behindFor))
	}
}

// Behind reports whether this node has been slow to apply what its leader had applied.
func (a *asker) Behind() bool {
	until := a.until.Load()
	return until != 0 && monotonic() < until
}

// Ask has the leader answer a question for the state machine, from a memory that holds every write
// acknowledged before the call. It reports false on a leader, and where no answer came: then the
// caller reads this node's memory after BeginRead. The question may be reused once Ask returns.
func (a *asker) Ask(deadline time.Time, question []byte) ([]byte, bool) {
	leader := a.router.route.Load().leader
	if leader == "" || leader == a.config.NodeID {
		return nil, false
	}
	defer a.waiting.Add(-1)
	if a.waiting.Add(1) > maxAsked {
		return nil, false
	}
	answers := make(chan []byte, 1)
	payload := append(make([]byte, 0, len(question)), question...)
	err := a.peers.call(leader, callAsk, a.shard, payload, func(answer []byte, err error) {
		if err != nil {
			answer = nil
		}
		answers <- append([]byte(nil), answer...)
	})
	if err != nil {
		return nil, false
	}
	timer := time.NewTimer(min(time.Until(deadline), a.config.RPCTimeout))
	defer timer.Stop()
	select {
	case answer := <-answers:
		return answer, len(answer) > 0
	case <-timer.C:
	case <-a.closing:
	}
	return nil, false
}

// serve answers a follower's question; empty where this node does not hold the lease, or its
// machine answers none.
func (a *asker) serve(question []byte) []byte {
	answerer, ok := a.machine.(engine.Answerer)
	if !ok {
		return nil
	}
	term, ok := a.lease.holds()
	if !ok {
		return nil
	}
	answer := answerer.Answer(question)
	if !a.lease.stands(term) { // the machine may have slept since the lease was granted
		return nil
	}
	return answer
}
