package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// beat is what a leader sends, without entries.
func beat(leader string, term uint64) *raft.AppendEntriesRequest {
	return &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(leader)},
		Term:      term,
	}
}

// A term has one leader. Who meets a second one stops: some node has voted twice.
func TestASecondLeaderOfATermStopsANode(t *testing.T) {
	w, other := pairOf(t, 0, yes)
	rivals := make(chan [2]raft.ServerID, 8)
	stop := func(_ uint64, first, second raft.ServerID) { rivals <- [2]raft.ServerID{first, second} }
	w.rival = stop
	send := func(req *raft.AppendEntriesRequest) error {
		return other.AppendEntries("a", "a", req, &raft.AppendEntriesResponse{})
	}
	taken := func(req *raft.AppendEntriesRequest) {
		t.Helper()
		done := make(chan error, 1)
		go func() { done <- send(req) }()
		rpc := <-w.Consumer()
		rpc.Respond(&raft.AppendEntriesResponse{Term: req.Term, Success: true}, nil)
		require.NoError(t, <-done)
	}
	taken(beat("b", 5))
	taken(beat("b", 5))
	taken(beat("c", 4)) // a late one, which raft refuses
	require.ErrorIs(t, send(beat("c", 5)), ErrContradiction)
	require.Equal(t, [2]raft.ServerID{"b", "c"}, <-rivals)
	taken(beat("c", 6))
	require.Empty(t, rivals)

	// This node leads itself.
	go func() {
		rpc := <-other.Consumer()
		rpc.Respond(&raft.AppendEntriesResponse{Term: 7, Success: true}, nil)
	}()
	require.NoError(t, w.AppendEntries("b", "b", beat("a", 7), &raft.AppendEntriesResponse{}))
	require.ErrorIs(t, send(beat("b", 7)), ErrContradiction)
	require.Equal(t, [2]raft.ServerID{"a", "b"}, <-rivals)
}

// A term's leader is remembered across a start: two leaders of one term can come one after the
// other, each while the other one is down.
func TestATermsLeaderIsRemembered(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		time.Sleep(2 * time.Second)
		id := c.others(leader)[0]
		term := c.billing(id).raft.CurrentTerm()
		c.stop(id)
		c.start(id)
		require.Equal(t, termLeader{term, raft.ServerID(leader)}, c.billing(id).lastLeader)
		require.False(t, c.billing(id).transport.lead(term, "x"))
		require.ErrorIs(t, c.fatals(id)[0], ErrContradiction)
	})
}

// A leader's first requests wait until the other members have answered. Until then it refuses
// votes, and a member that says nothing holds nothing up for more than a heartbeat timeout.
func TestNothingIsPromisedBeforeTheOthersWereAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, answered := range map[string]bool{"they answer": true, "one is silent": false} {
			w, other := pairOf(t, 0, yes)
			begun := time.Now()
			settled := func() bool { return answered && time.Since(begun) > testHeartbeat/2 }
			w.settled = settled
			vote := &raft.RequestVoteRequest{Term: 9}
			err := other.RequestVote("a", "a", vote, &raft.RequestVoteResponse{})
			require.ErrorIs(t, err, errQuiet, name)
			done := make(chan error, 1)
			go func() {
				done <- other.AppendEntries("a", "a", beat("b", 5), &raft.AppendEntriesResponse{})
			}()
			rpc := <-w.Consumer()
			waited := time.Since(begun)
			require.GreaterOrEqual(t, waited, testHeartbeat/2, name)
			require.LessOrEqual(t, waited, testHeartbeat+settleEvery, name)
			rpc.Respond(&raft.AppendEntriesResponse{Term: 5, Success: true}, nil)
			<-done // a transport in memory has given up by now
		}
	})
}

// What cannot be known: a copy of since the newest start, and who stays has been away since before
// it was made. Entries that were acknowledged are lost to the two; the member that has them stops
// before it deletes one, at every start.
func TestCommittedEntriesAreNotDeletedForALeader(t *testing.T) {
	for name, option := range map[string]func(string, *Config){
		"the whole log":     nil,
		"behind a snapshot": shortLog,
	} {
		t.Run(name, func(t *testing.T) { committedEntriesStay(t, option) })
	}
}

func committedEntriesStay(t *testing.T, option func(string, *Config)) {
	inCluster(t, option, func(c *nodes) {
		c.known()
		c.leader()
		c.stop("c")
		c.leader()
		time.Sleep(2 * time.Second)
		copied := c.keepCopy("a")
		c.count(c.leader(), keyRange(1, 50)...)
		for i := range uint64(20) {
			c.count("b", 100+i)
		}
		if option != nil { // the lost stretch ends before b's log begins
			c.count("b", keyRange(200, 300)...)
			for i := range uint64(2 * minTrailing) {
				c.count("b", 300+i)
			}
		}
		c.converge()
		if option != nil {
			require.NoError(t, c.billing("b").TakeSnapshot())
		}
		time.Sleep(2 * time.Second)
		c.stop("a")
		c.stop("b")
		c.putBack("a", copied)
		c.start("c")
		c.start("a")
		leader := c.leader()
		for i := range uint64(30) {
			c.count(leader, 1000+i) // in place of what was acknowledged before
		}
		require.False(t, c.ledgers[leader].has(1), "nobody there knows of it")
		require.Empty(t, c.fatals("a"))

		for again := range 2 {
			c.start("b")
			if again == 0 {
				c.refused("a")
			}
			c.eventually("it stops", func() bool { return len(c.fatals("b")) > 0 })
			err := c.fatals("b")[0]
			require.ErrorIs(t, err, ErrContradiction)
			require.Equal(t, ExitFatal, ExitCode(err))
			require.ErrorContains(t, err, "keep this folder")
			require.Empty(t, c.fatals("c"))
			c.stop("b")
			delete(c.fatal, "b")
		}
	})
}
