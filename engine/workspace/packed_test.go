package workspace_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine/workspace"
)

// answers are the answers of all queries that show runs.
func answers(m *workspace.Machine, now int64) (all []any) {
	for w := range uint32(5) {
		runs, more := m.Runs(w, workspace.Page{Limit: 100})
		account, _ := m.Account(w, now)
		flows, _ := m.Flows(w, workspace.Page{Limit: 100})
		all = append(all, runs, more, account, flows)
		for i := range runs {
			r, ok := m.Run(w, runs[i].ID)
			after, _ := m.Runs(w, workspace.Page{After: runs[i].ID, Limit: 1})
			all = append(all, r, ok, after)
			if r.Token > 0 {
				job, flow, held := m.Job(r.ID, r.Token)
				all = append(all, job, flow, held)
			}
		}
	}
	return all
}

// TestPackingShowsNowhere: a machine that packs what has ended, and one that does not, give the
// same results, answers, hashes and snapshots, whatever the history.
func TestPackingShowsNowhere(t *testing.T) {
	packed := 0
	rapid.Check(t, func(t *rapid.T) {
		m, twin := opened(), opened()
		twin.PackNothing()
		version := uint32(rapid.IntRange(0, 1).Draw(t, "version")) // 1 compares checksums
		workspace.Agree(m, version)
		workspace.Agree(twin, version)
		for i, e := range enginetest.WorkspaceEntries(t) {
			index := uint64(i) + 1
			require.Equal(t, enginetest.Outcomes(t, twin, index, [][]byte{e}),
				enginetest.Outcomes(t, m, index, [][]byte{e}))
			require.Equal(t, enginetest.StateHash(twin), enginetest.StateHash(m))
			require.Equal(t, answers(twin, m.Stamp()), answers(m, m.Stamp()), "entry %d", i)
		}
		require.True(t, bytes.Equal(enginetest.Snapshot(t, twin), enginetest.Snapshot(t, m)))
		packed += m.Packed()
		require.Zero(t, twin.Packed())
	})
	require.NotZero(t, packed)
}

// TestAllThatHasEndedIsPacked: by Apply, and by a restore, and what comes later is packed behind
// what was restored.
func TestAllThatHasEndedIsPacked(t *testing.T) {
	m := opened()
	l := enginetest.NewLog(m, enginetest.Epoch)
	l.Shard = 1
	fill(l, 0, 4, 2, 20)
	l.Do(workspace.KindStartRun, &workspace.StartRun{
		Workspace: 1, Flow: newest(m, 1), ID: enginetest.ID("open"), FlowVersion: 1, Cents: 500,
		Agent: "a b 1",
	})
	l.Do(workspace.KindClaimRun, &workspace.ClaimRun{Worker: "w", LeaseMS: 60_000})
	require.Equal(t, 80, m.Packed())
	before := answers(m, l.Stamp)
	m = restored(t, enginetest.Snapshot(t, m))
	require.Equal(t, 80, m.Packed())
	require.Equal(t, before, answers(m, l.Stamp))

	text, packed := m.PackedBytes()
	require.Less(t, packed*4, text, "%d bytes of %d", packed, text)
	l.Machine = m
	agent := agentOf{l, rand.New(rand.NewPCG(1, 2)), 2, newest(m, 2)}
	agent.run("more")
	require.Equal(t, 81, m.Packed())
	more, morePacked := m.PackedBytes()
	require.Less(t, (morePacked-packed)*4, more-text, "%d bytes of %d", morePacked-packed, more-text)
}

func newest(m *workspace.Machine, row uint32) [16]byte {
	flows, _ := m.Flows(row, workspace.Page{Limit: 1})
	return flows[0].ID
}

