package cluster

import (
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
)

// Trap 3: a version of raft that can restore committed entries at its start would lose the members
// doing so. This one does not: a node that is alone knows its members and applies nothing.
func TestCommittedEntriesAreNotRestoredAlone(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		c.count(leader, 1)
		c.converge()
		for _, id := range three {
			c.stop(id)
		}
		c.start("a")
		g := c.billing("a")
		require.Len(t, g.raft.GetConfiguration().Configuration().Servers, len(three))
		time.Sleep(5 * time.Second)
		require.Zero(t, c.ledgers["a"].Applied(), "nobody has said that anything is committed")
		require.Positive(t, g.raft.LastIndex())
		option := reflect.ValueOf(*g.raftConfig(nil)).FieldByName("RestoreCommittedLogs")
		require.True(t, !option.IsValid() || !option.Bool(), "never on")
		_, tracks := reflect.TypeOf(g.store).MethodByName("GetCommitIndex")
		require.False(t, tracks, "the log keeps no commit index, without which raft cannot restore")
		c.start("b")
		c.eventually("the others say so", func() bool { return c.ledgers["a"].has(1) })
	})
}

// Trap 10: a snapshot whose sender stops in the middle holds a follower up for as long as its
// deadline. That is one RPCTimeout per timeoutScale bytes, and not the library's hours.
func TestSnapshotThatStopsInTheMiddleIsGivenUp(t *testing.T) {
	const size = 1 << 30
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		c.count(leader, 1)
		id := c.others(leader)[0]
		g := c.billing(leader)
		request := &raft.InstallSnapshotRequest{
			RPCHeader:       raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax},
			SnapshotVersion: raft.SnapshotVersionMax, Size: size,
		}
		begin := time.Now()
		err := g.transport.InstallSnapshot(raft.ServerID(id), raft.ServerAddress(addressOf(id)), request,
			&raft.InstallSnapshotResponse{}, strings.NewReader("a beginning"))
		require.Error(t, err)
		want := size / timeoutScale * g.config.RPCTimeout
		require.InDelta(t, want.Seconds(), time.Since(begin).Seconds(), 2)
		require.Less(t, want, 2*time.Minute)
		c.count(c.leader(), 2)
		c.converge()
		require.True(t, c.ledgers[id].has(2))
	})
}

// A term that cannot be written ends the process with the reason, before it is used: raft alone
// would panic without one.
func TestVoteThatCannotBeWrittenEndsTheProcess(t *testing.T) {
	for _, started := range []bool{false, true} {
		g := &core{
			parts: parts{config: &Config{}, name: "billing"},
			log:   testLog(), running: make(chan struct{}), closing: make(chan struct{}),
		}
		var fatal []error
		g.config.Fatal = func(err error) { fatal = append(fatal, err) }
		if started {
			close(g.running)
			close(g.closing)
		}
		w := &watchedVote{failingVote{raft.NewInmemStore()}, g}
		ended := make(chan error, 1)
		go func() {
			defer close(ended)
			ended <- w.SetUint64(termKey, 2)
		}()
		err, returned := <-ended
		require.Equal(t, !started, returned, "raft's goroutine ends instead of raft")
		if returned {
			require.ErrorIs(t, err, errIO)
		}
		require.Len(t, fatal, 1)
		require.ErrorIs(t, fatal[0], errIO)
		require.ErrorContains(t, fatal[0], "no vote is given")
		require.Equal(t, ExitFatal, ExitCode(fatal[0]))
	}
}

type failingVote struct{ raft.StableStore }

func (failingVote) SetUint64([]byte, uint64) error { return errors.Join(errIO) }

// An entry that cannot be read while the node runs ends the process with the reason; raft alone
// would panic, or leave a follower without it forever.
func TestEntryThatCannotBeReadEndsTheProcess(t *testing.T) {
	onDisks(t, func(c *nodes, disks map[string]*faultfs.Disk) {
		leader := c.leader()
		require.NotNil(t, c.billing(leader).header, "raft looks through headers, see trap 15")
		lagging := c.others(leader)[0]
		c.stop(lagging)
		c.count(leader, keyRange(1, 100)...)
		for _, id := range c.others(lagging) {
			c.stop(id) // what they have in memory is gone
		}
		var started atomic.Bool
		disks[leader].Inject(func(op faultfs.Op) error {
			if started.Load() && op.Kind == faultfs.KindRead && ofBilling(op.Name) {
				return errIO
			}
			return nil
		})
		c.start(leader)
		started.Store(true)
		c.start(c.others(leader)[1])
		c.eventually("it ends", func() bool { return len(c.fatals(leader)) > 0 })
		require.ErrorIs(t, c.fatals(leader)[0], errIO)
		require.NotErrorIs(t, c.node[leader].Close(), errIO)
		disks[leader].Inject(nil)
		c.mu.Lock()
		delete(c.fatal, leader)
		c.mu.Unlock()
		c.start(leader)
		c.start(lagging)
		c.leader()
		c.converge()
		require.True(t, c.ledgers[lagging].has(50))
	})
}

