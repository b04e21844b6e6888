package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// When a leader is gone the next one leads after the promise to it is over, and the turns of those
// that may stand: no draw of raft's makes it last longer.
func TestASilentLeaderIsReplacedInTurn(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		for round := range uint64(15) {
			c.count(leader, round+1)
			c.converge()
			begin := time.Now()
			c.net.isolate(addressOf(leader))
			next := c.leader(leader)
			gap := time.Since(begin)
			require.Equal(t, c.others(leader)[0], next, "all have the same log: the first in turn")
			// Nobody votes before the promise is over, which a beat renewed up to a fifth of it before.
			require.Greater(t, gap, testHeartbeat*8/10)
			require.Less(t, gap, testHeartbeat*15/10, "round %d", round)
			c.net.mend()
			c.eventually("it follows", func() bool {
				return c.billing(leader).route.Load().leader == next
			})
			leader = next
		}
	})
}

// leases watches, until stop is called, that a leader holds no lease once any other node has begun
// a later term.
func (c *nodes) leases(leader string) (stop func()) {
	held, ended, done := 0, make(chan struct{}), make(chan struct{})
	g := c.billing(leader)
	term, _ := g.Leads()
	go func() {
		defer close(done)
		for {
			select {
			case <-ended:
				return
			case <-time.After(time.Millisecond):
			}
			for _, id := range c.others(leader) {
				if c.billing(id).raft.CurrentTerm() > term && g.lease.stands(term) {
					held++
				}
			}
		}
	}()
	return func() {
		close(ended)
		<-done
		require.Zero(c.t, held, "a lease outlives the promises that it rests on")
	}
}

// A leader that hangs up on the others is replaced as soon as the promise to it is over, and no
// sooner: it may go on, and be cut off by what stands between.
func TestALeaderThatHangsUpIsReplacedSooner(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		for round := range uint64(15) {
			c.count(leader, round+1)
			c.converge()
			time.Sleep(time.Second + time.Duration(round)*7*time.Millisecond)
			begin, watched := time.Now(), c.leases(leader)
			for _, id := range c.others(leader) {
				c.net.hangUp(addressOf(leader), addressOf(id))
			}
			next := c.leader(leader)
			gap := time.Since(begin)
			watched()
			require.Equal(t, c.others(leader)[0], next, "all have the same log: the first in turn")
			require.Greater(t, gap, testHeartbeat*(promiseTenths-2)/10)
			require.Less(t, gap, testHeartbeat*(promiseTenths+1)/10, "round %d", round)
			c.net.mend()
			c.eventually("it follows", func() bool {
				return c.billing(leader).route.Load().leader == next
			})
			leader = next
		}
	})
}

// Where the first in turn has the shorter log, who has refused it does not wait for a turn.
func TestWhoHasTheLongerLogStandsAtOnce(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		c.count(leader, 1)
		c.converge()
		time.Sleep(time.Second)
		first, second := c.others(leader)[0], c.others(leader)[1]
		c.net.cutLink(addressOf(leader), addressOf(first))
		c.count(leader, 2)
		begin, watched := time.Now(), c.leases(leader)
		for _, id := range c.others(leader) {
			c.net.hangUp(addressOf(leader), addressOf(id))
		}
		require.Equal(t, second, c.leader(leader))
		require.Less(t, time.Since(begin), testHeartbeat*(promiseTenths+1)/10)
		watched()
	})
}

// A leader that hangs up on one node, and leads the others, goes on.
func TestALeaderThatHangsUpOnOneNodeGoesOn(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		term, _ := c.billing(leader).Leads()
		c.net.hangUp(addressOf(leader), addressOf(c.others(leader)[0]))
		time.Sleep(5 * time.Second)
		c.count(leader, 1)
		now, leads := c.billing(leader).Leads()
		require.True(t, leads)
		require.Equal(t, term, now)
	})
}

// Requests say for how long they bind; one that does not means a heartbeat timeout.
func TestRequestsSayForHowLongTheyBind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, other := pairOf(t, 0, yes)
		go func() {
			rpc := <-other.Consumer()
			rpc.Respond(&raft.AppendEntriesResponse{Term: 8, Success: true}, nil)
		}()
		own := raft.AppendEntriesRequest{Term: 8}
		*bondOf(&own) = []byte("a:1")
		sent := w.outgoing(&own)
		require.NoError(t, w.AppendEntries("b", "b", &own, &raft.AppendEntriesResponse{}))
		require.Equal(t, w.lease.promise, parseBond(*bondOf(sent), testHeartbeat))
		require.Less(t, w.lease.window, w.lease.promise)
		require.Equal(t, "a:1", string(*bondOf(&own)), "raft's own request is not touched")
		for _, said := range [][]byte{
			nil, []byte("127.0.0.1:7000"),
			{0},
			{0, 0},
			{0, 0xff},
			append(appendBond(5), 1),
			appendBond(testHeartbeat + 1),
		} {
			require.Equal(t, testHeartbeat, parseBond(said, testHeartbeat), "%q", said)
		}
		require.NoError(t, w.Close())
	})
}

