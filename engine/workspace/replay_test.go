package workspace_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/workspace"
)

func opened() *workspace.Machine { return workspace.New(workspace.Config{Shard: 1}) }

func restored(t enginetest.TB, snapshot []byte) *workspace.Machine {
	t.Helper()
	m := opened()
	require.NoError(t, m.Restore(bytes.NewReader(snapshot)))
	return m
}

// TestReplayEqualsSnapshotAndRest: whatever the history and wherever it is cut, snapshot, restore
// and the rest give the same outcomes, hash, snapshot and next due as the whole.
func TestReplayEqualsSnapshotAndRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := enginetest.WorkspaceEntries(t)
		whole := opened()
		var snapshots [][]byte
		var dues []int64
		var results [][]engine.Result
		for i, e := range entries {
			results = append(results, enginetest.Outcomes(t, whole, uint64(i)+1, [][]byte{e})...)
			snapshots = append(snapshots, enginetest.Snapshot(t, whole))
			dues = append(dues, whole.NextDue())
		}
		for range 3 {
			cut := rapid.IntRange(0, len(entries)-1).Draw(t, "cut")
			m := restored(t, snapshots[cut])
			require.Equal(t, uint64(cut)+1, m.Applied())
			require.Equal(t, dues[cut], m.NextDue())
			require.True(t, bytes.Equal(snapshots[cut], enginetest.Snapshot(t, m)), "restored at %d", cut)
			rest := enginetest.Outcomes(t, m, uint64(cut)+2, entries[cut+1:])
			require.Equal(t, len(results)-cut-1, len(rest))
			for i := range rest {
				require.Equal(t, results[cut+1+i], rest[i], "entry %d after a cut at %d", i, cut)
			}
			require.Equal(t, enginetest.StateHash(whole), enginetest.StateHash(m), "cut at %d", cut)
			require.True(t, bytes.Equal(snapshots[len(entries)-1], enginetest.Snapshot(t, m)))
		}
	})
}

// TestRefusedCommandsChangeNothing: a history whose refused records are replaced by ticks leads to
// the same state, but for the rolling hash in the snapshot's header.
func TestRefusedCommandsChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, twin := opened(), opened()
		for i, e := range enginetest.WorkspaceEntries(t) {
			results := enginetest.Outcomes(t, m, uint64(i)+1, [][]byte{e})[0]
			without := enginetest.WithoutRefused(t, e, results,
				engine.Record{Kind: engine.KindTick})
			enginetest.Outcomes(t, twin, uint64(i)+1, [][]byte{without})
		}
		a, b := enginetest.Snapshot(t, m), enginetest.Snapshot(t, twin)
		require.True(t, bytes.Equal(a[workspace.HeaderBytes(a):], b[workspace.HeaderBytes(b):]))
		require.Equal(t, m.NextDue(), twin.NextDue())
	})
}

// TestEveryCentRunAndCreditIsAccountedFor: after every entry of any history, what each ledger says
// is what its runs, purchases and grants add up to. Histories of the generator together move runs
// and money in every way: of one that does not get there, the sums say nothing.
func TestEveryCentRunAndCreditIsAccountedFor(t *testing.T) {
	seen := map[string]bool{}
	check := func(t enginetest.TB, entries [][]byte) {
		m := opened()
		for i, e := range entries {
			enginetest.Outcomes(t, m, uint64(i)+1, [][]byte{e})
			require.Empty(t, m.Broken(), "entry %d", i)
			m.Seen(seen)
		}
	}
	rapid.Check(t, func(t *rapid.T) { check(t, enginetest.WorkspaceEntries(t)) })
	ways := []string{
		"free committed", "free returned", "paid committed", "paid returned",
		"processing", "declined", "succeeded", "refunded", "surplus refunded",
		"alert failing", "alert recovered", "alert test", "email delivered", "email failed", "email unknown",
		"webhook delivered", "webhook failed",
		"scheduled returned", "skipped payment_required",
	}
	// The few that were drawn need not have them all; these do, the same in each run.
	histories := rapid.Custom(enginetest.WorkspaceEntries)
	missing := func(way string) bool { return !seen[way] }
	for seed := 0; seed < 200 && slices.ContainsFunc(ways, missing); seed++ {
		check(t, histories.Example(seed))
	}
	for _, way := range ways {
		require.True(t, seen[way], "no history has %s", way)
	}
}
