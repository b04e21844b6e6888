package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
)

func TestEveryNodeProposesAndReads(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		for i, id := range three {
			key := uint64(i + 1)
			c.count(id, key)
			for _, reader := range three {
				ticket, o := c.billing(reader).BeginRead(time.Now().Add(time.Second))
				require.Equal(t, engine.OutcomeDone, o, "read on %s", reader)
				require.True(t, c.ledgers[reader].has(key), "%s sees what %s wrote", reader, id)
				require.True(t, c.billing(reader).ReadStands(ticket))
				require.Equal(t, reader == leader, ticket.Leader)
			}
		}
		c.converge()
	})
}

func TestACallOfManyEntriesStaysInOrderAndWhole(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		for i, id := range three {
			first := uint64(1 + i*100_000)
			c.count(id, keyRange(first, 30_000)...) // 10 bytes each: 300 KB, two entries
		}
		require.Equal(t, 90_000, c.ledgers[leader].keys())
		c.converge()
		for _, id := range three {
			for key, n := range c.ledgers[id].state.Counts {
				require.Equal(t, 1, n, "key %d on %s", key, id)
			}
		}
		s := c.node[leader].Status()
		require.Less(t, s.Groups[0].Batches, uint64(60), "records travel together")
	})
}

// TestWhatAnEntryDefersIsProposedAgain: a machine may leave records for later entries. Callers on
// any node do not notice, and each record is carried out once.
func TestWhatAnEntryDefersIsProposedAgain(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		for i, id := range three {
			records := make([]engine.Record, 30)
			for k, key := range keyRange(uint64(1+1000*i), 30) {
				records[k] = countRecord(key)
				records[k].Kind = kindWork
			}
			results := make([]engine.Result, len(records))
			before := c.ledgers[leader].Applied()
			c.billing(id).Propose(time.Now().Add(10*time.Second), records, results)
			for k, r := range results {
				require.Equal(t, engine.OutcomeDone, r.Outcome, "record %d through %s", k, id)
				require.Equal(t, records[k].Payload[:8], r.Value, "each its own result")
			}
			require.GreaterOrEqual(t, c.ledgers[leader].Applied()-before, uint64(8))
		}
		c.converge()
		for key, n := range c.ledgers[leader].state.Counts {
			require.Equal(t, 1, n, "key %d", key)
		}
	})
}

// TestDeferredAtTheDeadlineNeverHappened: the caller is told that nothing was done.
func TestDeferredAtTheDeadlineNeverHappened(t *testing.T) {
	c := call{results: make([]engine.Result, 1), left: []int{0}}
	require.True(t, c.settle(0, engine.Result{Outcome: engine.OutcomeDeferred}))
	require.True(t, c.deferred)
	require.Nil(t, c.open, "its fate is known")
}

// TestTheClustersOwnRefusalsProveNothing: a record whose fate is unknown is tried again, since an
// earlier copy may have been carried out. One that was never sent is refused for good.
func TestTheClustersOwnRefusalsProveNothing(t *testing.T) {
	for _, o := range []engine.Outcome{
		engine.OutcomeUnavailable, engine.OutcomeOverloaded, engine.OutcomeShareFull,
		engine.OutcomeDiskLow, engine.OutcomeMemoryLow, engine.OutcomeTooLarge,
	} {
		c := call{
			records: make([]engine.Record, 1), results: make([]engine.Result, 1), left: []int{0},
		}
		require.False(t, c.settle(0, engine.Result{Outcome: o}), "%s: it was never sent", o)
		require.Equal(t, o, c.results[0].Outcome)
		require.True(t, c.settle(0, engine.Result{Outcome: engine.OutcomeUnknown}))
		require.True(t, c.settle(0, engine.Result{Outcome: o}), "%s: it is tried again", o)
	}
}

func TestTooLargeRecordIsRefusedAlone(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		large := engine.Record{Kind: kindCount, Payload: make([]byte, engine.MaxEntryBytes)}
		fits := engine.Record{Kind: kindCount, Payload: make([]byte, engine.MaxRecordBytes)}
		for _, id := range three {
			records := []engine.Record{countRecord(1), large, fits, countRecord(2)}
			results := make([]engine.Result, 4)
			c.billing(id).Propose(time.Now().Add(10*time.Second), records, results)
			require.Equal(t, engine.OutcomeDone, results[0].Outcome)
			require.Equal(t, engine.OutcomeTooLarge, results[1].Outcome)
			require.Equal(t, engine.OutcomeDone, results[2].Outcome)
			require.Equal(t, engine.OutcomeDone, results[3].Outcome)
			require.Equal(t, countRecord(2).Payload, results[3].Value)
		}
		require.Equal(t, 3, c.ledgers[leader].keys())
	})
}

func TestRestartFromDiskLosesNothing(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.leader()
		for round := range uint64(3) {
			for i, id := range three {
				c.count(id, keyRange(1000*round+100*uint64(i), 50)...)
			}
			if round == 1 {
				for _, id := range three {
					require.NoError(t, c.billing(id).TakeSnapshot())
				}
			}
			for _, id := range three {
				c.kill(id)
			}
			for _, id := range three {
				c.start(id)
			}
			leader := c.leader()
			require.Equal(t, int(round+1)*150, c.ledgers[leader].keys())
			c.converge()
		}
	})
}

