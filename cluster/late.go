package cluster

import (
	"errors"
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
		return (*includes)(req.LastLogIndex, req.LastLogTerm)
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

// includes says that the log holds everything up to an entry of that term, or begins behind it.
func (g *Group) includes(index, term uint64) bool {
	first, err := g.store.FirstIndex()
	if err != nil || first == 0 || index == 0 {
		return false
	}
	if index < first {
		return true
	}
	var l raft.Log
	return g.store.GetLog(index, &l) == nil && l.Term == term
}
