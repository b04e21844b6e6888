package cluster

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

const testHeartbeat = 500 * time.Millisecond

func leaseOf(voters ...raft.ServerID) *lease {
	l := newLease(testHeartbeat, "a", func(bool) {})
	l.voters = func() [2][]raft.ServerID { return [2][]raft.ServerID{voters, voters} }
	return l
}

func held(l *lease) bool {
	_, ok := l.holds()
	return ok
}

func TestLeaseRunsFromTheSendTimeOfAMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := leaseOf("a", "b", "c", "d", "e")
		l.begin(5)
		require.False(t, held(l))
		sent := now()
		l.ack(5, "b", sent)
		require.False(t, held(l), "two of five")
		time.Sleep(100 * time.Millisecond)
		l.ack(5, "c", now())
		require.True(t, held(l), "three of five")
		// The majority-th newest is b's, sent 100 ms ago: 180 - 100 ms are left.
		time.Sleep(80*time.Millisecond - 1)
		require.True(t, held(l))
		require.True(t, l.stands(5))
		require.False(t, l.stands(4))
		time.Sleep(time.Nanosecond)
		require.False(t, held(l))
		require.False(t, l.stands(5))
		age, ok := l.age()
		require.True(t, ok)
		require.Equal(t, 180*time.Millisecond, age)
	})
}

// An answer that arrives late proves what was true when its request was sent, and no more. This is
// what raft's own VerifyLeader gets wrong.
func TestLateAnswerProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := leaseOf("a", "b", "c")
		l.begin(5)
		sent := now()
		time.Sleep(2 * time.Second) // in a socket's buffer, while the others elect another leader
		l.ack(5, "b", sent)
		require.False(t, held(l))
		rung := 0
		ring := func() {
			if rung++; rung == 1 {
				go l.ack(5, "c", sent)
			}
		}
		require.False(t, l.confirm(ring, time.After(time.Second)))
		require.GreaterOrEqual(t, rung, 2)
	})
}

func TestConfirmWaitsForAMajorityOfNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := leaseOf("a", "b", "c")
		require.False(t, l.confirm(func() {}, nil), "no leader")
		l.begin(5)
		ring := func() {
			sent := now()
			time.AfterFunc(70*time.Millisecond, func() { l.ack(5, "c", sent) })
		}
		start := time.Now()
		require.True(t, l.confirm(ring, time.After(time.Second)))
		require.Equal(t, 70*time.Millisecond, time.Since(start))

		time.AfterFunc(50*time.Millisecond, func() { l.end(5) })
		require.False(t, l.confirm(func() {}, time.After(time.Minute)), "leadership lost meanwhile")
	})
}

func TestLeaseEndsForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := leaseOf("a", "b", "c")
		l.ack(5, "b", now())
		l.begin(5)
		require.True(t, held(l), "answers before the barrier count")
		l.end(5)
		require.False(t, held(l))
		l.ack(5, "b", now())
		l.begin(5)
		l.refresh()
		require.False(t, held(l))
		l.ack(6, "b", now())
		require.False(t, held(l), "term 6 is not ready")
		l.begin(6)
		require.True(t, held(l))
		l.ack(7, "b", now())
		require.False(t, func() bool { l.refresh(); return held(l) }(), "answers of another term")
	})
}

func TestLeaseIsSuspendedWhileAVoteIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := leaseOf("a", "b", "c")
		l.begin(5)
		l.ack(5, "b", now())
		require.True(t, held(l))
		l.doubt()
		require.False(t, held(l))
		l.ack(5, "c", now())
		require.False(t, held(l), "an answer does not end the doubt")
		l.settle(5)
		require.True(t, held(l), "raft refused the vote and stayed in its term")
		l.doubt()
		l.settle(6)
		require.False(t, held(l), "raft went to term 6")
		l.ack(5, "c", now())
		require.False(t, held(l))
	})
}