// TestARunThatEndsInTheQueueIsPackedBehindIt: until it comes to the front, those behind it hang on
// it.
func TestARunThatEndsInTheQueueIsPackedBehindIt(t *testing.T) {
	m := opened()
	l := enginetest.NewLog(m, enginetest.Epoch)
	l.Shard = 1
	fill(l, 0, 4, 1, 0)
	start := func(row uint32) {
		l.Do(workspace.KindStartRun, &workspace.StartRun{
			Workspace: row, Flow: newest(m, row), ID: enginetest.ID(fmt.Sprint("run", row)),
			FlowVersion: 1, Cents: 500, Agent: "a b 1",
		})
	}
	cancel := func(row uint32) {
		l.Do(workspace.KindCancelRun, &workspace.CancelRun{
			Workspace: row, ID: enginetest.ID(fmt.Sprint("run", row)), Kind: workspace.RunHosted,
		})
		require.Empty(t, m.Broken())
	}
	start(1)
	start(2)
	start(3)
	cancel(2)
	cancel(3)
	require.Zero(t, m.Packed(), "they stand in the queue")
	snapshot := enginetest.Snapshot(t, m)
	for _, again := range []*workspace.Machine{m, restored(t, snapshot)} {
		m, l.Machine = again, again
		l.Index = m.Applied()
		start(4)
		require.Equal(t, uint32(2), load(m))
		cancel(1)
		require.Equal(t, 3, m.Packed())
		l.Do(workspace.KindClaimRun, &workspace.ClaimRun{Worker: "w", LeaseMS: 60_000})
		r, _ := m.Run(4, enginetest.ID("run4"))
		require.Equal(t, workspace.RunRunning, r.Status)
		require.Empty(t, m.Broken())
	}
}

func load(m *workspace.Machine) uint32 {
	queued, _ := m.Load()
	return queued
}

// openedTo is a machine that packs what has ended, or nothing, and its log, which keeps nothing.
func openedTo(pack bool) (m *workspace.Machine, l *enginetest.Log) {
	m = opened()
	if !pack {
		m.PackNothing()
	}
	l = enginetest.NewLog(m, enginetest.Epoch)
	l.Shard, l.Keep = 1, false
	return m, l
}

// BenchmarkRunsWhole is all commands of a run, about seven, packed and not.
func BenchmarkRunsWhole(b *testing.B) {
	for _, packs := range []bool{true, false} {
		b.Run(fmt.Sprintf("packed=%v", packs), func(b *testing.B) {
			m, l := openedTo(packs)
			fill(l, 0, 1, 10, 50)
			agent, n := agentOf{l, rand.New(rand.NewPCG(3, 4)), 1, newest(m, 1)}, 0
			for b.Loop() {
				n++
				agent.run(fmt.Sprint("more", n))
			}
		})
	}
}

// BenchmarkRunIsRead is the query of one run, packed and not.
func BenchmarkRunIsRead(b *testing.B) {
	for _, packs := range []bool{true, false} {
		b.Run(fmt.Sprintf("packed=%v", packs), func(b *testing.B) {
			m, l := openedTo(packs)
			fill(l, 0, 20, 10, 50)
			runs, _ := m.Runs(7, workspace.Page{Limit: 50})
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				if r, ok := m.Run(7, runs[n%50].ID); !ok || len(r.Events) != 8 {
					b.Fatal("not found")
				}
			}
		})
	}
}

// BenchmarkEntryComparesRows is an entry that does nothing but compare 16 rows: their texts, since
// there is hardly anything else.
func BenchmarkEntryComparesRows(b *testing.B) {
	for _, packs := range []bool{true, false} {
		b.Run(fmt.Sprintf("packed=%v", packs), func(b *testing.B) {
			_, l := openedTo(packs)
			fill(l, 0, 20, 10, 50)
			for b.Loop() {
				if _, err := l.Apply(tick); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSnapshotOfRuns writes and restores 50,000 runs: what a run costs of each.
func BenchmarkSnapshotOfRuns(b *testing.B) {
	m := opened()
	l := enginetest.NewLog(m, enginetest.Epoch)
	l.Shard, l.Keep = 1, false
	fill(l, 0, 1000, 10, 50)
	snapshot := enginetest.Snapshot(b, m)
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			enginetest.Snapshot(b, m)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/50_000, "ns/run")
	})
	b.Run("restore", func(b *testing.B) {
		for b.Loop() {
			restored(b, snapshot)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/50_000, "ns/run")
	})
}
