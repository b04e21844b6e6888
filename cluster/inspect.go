package cluster

import (
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// start begins to relay the requests of other nodes.
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

// inspect checks a request of another node; false if it was answered here.
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

// bind records the promise of a leader's request. A later request shortens no promise.
func (t *transport) bind(said []byte) {
	t.bond.lasts = parseBond(said, t.lease.maxPromise)
	t.bond.until = max(t.bond.until, monotonic()+int64(t.bond.lasts))
}

// released reports whether this node's promise to the leader that raft names is over: the leader
// has sent nothing for as long as the promise lasts, and raft has finished all of its requests for
// as long. Acknowledged requests were sent before they arrived here, so every lease that rests on
// them is over. Raft names its leader until a timer of its own ends, and refuses candidates until
// then. (For a pre-vote it makes an exception for the leader's address, which it uses for nothing
// else.) Without a leader it refuses no candidate. A leader is bound to itself.
func (t *transport) released() (from raft.ServerAddress, ok bool) {
	view := t.view.Load()
	if view == nil || monotonic() < t.bond.until {
		return "", false
	}
	f := view.followed()
	return f.leader, f.id != "" && f.id != t.self && time.Since(f.contact) >= t.bond.lasts
}

// stand makes raft stand for election if this node's promise to its leader is over.
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

// begin gives raft a request to stand, in line with those of other nodes: this node has inspected
// every request that raft acknowledged before, and the promise is over. Raft votes for itself
// first.
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

// voterFor is the name under which raft judges a candidate: a voter's name, even if this node's
// list has the candidate without a vote or not at all. Raft would refuse such a candidate, and uses
// the name for nothing else. But this node's list may be the older one: others may have committed
// the promotion, and the candidate may be the only survivor of them. So only its log decides, and
// its own list says whose majority it needs (Ongaro, Consensus, 4.1).
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

// watchTerm suspends the lease while raft handles a request of a newer term.
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

// meetLeader checks a leader's request first; false if it was answered here.
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

// quiet reports whether this node gives no votes yet: a promise from before its restart may last,
// or not all members have checked its folder.
func (t *transport) quiet() bool {
	return time.Now().Before(t.quietUntil) || t.settled != nil && !t.settled()
}

// settleEvery is how often a waiting request checks again.
const settleEvery = 5 * time.Millisecond

// awaitSettled holds back the first requests of leaders until the other members have checked this
// folder, at most for the longest promise.
func (t *transport) awaitSettled() {
	if t.settled == nil || t.settled() {
		return
	}
	if t.heldUntil.IsZero() {
		t.heldUntil = time.Now().Add(t.lease.maxPromise)
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

// guardLog prevents the installation of a snapshot with nothing new. A delayed snapshot may arrive
// after later entries were stored and acknowledged: raft would go back to its state and, on a log
// without gaps, delete them all. As raft's paper says (§7), the snapshot is then accepted, and the
// entries after it stay. The check happens when raft begins to read the snapshot, when earlier
// requests are stored.
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

// lateReader reads a snapshot, or discards it if the log includes it.
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

// trim removes applied entries from an append that begins before this node's log. Raft has no entry
// there to compare and would refuse the append; the leader would send a snapshot with nothing new
// and come back to the same place, forever and without a pause. Applied entries are committed, so
// the leader's log has the same.
//
// trim also limits the commit index to the append's last entry: later entries of this node's log
// were not compared (Ongaro, Consensus, figure 3.1), but raft would commit them.
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
