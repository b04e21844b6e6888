package cluster

import (
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// install sends a snapshot as the leader does, and reports whether the other node took it.
func (c *nodes) install(leader, to string, meta *raft.SnapshotMeta, src io.Reader) bool {
	g := c.billing(leader)
	request := &raft.InstallSnapshotRequest{
		RPCHeader: headerOf(leader), SnapshotVersion: raft.SnapshotVersionMax,
		Term: g.raft.CurrentTerm(), LastLogIndex: meta.Index, LastLogTerm: meta.Term,
		Configuration:      raft.EncodeConfiguration(meta.Configuration),
		ConfigurationIndex: meta.ConfigurationIndex, Size: meta.Size,
	}
	var response raft.InstallSnapshotResponse
	require.NoError(c.t, g.transport.rawTransport.InstallSnapshot(raft.ServerID(to),
		raft.ServerAddress(addressOf(to)), request, &response, io.LimitReader(src, meta.Size)))
	return response.Success
}

func headerOf(leader string) raft.RPCHeader {
	return raft.RPCHeader{
		ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(leader), Addr: []byte(addressOf(leader)),
	}
}

// Trap: a snapshot that was held up on its way arrives after the entries behind it. Raft would go
// back to it and delete them from a log without gaps, although this node has acknowledged them.
func TestASnapshotThatIsLateDeletesNothing(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		g := c.billing(leader)
		c.count(leader, keyRange(1, 20)...)
		require.NoError(t, g.TakeSnapshot())
		found, err := g.snapshots.List()
		require.NoError(t, err)
		late := found[0]
		c.count(leader, 100)
		c.count(leader, 101)
		c.converge()

		id := c.others(leader)[0]
		follower := c.billing(id)
		applied, last := follower.machine.Applied(), follower.raft.LastIndex()
		meta, src, err := g.snapshots.Open(late.ID)
		require.NoError(t, err)
		defer func() { require.NoError(t, src.Close()) }()
		require.True(t, c.install(leader, id, meta, src), "it is there")
		require.LessOrEqual(t, applied, follower.machine.Applied(), "it went back")
		var entry raft.Log
		for index := meta.Index; index <= last; index++ {
			require.NoError(t, follower.store.GetLog(index, &entry), "entry %d of %d", index, last)
		}
		c.count(leader, 102)
		c.converge()
	})
}

// behindIts makes a follower whose log begins behind a snapshot of the leader's, of which it says
// what it is.
func (c *nodes) behindIts(leader, follower string) raft.SnapshotMeta {
	g, key := c.billing(leader), uint64(0)
	count := func() {
		for range 2 * minTrailing {
			key++
			c.count(leader, key)
		}
		c.converge()
	}
	count()
	require.NoError(c.t, g.TakeSnapshot())
	found, err := g.snapshots.List()
	require.NoError(c.t, err)
	meta, src, err := g.snapshots.Open(found[0].ID)
	require.NoError(c.t, err)
	defer func() { require.NoError(c.t, src.Close()) }()
	count()
	require.NoError(c.t, c.billing(follower).TakeSnapshot())
	first, err := c.billing(follower).store.FirstIndex()
	require.NoError(c.t, err)
	require.Greater(c.t, first, meta.Index+1, "its log has nothing to join on to")
	require.True(c.t, c.install(leader, follower, meta, src), "it holds that")
	return *meta
}

// follow is the append that begins behind a snapshot, and goes up to an entry.
func (c *nodes) follow(
	leader string, meta raft.SnapshotMeta, last uint64,
) *raft.AppendEntriesRequest {
	g := c.billing(leader)
	request := &raft.AppendEntriesRequest{
		RPCHeader: headerOf(leader), Term: g.raft.CurrentTerm(),
		PrevLogEntry: meta.Index, PrevLogTerm: meta.Term, LeaderCommitIndex: g.raft.CommitIndex(),
	}
	for index := meta.Index + 1; index <= last; index++ {
		entry := &raft.Log{}
		require.NoError(c.t, g.store.GetLog(index, entry))
		request.Entries = append(request.Entries, entry)
	}
	return request
}

// send sends an append as the leader does, and reports whether the other node took it.
func (c *nodes) send(leader, to string, request *raft.AppendEntriesRequest) bool {
	var response raft.AppendEntriesResponse
	require.NoError(c.t, c.billing(leader).transport.rawTransport.AppendEntries(raft.ServerID(to),
		raft.ServerAddress(addressOf(to)), request, &response))
	return response.Success
}

// unanswered sends an append, or a snapshot of which this is said, and waits until the other node
// stops for it with its log as it was.
func (c *nodes) unanswered(leader, to string, request any) {
	g, id, address := c.billing(leader), raft.ServerID(to), raft.ServerAddress(addressOf(to))
	marked := filepath.Join(c.dir, to, "billing", rebuildMark)
	var ended sync.WaitGroup
	ended.Go(func() {
		switch r := request.(type) {
		case *raft.AppendEntriesRequest:
			require.Error(c.t, g.transport.rawTransport.AppendEntries(id, address, r,
				&raft.AppendEntriesResponse{}))
		case *raft.SnapshotMeta:
			require.Error(c.t, g.transport.rawTransport.InstallSnapshot(id, address,
				&raft.InstallSnapshotRequest{
					RPCHeader: headerOf(leader), SnapshotVersion: raft.SnapshotVersionMax,
					Term: g.raft.CurrentTerm(), LastLogIndex: r.Index, LastLogTerm: r.Term,
					Configuration:      raft.EncodeConfiguration(r.Configuration),
					ConfigurationIndex: r.ConfigurationIndex, Size: r.Size,
				}, &raft.InstallSnapshotResponse{}, strings.NewReader("x")))
		}
	})
	c.eventually("it stops", func() bool { return len(c.fatals(to)) > 0 })
	require.ErrorIs(c.t, c.fatals(to)[0], ErrContradiction)
	require.NoFileExists(c.t, marked)
	c.stop(to)
	ended.Wait()
	delete(c.fatal, to)
}

