package cluster

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
)

// What a process logged before it was restarted counts, too: otherwise the log of a node that is
// restarted often is never shortened.
func TestALogThatGrewBeforeARestartIsShortened(t *testing.T) {
	small := func(_ string, c *Config) { c.SnapshotBytes, c.TrailingBytes = 100<<10, 1 }
	inCluster(t, small, func(c *nodes) {
		for round := range uint64(2) {
			leader := c.leader()
			for i := range uint64(60) {
				c.count(leader, keyRange(1_000_000*round+1000*i, 100)...)
			}
			time.Sleep(3 * snapshotLook)
			if round == 1 {
				break
			}
			require.Zero(t, c.billing("c").Status().SnapshotIndex, "too little for a snapshot")
			for _, id := range three {
				c.stop(id)
			}
			for _, id := range three {
				c.start(id)
			}
		}
		c.converge()
		for _, id := range three {
			require.Positive(t, c.billing(id).Status().SnapshotIndex, id)
			c.eventually("the log is shortened", func() bool {
				first, err := c.node[id].stores[0].log.FirstIndex()
				require.NoError(t, err)
				return first > 20
			})
		}
	})
}

// TestSnapshotsAreNotTakenInStep: all nodes write the same log, and one snapshot at a time, as long
// as each takes no more than a quarter of what lies between two.
func TestSnapshotsAreNotTakenInStep(t *testing.T) {
	const limit = 400 << 10
	tune := func(_ string, c *Config) { c.SnapshotBytes, c.TrailingBytes = limit, 1 }
	inCluster(t, tune, func(c *nodes) {
		var writing, together, written atomic.Int32
		writes := func() {
			if writing.Add(1) > 1 {
				together.Add(1)
			}
			time.Sleep(8 * snapshotLook)
			writing.Add(-1)
			written.Add(1)
		}
		for _, id := range three {
			c.ledgers[id].writes.Store(&writes)
		}
		leader := c.leader()
		for i := 0; written.Load() < 2*int32(len(three)); i++ {
			require.Less(t, i, 1000)
			c.count(leader, keyRange(uint64(10_000*i), 200)...) // some 2.4 KB
			time.Sleep(snapshotLook / 4)
		}
		require.Zero(t, together.Load(), "one after the other")
		require.Less(t, c.billing(leader).store.bytes.Load(), int64(3*limit), "each wrote two")
	})
}

// TestASnapshotDoesNotWaitForLong: a member whose snapshot never ends, or that does not answer,
// holds no other up.
func TestASnapshotDoesNotWaitForLong(t *testing.T) {
	const limit = 100 << 10
	tune := func(_ string, c *Config) { c.SnapshotBytes, c.TrailingBytes = limit, 1 }
	inCluster(t, tune, func(c *nodes) {
		leader := c.leader()
		end := make(chan struct{})
		defer close(end)
		writes := func() { <-end }
		for _, id := range three {
			if id != leader {
				c.ledgers[id].writes.Store(&writes)
			}
		}
		for i := 0; c.billing(leader).Status().SnapshotIndex == 0; i++ {
			require.Less(t, c.billing(leader).store.sinceSnapshot.Load(), int64(limit*3/2))
			c.count(leader, keyRange(uint64(10_000*i), 500)...) // some 5 KB
			time.Sleep(snapshotLook)
		}
	})
}

// A snapshot for which the disk has no room is told of, and the next one is whole.
func TestASnapshotThatFailsIsTold(t *testing.T) {
	var told atomic.Int32
	disk := faultfs.New()
	tune := func(id string, c *Config) {
		if id == "a" {
			c.FS = disk
			c.Events = &Events{OnSnapshotFailed: func(uint16) { told.Add(1) }}
		}
	}
	inCluster(t, tune, func(c *nodes) {
		c.count(c.leader(), keyRange(0, 10)...)
		c.converge()
		(&diskFault{kind: "snapshot", op: faultfs.KindWrite, what: "finds no room"}).inject(disk)
		require.ErrorContains(t, c.billing("a").TakeSnapshot(), "no space left on device")
		require.EqualValues(t, 1, told.Load())
		require.NoError(t, c.billing("a").TakeSnapshot())
		require.EqualValues(t, 1, told.Load())
		require.Positive(t, c.billing("a").Status().SnapshotIndex)
	})
}

// Members change while a snapshot begins: raft refuses that one. The next try has it, and nobody is
// told of a failure.
func TestASnapshotIsTakenWhileMembersChange(t *testing.T) {
	var told atomic.Int32
	tune := func(_ string, c *Config) {
		c.Events = &Events{OnSnapshotFailed: func(uint16) { told.Add(1) }}
	}
	inCluster(t, tune, func(c *nodes) {
		c.known()
		leader := c.leader()
		c.count(leader, keyRange(0, 10)...)
		c.converge()
		g := c.billing(leader)
		before := g.raft.LastIndex()
		var added raft.IndexFuture
		var once sync.Once
		begins := func() {
			once.Do(func() {
				added = g.raft.AddNonvoter("d", raft.ServerAddress(addressOf("d")), 0, 0)
				c.eventually("the change is committed", func() bool {
					_, member := c.member(leader, "d")
					return member && g.raft.CommitIndex() > before
				})
			})
		}
		c.ledgers[leader].begins.Store(&begins)
		require.NoError(t, g.TakeSnapshot())
		require.NoError(t, added.Error())
		require.GreaterOrEqual(t, g.Status().SnapshotIndex, added.Index())
		require.Zero(t, told.Load())
	})
}

// A log that is long when a process begins is not forgotten while nobody leads: nothing of it is
// applied then.
func TestALogIsShortenedWhenItIsApplied(t *testing.T) {
	limit := int64(1 << 30)
	tune := func(_ string, c *Config) { c.SnapshotBytes, c.TrailingBytes = limit, 1 }
	inCluster(t, tune, func(c *nodes) {
		leader := c.leader()
		for i := range uint64(100) {
			c.count(leader, keyRange(1000*i, 100)...)
		}
		c.converge()
		for _, id := range three {
			c.stop(id)
		}
		limit = 50 << 10
		c.start("a")
		time.Sleep(3 * snapshotLook)
		c.start("b")
		c.start("c")
		c.leader()
		c.eventually("each node has taken a snapshot", func() bool {
			for _, id := range three {
				if c.billing(id).Status().SnapshotIndex == 0 {
					return false
				}
			}
			return true
		})
		time.Sleep(3 * snapshotLook)
		for _, id := range three {
			require.Less(t, c.billing(id).store.sinceSnapshot.Load(), limit/2)
		}
	})
}

func TestTicksLeaveHalfOfTheTimeToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ticks = 5
		spent := func(each time.Duration) time.Duration {
			left, start := ticks, time.Now()
			settle(
				func() bool { return left > 0 },
				func() bool { left--; <-time.After(each); return true },
				func(d time.Duration) bool { <-time.After(d); return true })
			require.Zero(t, left)
			return time.Since(start)
		}
		require.Equal(t, (2*ticks-1)*10*time.Millisecond, spent(10*time.Millisecond))
		require.Equal(t, ticks*time.Second+(ticks-1)*maxSettlePause, spent(time.Second),
			"a tick that took long is not a reason to let everything fall behind")
	})
}
