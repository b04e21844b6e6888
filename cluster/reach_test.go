package cluster

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// A node that is back is served at once, however long it was away: raft's own pause between two
// attempts has grown to ten seconds by then.
func TestNodeThatIsBackCatchesUpAtOnce(t *testing.T) {
	for _, c := range []absence{
		{15 * time.Second, false, false},
		{15 * time.Second, false, true},
		{15 * time.Second, true, false},
		{15 * time.Second, true, true},
		{time.Minute, false, true},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) { catchUp(t, c) })
	}
}

type absence struct {
	away time.Duration
	// compacted: the log that the node misses is gone; stopped: it, and not its network, was away.
	compacted, stopped bool
}

func catchUp(t *testing.T, a absence) {
	tune := func(_ string, c *Config) { c.TrailingBytes = 1 }
	inCluster(t, tune, func(c *nodes) {
		leader := c.leader()
		back := c.others(leader)[0]
		if a.stopped {
			c.stop(back)
		} else {
			c.net.isolate(addressOf(back))
		}
		c.count(leader, keyRange(1, 200)...)
		if a.compacted {
			for k := range uint64(2 * minTrailing) {
				c.count(leader, 1000+k)
			}
			require.NoError(t, c.billing(leader).TakeSnapshot())
		}
		time.Sleep(a.away)
		c.count(leader, 5000)
		began := time.Now()
		if a.stopped {
			c.start(back)
		} else {
			c.net.mend()
		}
		c.eventually("it has caught up", func() bool { return c.ledgers[back].has(5000) })
		took := time.Since(began)
		require.Less(t, took, 1500*time.Millisecond)
	})
}

func TestReachLetsNobodyWaitForever(t *testing.T) {
	ends := map[string]func(*reach){
		"an answer":            func(r *reach) { r.note("b", true) },
		"the end of the reign": func(r *reach) { r.end(); r.begin() },
		"a close":              func(r *reach) { r.close() },
		"the limit":            func(*reach) { time.Sleep(reachLimit) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReach()
				r.note("b", false)
				require.NoError(t, r.await("b"), "only a leader waits")
				r.begin()
				r.note("b", false)
				require.NoError(t, r.await("c"))
				done := make(chan error, 1)
				go func() { done <- r.await("b") }()
				time.Sleep(reachLimit / 2)
				r.note("c", true)
				synctest.Wait()
				require.Empty(t, done)
				end(r)
				synctest.Wait()
				if err := <-done; name == "an answer" {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, errUnreached)
				}
			})
		})
	}
}

func TestAHeartbeatIsNoAppend(t *testing.T) {
	require.True(t, isBeat(&raft.AppendEntriesRequest{Term: 3}))
	for _, r := range []raft.AppendEntriesRequest{
		{PrevLogEntry: 1}, {PrevLogTerm: 1}, {LeaderCommitIndex: 1}, {Entries: []*raft.Log{{}}},
	} {
		require.False(t, isBeat(&r))
	}
}
