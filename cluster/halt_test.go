package cluster

import (
	"context"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/wal"
)

// An entry that panics stops who leads, with the index and the way past it, and nobody else before
// it leads, too; it is never answered. With the operator's skip list all go on.
func TestEntryThatPanicsStopsAndIsSkipped(t *testing.T) {
	var skip []SkipEntry
	tune := func(_ string, c *Config) { c.Skip = skip }
	inCluster(t, tune, func(c *nodes) {
		leader := c.leader()
		c.count(leader, 1)
		c.converge()
		results := make([]engine.Result, 2)
		bad := []engine.Record{countRecord(2), {Kind: kindPanic, Payload: []byte("x")}}
		c.billing(leader).Propose(time.Now().Add(3*time.Second), bad, results)
		require.Equal(t, engine.OutcomeUnknown, results[0].Outcome)
		require.Equal(t, engine.OutcomeUnknown, results[1].Outcome)
		c.eventually("it stopped", func() bool { return len(c.fatals(leader)) > 0 })
		require.ErrorContains(t, c.fatals(leader)[0], "the ledger was told to")
		require.Equal(t, ExitFatal, ExitCode(c.fatals(leader)[0]))
		index := c.ledgers[leader].Applied() // the ledger notes the index before it panics
		var l raft.Log
		require.NoError(t, c.node[leader].stores[0].log.GetLog(index, &l))
		require.ErrorContains(t, c.fatals(leader)[0], fmtCRC(l.Data))
		skip = []SkipEntry{{Shard: ShardBilling, Index: index, CRC: crc32.Checksum(l.Data, castagnoli)}}
		for _, id := range c.others(leader) {
			require.Empty(t, c.fatals(id), "it does not apply what the leader has not")
			c.kill(id)
		}
		c.stop(leader)
		clear(c.fatal)
		for _, id := range three {
			c.start(id)
		}
		leader = c.leader()
		c.count(leader, 3)
		c.converge()
		require.True(t, c.ledgers[leader].has(1))
		require.False(t, c.ledgers[leader].has(2))
		for _, id := range three {
			require.Empty(t, c.fatals(id))
		}
	})
}

func fmtCRC(data []byte) string {
	const digits = "0123456789abcdef"
	sum := crc32.Checksum(data, castagnoli)
	text := make([]byte, 8)
	for i := range text {
		text[i] = digits[sum>>(28-4*i)&15]
	}
	return string(text)
}

// Stamps never go backwards, even if an entry of a deposed leader slips into a later term.
func TestStampOfALateEntryIsRaised(t *testing.T) {
	m := newLedger(0)
	f := &fsm{replica: &replica{core: &core{parts: parts{machine: m}}}}
	apply := func(index uint64, stamp int64) []byte {
		e := engine.AppendHeader(nil, 0)
		engine.SetStamp(e, stamp)
		before := append([]byte(nil), e...)
		var out engine.Applied
		require.NoError(t, f.run(&raft.Log{Index: index, Data: e}, &out))
		require.Equal(t, before, e, "raft and the log's cache hold these bytes")
		return e
	}
	apply(2, 1000)
	apply(3, 900)
	require.EqualValues(t, 1000, m.Stamp())
	require.EqualValues(t, 3, m.Applied())
	apply(4, 1001)
	require.EqualValues(t, 1001, m.Stamp())
}

// stuckStore is a log whose disk hangs, or fails.
type stuckStore struct {
	*raft.InmemStore
	hang chan struct{}
	err  error
}

func (s *stuckStore) StoreLogs(logs []*raft.Log) error {
	if s.hang != nil {
		<-s.hang
	}
	if s.err != nil {
		return s.err
	}
	return s.InmemStore.StoreLogs(logs)
}

func watched(s *stuckStore) (*watchedLog, chan error) {
	fatal := make(chan error, 10)
	config := Config{
		Timeouts: Timeouts{StoreTimeout: 10 * time.Second}, Events: &Events{}, Log: testLog(),
		Fatal: func(err error) { fatal <- err },
	}
	c := &core{parts: parts{config: &config, name: "billing"}, log: testLog()}
	return newWatchedLog(c, s), fatal
}

func TestDiskThatHangsEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stuckStore{InmemStore: raft.NewInmemStore(), hang: make(chan struct{})}
		w, fatal := watched(s)
		done := make(chan error)
		go func() { done <- w.StoreLog(&raft.Log{Index: 1, Data: make([]byte, 100)}) }()
		time.Sleep(10*time.Second - 1)
		synctest.Wait()
		require.Empty(t, fatal)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Len(t, fatal, 1)
		close(s.hang)
		require.NoError(t, <-done)
		require.Len(t, fatal, 1)
		require.EqualValues(t, 100, w.sinceSnapshot.Load())
	})
}

