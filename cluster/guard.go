package cluster

import (
	"fmt"

	"github.com/hashicorp/raft"
)

// guard stops raft before it loses or contradicts committed entries.
type guard struct {
	*core
	logGaps int // see hasLogGap; only the relay goroutine uses it
}

// includes reports whether this node holds everything that a snapshot does, in its log or applied.
// A log with another entry in that place contradicts the snapshot.
func (w *guard) includes(req *raft.InstallSnapshotRequest) bool {
	<-w.running // raft calls this, maybe before newRaft has returned
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

// known is how many entries of an append this node has applied. It is false if the append begins
// within the log or after its end, so that raft can compare. Only one goroutine calls it.
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
	if w.hasLogGap(first, applied) {
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

// requireOurs ends this replica if the leader has, at an index that is applied here, an entry of a
// newer term than the newest entry applied here. Terms never fall along a log, so the leader lacks
// that committed entry: some folder was put back to an older copy. Otherwise a node whose log
// begins after the first difference would confirm entries that it does not store. A deposed
// leader's entries prove nothing.
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

// hasLogGap reports whether raft believes in entries that the log does not have: a snapshot was
// installed over entries of a deposed leader, some of which came after it. The log is then empty,
// but raft still looks for them and refuses all appends (trap 5). The gap lasts, unlike the moment
// between the deletion of entries and their replacement.
func (w *guard) hasLogGap(first, applied uint64) bool {
	if first > 0 || w.raft.LastIndex() <= applied {
		w.logGaps = 0
		return false
	}
	if w.logGaps++; w.logGaps == restoreLimit {
		w.contradict("none of the entries that raft knows of")
	}
	return true
}

// contradict ends this replica, whose log contradicts its state. The next start empties such a log.
func (w *guard) contradict(what string) {
	if err := w.rebuild(); err != nil {
		w.log.Error("cannot mark the log for removal", "error", err)
	}
	w.halt(fmt.Errorf("%w: the log of group %s has %s", ErrRestart, w.name, what))
	<-w.closing // nothing more is answered: the leader would try again at once
}

func (w *guard) stopAtRival(term uint64, first, second raft.ServerID) {
	w.halt(fmt.Errorf("%w: group %s: both %s and %s lead term %d: a node has voted twice, and its "+
		"folder was put back to an older copy; keep all folders", ErrContradiction, w.name, first, second,
		term))
}
