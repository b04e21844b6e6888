package cluster

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
)

func TestStampsStayNearTheMedianOfTheClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hour := time.Hour.Milliseconds()
		c := newClocks(time.Now, 3)
		at := func() int64 { return c.stampMS() - time.Now().UnixMilli() }
		require.Zero(t, at())
		require.False(t, c.wrong())
		require.False(t, c.sure(), "nobody was asked yet")
		now := time.Now().UnixMilli()
		c.learn("b", now-hour, 0)
		require.True(t, c.sure())
		require.True(t, c.wrong(), "of two clocks the earlier one counts")
		c.learn("c", now-hour+5, 0)
		require.Equal(t, -hour+5+clockLead.Milliseconds(), at(), "an hour ahead of two others")
		require.True(t, c.wrong())
		c.learn("c", now+3, 0)
		require.Zero(t, at(), "b is the one that is wrong")
		require.False(t, c.wrong())
		c.learn("b", now+hour, 0)
		c.learn("c", now+hour, 0)
		require.Equal(t, hour-clockLead.Milliseconds(), at(), "an hour behind two others")
		require.True(t, c.wrong())
		time.Sleep(clockFresh)
		require.False(t, c.sure(), "old answers do not count")
		c.learn("b", time.Now().UnixMilli(), 0)
		require.False(t, c.wrong())
	})
}

// Two clocks that are wrong one after the other are never a majority: what the first said counts no
// more when its node is gone, and one clock alone moves nothing.
func TestClocksThatAreWrongInTurnAreNoMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		year := 365 * 24 * time.Hour.Milliseconds()
		now := func() int64 { return time.Now().UnixMilli() }
		c := newClocks(time.Now, 3)
		c.learn("b", now()+year, 0)
		c.learn("c", now(), 0)
		require.Zero(t, c.stampMS()-now())
		time.Sleep(clockRecent)
		c.learn("c", now()+year, 0)
		require.Zero(t, c.stampMS()-now(), "b was wrong before, and is gone")
		require.True(t, c.sure())

		c = newClocks(time.Now, 5)
		c.learn("b", now()+year, 0)
		c.learn("c", now(), 0)
		c.learn("d", now(), 0)
		time.Sleep(clockRecent)
		c.learn("b", now()-year, 0)
		require.Zero(t, c.stampMS()-now(), "two of five are not majority")
		require.False(t, c.wrong())
	})
}

// TestAClockThatIsSetBackDoesNotFreezeLogTime: the leader's clock is set back by an hour. It goes
// on leading, and what is due in a minute falls due in a minute.
func TestAClockThatIsSetBackDoesNotFreezeLogTime(t *testing.T) {
	var stepped atomic.Pointer[string]
	tune := func(id string, c *Config) {
		c.Now = func() time.Time {
			if s := stepped.Load(); s != nil && *s == id {
				return time.Now().Add(-time.Hour)
			}
			return time.Now()
		}
	}
	inCluster(t, tune, func(c *nodes) {
		leader := c.leader()
		c.count(leader, 1)
		stepped.Store(&leader)
		at := time.Now().Add(time.Minute).UnixMilli()
		due := binary.LittleEndian.AppendUint64(nil, uint64(at))
		results := make([]engine.Result, 1)
		record := []engine.Record{{Kind: kindDue, Payload: due}}
		c.billing(leader).Propose(time.Now().Add(time.Second), record, results)
		require.Equal(t, engine.OutcomeDone, results[0].Outcome)
		time.Sleep(50 * time.Second)
		require.Zero(t, c.ledgers[leader].read().Ticks, "not early")
		time.Sleep(10*time.Second + clockLead + time.Second)
		require.Positive(t, c.ledgers[leader].read().Ticks)
		require.InDelta(t, time.Now().UnixMilli(), c.ledgers[leader].Stamp(),
			float64(2*clockLead.Milliseconds()))
	})
}

