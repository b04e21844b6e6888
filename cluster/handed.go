package cluster

import (
	"sync"

	"github.com/hashicorp/raft"

	"tollgate/engine"
)

// handed is the newest hand-over in the log of the leader that makes it. It need not be committed,
// because the leader's lease ended first.
type handed struct {
	mu    sync.Mutex
	over  engine.HandOver
	index uint64
	// taken: the one request to stand for election that it allows has arrived.
	taken bool
}

// note remembers a hand-over and its log index. A term may have several; all but the last have
// failed.
func (h *handed) note(over engine.HandOver, index uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if over.Term > h.over.Term || over.Term == h.over.Term && index > h.index {
		h.over, h.index, h.taken = over, index, false
	}
}

// look notes hand-overs in a leader's append, and that a new term has begun.
func (h *handed) look(req *raft.AppendEntriesRequest) {
	h.mu.Lock()
	if req.Term > h.over.Term {
		h.taken = true // too late for a delayed request
	}
	h.mu.Unlock()
	for _, l := range req.Entries {
		if l.Type != raft.LogCommand {
			continue
		}
		if over, ok := handOverOf(l.Data); ok && over.Term == req.Term {
			h.note(over, l.Index)
		}
	}
}

// handOverOf reads the hand-over that an entry carries, as its only record.
func handOverOf(entry []byte) (engine.HandOver, bool) {
	if len(entry) > engine.HeaderSize+2+8+engine.MaxNodeID+2 {
		return engine.HandOver{}, false
	}
	_, walk, err := engine.ParseEntry(entry)
	if err != nil {
		return engine.HandOver{}, false
	}
	if r, ok := walk.Next(); ok && r.Kind == engine.KindHandOver {
		return engine.ParseHandOver(r.Payload)
	}
	return engine.HandOver{}, false
}

// accept reports whether this node may obey a request to stand for election: the log names it for
// the present term, and it has not done so yet.
func (h *handed) accept(self raft.ServerID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.taken || h.over.Term == 0 || raft.ServerID(h.over.Target) != self {
		return false
	}
	h.taken = true
	return true
}

// allows reports whether a candidate may get a vote although a leader is known.
func (h *handed) allows(term uint64, candidate raft.ServerID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.over.Term != 0 && term == h.over.Term+1 && raft.ServerID(h.over.Target) == candidate
}

// matched is how far each peer's log is known to agree with the leader's, in one term.
type matched struct {
	mu    sync.Mutex
	term  uint64
	peers map[raft.ServerID]uint64
	news  broadcast
}

func (m *matched) note(term uint64, peer raft.ServerID, index uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if term < m.term {
		return
	}
	if term > m.term || m.peers == nil {
		m.term, m.peers = term, make(map[raft.ServerID]uint64)
	}
	if index > m.peers[peer] {
		m.peers[peer] = index
		m.news.send()
	}
}

// of is how far a peer's log agrees, 0 if unknown in that term, and a channel that is closed at the
// next progress of any peer.
func (m *matched) of(term uint64, peer raft.ServerID) (uint64, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.term != term {
		return 0, m.news.next()
	}
	return m.peers[peer], m.news.next()
}
