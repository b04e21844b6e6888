package cluster

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
)

// TestGrowthIsRefusedWhenMemoryIsLow: near the limit, records that make the state grow are refused
// by the node that is asked and by the leader; reads and all other records go on, also those that
// came in one frame with refused ones. Some room has to come back before growth is taken again.
func TestGrowthIsRefusedWhenMemoryIsLow(t *testing.T) {
	var live [3]atomic.Int64
	inCluster(t, func(id string, c *Config) {
		c.MemoryBytes = 1000
		for i, name := range three {
			if name == id {
				c.live = live[i].Load
			}
		}
		c.Grows = func(shard uint16, r engine.Record) bool {
			return shard == ShardBilling && r.Kind == kindCount && keyOf(r)%2 == 1
		}
	}, func(c *nodes) {
		leader := c.leader()
		follower := c.others(leader)[0]
		set := func(bytes int64, ids ...string) {
			for _, id := range ids {
				for i, name := range three {
					if name == id {
						live[i].Store(bytes)
					}
				}
			}
			time.Sleep(2 * diskEvery)
		}
		low, done := engine.OutcomeMemoryLow, engine.OutcomeDone
		require.Equal(t, []engine.Outcome{done, done}, c.propose(leader, time.Second, 1, 2))

		set(900, leader)
		for i, id := range []string{leader, follower} {
			key := uint64(10 + 4*i)
			require.Equal(t, []engine.Outcome{done, low, low, done},
				c.propose(id, time.Second, key, key+1, key+3, key+2), "through %s", id)
			require.Equal(t, done, c.readOutcome(id, time.Second))
		}
		set(860, leader)
		require.Equal(t, []engine.Outcome{low}, c.propose(leader, time.Second, 21), "not yet")
		set(840, leader)
		require.Equal(t, []engine.Outcome{done}, c.propose(leader, time.Second, 21))

		set(950, follower)
		require.Equal(t, []engine.Outcome{low, done}, c.propose(follower, time.Second, 31, 32))
		require.Equal(t, []engine.Outcome{done}, c.propose(leader, time.Second, 31))
		c.converge()
		for _, key := range []uint64{11, 13, 15, 17} {
			require.False(t, c.ledgers[leader].has(key), key)
		}
	})
}

func TestLiveMemoryIsMeasured(t *testing.T) {
	require.Positive(t, liveBytes())
}
