package cluster

import (
	"io"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

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
		request := &raft.InstallSnapshotRequest{
			RPCHeader: raft.RPCHeader{
				ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(leader),
				Addr: []byte(addressOf(leader)),
			},
			SnapshotVersion: raft.SnapshotVersionMax, Term: g.raft.CurrentTerm(),
			LastLogIndex: meta.Index, LastLogTerm: meta.Term,
			Configuration:      raft.EncodeConfiguration(meta.Configuration),
			ConfigurationIndex: meta.ConfigurationIndex, Size: meta.Size,
		}
		var response raft.InstallSnapshotResponse
		require.NoError(t, g.transport.rawTransport.InstallSnapshot(raft.ServerID(id),
			raft.ServerAddress(addressOf(id)), request, &response, io.LimitReader(src, meta.Size)))
		require.True(t, response.Success, "it is there")
		require.Equal(t, applied, follower.machine.Applied(), "it went back")
		var entry raft.Log
		for index := meta.Index; index <= last; index++ {
			require.NoError(t, follower.store.GetLog(index, &entry), "entry %d of %d", index, last)
		}
		c.count(leader, 102)
		c.converge()
	})
}
