package cluster

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// reachLimit is how long reach makes raft wait for a node that does not answer. Each such wait
// counts as one failure for raft, so that its own pause stays below half a second for
// the first hour of an absence.
const reachLimit = 10 * time.Minute

var (
	errUnreached = errors.New("cluster: that node has not answered heartbeats")
	errOutdated  = errors.New("cluster: that node is back, and must learn again how far the log is")
)

// reach remembers which nodes did not answer replication, and holds further requests to them until
// they have answered a heartbeat. Raft pauses before an attempt, twice as long after each
// that failed, up to ten seconds, and nothing wakes it: a node that was away for a quarter of a
// minute would be left waiting when it is back. Heartbeats are tried every quarter of a second at
// least, by a separate goroutine.
type reach struct {
	mu sync.Mutex
	// leading: raft replicates; era counts the reigns that ended.
	leading, closed bool
	era             uint64
	silent          map[raft.ServerID]bool
	news            broadcast
}

func newReach() *reach { return &reach{silent: make(map[raft.ServerID]bool)} }

// begin records that this node leads.
func (r *reach) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leading = !r.closed
}

// end records that this node no longer leads. Waiting calls get an error.
func (r *reach) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leading = false
	r.era++
	clear(r.silent)
	r.news.send()
}

// close is end, permanently.
func (r *reach) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.end()
}

// note records whether a node answered.
func (r *reach) note(id raft.ServerID, answered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.leading || r.silent[id] == !answered {
		return
	}
	r.silent[id] = !answered
	r.news.send()
}

// await returns when replication to a node is worth an attempt, and whether it had to wait for
// that; errUnreached when this node stops to lead first, or after reachLimit.
func (r *reach) await(id raft.ServerID) (waited bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.silent[id] {
		return false, nil
	}
	timer := time.NewTimer(reachLimit)
	defer timer.Stop()
	for era := r.era; r.silent[id]; {
		news := r.news.next()
		r.mu.Unlock()
		late := false
		select {
		case <-news:
		case <-timer.C:
			late = true
		}
		r.mu.Lock()
		if late || r.era != era {
			return true, errUnreached
		}
	}
	return true, nil
}

// isBeat distinguishes raft's heartbeats from appends, as its own transport does: only heartbeats
// name no place in the log.
func isBeat(req *raft.AppendEntriesRequest) bool {
	return req.PrevLogEntry == 0 && req.PrevLogTerm == 0 && len(req.Entries) == 0 &&
		req.LeaderCommitIndex == 0
}
