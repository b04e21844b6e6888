package cluster

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"sync"

	"github.com/hashicorp/raft"
)

// mark is what a node has promised in one group. Promises survive a crash.
type mark struct {
	Term uint64 `json:"term,omitempty"`
	// Vote identifies the candidate that it voted for in that term; 0: none.
	Vote uint64 `json:"vote,omitempty"`
	// LastTerm and Last are the last entry of its log, or of its snapshot. LastTerm is 0 where it is
	// not known.
	LastTerm uint64 `json:"lastTerm,omitempty"`
	Last     uint64 `json:"last,omitempty"`
	// Committed is how far it knows the log to be committed.
	Committed uint64 `json:"committed,omitempty"`
}

// missingIn says what a folder lacks of a mark, given the mark that it claims to hold; "" if
// nothing. A log may become shorter: a new leader overwrites entries that were not committed. But
// committed entries stay, and so do those of the present term's leader, which overwrites none.
func (m mark) missingIn(said mark) string {
	switch {
	case said.Term < m.Term:
		return fmt.Sprintf("term %d, and has term %d", m.Term, said.Term)
	case said.Last < m.Committed:
		return fmt.Sprintf("entries up to %d, which are committed, and has entries up to %d",
			m.Committed, said.Last)
	case said.Term > m.Term:
		return ""
	case m.Vote != 0 && said.Vote != m.Vote:
		return fmt.Sprintf("its vote in term %d", m.Term)
	case m.LastTerm == m.Term && (said.LastTerm < m.LastTerm || said.Last < m.Last):
		return fmt.Sprintf("entries up to %d, which it acknowledged in term %d, and has entries up to "+
			"%d", m.Last, m.Term, said.Last)
	}
	return ""
}

// and is what is known when both were promised by one process, in whatever order they were heard.
func (m mark) and(other mark) mark {
	if other.Term < m.Term {
		m, other = other, m
	}
	committed := max(m.Committed, other.Committed)
	if other.Term == m.Term {
		other.Vote = cmp.Or(other.Vote, m.Vote)
		if m.LastTerm > other.LastTerm || m.LastTerm == other.LastTerm && m.Last > other.Last {
			other.LastTerm, other.Last = m.LastTerm, m.Last
		}
	}
	other.Committed = committed
	return other
}

// markBytes is the length of a mark on the wire.
const markBytes = 5 * 8

func (m mark) append(b []byte) []byte {
	for _, n := range []uint64{m.Term, m.Vote, m.LastTerm, m.Last, m.Committed} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

func parseMark(b []byte) (m mark) {
	for i, n := range []*uint64{&m.Term, &m.Vote, &m.LastTerm, &m.Last, &m.Committed} {
		*n = binary.LittleEndian.Uint64(b[8*i:])
	}
	return m
}

// voteFor identifies a candidate in a mark.
func voteFor(candidate []byte) uint64 {
	h := fnv.New64a()
	h.Write(candidate) // never fails
	return h.Sum64() | 1
}

var (
	voteTermKey = []byte("LastVoteTerm")
	voteCandKey = []byte("LastVoteCand")
)

// overheard collects what other nodes' messages reveal about their promises: a node that sends
// entries has them, one that asks for votes has begun that term, one that acknowledges has stored
// the entries. This is known at once, while marks arrive once a second.
type overheard struct {
	mu sync.Mutex
	of map[raft.ServerID]mark
}

func (p *overheard) note(node raft.ServerID, m mark) {
	if node == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = make(map[raft.ServerID]mark)
	}
	p.of[node] = p.of[node].and(m)
}

// take returns what was recorded since the last call.
func (p *overheard) take() map[raft.ServerID]mark {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.of
	p.of = nil
	return taken
}

// noteAppend records what is known of both ends of an append that carries entries. committed is
// what this leader knows to be committed at the answering end.
func (p *overheard) noteAppend(
	node raft.ServerID, req *raft.AppendEntriesRequest, committed uint64,
) {
	n := len(req.Entries)
	if n == 0 {
		p.note(node, mark{Term: req.Term})
		return
	}
	last := req.Entries[n-1]
	p.note(node, mark{
		Term: req.Term, LastTerm: last.Term, Last: last.Index, Committed: min(committed, last.Index),
	})
}
