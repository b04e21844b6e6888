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
			require.Zero(t, c.billing(leader).Status().SnapshotIndex, "too little for a snapshot")
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

// TestSnapshotsAreNotTakenInStep: all nodes write the same log, and each takes its snapshots at
// another length of it.
func TestSnapshotsAreNotTakenInStep(t *testing.T) {
	const limit = 300 << 10
	tune := func(_ string, c *Config) { c.SnapshotBytes, c.TrailingBytes = limit, 1 }
	inCluster(t, tune, func(c *nodes) {
		leader := c.leader()
		taken := func() (n int) {
			for _, id := range three {
				if c.billing(id).Status().SnapshotIndex > 0 {
					n++
				}
			}
			return n
		}
		counts := []int{0}
		for i := 0; counts[len(counts)-1] < len(three); i++ {
			require.Less(t, i, 100)
			c.count(leader, keyRange(uint64(10_000*i), 1000)...) // some 11 KB
			c.converge()
			time.Sleep(2 * snapshotLook)
			if n := taken(); n != counts[len(counts)-1] {
				counts = append(counts, n)
			}
		}
		require.Equal(t, []int{0, 1, 2, 3}, counts, "one after the other")
		for _, id := range three {
			require.LessOrEqual(t, c.billing(id).snapshotBytes(), int64(limit))
			require.GreaterOrEqual(t, c.billing(id).snapshotBytes(), int64(limit/2))
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
		time.Sleep(5 * snapshotLook)
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
