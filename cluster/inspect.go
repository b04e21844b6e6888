package cluster

import (
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// start begins to look at the requests of other nodes.
func (t *transport) start() { t.wg.Go(t.relay) }

func (t *transport) relay() {
	in := t.rawTransport.Consumer()
	for {
		select {
		case rpc := <-in:
			if !t.inspect(&rpc) {
				continue
			}
			select {
			case t.consumer <- rpc:
			case <-t.closing:
				return
			}
		case done := <-t.bond.asked:
			done <- t.begin()
		case <-t.closing:
			return
		}
	}
}

// inspect looks at a request of another node; false when it was answered here.
func (t *transport) inspect(rpc *raft.RPC) bool {
	if !t.meetLeader(rpc) {
		return false
	}
	switch req := rpc.Command.(type) {
	case *raft.TimeoutNowRequest:
		if t.stands() && t.handed.accept(t.self) {
			return true
		}
		rpc.Respond(&raft.TimeoutNowResponse{RPCHeader: header()}, errTransfer)
		return false
	case *raft.RequestPreVoteRequest:
		if t.quiet() {
			resp := &raft.RequestPreVoteResponse{RPCHeader: header(), Term: req.Term}
			rpc.Respond(resp, errQuiet)
			return false
		}
		own := *req // in memory, the request is shared with other peers
		own.ID = t.voterFor(req.ID)
		if leader, ok := t.released(); ok {
			own.Addr = t.EncodePeer("", leader)
			t.watchRefusal(rpc)
		}
		rpc.Command = &own
	case *raft.RequestVoteRequest:
		if t.quiet() {
			rpc.Respond(&raft.RequestVoteResponse{RPCHeader: header(), Term: req.Term}, errQuiet)
			return false
		}
		t.overheard.note(raft.ServerID(req.ID), mark{
			Term: req.Term, LastTerm: req.LastLogTerm, Last: req.LastLogIndex,
		})
		own := *req
		own.ID = t.voterFor(req.ID)
		_, free := t.released()
		own.LeadershipTransfer = free || req.LeadershipTransfer &&
			t.handed.allows(req.Term, raft.ServerID(req.ID))
		rpc.Command = &own
		t.watchTerm(rpc, req.Term)
	case *raft.InstallSnapshotRequest:
		t.bind(nil)
		t.watchTerm(rpc, req.Term)
		t.guardLog(rpc, req)
	case *raft.AppendEntriesRequest:
		t.bind(*bondOf(req))
		if n := len(req.Entries); n > 0 && req.Entries[n-1].Term > req.Term {
			// Of a deposed leader, which goes on for a moment with what it has from its successor.
			// Taken, the log would be ahead of this node's term: it might have lost a vote.
			resp := &raft.AppendEntriesResponse{RPCHeader: header(), Term: req.Term}
			rpc.Respond(resp, errDeposed)
			return false
		}
		t.handed.look(req)
		t.watchTerm(rpc, req.Term)
		rpc.Command = t.trim(req)
	}
	return true
}

// bind takes in that a leader's request has come. No promise is cut short by a later one.
func (t *transport) bind(said []byte) {
	t.bond.lasts = parseBond(said, t.lease.longest)
	t.bond.until = max(t.bond.until, monotonic()+int64(t.bond.lasts))
}

// released reports whether this node is bound no longer to the leader that raft names: it has sent
// nothing for as long as the promise lasts, and raft has been done with all of it for as long.
// Whatever this node acknowledges was sent before it came here, so every lease that counts on it
// is over; who is slow to carry out what came has heard of its leader all the same. Raft goes on
// naming its leader until a timer of its own ends, and would refuse any candidate before (asked
// whether it would elect one, it makes an exception for the leader's address, and uses that for
// nothing else); where it names none it refuses no candidate. A leader is bound to itself, though
// no node sends it anything.
func (t *transport) released() (from raft.ServerAddress, ok bool) {
	view := t.view.Load()
	if view == nil || monotonic() < t.bond.until {
		return "", false
	}
	f := view.followed()
	return f.leader, f.id != "" && f.id != t.self && time.Since(f.contact) >= t.bond.lasts
}

// stand has raft stand for election, if this node is bound no longer to its leader.
func (t *transport) stand() bool {
	done := make(chan bool, 1)
	select {
	case t.bond.asked <- done:
	case <-t.closing:
		return false
	}
	select {
	case begun := <-done:
		return begun
	case <-t.closing:
		return false
	}
}

// begin gives raft a request to stand, as one in a line with those of other nodes: whatever raft
// has acknowledged before it came when this node had looked at it, and the promise is over. Raft
// votes for itself first.
func (t *transport) begin() bool {
	if _, ok := t.released(); !ok {
		return false
	}
	t.deliver(raft.RPC{
		Command:  &raft.TimeoutNowRequest{RPCHeader: header()},
		RespChan: make(chan raft.RPCResponse, 1),
	})
	return true
}

// watchRefusal reports a candidate that is refused although this node is free to vote.
func (t *transport) watchRefusal(rpc *raft.RPC) {
	view := t.view.Load()
	if view == nil {
		return
	}
	t.intercept(rpc, func(r raft.RPCResponse) raft.RPCResponse {
		if resp, ok := r.Response.(*raft.RequestPreVoteResponse); ok && !resp.Granted {
			view.outdone()
		}
		return r
	})
}

// voterFor is the name under which raft looks at a candidate: a voter's, also where this node's
// list has the candidate without a vote, or not at all. Raft would refuse it, and uses the name for
// nothing else. But the list may be the older one: others have committed the promotion, and the
// candidate may be the only one of them that is left. So the candidate's log decides alone, and of
// whom it needs a majority its own list says (Ongaro, Consensus, 4.1).
func (t *transport) voterFor(candidate []byte) []byte {
	view := t.view.Load()
	if view == nil {
		return candidate
	}
	voters := view.voters()
	if len(voters) == 0 || slices.Contains(voters, raft.ServerID(candidate)) {
		return candidate
	}
	return []byte(voters[0])
}

// watchTerm suspends the lease while raft looks at a request of a newer term.
func (t *transport) watchTerm(rpc *raft.RPC, term uint64) {
	if active := t.lease.active(); active == 0 || term <= active {
		return
	}
	t.lease.doubt()
	t.intercept(rpc, func(r raft.RPCResponse) raft.RPCResponse {
		t.lease.settle(responseTerm(r))
		return r
	})
}

func responseTerm(r raft.RPCResponse) uint64 {
	switch resp := r.Response.(type) {
	case *raft.RequestVoteResponse:
		return resp.Term
	case *raft.AppendEntriesResponse:
		return resp.Term
	case *raft.InstallSnapshotResponse:
		return resp.Term
	}
	return 0
}

// meetLeader looks at a leader's request before anything else does. False: it is answered.
func (t *transport) meetLeader(rpc *raft.RPC) bool {
	switch req := rpc.Command.(type) {
	case *raft.AppendEntriesRequest:
		t.awaitSettled()
		if len(req.ID) == 0 || t.lead(req.Term, raft.ServerID(req.ID)) {
			t.overheard.noteAppend(raft.ServerID(req.ID), req, 0)
			return true
		}
		rpc.Respond(&raft.AppendEntriesResponse{RPCHeader: header(), Term: req.Term}, ErrContradiction)
		return false
	case *raft.InstallSnapshotRequest:
		t.awaitSettled()
	}
	return true
}

// quiet reports whether this node gives no votes yet, since it may have promised, before it was
// restarted, not to, or since not everybody was asked what else it has promised.
func (t *transport) quiet() bool {
	return time.Now().Before(t.quietUntil) || t.settled != nil && !t.settled()
}

// settleEvery is how often a request that waits looks again.
const settleEvery = 5 * time.Millisecond

// awaitSettled holds the first requests of leaders back for as long as the longest promise to a
// leader lasts, or until the other members had their say on this folder.
func (t *transport) awaitSettled() {
	if t.settled == nil || t.settled() {
		return
	}
	if t.heldUntil.IsZero() {
		t.heldUntil = time.Now().Add(t.lease.longest)
	}
	for time.Now().Before(t.heldUntil) && !t.settled() {
		select {
		case <-time.After(settleEvery):
		case <-t.closing:
			return
		}
	}
}

var errIncluded = errors.New("cluster: the log holds what that snapshot does")

// guardLog keeps a snapshot from being installed that says nothing new. One that was held up on its
// way comes after entries behind it were stored and acknowledged: raft would go back to its state
// and, on a log without gaps, delete all of them. The answer is then the one that raft's paper
// gives (§7): the snapshot is there, and the entries behind it stay.
//
// The log is looked at when raft begins to read the snapshot: nothing that came before is still
// being stored then.
func (t *transport) guardLog(rpc *raft.RPC, req *raft.InstallSnapshotRequest) {
	if t.includes == nil || rpc.Reader == nil {
		return
	}
	late := &lateReader{src: rpc.Reader, included: func() bool { return t.includes(req) }}
	rpc.Reader = late
	t.intercept(rpc, func(r raft.RPCResponse) raft.RPCResponse {
		if !late.found.Load() {
			return r
		}
		return raft.RPCResponse{Response: &raft.InstallSnapshotResponse{
			RPCHeader: header(), Term: req.Term, Success: true,
		}}
	})
}

// lateReader reads a snapshot, or throws it away where the log includes it.
type lateReader struct {
	src      io.Reader
	included func() bool
	looked   bool
	found    atomic.Bool
}

// Read is called by raft's own goroutine.
func (l *lateReader) Read(p []byte) (int, error) {
	if !l.looked {
		l.looked = true
		if l.included() {
			if _, err := io.Copy(io.Discard, l.src); err != nil {
				return 0, err
			}
			l.found.Store(true)
			return 0, errIncluded
		}
	}
	return l.src.Read(p)
}

// trim takes from an append what this node has applied, where its log begins behind the place that
// the append joins on to. Raft would refuse that: it has no entry there to compare. The leader
// would go back, to a snapshot that says nothing new, and on from it to the same place, forever
// and without a pause. What was applied is committed, and the leader's log has the same.
//
// Nor does an append say more of what is committed than up to its own last entry: what lies behind
// that in this node's log was not compared (Ongaro, Consensus, figure 3.1). Raft takes the end of
// its log for that.
func (t *transport) trim(req *raft.AppendEntriesRequest) *raft.AppendEntriesRequest {
	own := *req // in memory, the request is shared with other peers
	own.LeaderCommitIndex = min(req.LeaderCommitIndex, req.PrevLogEntry+uint64(len(req.Entries)))
	if t.known == nil || len(req.Entries) == 0 {
		return &own
	}
	if count, ok := t.known(req); ok {
		own.Entries = req.Entries[count:]
		own.PrevLogEntry, own.PrevLogTerm = 0, 0 // nothing to compare
		if len(own.Entries) == 0 {
			own.LeaderCommitIndex = 0
		}
	}
	return &own
}
