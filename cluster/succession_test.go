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

// A voter is bound to the leader that it heard of within the heartbeat timeout, and to no other.
func TestAVoteIsFreeWhenThePromiseIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, other := pairOf(t, 0, yes)
		leads, contact := raft.ServerID("c"), time.Time{}
		followed := func() following { return following{"c:1", leads, contact} }
		w.followed.Store(&followed)
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
