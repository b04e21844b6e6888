package cluster

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// ErrContradiction means that the cluster contradicts what this node knows to be promised: some
// node's folder was put back to an older copy, and those who could tell were away. Acknowledged
// records are in some folders, and not in others: an operator has to choose.
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

// note takes in who leads a term; first is another leader of the same one.
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

// lead takes in who leads a term; false when that is the term's second leader: some node has voted
// twice, and this one stops before it follows both.
func (t *transport) lead(term uint64, leader raft.ServerID) bool {
	first, second := t.leaders.note(term, leader)
	if !second {
		return true
	}
	if rival := t.rival.Load(); rival != nil {
		(*rival)(term, first, leader)
	}
	return false
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

func (w *guard) stopAtRival(term uint64, first, second raft.ServerID) {
	w.halt(fmt.Errorf("%w: group %s: both %s and %s lead term %d: a node has voted twice, and its "+
		"folder was put back to an older copy; keep all folders", ErrContradiction, w.name, first, second,
		term))
}

// quiet reports whether this node gives no votes yet, since it may have promised, before it was
// restarted, not to, or since not everybody was asked what else it has promised.
func (t *transport) quiet() bool {
	settled := t.settled.Load()
	return time.Now().Before(t.quietUntil) || settled != nil && !(*settled)()
}

// settleEvery is how often a request that waits looks again.
const settleEvery = 5 * time.Millisecond

// awaitSettled holds the first requests of leaders back for as long as the promise to a leader
// lasts, or until the other members had their say on this folder.
func (t *transport) awaitSettled() {
	settled := t.settled.Load()
	if settled == nil || (*settled)() {
		return
	}
	if t.heldUntil.IsZero() {
		t.heldUntil = time.Now().Add(t.lease.promise)
	}
	for time.Now().Before(t.heldUntil) && !(*settled)() {
		select {
		case <-time.After(settleEvery):
		case <-t.closing:
			return
		}
	}
}
