package cluster

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
)

// load proposes keys through every node until stopped, and remembers what was answered.
type load struct {
	c    *nodes
	stop chan struct{}
	wg   sync.WaitGroup

	mu      sync.Mutex
	answers map[uint64]engine.Outcome
}

func (c *nodes) load(workers int) *load {
	l := &load{c: c, stop: make(chan struct{}), answers: make(map[uint64]engine.Outcome)}
	for _, id := range three {
		g := c.billing(id)
		for w := range workers {
			l.wg.Go(func() { l.work(g, id, w) })
		}
	}
	return l
}

func (l *load) work(g *Group, id string, worker int) {
	next := uint64(id[0])<<40 | uint64(worker)<<32
	for {
		select {
		case <-l.stop:
			return
		case <-time.After(5 * time.Millisecond):
		}
		keys := keyRange(next, 3)
		next += 3
		records := make([]engine.Record, len(keys))
		for i, k := range keys {
			records[i] = countRecord(k)
		}
		results := make([]engine.Result, len(keys))
		g.Propose(time.Now().Add(5*time.Second), records, results)
		l.mu.Lock()
		for i, k := range keys {
			l.answers[k] = results[i].Outcome
		}
		l.mu.Unlock()
	}
}

func (l *load) answered(o engine.Outcome) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, a := range l.answers {
		if a == o {
			n++
		}
	}
	return n
}

// finish stops the load and checks every answer against a node's state.
func (l *load) finish(id string) {
	t := l.c.t
	t.Helper()
	close(l.stop)
	l.wg.Wait()
	l.c.converge()
	for key, o := range l.answers {
		switch o {
		case engine.OutcomeDone:
			require.True(t, l.c.ledgers[id].has(key), "acknowledged key %x is lost", key)
		case engine.OutcomeUnavailable, engine.OutcomeOverloaded:
			require.False(t, l.c.ledgers[id].has(key), "refused key %x was counted", key)
		default:
			require.Equal(t, engine.OutcomeUnknown, o)
		}
	}
}

// A leader dies in mid-batch while every node proposes: nothing acknowledged is lost, nothing
// definitely refused was counted, and the others go on by themselves.
func TestLeaderKilledInMidBatch(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		l := c.load(4)
		c.eventually("work is done", func() bool { return l.answered(engine.OutcomeDone) > 200 })
		c.kill(leader)
		died := time.Now()
		before := l.answered(engine.OutcomeDone)
		c.eventually("work goes on", func() bool { return l.answered(engine.OutcomeDone) > before+50 })
		require.Less(t, time.Since(died), 4*time.Second)
		next := c.leader()
		require.NotEqual(t, leader, next)
		c.eventually("more is done", func() bool { return l.answered(engine.OutcomeDone) > before+200 })
		c.start(leader)
		l.finish(next)
		require.Greater(t, l.answered(engine.OutcomeDone), 400)
	})
}

// The followers' calls outlive the leader: a frame whose fate is unknown is sent again to the next
// leader, and its callers learn the outcome instead of a 503.
func TestForwardedCallsSurviveALeaderChange(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		c.net.isolate(addressOf(leader))
		var wg sync.WaitGroup
		for i, id := range c.others(leader) {
			wg.Go(func() { c.count(id, uint64(i+1)) }) // sent to the old leader, answered by the new
		}
		next := c.leader(leader)
		known := time.Now()
		wg.Wait()
		require.Less(t, time.Since(known), 200*time.Millisecond, "as soon as there is a leader")
		require.Equal(t, 2, c.ledgers[next].keys())
		c.net.mend()
		c.converge()
	})
}