func TestLaggingFollowerGetsASnapshot(t *testing.T) {
	small := func(_ string, c *Config) {
		c.SnapshotBytes, c.TrailingBytes = 100<<10, 1
	}
	inCluster(t, small, func(c *nodes) {
		leader := c.leader()
		lagging := c.others(leader)[0]
		c.kill(lagging)
		for i := range uint64(400) {
			c.count(leader, keyRange(1000*i, 50)...)
		}
		c.eventually("the leader has taken a snapshot", func() bool {
			s := c.billing(leader).Status()
			return s.SnapshotIndex > 100 && !s.SnapshotAt.IsZero()
		})
		c.eventually("the log behind the snapshot is gone", func() bool {
			first, err := c.node[leader].stores[0].log.FirstIndex()
			require.NoError(t, err)
			return first > 50
		})
		c.start(lagging)
		c.converge()
		require.Equal(t, 20_000, c.ledgers[lagging].keys())
		c.eventually("raft has taken note of it", func() bool {
			return c.billing(lagging).Status().SnapshotIndex > 0
		})
		c.count(lagging, 1_000_000)
	})
}

func TestTicksComeWhenSomethingFallsDue(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		at := time.Now().Add(3 * time.Second)
		due := engine.Record{Kind: kindDue, Payload: countRecord(uint64(at.UnixMilli())).Payload}
		results := make([]engine.Result, 1)
		follower := c.others(leader)[0]
		c.billing(follower).Propose(time.Now().Add(time.Second), []engine.Record{due}, results)
		require.Equal(t, engine.OutcomeDone, results[0].Outcome)
		require.Zero(t, c.ledgers[leader].read().Ticks)
		c.eventually("the tick came", func() bool { return c.ledgers[leader].read().Ticks == 1 })
		late := time.Since(at)
		require.True(t, late >= 0 && late < 300*time.Millisecond, "%s", late)
		require.GreaterOrEqual(t, c.ledgers[leader].Stamp(), at.UnixMilli())
		time.Sleep(time.Second)
		require.Equal(t, 1, c.ledgers[leader].read().Ticks)
	})
}

func TestReplicaThatDiffersStops(t *testing.T) {
	often := func(_ string, c *Config) { c.CheckEntries = 32 }
	inCluster(t, often, func(c *nodes) {
		leader := c.leader()
		odd := c.others(leader)[0]
		c.count(leader, 1)
		c.converge()
		c.ledgers[odd].mu.Lock()
		c.ledgers[odd].broke = true
		c.ledgers[odd].mu.Unlock()
		for i := range uint64(50) {
			c.count(leader, i)
		}
		c.eventually("it stopped", func() bool { return len(c.fatals(odd)) > 0 })
		require.ErrorIs(t, c.fatals(odd)[0], engine.ErrHalt)
		require.Empty(t, c.fatals(leader))
		require.Empty(t, c.fatals(c.others(leader)[1]))
		c.count(leader, 1_000_000)
	})
}

func TestStatusKnowsEveryone(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		c.count(leader, 1, 2, 3)
		c.converge() // a node may be ready as of before that, with nothing committed yet
		c.eventually("all are ready, and each has reached each", func() bool {
			for _, id := range three {
				s := c.node[id].Status()
				if !s.Ready || slices.ContainsFunc(s.Members,
					func(m MemberStatus) bool { return !m.Reachable }) {
					return false
				}
			}
			return true
		})
		for _, id := range three {
			s := c.node[id].Status()
			require.Len(t, s.Groups, 2)
			require.Len(t, s.Members, 3)
			g := s.Groups[ShardBilling]
			require.Equal(t, leader, g.Leader)
			require.Equal(t, id == leader, g.Lease)
			require.Equal(t, id == leader, g.LeaseAgeMS >= 0)
			require.Positive(t, g.LogBytes)
			require.Positive(t, g.Syncs)
			require.Positive(t, g.CommitIndex)
			require.Less(t, g.StalenessMS, int64(500))
			for _, m := range s.Members {
				require.True(t, m.Reachable && m.Voter)
				require.Nil(t, m.LastSeenAt)
				require.Equal(t, map[bool]string{true: RoleLeader, false: RoleFollower}[m.ID == leader],
					m.Role)
				require.Equal(t, m.ID == leader, m.Leader)
				require.Equal(t, m.ID+":80", m.HTTP)
			}
		}
		gone := c.others(leader)[0]
		stopped := time.Now()
		c.stop(gone)
		var m MemberStatus
		c.eventually("it is missed", func() bool {
			s := c.node[leader].Status()
			i := slices.IndexFunc(s.Members, func(m MemberStatus) bool { return m.ID == gone })
			m = s.Members[i]
			return !m.Reachable
		})
		require.Equal(t, RoleDown, m.Role)
		require.Zero(t, m.RoundTripUS, "what was measured is not of now")
		require.Zero(t, m.ClockAheadMS)
		require.WithinDuration(t, stopped, *m.LastSeenAt, 2*time.Second)
		s := c.node[leader].Status()
		s.Members = slices.DeleteFunc(s.Members, func(m MemberStatus) bool { return m.Role != RoleDown })
		require.Len(t, s.Members, 1)
	})
}