// A read on a node whose clock is a year off is of today all the same, on the leader and elsewhere.
func TestThePresentIsNearTheMedian(t *testing.T) {
	const year = 365 * 24 * time.Hour
	var step sync.Map
	tune := func(id string, c *Config) {
		c.Now = func() time.Time {
			by, _ := step.LoadOrStore(id, time.Duration(0))
			return time.Now().Add(by.(time.Duration))
		}
	}
	inCluster(t, tune, func(c *nodes) {
		leader := c.leader()
		for _, id := range []string{leader, c.others(leader)[0]} {
			require.WithinDuration(t, time.Now(), c.node[id].Now(), time.Second)
			for _, by := range []time.Duration{year, -year} {
				step.Store(id, by)
				require.WithinDuration(t, time.Now(), c.node[id].Now(), clockLead+time.Second)
			}
			step.Store(id, time.Duration(0))
		}
	})
}

func TestClockAnswersAreTakenAtTheMiddleOfTheTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClocks(time.Now, 3)
		theirs := time.Now().UnixMilli()
		time.Sleep(100 * time.Millisecond)
		c.learn("b", theirs+100, 200*time.Millisecond)
		ahead, trip, ok := c.sample("b")
		require.True(t, ok)
		require.InDelta(t, 100, ahead, 1)
		c.learn("b", theirs, clockTrip+1)
		again, _, _ := c.sample("b")
		require.Equal(t, ahead, again, "it was too long on its way")
		require.Equal(t, 200*time.Millisecond, trip)
	})
}

func TestNodeWithAWrongClockDoesNotLead(t *testing.T) {
	wrong := "a"
	tune := func(id string, c *Config) {
		if id == wrong {
			c.Now = func() time.Time { return time.Now().Add(time.Hour) }
		}
	}
	inCluster(t, tune, func(c *nodes) {
		c.eventually("it knows", func() bool { return c.node[wrong].clocks.wrong() })
		for range 5 {
			old := c.leader()
			require.NotEqual(t, wrong, old)
			c.net.isolate(addressOf(old))
			time.Sleep(3 * time.Second)
			require.NotEqual(t, wrong, c.billing(wrong).route.Load().leader)
			c.net.mend()
			c.leader()
		}
		s := c.node[wrong].Status()
		require.False(t, s.Ready)
		require.False(t, s.Groups[0].StandsForElection)
		require.InDelta(t, time.Hour.Milliseconds(), s.ClockAheadMS, 5)
		c.count(wrong, 7)
	})
}

// The clock of the leader is stepped by a year either way, in mid-lead: nothing falls due early,
// also before the others' clocks are asked again.
func TestClockThatIsSteppedMakesNothingFallDue(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, step := range []time.Duration{year, -year} {
		var stepped atomic.Pointer[string]
		tune := func(id string, c *Config) {
			c.Now = func() time.Time {
				if s := stepped.Load(); s != nil && *s == id {
					return time.Now().Add(step)
				}
				return time.Now()
			}
		}
		inCluster(t, tune, func(c *nodes) {
			leader := c.leader()
			at := time.Now().Add(30 * time.Second).UnixMilli()
			due := binary.LittleEndian.AppendUint64(nil, uint64(at))
			results := make([]engine.Result, 1)
			record := []engine.Record{{Kind: kindDue, Payload: due}}
			c.billing(leader).Propose(time.Now().Add(time.Second), record, results)
			require.Equal(t, engine.OutcomeDone, results[0].Outcome)
			before := c.ledgers[leader].Stamp()
			stepped.Store(&leader)
			for key := range uint64(300) {
				c.propose(c.others(leader)[0], 5*time.Second, key)
				stamp := c.ledgers[leader].Stamp()
				require.LessOrEqual(t, stamp, time.Now().Add(clockLead).UnixMilli())
				require.GreaterOrEqual(t, stamp, before)
				time.Sleep(10 * time.Millisecond)
			}
			require.True(t, c.node[leader].clocks.wrong())
			require.False(t, c.node[leader].Status().Ready)
			for _, id := range three {
				require.Zero(t, c.ledgers[id].read().Ticks, "at %s", id)
			}
			stepped.Store(nil)
			time.Sleep(30 * time.Second)
			c.eventually("it is due", func() bool { return c.ledgers[leader].read().Ticks == 1 })
		})
	}
}