func shortLog(_ string, c *Config) { c.TrailingBytes = 1 }

// Trap: a follower whose log begins behind the snapshot that the leader sends it: what follows on
// that is taken as far as it is news. Raft would refuse it, and be sent the snapshot, in turns.
func TestAnAppendFromBeforeTheLogIsTaken(t *testing.T) {
	inCluster(t, shortLog, func(c *nodes) {
		leader := c.leader()
		id := c.others(leader)[0]
		meta := c.behindIts(leader, id)
		follower := c.billing(id)
		applied, last := follower.machine.Applied(), follower.raft.LastIndex()
		for _, upTo := range []uint64{meta.Index + 1, applied, last} {
			require.True(t, c.send(leader, id, c.follow(leader, meta, upTo)), "up to %d", upTo)
			require.GreaterOrEqual(t, follower.machine.Applied(), applied)
			require.GreaterOrEqual(t, follower.raft.LastIndex(), last)
		}
		c.count(leader, 1000)
		c.converge()
	})
}

// Trap 5, without a snapshot that comes again: a log that contradicts what was applied is noticed
// when the leader sends what it has there. What a deposed one sends proves nothing.
func TestALogThatContradictsTheStateIsNoticed(t *testing.T) {
	inCluster(t, shortLog, func(c *nodes) {
		leader := c.leader()
		id := c.others(leader)[0]
		meta := c.behindIts(leader, id)
		forged := c.follow(leader, meta, c.billing(id).machine.Applied())
		forged.Entries[len(forged.Entries)-1].Term--
		forged.Term--
		require.False(t, c.send(leader, id, forged))
		require.Empty(t, c.fatals(id))
		forged.Term++
		var ended sync.WaitGroup
		ended.Go(func() { // it is not answered
			var response raft.AppendEntriesResponse
			require.Error(t, c.billing(leader).transport.rawTransport.AppendEntries(raft.ServerID(id),
				raft.ServerAddress(addressOf(id)), forged, &response))
		})
		c.eventually("it was noticed", func() bool { return len(c.fatals(id)) > 0 })
		require.ErrorIs(t, c.fatals(id)[0], ErrRestart)
		c.stop(id)
		ended.Wait()
		c.start(id)
		c.count(leader, 1000)
		c.converge()
	})
}

// A leader whose log has a newer term up to where this node has applied another one lacks entries
// that are committed: the node stops at whatever shows that, and keeps its log.
func TestALeaderThatLacksWhatIsCommittedIsNotFollowed(t *testing.T) {
	newer := func(c *nodes, id string) place {
		newest := c.billing(id).newest()
		return place{newest.index, newest.term + 1}
	}
	send := map[string]func(c *nodes, leader, id string, meta raft.SnapshotMeta){
		"entries": func(c *nodes, leader, id string, meta raft.SnapshotMeta) {
			forged := c.follow(leader, meta, newer(c, id).index)
			forged.Term = newer(c, id).term
			forged.Entries[len(forged.Entries)-1].Term = forged.Term
			c.unanswered(leader, id, forged)
		},
		"the place that entries join on to": func(c *nodes, leader, id string, _ raft.SnapshotMeta) {
			g := c.billing(id)
			c.eventually("all is applied", func() bool {
				return g.progress.at().index == g.raft.LastIndex()
			})
			first, err := g.store.FirstIndex()
			require.NoError(c.t, err)
			at := newer(c, id)
			require.NoError(c.t, g.store.LogStore.DeleteRange(first, at.index))
			c.unanswered(leader, id, &raft.AppendEntriesRequest{
				RPCHeader: headerOf(leader), Term: at.term,
				PrevLogEntry: at.index, PrevLogTerm: at.term,
				Entries: []*raft.Log{{Index: at.index + 1, Term: at.term}},
			})
		},
		"a snapshot": func(c *nodes, leader, id string, meta raft.SnapshotMeta) {
			meta.Term, meta.Size = newer(c, id).term, 1
			c.unanswered(leader, id, &meta)
		},
	}
	for name, show := range send {
		t.Run(name, func(t *testing.T) {
			inCluster(t, shortLog, func(c *nodes) {
				leader := c.leader()
				id := c.others(leader)[0]
				meta := c.behindIts(leader, id)
				show(c, leader, id, meta)
			})
		})
	}
}

// What a leader says is committed counts as far as it has sent its log: raft commits the rest of
// this node's, too, which may be another's.
func TestNothingIsCommittedThatWasNotCompared(t *testing.T) {
	w, other := pairOf(t, 0, yes)
	request := &raft.AppendEntriesRequest{
		Term: 9, PrevLogEntry: 3, Entries: []*raft.Log{{Index: 4, Term: 9}}, LeaderCommitIndex: 9,
	}
	done := make(chan error, 1)
	go func() { done <- other.AppendEntries("a", "a", request, &raft.AppendEntriesResponse{}) }()
	rpc := <-w.Consumer()
	got := rpc.Command.(*raft.AppendEntriesRequest)
	require.EqualValues(t, 4, got.LeaderCommitIndex)
	require.Equal(t, request.Entries, got.Entries)
	require.EqualValues(t, 9, request.LeaderCommitIndex, "the other nodes' copy is not touched")
	rpc.Respond(&raft.AppendEntriesResponse{Term: 9, Success: true}, nil)
	require.NoError(t, <-done)
}