// A voter stands against no leader that it is bound to, whatever it has heard of its end, nor while
// raft names none or itself.
func TestNobodyStandsAgainstAPromise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, other := pairOf(t, 0, yes)
		leads := raft.ServerID("c")
		followed := func() following { return following{"c:1", leads, time.Time{}} }
		w.view.Store(viewOf(followed))
		go func() {
			for {
				select {
				case rpc := <-w.Consumer():
					rpc.Respond(&raft.AppendEntriesResponse{}, nil)
				case <-w.closing:
					return
				}
			}
		}()
		hear := func(said []byte) {
			req := &raft.AppendEntriesRequest{Term: 8}
			*bondOf(req) = said
			require.NoError(t, other.AppendEntries("a", "a", req, &raft.AppendEntriesResponse{}))
		}
		time.Sleep(testHeartbeat)
		hear(w.binds)
		time.Sleep(w.lease.promise - 1)
		require.False(t, w.stand())
		time.Sleep(time.Nanosecond)
		leads = ""
		require.False(t, w.stand())
		leads = w.self
		require.False(t, w.stand())
		leads = "c"
		require.True(t, w.stand())
		hear([]byte("c:1")) // it names no promise
		hear(w.binds)
		time.Sleep(testHeartbeat - 1)
		require.False(t, w.stand(), "a later request cuts no promise short")
		time.Sleep(time.Nanosecond)
		require.True(t, w.stand())
		require.NoError(t, w.Close())
	})
}

// A voter is bound to the leader that it heard of within the heartbeat timeout, and to no other.
func TestAVoteIsFreeWhenThePromiseIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, other := pairOf(t, 0, yes)
		leads, contact := raft.ServerID("c"), time.Time{}
		followed := func() following { return following{"c:1", leads, contact} }
		w.view.Store(viewOf(followed))
		ask := func(call func() error) any {
			done := make(chan error, 1)
			go func() { done <- call() }()
			rpc := <-w.Consumer()
			switch rpc.Command.(type) {
			case *raft.RequestVoteRequest:
				rpc.Respond(&raft.RequestVoteResponse{}, nil)
			case *raft.RequestPreVoteRequest:
				rpc.Respond(&raft.RequestPreVoteResponse{}, nil)
			default:
				rpc.Respond(&raft.AppendEntriesResponse{}, nil)
			}
			require.NoError(t, <-done)
			return rpc.Command
		}
		free := func() bool {
			vote := ask(func() error {
				return other.RequestVote("a", "a", &raft.RequestVoteRequest{Term: 9},
					&raft.RequestVoteResponse{})
			}).(*raft.RequestVoteRequest)
			preVote := ask(func() error {
				return other.RequestPreVote("a", "a", &raft.RequestPreVoteRequest{
					RPCHeader: raft.RPCHeader{Addr: []byte("b:1")}, Term: 9,
				}, &raft.RequestPreVoteResponse{})
			}).(*raft.RequestPreVoteRequest)
			require.Equal(t, vote.LeadershipTransfer, string(preVote.Addr) == "c:1")
			return vote.LeadershipTransfer
		}
		beat := func() {
			ask(func() error {
				return other.AppendEntries("a", "a", &raft.AppendEntriesRequest{Term: 8},
					&raft.AppendEntriesResponse{})
			})
		}
		for range 3 {
			beat()
			time.Sleep(testHeartbeat - 1)
			require.False(t, free(), "it may have promised its vote to the leader")
		}
		time.Sleep(time.Nanosecond)
		require.True(t, free())
		contact = time.Now().Add(1 - testHeartbeat)
		require.False(t, free(), "raft has only just carried out what came")
		contact = time.Time{}
		leads = ""
		require.False(t, free(), "raft refuses nobody")
		leads = w.self
		require.False(t, free(), "it leads, and nobody sends it anything")
		leads = "c"
		beat()
		require.False(t, free())
		require.NoError(t, w.Close())
	})
}

// viewOf is a raft that follows a leader.
func viewOf(followed func() following) *raftView {
	return &raftView{
		voters: func() []raft.ServerID { return nil }, followed: followed, outdone: func() {},
	}
}