func TestLeaseNeedsAMajorityOfBothConfigurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := leaseOf()
		four, trio := []raft.ServerID{"a", "b", "c", "d"}, []raft.ServerID{"a", "b", "c"}
		with := func(latest, committed []raft.ServerID, answered ...raft.ServerID) bool {
			l = leaseOf()
			l.voters = func() [2][]raft.ServerID { return [2][]raft.ServerID{latest, committed} }
			l.begin(5)
			for _, id := range answered {
				l.ack(5, id, now())
			}
			return held(l)
		}
		require.False(t, with(four, trio, "b"), "2 of the latest 4, 2 of the committed 3")
		require.False(t, with(trio, four, "b"), "2 of the latest 3, 2 of the committed 4")
		require.False(t, with(four, trio, "d"), "2 of the latest 4, 1 of the committed 3")
		require.True(t, with(four, trio, "b", "d"), "3 of the latest 4, 2 of the committed 3")
		require.True(t, with(trio, four, "b", "d"))

		l.voters = func() [2][]raft.ServerID { return [2][]raft.ServerID{{"a"}, {"a"}} }
		time.Sleep(time.Second)
		l.refresh()
		require.True(t, held(l), "alone")
	})
}

// A machine that slept finds its monotonic clock where it was and its wall clock moved on: the
// lease that it held may have been over for hours.
func TestLeaseEndsWithASleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := leaseOf("a", "b", "c")
		l.begin(5)
		sent := l.clock()
		l.ack(5, "b", sent)
		require.True(t, l.stands(5))
		l.slept.Store(int64(time.Hour))
		require.False(t, l.stands(5), "no read that began before is answered")
		l.refresh()
		require.False(t, held(l), "answers from before the sleep do not count")
		l.ack(5, "c", sent)
		require.False(t, held(l), "nor those that arrive after it")
		time.Sleep(time.Millisecond)
		l.ack(5, "c", l.clock())
		require.True(t, l.stands(5))
	})
}

// The memory of a node whose machine slept is as old as the sleep was long, whether it followed or
// led, until it hears of the others again.
func TestStalenessCountsASleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &core{lease: leaseOf("a", "b", "c")}
		g := &reader{core: c}
		g.contact.note(g.lease.clock())
		time.Sleep(time.Second)
		require.Equal(t, time.Second, g.Staleness())
		g.lease.slept.Store(int64(time.Hour))
		require.Equal(t, time.Hour+time.Second, g.Staleness(), "it followed")
		asked := g.lease.clock()
		g.lease.slept.Store(int64(3 * time.Hour))
		g.contact.note(asked)
		time.Sleep(time.Second)
		g.contact.note(asked)
		require.Equal(t, 2*time.Hour+time.Second, g.Staleness(), "it slept while it asked")

		g.lease.begin(5)
		g.lease.ack(5, "b", g.lease.clock())
		require.Zero(t, g.Staleness())
		g.lease.slept.Store(int64(4 * time.Hour))
		require.GreaterOrEqual(t, g.Staleness(), time.Hour, "it led")
		g.contact.note(g.lease.clock())
		g.lease.slept.Store(0)
		require.GreaterOrEqual(t, g.Staleness(), time.Duration(0), "a clock that was set back")
	})
}

func TestHoldsAllocatesNothing(t *testing.T) {
	l := leaseOf("a")
	l.begin(5)
	require.True(t, held(l))
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		term, ok := l.holds()
		if !ok || !l.stands(term) {
			l.refresh()
		}
	}))
}

func longLease(b *testing.B) *lease {
	l := leaseOf("a")
	l.begin(5)
	g := *l.published.Load()
	g.until = math.MaxInt64
	l.published.Store(&g)
	b.ReportAllocs()
	return l
}

// BenchmarkLeaseHolds is what a linearizable read costs on the leader before it reads.
func BenchmarkLeaseHolds(b *testing.B) {
	l := longLease(b)
	for b.Loop() {
		if _, ok := l.holds(); !ok {
			b.Fatal("the lease has lapsed")
		}
	}
}

// BenchmarkLeaseStands is what it costs after it has read.
func BenchmarkLeaseStands(b *testing.B) {
	l := longLease(b)
	for b.Loop() {
		if !l.stands(5) { // the wall clock was set meanwhile
			g := *l.published.Load()
			g.drift = l.clock().drift
			l.published.Store(&g)
		}
	}
}
