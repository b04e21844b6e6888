package cluster

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

var errIncluded = errors.New("cluster: the log holds what that snapshot does")

// guardLog keeps a snapshot from being installed that says nothing new. One that was held up on its
// way comes after entries behind it were stored and acknowledged: raft would go back to its state
// and, on a log without gaps, delete all of them. The answer is then the one that raft's paper
// gives (§7): the snapshot is there, and the entries behind it stay.
//
// The log is looked at when raft begins to read the snapshot: nothing that came before is still
// being stored then.
func (t *transport) guardLog(rpc *raft.RPC, req *raft.InstallSnapshotRequest) {
	includes := t.includes.Load()
	if includes == nil || rpc.Reader == nil {
		return
	}
	late := &lateReader{src: rpc.Reader, included: func() bool {
		return (*includes)(req)
	}}
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

// guard keeps raft from what would lose entries, or contradict them.
type guard struct {
	*core
	hollows int // see hollow; of the goroutine that looks at requests
}

// includes reports whether this node holds everything that a snapshot does: in its log, or applied
// and gone from there. A log that has another entry in that place contradicts the snapshot.
func (w *guard) includes(req *raft.InstallSnapshotRequest) bool {
	<-w.running // raft asks, which runs; but its own beginning may not be over here
	index, term := req.LastLogIndex, req.LastLogTerm
	if index == 0 {
		return false
	}
	w.requireOurs(req.Term, place{index, term})
	var l raft.Log
	if err := w.store.GetLog(index, &l); err != nil {
		return index <= w.raft.AppliedIndex()
	}
	return l.Term == term
}

// known is how many entries of an append this node has applied; false where raft is to compare the
// place that the append joins on to, which is in the log, or behind its end. One goroutine calls
// it.
func (w *guard) known(req *raft.AppendEntriesRequest) (count uint64, ok bool) {
	select {
	case <-w.running:
	default:
		return 0, false
	}
	first, err := w.store.FirstIndex()
	applied, prev := w.raft.AppliedIndex(), req.PrevLogEntry
	if err != nil || prev > applied || first > 0 && prev >= first {
		return 0, false
	}
	if w.hollow(first, applied) {
		return 0, false
	}
	count = min(applied-prev, uint64(len(req.Entries)))
	newest := place{prev, req.PrevLogTerm}
	if count > 0 {
		newest = place{req.Entries[count-1].Index, req.Entries[count-1].Term}
	}
	w.requireOurs(req.Term, newest)
	for _, entry := range req.Entries[:count] {
		var l raft.Log
		if w.store.GetLog(entry.Index, &l) == nil && l.Term != entry.Term &&
			req.Term >= w.raft.CurrentTerm() { // a deposed leader's entries prove nothing
			w.contradict(fmt.Sprintf("another entry %d than its leader's", entry.Index))
			return 0, false
		}
	}
	return count, true
}

// requireOurs ends this replica if its leader has an entry in a place up to which this node has
// applied the log, of a newer term than the newest entry applied here. Terms never fall along a
// log, so the leader's log lacks that entry, which is committed: some folder was put back. Without
// this, a node whose log begins behind the first difference would take the leader's entries for its
// own, and confirm what it does not store. A deposed leader's entries prove nothing.
func (w *guard) requireOurs(term uint64, theirs place) {
	ours := w.newest()
	if theirs.index > ours.index || theirs.term <= ours.term || ours.term == 0 ||
		term < w.raft.CurrentTerm() {
		return
	}
	w.halt(fmt.Errorf("%w: group %s: the leader has entry %d of term %d, and entry %d of term %d is "+
		"committed here; nothing was deleted: keep this folder", ErrContradiction, w.name, theirs.index,
		theirs.term, ours.index, ours.term))
	<-w.closing // nothing is answered
}

// hollow reports whether raft takes the log for longer than it is: a snapshot was installed over
// entries of a deposed leader, some of which are behind it. The log is empty then, raft looks for
// them still, and refuses whatever it is sent (trap 5). It lasts, other than the moment between the
// deletion of entries and those that take their place.
func (w *guard) hollow(first, applied uint64) bool {
	if first > 0 || w.raft.LastIndex() <= applied {
		w.hollows = 0
		return false
	}
	if w.hollows++; w.hollows == restoreLimit {
		w.contradict("none of the entries that raft knows of")
	}
	return true
}

// contradict ends this replica, whose log does not go with what it has applied. The next start
// empties a log that contradicts the snapshot.
func (w *guard) contradict(what string) {
	if err := w.rebuild(); err != nil {
		w.log.Error("cannot mark the log for removal", "error", err)
	}
	w.halt(fmt.Errorf("%w: the log of group %s has %s", ErrRestart, w.name, what))
	<-w.closing // nothing more is answered: the leader would try again at once
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
	known := t.known.Load()
	if known == nil || len(req.Entries) == 0 {
		return &own
	}
	if count, ok := (*known)(req); ok {
		own.Entries = req.Entries[count:]
		own.PrevLogEntry, own.PrevLogTerm = 0, 0 // nothing to compare
		if len(own.Entries) == 0 {
			own.LeaderCommitIndex = 0
		}
	}
	return &own
}
