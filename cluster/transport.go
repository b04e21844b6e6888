package cluster

import (
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

var (
	errTransfer = errors.New("cluster: leadership is not handed over")
	errDeposed  = errors.New("cluster: entries of a later term than that of who sends them")
	errQuiet    = errors.New("cluster: no votes right after a start")
	errClock    = errors.New("cluster: no votes for a clock that is far off, or not compared yet")
)

// rawTransport is what a transport of raft's must offer: NetworkTransport and InmemTransport do.
type rawTransport interface {
	raft.Transport
	raft.WithPreVote
	raft.WithClose
}

// transport stands between raft and its transport, and corrects both. Each method says which
// trap it closes; DESIGN.md has the table.
type transport struct {
	rawTransport
	lease *lease
	// quietUntil: until then this node votes for nobody, for it may have promised a leader, before
	// it was restarted, not to.
	quietUntil time.Time
	// heard is when a leader's request came last; of the goroutine that looks at requests.
	heard int64 // monotonic
	reach *reach
	// handed is the newest hand-over that was seen in the log; matched is how far the others' logs
	// are known to agree with this leader's.
	handed  handed
	matched matched
	self    raft.ServerID
	// applied is how far this node has applied its log: nobody is told that more is committed. Nil:
	// it applies nothing.
	applied func() uint64
	// held is the member whose appends do not return yet, and the channel that is closed then.
	held atomic.Pointer[heldBack]
	// includes reports whether this node holds all of a snapshot, known how many entries of an
	// append it has applied, where its log begins behind them; nil: it has no log.
	includes atomic.Pointer[func(*raft.InstallSnapshotRequest) bool]
	known    atomic.Pointer[func(*raft.AppendEntriesRequest) (count uint64, ok bool)]
	// voters are those of this node's own list of members; nil: raft does not run yet.
	voters atomic.Pointer[func() []raft.ServerID]
	// followed is the leader that raft takes itself to have; nil as voters is.
	followed atomic.Pointer[func() following]
	// settled reports whether the others had their say on this folder; nil: there is nobody to ask.
	settled atomic.Pointer[func() bool]
	// heldUntil is how long appends wait for that; of the goroutine that looks at requests.
	heldUntil time.Time
	// overheard is what the others have promised, by their messages.
	overheard overheard
	// leaders is whom each term had; rival is told of a second one.
	leaders leaders
	rival   atomic.Pointer[func(term uint64, first, second raft.ServerID)]
	// stands reports whether this node may ask for votes.
	stands func() bool

	consumer chan raft.RPC
	closing  chan struct{}
	once     sync.Once
	wg       sync.WaitGroup
}

func newTransport(
	inner rawTransport, l *lease, quiet time.Duration, stands func() bool,
) *transport {
	t := &transport{
		rawTransport: inner, lease: l, self: l.self, stands: stands,
		quietUntil: time.Now().Add(quiet), heard: monotonic(), reach: newReach(),
		consumer: make(chan raft.RPC), closing: make(chan struct{}),
	}
	t.wg.Go(t.relay)
	return t
}

// SetHeartbeatHandler does nothing, on purpose: with a handler the network transport treats
// heartbeats on the connection's goroutine, where they can raise the term while raft's main
// goroutine appends, and replicas come to differ.
func (t *transport) SetHeartbeatHandler(func(raft.RPC)) {}

// AppendEntriesPipeline is refused: two requests in flight can stop replication to a peer for
// good after one of them was rejected.
func (t *transport) AppendEntriesPipeline(
	raft.ServerID, raft.ServerAddress,
) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// AppendEntries notes for the lease when the request was sent. A node that left the one before
// unanswered gets the next when it has answered a heartbeat, see reach. The request that waited is
// not that: its commit index is as old as the wait, and whoever gets it would take itself for up to
// date. Raft makes a new one.
func (t *transport) AppendEntries(
	id raft.ServerID, to raft.ServerAddress,
	req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse,
) error {
	t.lead(req.Term, t.self)
	beat := isBeat(req)
	if !beat {
		if waited, err := t.reach.await(id); err != nil {
			return err
		} else if waited {
			return errOutdated
		}
	}
	sent := t.lease.clock()
	err := t.rawTransport.AppendEntries(id, to, t.announced(req), resp)
	if !beat {
		t.awaitRelease(id)
	}
	if err == nil || !beat { // heartbeats go on by themselves
		t.reach.note(id, err == nil)
	}
	switch {
	case err != nil:
		return err
	case resp.Term > req.Term:
		t.lease.end(req.Term)
	case resp.Success && resp.Term == req.Term:
		t.overheard.noteAppend(id, req, req.LeaderCommitIndex)
		if !beat {
			t.matched.note(req.Term, id, req.PrevLogEntry+uint64(len(req.Entries)))
		}
		t.lease.ack(req.Term, id, sent)
	}
	return nil
}

// announced is a request that commits no more than what this leader has applied. So nobody applies
// an entry, and shows it to readers, before the leader has: its own readers need not look.
func (t *transport) announced(req *raft.AppendEntriesRequest) *raft.AppendEntriesRequest {
	if t.applied == nil || req.LeaderCommitIndex <= t.applied() {
		return req
	}
	own := *req
	own.LeaderCommitIndex = t.applied()
	return &own
}

// heldBack is a member whose appends do not return before release is closed.
type heldBack struct {
	id      raft.ServerID
	release chan struct{}
}

// holdBack lets no append to a member return before release is called. One member at a time.
func (t *transport) holdBack(id raft.ServerID) (release func()) {
	h := &heldBack{id, make(chan struct{})}
	t.held.Store(h)
	return func() {
		t.held.Store(nil)
		close(h.release)
	}
}

func (t *transport) awaitRelease(id raft.ServerID) {
	h := t.held.Load()
	if h == nil || h.id != id {
		return
	}
	select {
	case <-h.release:
	case <-t.closing:
	}
}

// InstallSnapshot ends the lease when the peer is in a newer term. It waits as AppendEntries does.
func (t *transport) InstallSnapshot(
	id raft.ServerID, to raft.ServerAddress,
	req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader,
) error {
	if _, err := t.reach.await(id); err != nil {
		return err
	}
	err := t.rawTransport.InstallSnapshot(id, to, req, resp, data)
	t.reach.note(id, err == nil)
	switch {
	case err != nil:
	case resp.Term > req.Term:
		t.lease.end(req.Term)
	case resp.Success:
		t.matched.note(req.Term, id, req.LastLogIndex)
	}
	return err
}

// RequestVote is refused while this node's clock is off. Whoever asks has left its old term.
func (t *transport) RequestVote(
	id raft.ServerID, to raft.ServerAddress,
	req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse,
) error {
	t.lease.end(req.Term - 1)
	if !t.stands() {
		return errClock
	}
	err := t.rawTransport.RequestVote(id, to, req, resp)
	if err == nil && resp.Granted {
		t.overheard.note(id, mark{Term: req.Term, Vote: voteFor(req.Addr)})
	}
	return err
}

// RequestPreVote is refused while this node's clock is off.
func (t *transport) RequestPreVote(
	id raft.ServerID, to raft.ServerAddress,
	req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse,
) error {
	if !t.stands() {
		return errClock
	}
	return t.rawTransport.RequestPreVote(id, to, req, resp)
}

// TimeoutNow is never sent by raft: it carries no term, and a late one unseats a leader under its
// lease. Group.HandOver sends it past this method, once the log says so.
func (t *transport) TimeoutNow(
	raft.ServerID, raft.ServerAddress, *raft.TimeoutNowRequest, *raft.TimeoutNowResponse,
) error {
	return errTransfer
}

// Consumer gives raft the requests of other nodes, after a look at them.
func (t *transport) Consumer() <-chan raft.RPC { return t.consumer }

// Close ends the transport.
func (t *transport) Close() error {
	t.once.Do(func() { close(t.closing) })
	t.reach.close()
	err := t.rawTransport.Close()
	t.wg.Wait()
	return err
}

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
		own.Addr = t.freeFor(own.Addr)
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
		t.heard = monotonic()
		t.watchTerm(rpc, req.Term)
		t.guardLog(rpc, req)
	case *raft.AppendEntriesRequest:
		t.heard = monotonic()
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

// following is the leader that raft takes itself to have, none where id is empty, and when raft was
// done with what that sent last.
type following struct {
	leader  raft.ServerAddress
	id      raft.ServerID
	contact time.Time
}

// released reports whether this node is bound no longer to the leader that raft names: it has sent
// nothing for as long as the promise lasts, and raft has been done with all of it for as long.
// Whatever this node acknowledges was sent before it came here, so every lease that counts on it
// is over; who is slow to carry out what came has heard of its leader all the same. Raft goes on
// naming its leader until a timer of its own ends, and would refuse whoever asks before; where it
// names none it refuses nobody. Who leads is bound to itself, though nobody sends it anything.
func (t *transport) released() (from raft.ServerAddress, ok bool) {
	followed := t.followed.Load()
	if followed == nil || monotonic()-t.heard < int64(t.lease.promise) {
		return "", false
	}
	f := (*followed)()
	return f.leader, f.id != "" && f.id != t.self && time.Since(f.contact) >= t.lease.promise
}

// freeFor is the address under which raft looks at who asks whether it would be elected: that of
// the leader that this node is no longer bound to, from whom raft takes the question. It uses the
// address for nothing else, and the answer binds nobody.
func (t *transport) freeFor(candidate []byte) []byte {
	if leader, ok := t.released(); ok {
		return t.EncodePeer("", leader)
	}
	return candidate
}

// voterFor is the name under which raft looks at a candidate: a voter's, also where this node's
// list has the candidate without a vote, or not at all. Raft would refuse it, and uses the name for
// nothing else. But the list may be the older one: others have committed the promotion, and the
// candidate may be the only one of them that is left. So the candidate's log decides alone, and of
// whom it needs a majority its own list says (Ongaro, Consensus, 4.1).
func (t *transport) voterFor(candidate []byte) []byte {
	known := t.voters.Load()
	if known == nil {
		return candidate
	}
	voters := (*known)()
	if len(voters) == 0 || slices.Contains(voters, raft.ServerID(candidate)) {
		return candidate
	}
	return []byte(voters[0])
}

func header() raft.RPCHeader { return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax} }

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

// intercept lets f see raft's answer before the other node does, and put another in its place.
func (t *transport) intercept(rpc *raft.RPC, f func(raft.RPCResponse) raft.RPCResponse) {
	to, answer := rpc.RespChan, make(chan raft.RPCResponse, 1)
	rpc.RespChan = answer
	t.wg.Go(func() {
		select {
		case r := <-answer:
			r = f(r)
			select {
			case to <- r:
			case <-t.closing:
			}
		case <-t.closing:
		}
	})
}
