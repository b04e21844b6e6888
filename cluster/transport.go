package cluster

import (
	"errors"
	"io"
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

// rawTransport is the raft transport that is wrapped: NetworkTransport and InmemTransport are.
type rawTransport interface {
	raft.Transport
	raft.WithPreVote
	raft.WithClose
}

// transport wraps raft's transport and corrects both raft and it. Each method says which
// trap it closes; DESIGN.md has the table.
type transport struct {
	rawTransport
	lease *lease
	// quietUntil: until then this node gives no vote, because it may have promised a leader not to
	// before it was restarted.
	quietUntil time.Time
	// bond is this node's promise to a leader.
	bond *bond
	// binds is the promise that this leader's requests ask for, encoded.
	binds []byte
	reach *reach
	// handed is the newest hand-over seen in the log; matched is how far the others' logs
	// are known to agree with this leader's.
	handed  handed
	matched matched
	self    raft.ServerID
	// applied is how far this node has applied its log; it announces no higher commit index. Nil: it
	// applies nothing.
	applied func() uint64
	// held is the member whose appends are held back, and the channel that is closed at release.
	held atomic.Pointer[heldBack]
	// includes reports whether this node holds everything that a snapshot does, known how many
	// entries of an append this node has applied if its log begins after them; nil without a log.
	includes func(*raft.InstallSnapshotRequest) bool
	known    func(*raft.AppendEntriesRequest) (count uint64, ok bool)
	// view reads raft's state on this node; nil until raft runs.
	view atomic.Pointer[raftView]
	// settled reports whether the other members have checked this folder; nil if there are none.
	settled func() bool
	// heldUntil bounds how long appends wait for settled. Only the relay goroutine uses it.
	heldUntil time.Time
	// overheard collects what the others' messages reveal of their promises.
	overheard overheard
	// leaders has the leader of each term; rival is called with a second one.
	leaders leaders
	rival   func(term uint64, first, second raft.ServerID)
	// stands reports whether this node may ask for votes.
	stands func() bool
	// scanned is called when raft has looked through its log, before it starts.
	scanned func()

	consumer chan raft.RPC
	closing  chan struct{}
	once     sync.Once
	wg       sync.WaitGroup
}

// raftView is what the transport asks of the raft that runs on it.
type raftView struct {
	voters   func() []raft.ServerID // of this node's own list of members
	followed func() following
	outdone  func() // called when this node refuses a candidate, which usually has a shorter log
}

func newTransport(
	inner rawTransport, l *lease, quiet time.Duration, stands func() bool,
) *transport {
	return &transport{
		rawTransport: inner, lease: l, self: l.self, stands: stands, scanned: func() {},
		quietUntil: time.Now().Add(quiet), reach: newReach(),
		bond: newBond(l.maxPromise), binds: appendBond(l.promise),
		consumer: make(chan raft.RPC), closing: make(chan struct{}),
	}
}

// SetHeartbeatHandler sets none, on purpose: with a handler the network transport treats
// heartbeats on the connection's goroutine, where they can raise the term while raft's main
// goroutine appends, and replicas come to differ. Raft calls it after it has looked through its log
// and before it starts, which is what scanned is for.
func (t *transport) SetHeartbeatHandler(func(raft.RPC)) { t.scanned() }

// AppendEntriesPipeline is refused: two requests in flight can stop replication to a peer for
// good after one of them was rejected.
func (t *transport) AppendEntriesPipeline(
	raft.ServerID, raft.ServerAddress,
) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// AppendEntries records for the lease when the request was sent. A node that left the one before
// unanswered gets the next when it has answered a heartbeat, see reach. The request that waited is
// not that: its commit index is as old as the wait, and a follower that gets it would take itself
// for up to date. Raft makes a new one.
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
	err := t.rawTransport.AppendEntries(id, to, t.outgoing(req), resp)
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

// outgoing is a request that asks for a promise, and commits no more than this leader has applied.
// So no node applies an entry, and shows it to readers, before the leader has.
func (t *transport) outgoing(req *raft.AppendEntriesRequest) *raft.AppendEntriesRequest {
	own := *req // raft sends its heartbeats' again
	*bondOf(&own) = t.binds
	if t.applied != nil {
		own.LeaderCommitIndex = min(own.LeaderCommitIndex, t.applied())
	}
	return &own
}

// heldBack is a member whose appends do not return before release is closed.
type heldBack struct {
	id      raft.ServerID
	release chan struct{}
}

// holdBack makes appends to a member return only after release is called. It holds one member at a
// time.
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

// RequestVote is refused while this node's clock is off. A candidate has left its old term.
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

func header() raft.RPCHeader { return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax} }

// intercept passes raft's answer to f before it is sent; f may replace it.
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

// ErrContradiction means that the cluster contradicts what this node knows to be promised: some
// node's folder was replaced by an older copy while the members that could tell were down.
// Acknowledged records are in some folders and not in others: an operator has to choose.
var ErrContradiction = errors.New("cluster: the cluster contradicts itself")

// termLeader is a term and its leader.
type termLeader struct {
	Term   uint64        `json:"term"`
	Leader raft.ServerID `json:"leader"`
}

// leaders keeps the newest term's leader.
type leaders struct {
	mu     sync.Mutex
	newest termLeader
}

// note records who leads a term; first is another leader of the same one.
func (l *leaders) note(term uint64, leader raft.ServerID) (first raft.ServerID, second bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if term > l.newest.Term {
		l.newest = termLeader{term, leader}
	}
	return l.newest.Leader, term == l.newest.Term && leader != l.newest.Leader
}

func (l *leaders) now() termLeader {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest
}

// lead records who leads a term; false when that is the term's second leader: some node has voted
// twice, and this one stops before it follows both.
func (t *transport) lead(term uint64, leader raft.ServerID) bool {
	first, second := t.leaders.note(term, leader)
	if !second {
		return true
	}
	if t.rival != nil {
		t.rival(term, first, leader)
	}
	return false
}

// following is the leader that raft follows, none if id is empty, and when raft finished its last
// request.
type following struct {
	leader  raft.ServerAddress
	id      raft.ServerID
	contact time.Time
}
