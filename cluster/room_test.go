package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
)

// noRoom fills a disk, room empties it again.
func noRoom(string) (int64, error) { return 0, nil }
func room(string) (int64, error)   { return 1 << 40, nil }

func TestWritesAreRefusedOnALowDisk(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		for _, id := range three {
			c.measure(id, noRoom)
		}
		leader := ""
		c.eventually("nobody has room", func() bool { // whoever was last to see it leads
			leader = c.leader()
			return c.node[leader].Billing().full() && c.node[leader].Status().DiskLow
		})
		for i, id := range three {
			require.Equal(t, []engine.Outcome{engine.OutcomeDiskLow},
				c.propose(id, time.Second, uint64(i)), "through %s", id)
			require.Equal(t, engine.OutcomeDone, c.readOutcome(id, time.Second))
		}
		require.Zero(t, c.ledgers[leader].keys())
		require.Equal(t, leader, c.leader(), "leadership stays where it is as good as elsewhere")

		c.measure(leader, room)
		c.eventually("writes go on", func() bool {
			return c.propose(leader, time.Second, 9)[0] == engine.OutcomeDone
		})
	})
}

// A node whose disk is nearly full is not made the leader: it would hand leadership on at once.
func TestLeadershipIsNotTransferredToAFullDisk(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		to := c.others(leader)[0]
		require.NoError(t, c.node[leader].Transfer(c.within(5*time.Second), leader), "both groups")
		c.measure(to, noRoom)
		c.eventually("it notices", func() bool { return c.node[to].Status().DiskLow })
		err := c.node[leader].Transfer(c.within(5*time.Second), to)
		require.ErrorContains(t, err, "the disk of "+to+" is nearly full")
		require.ErrorIs(t, err, ErrMembers)
		require.Equal(t, leader, c.leader())
		c.measure(to, room)
		c.eventually("it has room again", func() bool { return !c.node[to].Status().DiskLow })
		require.NoError(t, c.node[leader].Transfer(c.within(5*time.Second), to))
		require.Equal(t, to, c.leader())
	})
}

// A leader whose disk fills up hands both groups to the node with the most room, and no write is
// refused for it.
func TestALeaderWithAFullDiskHandsOver(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		others := c.others(leader)
		require.NoError(t, c.node[leader].Transfer(context.Background(), leader), "both groups")
		c.measure(others[0], func(string) (int64, error) { return 1 << 31, nil })
		c.measure(others[1], room)
		time.Sleep(2 * diskEvery)
		c.measure(leader, noRoom)
		key, leads := uint64(0), func(id string) bool {
			s := c.node[id].Status()
			return s.Groups[ShardBilling].Lease && s.Groups[ShardWorkspace].Lease
		}
		for end := time.Now().Add(20 * time.Second); !leads(others[1]); key++ {
			require.True(t, time.Now().Before(end), "nobody else leads")
			for _, id := range three {
				require.Equal(t, []engine.Outcome{engine.OutcomeDone},
					c.propose(id, 5*time.Second, key), "through %s", id)
				key++
			}
			time.Sleep(20 * time.Millisecond)
		}
		require.True(t, c.node[leader].Status().DiskLow)
		c.count(leader, 1_000_000)

		// The next one fills up, too, and then the last.
		c.measure(others[1], noRoom)
		c.eventually("the third leads", func() bool { return leads(others[0]) })
		c.count(leader, 1_000_001)
		c.measure(others[0], noRoom)
		c.eventually("nobody has room", func() bool { return c.node[others[0]].Billing().full() })
		require.True(t, leads(others[0]))
		c.measure(leader, room)
		c.eventually("it is back", func() bool { return leads(leader) })
		c.count(others[0], 1_000_002)
	})
}
