package cluster

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"tollgate/engine"
)

// writers propose through every node, 5 ms after each answer, until they are stopped, and note the
// longest time in which nothing was acknowledged.
type writers struct {
	mu      sync.Mutex
	keys    []uint64
	newest  time.Time
	longest time.Duration
	refused []engine.Outcome
	stop    chan struct{}
	wg      sync.WaitGroup
}

func (c *nodes) write() *writers { return c.writeThrough(three...) }

func (c *nodes) writeThrough(nodes ...string) *writers {
	w := &writers{stop: make(chan struct{}), newest: time.Now()}
	for i, id := range nodes {
		g := c.billing(id)
		w.wg.Go(func() {
			for key := uint64(1_000_000 * (i + 1)); ; key++ {
				select {
				case <-w.stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
				var results [1]engine.Result
				g.Propose(time.Now().Add(5*time.Second), []engine.Record{countRecord(key)}, results[:])
				w.note(key, results[0].Outcome)
			}
		})
	}
	return w
}

func (w *writers) note(key uint64, o engine.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o != engine.OutcomeDone {
		w.refused = append(w.refused, o)
		return
	}
	w.longest = max(w.longest, time.Since(w.newest))
	w.newest = time.Now()
	w.keys = append(w.keys, key)
}

func (w *writers) end() {
	close(w.stop)
	w.wg.Wait()
}

// handOverWait is what a hand-over may take before a write is acknowledged again.
const handOverWait = 100 * time.Millisecond

func TestLeadershipIsHandedOver(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		old := c.leader()
		target := c.others(old)[0]
		w := c.write()
		time.Sleep(200 * time.Millisecond)
		began := time.Now()
		require.NoError(t, c.billing(old).HandOver(c.t.Context(), target))
		require.Less(t, time.Since(began), handOverWait)
		require.Equal(t, target, c.leader())
		time.Sleep(200 * time.Millisecond)
		w.end()
		require.Empty(t, w.refused)
		require.LessOrEqual(t, w.longest, handOverWait)
		require.NotEmpty(t, w.keys)
		require.Equal(t, engine.OutcomeDone, c.readOutcome(target, time.Second))
		for _, key := range w.keys {
			require.True(t, c.ledgers[target].has(key), key)
		}
		c.converge()
		require.ErrorIs(t, c.billing(old).HandOver(c.t.Context(), ""), ErrNotLeader)
		require.ErrorIs(t, c.billing(target).HandOver(c.t.Context(), "nobody"), ErrHandOver)
		require.ErrorIs(t, c.billing(target).HandOver(c.t.Context(), target), ErrHandOver)
	})
}

// A node that is about to stop gives away both groups, and nobody waits for an election.
func TestARetiredNodeLeadsNothing(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		old := c.leader()
		c.eventually("both groups are led by one node", func() bool {
			g := c.node[old].Workspace()
			if _, leads := g.Leads(); leads {
				return true
			}
			if r := g.route.Load(); r.leader != "" {
				if other := c.node[r.leader].Workspace(); other != nil {
					_ = other.HandOver(c.t.Context(), old) // again, when it is too early
				}
			}
			return false
		})
		w := c.write()
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		require.NoError(t, c.node[old].Retire(c.t.Context()))
		require.Less(t, time.Since(began), 2*handOverWait)
		require.Contains(t, c.node[old].Status().Reasons,
			Reason{Cause: CauseStopping, Text: "about to stop"})
		leader := c.leader()
		require.NotEqual(t, old, leader)
		require.NotEqual(t, old, c.node[leader].Workspace().route.Load().leader)
		time.Sleep(100 * time.Millisecond)
		w.end()
		require.Empty(t, w.refused)
		require.LessOrEqual(t, w.longest, handOverWait)
		c.kill(leader) // a retired node does not stand, whatever happens
		time.Sleep(5 * time.Second)
		_, leads := c.billing(old).Leads()
		require.False(t, leads)
		c.start(leader)
		c.leader()
	})
}

// A hand-over that fails leaves the leader where it was: it takes writes, and answers reads when a
// majority confirms them, for its lease is over for good.
func TestAHandOverThatFailsChangesNothing(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		old := c.leader()
		target := c.others(old)[0]
		c.count(old, 1)
		c.eventually("there is a lease", func() bool { return held(c.billing(old).lease) })
		w := c.write()
		c.net.isolate(addressOf(target))
		require.ErrorIs(t, c.billing(old).HandOver(c.t.Context(), target), ErrHandOver)
		c.count(old, 2)
		_, leads := c.billing(old).Leads()
		require.True(t, leads)
		for range 10 {
			require.False(t, held(c.billing(old).lease))
			require.Equal(t, engine.OutcomeDone, c.readOutcome(old, time.Second))
			time.Sleep(50 * time.Millisecond)
		}
		c.net.mend()
		c.eventually("it has caught up", func() bool {
			return c.billing(old).HandOver(c.t.Context(), target) == nil
		})
		require.Equal(t, target, c.leader())
		c.eventually("there is a lease", func() bool { return held(c.billing(target).lease) })
		w.end()
		require.Empty(t, w.refused)
		c.converge()
	})
}

// An entry that the target has not and the others have would cost it the election.
func TestNoMemberChangesDuringAHandOver(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.known()
		old := c.leader()
		target, third := c.others(old)[0], c.others(old)[1]
		g := c.billing(old)
		g.changing <- struct{}{}
		soon, cancel := context.WithTimeout(c.t.Context(), 50*time.Millisecond)
		defer cancel()
		c.eventually("there is a lease", func() bool { return held(g.lease) })
		require.ErrorIs(t, g.HandOver(soon, target), ErrHandOver)
		require.True(t, held(g.lease), "nothing has begun")
		<-g.changing

		c.net.isolate(addressOf(target))
		done := make(chan error, 1)
		go func() { done <- g.HandOver(c.t.Context(), target) }()
		c.eventually("the hand-over has begun", func() bool { return !held(g.lease) })
		require.ErrorContains(t, c.node[old].Promote(c.within(50*time.Millisecond), third),
			"another change is under way")
		require.ErrorIs(t, <-done, ErrHandOver)
		c.net.mend()
		require.NoError(t, c.node[old].Promote(c.within(10*time.Second), third))
	})
}

