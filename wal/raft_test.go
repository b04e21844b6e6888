package wal_test

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
	"tollgate/wal"
)

// counter is a state machine that counts bytes.
type counter struct{ n int }

func (c *counter) Apply(log *raft.Log) any { c.n += len(log.Data); return c.n }

func (c *counter) Snapshot() (raft.FSMSnapshot, error) { return counted(c.n), nil }

func (c *counter) Restore(r io.ReadCloser) error {
	b, err := io.ReadAll(r)
	c.n = len(b)
	return err
}

// counted is a snapshot: as many bytes as were counted.
type counted int

func (c counted) Persist(sink raft.SnapshotSink) error {
	if _, err := sink.Write(make([]byte, c)); err != nil {
		return err
	}
	return sink.Close()
}

func (counted) Release() {}

// TestRaftRunsOnTheLog goes through what raft does to a log that refuses gaps: appends,
// compaction after a snapshot, a restored snapshot with an index jump, and a restart.
func TestRaftRunsOnTheLog(t *testing.T) {
	disk := faultfs.New()
	stable, snapshots := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
	start := func() (*raft.Raft, *wal.Log, *counter) {
		log := open(t, disk, 2048)
		fsm := &counter{}
		config := raft.DefaultConfig()
		config.LocalID, config.LogOutput = "a", io.Discard
		config.HeartbeatTimeout, config.ElectionTimeout = 50*time.Millisecond, 50*time.Millisecond
		config.LeaderLeaseTimeout, config.TrailingLogs = 50*time.Millisecond, 5
		address, transport := raft.NewInmemTransport("a")
		cache := wal.NewCache(log, 1<<20)
		if known, err := raft.HasExistingState(cache, stable, snapshots); err == nil && !known {
			require.NoError(t, raft.BootstrapCluster(config, cache, stable, snapshots, transport,
				raft.Configuration{Servers: []raft.Server{{ID: "a", Address: address}}}))
		}
		r, err := raft.NewRaft(config, fsm, cache, stable, snapshots, transport)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return r.State() == raft.Leader },
			10*time.Second, 5*time.Millisecond)
		return r, log, fsm
	}
	r, log, fsm := start()
	for range 40 {
		require.NoError(t, r.Apply(make([]byte, 100), time.Second).Error())
	}
	require.NoError(t, r.Snapshot().Error())
	first, err := log.FirstIndex()
	require.NoError(t, err)
	require.Greater(t, first, uint64(30), "compacted")
	require.Equal(t, 4000, fsm.n)

	meta := &raft.SnapshotMeta{Version: 1, Index: 1000, Term: 1, Size: 7}
	require.NoError(t, r.Restore(meta, bytes.NewReader(make([]byte, 7)), 5*time.Second))
	require.NoError(t, r.Apply(make([]byte, 3), time.Second).Error())
	require.Equal(t, 10, fsm.n)
	first, err = log.FirstIndex()
	require.NoError(t, err)
	require.Greater(t, first, uint64(1000), "emptied, and continued behind the jump")
	require.NoError(t, r.Shutdown().Error())
	require.NoError(t, log.Poisoned())
	disk.Crash(nil)

	r, log, fsm = start()
	require.NoError(t, r.Barrier(time.Second).Error())
	require.Equal(t, 10, fsm.n)
	require.NoError(t, r.Shutdown().Error())
	require.NoError(t, log.Close())
}