// A frame is held up on a connection that its origin gives up: the record is sent again, and the
// machine refuses it. When the frame arrives after all, the machine would take it by now; but
// whoever sent it was told that nothing happened.
func TestFrameThatWasHeldUpComesToNothing(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		follower := c.others(leader)[0]
		c.count(follower, 1)
		release := c.net.hold(addressOf(follower), addressOf(leader))
		record := countRecord(9)
		record.Kind = kindGated
		results := make([]engine.Result, 1)
		c.billing(follower).Propose(time.Now().Add(20*time.Second), []engine.Record{record}, results)
		require.Equal(t, engine.OutcomeCustomerUnknown, results[0].Outcome)
		require.Equal(t, leader, c.leader())
		c.count(follower, 0)
		release()
		c.count(follower, 2)
		time.Sleep(5 * time.Second) // of the bubble's time
		c.converge()
		require.False(t, c.ledgers[leader].has(9), "refused, and carried out later")
	})
}

// A frame that the leader got, and whose answer did not come back, is of unknown fate. It is not
// "definitely not proposed" because the connection is gone.
func TestLostAnswerIsUnknown(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		follower := c.others(leader)[0]
		c.net.cutLink(addressOf(leader), addressOf(follower))
		require.Equal(t, []engine.Outcome{engine.OutcomeUnknown}, c.propose(follower, 2*time.Second, 5))
		require.True(t, c.ledgers[leader].has(5))
		c.net.mend()
		c.count(follower, 6)

		g := c.billing(follower)
		lost := testTicket(records(7), 0)
		lost.open = 1
		b := &batch{records: 1, parts: []part{{ticket: lost, count: 1}}}
		lost.results[0].Outcome = engine.OutcomeUnknown
		g.remote.mu.Lock()
		g.remote.inFlight = append(g.remote.inFlight, b)
		g.remote.mu.Unlock()
		g.landFrame(b, nil, errLinkLost)
		require.True(t, settled(lost))
		require.Equal(t, engine.OutcomeUnknown, lost.results[0].Outcome)
	})
}

// What a leader proposed and lost its leadership over is proposed again through the next one.
func TestLocalCallsSurviveALossOfLeadership(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		c.net.isolate(addressOf(leader))
		var wg sync.WaitGroup
		wg.Go(func() { c.count(leader, 7) })
		next := c.leader(leader)
		c.count(next, 8)
		c.net.mend()
		wg.Wait()
		c.converge()
		require.True(t, c.ledgers[leader].has(7))
	})
}

// An isolated leader answers from its memory only as long as nobody else can have become leader.
func TestIsolatedLeaderRefusesReads(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		old := c.billing(leader)
		c.count(leader, 1)
		ticket, o := old.BeginRead(time.Now().Add(time.Second))
		require.Equal(t, engine.OutcomeDone, o)
		require.True(t, ticket.Leader && old.ReadStands(ticket))
		c.net.isolate(addressOf(leader))
		cut := time.Now()
		// From the moment that the others may have a leader of their own, no read is answered.
		others := c.others(leader)
		for elected := false; !elected; time.Sleep(time.Millisecond) {
			for _, id := range others {
				elected = elected || c.billing(id).led.Load()
			}
			_, held := old.lease.holds()
			require.False(t, elected && held, "two leaders answer reads")
			if !held {
				_, o := old.BeginRead(time.Now())
				require.Equal(t, engine.OutcomeUnavailable, o, "without a lease")
			}
		}
		require.False(t, old.ReadStands(ticket), "a ticket of the lapsed lease")
		c.count(c.leader(leader), 2)
		require.Equal(t, engine.OutcomeUnavailable, c.readOutcome(leader, 2*time.Second))
		require.GreaterOrEqual(t, old.Staleness(), time.Since(cut)-100*time.Millisecond)
		c.net.mend()
		require.Equal(t, engine.OutcomeDone, c.readOutcome(leader, 10*time.Second))
		require.True(t, c.ledgers[leader].has(2))
	})
}