// The lease is over before anyone can learn of the hand-over: a voter that has seen the record owes
// this leader nothing.
func TestTheLeaseEndsBeforeTheHandOverIsWritten(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		old := c.leader()
		g := c.billing(old)
		c.eventually("there is a lease", func() bool { return held(g.lease) })
		for _, other := range c.others(old) {
			c.net.cutLink(addressOf(old), addressOf(other))
		}
		ctx, cancel := context.WithTimeout(c.t.Context(), 50*time.Millisecond)
		defer cancel()
		require.True(t, held(g.lease))
		require.ErrorIs(t, g.HandOver(ctx, ""), ErrHandOver)
		require.False(t, held(g.lease), "nothing was committed, and yet")
		c.net.mend()
		c.count(c.leader(), 1)
		c.converge() // raft that is closed before leaves the record's future unanswered
	})
}

func handOverEntry(term uint64, target string) *raft.Log {
	payload := engine.AppendHandOver(nil, engine.HandOver{Term: term, Target: target})
	entry := engine.AppendRecord(engine.AppendHeader(nil, ShardBilling),
		engine.Record{Kind: engine.KindHandOver, Payload: payload})
	return &raft.Log{Type: raft.LogCommand, Term: term, Index: term, Data: entry}
}

// The request to stand for election is obeyed once, by the node that the log names, in the term of
// the leader that wrote it there.
func TestOnlyTheNamedNodeStands(t *testing.T) {
	append := func(term uint64, logs ...*raft.Log) *raft.AppendEntriesRequest {
		return &raft.AppendEntriesRequest{Term: term, Entries: logs}
	}
	for name, row := range map[string]struct {
		seen  []*raft.AppendEntriesRequest
		stand bool
	}{
		"nothing seen":   {nil, false},
		"named":          {[]*raft.AppendEntriesRequest{append(5, handOverEntry(5, "a"))}, true},
		"another":        {[]*raft.AppendEntriesRequest{append(5, handOverEntry(5, "b"))}, false},
		"of an old term": {[]*raft.AppendEntriesRequest{append(6, handOverEntry(5, "a"))}, false},
		"a newer term since": {
			[]*raft.AppendEntriesRequest{append(5, handOverEntry(5, "a")), append(6)}, false,
		},
		"another after it": {[]*raft.AppendEntriesRequest{append(5, handOverEntry(5, "a"), &raft.Log{
			Type: raft.LogCommand, Term: 5, Index: 6, Data: handOverEntry(5, "b").Data,
		})}, false},
	} {
		var h handed
		for _, req := range row.seen {
			h.look(req)
		}
		require.Equal(t, row.stand, h.accept("a"), name)
		require.False(t, h.accept("a"), "%s: twice", name)
	}
	var h handed
	require.False(t, h.allows(1, ""), "nothing was handed over")
	h.look(append(5, handOverEntry(5, "a")))
	require.True(t, h.allows(6, "a"))
	require.False(t, h.allows(7, "a"), "another term")
	require.False(t, h.allows(6, "b"), "another node")
}

// What the log says comes through the transport, and nothing else does.
func TestTimeoutNowOfAHandOverComesThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, other := pairOf(t, 0, yes)
		done := make(chan error, 1)
		send := func(call func() error) {
			go func() { done <- call() }()
			rpc := <-w.Consumer()
			switch req := rpc.Command.(type) {
			case *raft.RequestVoteRequest:
				require.True(t, req.LeadershipTransfer)
				rpc.Respond(&raft.RequestVoteResponse{}, nil)
			case *raft.TimeoutNowRequest:
				rpc.Respond(&raft.TimeoutNowResponse{}, nil)
			default:
				rpc.Respond(&raft.AppendEntriesResponse{}, nil)
			}
			require.NoError(t, <-done)
		}
		send(func() error {
			req := &raft.AppendEntriesRequest{Term: 5, Entries: []*raft.Log{handOverEntry(5, "a")}}
			return other.AppendEntries("a", "a", req, &raft.AppendEntriesResponse{})
		})
		send(func() error {
			return other.TimeoutNow("a", "a", &raft.TimeoutNowRequest{}, &raft.TimeoutNowResponse{})
		})
		send(func() error {
			req := &raft.RequestVoteRequest{
				RPCHeader: raft.RPCHeader{ID: []byte("a")}, Term: 6, LeadershipTransfer: true,
			}
			return other.RequestVote("a", "a", req, &raft.RequestVoteResponse{})
		})
		require.ErrorIs(t, other.TimeoutNow("a", "a", &raft.TimeoutNowRequest{},
			&raft.TimeoutNowResponse{}), errTransfer, "again")
		require.NoError(t, w.Close())
	})
}

// All nodes stop at once: none takes over from another that it would have to hand on to.
func TestNodesThatAllRetireDoNotWaitForEachOther(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		old := c.leader()
		for _, id := range c.others(old) {
			require.NoError(t, c.node[id].Retire(c.t.Context()))
		}
		began := time.Now()
		require.ErrorIs(t, c.node[old].Retire(c.t.Context()), ErrHandOver)
		require.Less(t, time.Since(began), 400*time.Millisecond)
	})
}