func TestDiskThatFailsEndsTheProcess(t *testing.T) {
	broken := errors.New("input/output error")
	w, fatal := watched(&stuckStore{InmemStore: raft.NewInmemStore(), err: broken})
	require.ErrorIs(t, w.StoreLog(&raft.Log{Index: 1}), broken)
	require.Len(t, fatal, 1)
	require.ErrorIs(t, <-fatal, broken)
}

// Trap 5: raft that installs one snapshot over and over is stopped, and the next start empties a
// log that contradicts the snapshot.
func TestSnapshotLoopEndsInARestart(t *testing.T) {
	m := newLedger(0)
	marked := 0
	var fatal []error
	config := Config{
		Events: &Events{}, Log: testLog(), Fatal: func(err error) { fatal = append(fatal, err) },
	}
	c := &core{
		parts: parts{
			config: &config, machine: m, name: "billing",
			storage: storage{rebuild: func() error { marked++; return nil }},
		},
		log: testLog(), closing: make(chan struct{}),
	}
	close(c.closing)
	r := &replica{core: c, restored: make(chan struct{}), waitsFor: new(queue).owner}
	close(r.restored)
	f := &fsm{replica: r}
	s, err := m.Snapshot()
	require.NoError(t, err)
	restore := func() error {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		_, err = s.WriteTo(w)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return f.Restore(r)
	}
	entry := engine.AppendHeader(nil, 0)
	require.NoError(t, restore())
	require.NoError(t, restore())
	f.ApplyBatch([]*raft.Log{{Index: 9, Type: raft.LogCommand, Data: entry}})
	require.NoError(t, restore(), "something was applied in between: no loop")
	require.NoError(t, restore())
	require.Empty(t, fatal)
	require.ErrorIs(t, restore(), errHalted)
	require.Len(t, fatal, 1)
	require.ErrorIs(t, fatal[0], ErrRestart)
	require.Equal(t, ExitRestart, ExitCode(fatal[0]))
	require.Equal(t, 1, marked)
}

func TestMarkedLogIsEmptiedIfItContradictsTheSnapshot(t *testing.T) {
	for _, logTerm := range []uint64{2, 3} {
		config := Config{Log: testLog(), FS: wal.OS(), Timeouts: Timeouts{StoreTimeout: time.Minute}}
		dir := filepath.Join(t.TempDir(), "billing")
		open := func() *stores {
			st, err := openStores(&config, dir,
				fileNotices{fatal: func(err error) { require.NoError(t, err) }})
			require.NoError(t, err)
			return st
		}
		st := open()
		var logs []*raft.Log
		for i := uint64(1); i <= 30; i++ {
			logs = append(logs, &raft.Log{Index: i, Term: logTerm, Data: []byte("x")})
		}
		require.NoError(t, st.vote.SetUint64(termKey, 3))
		require.NoError(t, st.log.StoreLogs(logs))
		_, trans := raft.NewInmemTransport("a")
		sink, err := st.snapshots.Create(1, 20, 3, raft.Configuration{}, 1, trans)
		require.NoError(t, err)
		_, err = sink.Write([]byte("state"))
		require.NoError(t, err)
		require.NoError(t, sink.Close())
		require.NoError(t, sink.Close(), "raft closes twice")
		require.NoError(t, st.markRebuild())
		require.NoError(t, st.Close())

		st = open()
		last, err := st.log.LastIndex()
		require.NoError(t, err)
		if logTerm == 3 {
			require.EqualValues(t, 30, last, "the log continues the snapshot: it is kept")
		} else {
			require.Zero(t, last, "entry 20 is of another term: nothing behind it was committed")
		}
		_, err = os.Stat(filepath.Join(dir, rebuildMark))
		require.ErrorIs(t, err, os.ErrNotExist)
		require.NoError(t, st.Close())
	}
}

func TestProgressWakesWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p progress
		p.advance(5, 1)
		require.True(t, p.await(context.Background(), nil, 5))
		got := make(chan bool)
		go func() { got <- p.await(context.Background(), nil, 7) }()
		synctest.Wait()
		p.advance(6, 1)
		synctest.Wait()
		p.advance(8, 1)
		require.True(t, <-got)
		require.False(t, p.await(context.Background(), time.After(time.Second), 9))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		require.False(t, p.await(ctx, nil, 9))
	})
}
