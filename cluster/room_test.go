package cluster

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"
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
		time.Sleep(3 * diskEvery)
		require.Equal(t, []engine.Outcome{engine.OutcomeDiskLow}, c.propose(leader, time.Second, 9),
			"a majority has to store it")
		c.measure(c.others(leader)[0], room)
		c.eventually("writes go on", func() bool {
			return c.propose(leader, time.Second, 9)[0] == engine.OutcomeDone
		})
	})
}

// A leader with room takes nothing that a majority would have to store on a disk that is nearly
// full: followers would fill up to the last byte, and end. One that is stopped then counts as full;
// one full disk of three refuses nothing, also while another node is away.
func TestFollowersDoNotFillUp(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		others := c.others(leader)
		c.measure(others[0], noRoom)
		c.eventually("it is known", func() bool {
			return !c.billing(leader).voterRoom.has(raft.ServerID(others[0]))
		})
		c.count(leader, 1)
		c.stop(others[1])
		time.Sleep(3 * diskEvery)
		c.count(leader, 2)
		c.start(others[1])
		c.measure(others[1], noRoom)
		c.eventually("writes are refused", c.billing(leader).full)
		require.Equal(t, leader, c.leader(), "its own disk has room")
		for i, id := range three {
			require.Equal(t, []engine.Outcome{engine.OutcomeDiskLow},
				c.propose(id, 5*time.Second, 10+uint64(i)), "through %s", id)
			require.Equal(t, engine.OutcomeDone, c.readOutcome(id, 5*time.Second))
		}
		c.stop(others[1])
		time.Sleep(3 * diskEvery)
		require.True(t, c.billing(leader).full())
		c.start(others[1]) // it has room again
		c.eventually("writes go on", func() bool { return !c.billing(leader).full() })
		c.count(leader, 11)
		c.converge()
	})
}

// A leader that stops hands over to a node with room, whoever has the longer log.
func TestAStoppingLeaderPrefersRoom(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		old := c.leader()
		others := c.others(old)
		c.measure(others[0], noRoom)
		c.measure(others[1], room)
		c.eventually("it is known", func() bool {
			return !c.billing(old).voterRoom.has(raft.ServerID(others[0]))
		})
		c.net.isolate(addressOf(others[1])) // its log is behind for a moment
		c.count(old, 1)
		c.net.mend()
		c.eventually("both answer", func() bool {
			g := c.billing(old)
			return len(g.successors(g.route.Load().term)) == 2
		})
		require.NoError(t, c.billing(old).HandOver(c.within(5*time.Second), ""))
		require.Equal(t, others[1], c.leader())
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
		c.eventually("it leads both groups", func() bool {
			groups := c.node[to].Status().Groups
			return groups[ShardBilling].Lease && groups[ShardWorkspace].Lease
		})
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
		c.measure(others[0], noRoom)
		c.eventually("nobody has room", func() bool { return c.node[others[0]].Billing().full() })
		require.True(t, leads(others[0]))
		c.measure(others[1], room)
		c.eventually("the second leads again", func() bool { return leads(others[1]) })
		c.measure(leader, room)
		c.eventually("a majority has room", func() bool { return !c.billing(others[1]).full() })
		c.count(others[0], 1_000_002)
	})
}

// Files that a log keeps to write over are room on a disk that is nearly full.
func TestSparesGoWhenTheDiskIsLow(t *testing.T) {
	small := func(_ string, c *Config) {
		c.TrailingBytes, c.logSegment, c.SnapshotBytes = 1, 512, 1<<20
	}
	inCluster(t, small, func(c *nodes) {
		leader := c.leader()
		c.count(leader, keyRange(1, 500)...)
		for key := range uint64(50) {
			c.count(leader, 1000+key)
		}
		c.converge()
		id := c.others(leader)[0]
		log, dir := c.node[id].stores[ShardBilling].log, filepath.Join(c.dir, id, "billing", "log")
		kept := func() (bytes int64) {
			names, err := filepath.Glob(filepath.Join(dir, "*.seg"))
			require.NoError(t, err)
			for _, name := range names {
				if info, err := os.Stat(name); err == nil {
					bytes += info.Size()
				}
			}
			return bytes - log.Bytes()
		}
		require.NoError(t, c.billing(id).raft.Snapshot().Error())
		c.eventually("the log keeps files", func() bool { return kept() > 0 })
		c.measure(id, noRoom)
		c.eventually("they are gone", func() bool { return kept() == 0 })
	})
}