func TestStalenessOfACutFollower(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		follower := c.others(leader)[0]
		require.Zero(t, c.billing(leader).Staleness())
		c.eventually("it is fresh", func() bool {
			return c.billing(follower).Staleness() < 100*time.Millisecond
		})
		c.net.isolate(addressOf(follower))
		time.Sleep(3 * time.Second)
		require.GreaterOrEqual(t, c.billing(follower).Staleness(), 3000*time.Millisecond-contactSlack)
		require.Equal(t, engine.OutcomeUnavailable, c.readOutcome(follower, time.Second))
		require.Zero(t, c.billing(leader).Staleness())
		c.net.mend()
		c.eventually("it is fresh again", func() bool {
			return c.billing(follower).Staleness() < 100*time.Millisecond
		})
	})
}

// A node that has just begun and has met no leader counts from its newest entry, by the later of
// its own clock and the others'. One of them may be far behind.
func TestStalenessIsByTheLaterClock(t *testing.T) {
	const year = 365 * 24 * time.Hour
	var set atomic.Int64
	follower := ""
	tune := func(id string, c *Config) {
		if id == follower {
			c.Now = func() time.Time { return time.Now().Add(time.Duration(set.Load())) }
		}
	}
	inCluster(t, tune, func(c *nodes) {
		leader := c.leader()
		follower = c.others(leader)[0]
		c.count(leader, 1)
		c.converge()
		require.NoError(t, c.billing(follower).TakeSnapshot())
		c.stop(follower)
		gone := time.Now()
		time.Sleep(time.Minute)
		c.net.isolate(addressOf(follower))
		c.start(follower)
		g := c.billing(follower)
		require.True(t, c.ledgers[follower].has(1), "from the snapshot")
		require.Less(t, g.Staleness(), time.Hour)
		require.GreaterOrEqual(t, g.Staleness(), time.Since(gone))
		g.clocks.learn(leader, time.Now().Add(-year).UnixMilli(), 0)
		require.GreaterOrEqual(t, g.Staleness(), time.Since(gone), "another's clock is behind")
		set.Store(-int64(year))
		for _, other := range c.others(follower) {
			g.clocks.learn(other, time.Now().UnixMilli(), 0)
		}
		require.GreaterOrEqual(t, g.Staleness(), time.Since(gone), "its own is")
	})
}

// A follower that has the entries but is slow in applying them is as old as its memory, not as its
// log.
func TestStalenessOfASlowFollower(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		follower := c.others(leader)[0]
		c.eventually("it is fresh", func() bool {
			return c.billing(follower).Staleness() < 200*time.Millisecond
		})
		gate := make(chan struct{})
		open := sync.OnceFunc(func() { close(gate) })
		defer open()
		c.ledgers[follower].gate.Store(&gate)
		c.count(leader, 1)
		held := time.Now()
		for time.Since(held) < 3*time.Second {
			time.Sleep(50 * time.Millisecond)
			require.GreaterOrEqual(t, c.billing(follower).Staleness(), time.Since(held))
			require.False(t, c.ledgers[follower].has(1))
		}
		time.Sleep(patience[CauseBehind].after)
		require.False(t, c.node[follower].Status().Ready)
		open()
		c.eventually("it is fresh again", func() bool {
			return c.billing(follower).Staleness() < 200*time.Millisecond
		})
		require.True(t, c.ledgers[follower].has(1))
	})
}

// contactSlack: in the bubble, data that was under way when the link was cut arrives in no time.
const contactSlack = time.Millisecond

func TestTwoOfThreeStopped(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		c.count(leader, 1)
		c.converge()
		for _, id := range c.others(leader) {
			c.kill(id)
		}
		time.Sleep(2 * time.Second)
		start := time.Now()
		require.Equal(t, []engine.Outcome{engine.OutcomeUnavailable}, c.propose(leader, time.Second, 2))
		require.Equal(t, time.Second, time.Since(start).Round(10*time.Millisecond))
		require.Equal(t, engine.OutcomeUnavailable, c.readOutcome(leader, time.Second))
		require.GreaterOrEqual(t, c.billing(leader).Staleness(), 2*time.Second)
		require.True(t, c.ledgers[leader].has(1), "stale reads go on")
		require.False(t, c.node[leader].Status().Ready)
		for _, id := range c.others(leader) {
			c.start(id)
		}
		c.leader()
		for i, id := range three {
			c.count(id, uint64(10+i))
		}
		c.converge()
		c.eventually("it is ready", func() bool { return c.node[leader].Status().Ready })
	})
}

