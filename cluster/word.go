package cluster

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// word is what a leader says of its log beside the read index: the newest entry that it has
// applied, and the term in which it leads.
type word struct {
	// index is the read index of the same answer.
	index     uint64
	committed place
	term      uint64
}

// newestWord is the leader's newest word; heard says that there is a newer one.
type newestWord struct {
	atomic.Pointer[word]
	heard chan struct{}
}

// indexAnswer is the answer to callReadIndex. Nodes of an older build read the index alone.
func (g *Group) indexAnswer(index, term uint64) []byte {
	committed := g.adapter.progress.at()
	answer := binary.AppendUvarint(make([]byte, 0, 4*binary.MaxVarintLen64), index)
	answer = binary.AppendUvarint(answer, committed.index)
	answer = binary.AppendUvarint(answer, committed.term)
	return binary.AppendUvarint(answer, term)
}

// hear takes what stands behind a read index, where this node is not as far; a leader of an older
// build says nothing there.
func (g *Group) hear(index uint64, rest []byte) {
	var numbers [3]uint64
	for i := range numbers {
		number, n := binary.Uvarint(rest)
		if n <= 0 {
			return
		}
		numbers[i], rest = number, rest[n:]
	}
	if g.adapter.progress.index.Load() >= index {
		return
	}
	g.word.Store(&word{index, place{numbers[0], numbers[1]}, numbers[2]})
	select {
	case g.word.heard <- struct{}{}:
	default:
	}
}

const (
	// wordEvery is how soon this node looks again for an entry that the leader has named.
	wordEvery = time.Millisecond
	// wordTries bounds that: by then appends say it.
	wordTries = 100
)

// followWord brings this node to where the leader's answers say that it may be, without waiting for
// the next append: an idle leader sends one every CommitTimeout.
func (g *Group) followWord() {
	for {
		select {
		case <-g.word.heard:
		case <-g.closing:
			return
		}
		for range wordTries {
			w := g.word.Load()
			if g.adapter.progress.index.Load() >= w.index {
				break
			}
			g.heed(w.committed, w.term)
			if !g.pause(g.ctx, wordEvery) {
				return
			}
			r := g.route.Load()
			if w.committed.index < w.index && r.term == w.term && !r.ready && r.leader != "" {
				g.index.join(func(q *round) { g.askIndex(r, q) }) // it was being applied
			}
		}
	}
}

// heed tells raft that an entry is committed, as an append of the leader's would that holds nothing
// else: raft compares the place, and so all before it. An entry that a leader has applied is
// committed for good, however late the word comes; and raft refuses that of an earlier term.
func (g *Group) heed(committed place, term uint64) {
	var entry raft.Log
	address, leader := g.raft.LeaderWithID()
	if committed.term == 0 || leader == "" || string(leader) == g.config.NodeID ||
		g.raft.CurrentTerm() != term ||
		g.store.GetLog(committed.index, &entry) != nil || entry.Term != committed.term {
		return
	}
	head := header()
	head.ID, head.Addr = []byte(leader), g.transport.EncodePeer(leader, address)
	g.transport.deliver(raft.RPC{
		Command: &raft.AppendEntriesRequest{
			RPCHeader: head, Term: term, LeaderCommitIndex: committed.index,
			PrevLogEntry: committed.index, PrevLogTerm: committed.term,
		},
		RespChan: make(chan raft.RPCResponse, 1),
	})
}

// deliver gives raft a request that no node has sent.
func (t *transport) deliver(rpc raft.RPC) {
	select {
	case t.consumer <- rpc:
	case <-t.closing:
	}
}