// beginning is the log and the transport of a raft that is alone, and what raft does with them.
type beginning struct {
	raft.LogStore
	raft.Transport
	scanned, started atomic.Bool
	early, late      atomic.Int64 // reads of entries before and after scanned
}

func (b *beginning) GetLog(index uint64, l *raft.Log) error {
	if b.scanned.Load() {
		b.late.Add(1)
	} else {
		b.early.Add(1)
	}
	return b.LogStore.GetLog(index, l)
}

func (b *beginning) StoreLogs(logs []*raft.Log) error {
	b.started.Store(true)
	return b.LogStore.StoreLogs(logs)
}

func (b *beginning) StoreLog(l *raft.Log) error { return b.StoreLogs([]*raft.Log{l}) }

func (b *beginning) SetHeartbeatHandler(func(raft.RPC)) {
	// The bubble's time: a raft that runs by now elects itself, and stores an entry.
	time.Sleep(time.Second)
	b.scanned.Store(!b.started.Load())
}

// Trap 15: raft reads every entry of its log to find lists of members, before it starts. Commands
// come without their data until it sets a handler for heartbeats, so it has to do that when it has
// looked, and before it does anything else.
func TestRaftStartsAfterItLookedThroughItsLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := raft.NewInmemStore()
		_, inner := raft.NewInmemTransport("a")
		c := raft.DefaultConfig()
		c.LocalID, c.Logger = "a", hclog.NewNullLogger()
		c.HeartbeatTimeout, c.ElectionTimeout = 20*time.Millisecond, 20*time.Millisecond
		c.LeaderLeaseTimeout = 20 * time.Millisecond
		members := raft.Configuration{Servers: []raft.Server{{ID: "a", Address: "a"}}}
		snapshots := raft.NewInmemSnapshotStore()
		require.NoError(t, raft.BootstrapCluster(c, store, store, snapshots, inner, members))
		const entries = 100
		for i := uint64(2); i <= entries; i++ {
			require.NoError(t, store.StoreLog(&raft.Log{Index: i, Term: 1, Data: []byte("x")}))
		}
		applied := new(raft.MockFSM)
		b := &beginning{LogStore: store, Transport: inner}
		r, err := raft.NewRaft(c, applied, b, store, snapshots, b)
		require.NoError(t, err)
		require.True(t, b.scanned.Load(), "raft started before it set the handler")
		require.EqualValues(t, 1+entries, b.early.Load(), "the newest entry, and each")
		time.Sleep(time.Second)
		require.Len(t, applied.Logs(), entries-1)
		require.EqualValues(t, entries, b.late.Load(), "what is applied was read after that")
		require.NoError(t, r.Shutdown().Error())
	})
}

// What raft looks through is read without its data; what it applies is not.
func TestALogIsLookedThroughByItsHeaders(t *testing.T) {
	var headers []uint64
	types := map[uint64]raft.LogType{1: raft.LogConfiguration, 2: raft.LogCommand}
	entry := func(index uint64, data []byte) raft.Log {
		return raft.Log{Index: index, Term: 7, Type: types[index], Data: data}
	}
	logs := raft.NewInmemStore()
	for index := range types {
		l := entry(index, []byte("data"))
		require.NoError(t, logs.StoreLog(&l))
	}
	w := newWatchedLog(&core{parts: parts{storage: storage{
		header: func(index uint64, l *raft.Log) error {
			headers = append(headers, index)
			*l = entry(index, nil)
			return nil
		},
	}}}, logs)
	read := func(index uint64) (l raft.Log) {
		require.NoError(t, w.GetLog(index, &l))
		return l
	}
	require.Equal(t, entry(1, []byte("data")), read(1), "a list of members is read whole")
	require.Equal(t, entry(2, nil), read(2))
	require.Equal(t, []uint64{1, 2}, headers)
	w.scanned.Store(true)
	require.Equal(t, entry(2, []byte("data")), read(2))
	require.Len(t, headers, 2)
}