func TestFullQueueRefusesDefinitely(t *testing.T) {
	small := func(_ string, c *Config) { c.QueueBytes, c.ForwardBytes = 1<<20, 512<<10 }
	inCluster(t, small, func(c *nodes) {
		leader := c.leader()
		c.net.isolate(addressOf(leader))
		var wg sync.WaitGroup
		var mu sync.Mutex
		seen := make(map[engine.Outcome]int)
		refused := make(map[uint64]bool)
		for w := range uint64(30) {
			wg.Go(func() {
				keys := keyRange(w<<20, 10_000) // 100 KB
				for i, o := range c.propose(leader, 20*time.Second, keys...) {
					mu.Lock()
					seen[o]++
					refused[keys[i]] = o == engine.OutcomeOverloaded
					mu.Unlock()
				}
			})
		}
		c.eventually("the queue is full", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return seen[engine.OutcomeOverloaded] > 100_000
		})
		bytes, inFlight := c.billing(leader).local.load()
		require.LessOrEqual(t, bytes, 1<<20+200<<10)
		require.LessOrEqual(t, inFlight, depthEntries)
		c.leader(leader)
		c.net.mend()
		wg.Wait()
		require.Positive(t, seen[engine.OutcomeDone], "what was taken in is done in the end: %v", seen)
		require.Zero(t, seen[engine.OutcomeUnknown])
		c.converge()
		for key, r := range refused {
			require.Equal(t, !r, c.ledgers[leader].has(key), "key %x", key)
		}
	})
}

// Follower reads run beside writes through every node: each sees what was acknowledged before.
func TestFollowerReadsSeeAcknowledgedWrites(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.leader()
		l := c.load(2)
		var wg sync.WaitGroup
		for i, id := range three {
			wg.Go(func() {
				writer := three[(i+1)%3]
				for k := range uint64(20) {
					key := uint64(1)<<50 | uint64(i)<<32 | k
					c.count(writer, key)
					ticket, o := c.billing(id).BeginRead(time.Now().Add(time.Second))
					seen := c.ledgers[id].has(key)
					require.Equal(t, engine.OutcomeDone, o)
					require.True(t, seen, "%s reads %x, written through %s", id, key, writer)
					require.True(t, c.billing(id).ReadStands(ticket))
				}
			})
		}
		wg.Wait()
		l.finish(c.leader())
	})
}

// Trap 5: a deposed leader whose uncommitted entries cover the index of the snapshot that it is
// sent installs that snapshot over and over. The third time the process asks to be restarted, and
// after that it follows.
func TestSnapshotLoopIsBroken(t *testing.T) {
	tune := func(_ string, c *Config) { c.TrailingBytes = 1 }
	inCluster(t, tune, func(c *nodes) {
		old := c.leader()
		c.count(old, 1)
		c.converge()
		c.net.isolate(addressOf(old))
		for range 100 {
			c.billing(old).raft.Apply(engine.AppendHeader(nil, ShardBilling), 0)
		}
		leader := c.leader(old)
		for i := range uint64(50) {
			c.count(leader, 100+i)
		}
		require.NoError(t, c.billing(leader).TakeSnapshot())
		require.Less(t, c.billing(leader).Status().LastIndex, c.billing(old).Status().LastIndex)
		c.net.mend()
		c.eventually("the loop was noticed", func() bool { return len(c.fatals(old)) > 0 })
		require.ErrorIs(t, c.fatals(old)[0], ErrRestart)
		c.stop(old)
		c.start(old)
		c.converge()
		require.True(t, c.ledgers[old].has(149))
		c.count(old, 1000)
	})
}
