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
				free := func(id raft.ServerID) {
					t.Helper()
					waited, err := r.await(id)
					require.NoError(t, err)
					require.False(t, waited)
				}
				free("b") // only a leader waits
				r.begin()
				r.note("b", false)
				free("c")
				done := make(chan error, 1)
				go func() {
					_, err := r.await("b")
					done <- err
				}()
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

// What waited for a node to be back says how far the log was when the wait began: a node that got
// it would call itself up to date, and ready, without all that was committed meanwhile.
func TestAnAppendThatWaitedIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, other := pairOf(t, 0, yes)
		w.reach.begin()
		w.reach.note("b", false)
		held := &raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 17, LeaderCommitIndex: 17}
		done := make(chan error, 1)
		go func() { done <- w.AppendEntries("b", "b", held, &raft.AppendEntriesResponse{}) }()
		synctest.Wait()
		require.Empty(t, done, "it waits for an answer")
		w.reach.note("b", true)
		synctest.Wait()
		select {
		case err := <-done:
			require.ErrorIs(t, err, errOutdated)
		case rpc := <-other.Consumer():
			require.Fail(t, "it was sent", "%+v", rpc.Command)
		}
	})
}

func TestAHeartbeatIsNoAppend(t *testing.T) {
	require.True(t, isBeat(&raft.AppendEntriesRequest{Term: 3}))
	for _, r := range []raft.AppendEntriesRequest{
		{PrevLogEntry: 1}, {PrevLogTerm: 1}, {LeaderCommitIndex: 1}, {Entries: []*raft.Log{{}}},
	} {
		require.False(t, isBeat(&r))
	}
}
