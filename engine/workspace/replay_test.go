package workspace_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine"
	"tollgate/engine/enginetest"
	"tollgate/engine/workspace"
)

// tb is what testing.T and rapid.T have in common.
type tb interface {
	require.TestingT
	Helper()
}

func opened() *workspace.Machine { return workspace.New(workspace.Config{Shard: 1}) }

func snapshotOf(t tb, m *workspace.Machine) []byte {
	t.Helper()
	sn, err := m.Snapshot()
	require.NoError(t, err)
	defer sn.Release()
	require.Equal(t, m.Applied(), sn.Index())
	require.Empty(t, sn.Segments())
	var b bytes.Buffer
	n, err := sn.WriteTo(&b)
	require.NoError(t, err)
	require.Equal(t, int64(b.Len()), n)
	return b.Bytes()
}

func restored(t tb, snapshot []byte) *workspace.Machine {
	t.Helper()
	m := opened()
	require.NoError(t, m.Restore(bytes.NewReader(snapshot)))
	return m
}

func outcomes(t tb, m *workspace.Machine, first uint64, entries [][]byte) [][]engine.Result {
	t.Helper()
	var all [][]engine.Result
	var out engine.Applied
	for i, e := range entries {
		require.NoError(t, m.Apply(first+uint64(i), e, &out))
		all = append(all, append([]engine.Result(nil), out.Results...))
	}
	return all
}

func stateHash(m *workspace.Machine) [2]uint64 {
	index, hash := m.StateHash()
	return [2]uint64{index, hash}
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
			results = append(results, outcomes(t, whole, uint64(i)+1, [][]byte{e})...)
			snapshots = append(snapshots, snapshotOf(t, whole))
			dues = append(dues, whole.NextDue())
		}
		for range 3 {
			cut := rapid.IntRange(0, len(entries)-1).Draw(t, "cut")
			m := restored(t, snapshots[cut])
			require.Equal(t, uint64(cut)+1, m.Applied())
			require.Equal(t, dues[cut], m.NextDue())
			require.True(t, bytes.Equal(snapshots[cut], snapshotOf(t, m)), "restored at %d", cut)
			rest := outcomes(t, m, uint64(cut)+2, entries[cut+1:])
			require.Equal(t, len(results)-cut-1, len(rest))
			for i := range rest {
				require.Equal(t, results[cut+1+i], rest[i], "entry %d after a cut at %d", i, cut)
			}
			require.Equal(t, stateHash(whole), stateHash(m), "cut at %d", cut)
			require.True(t, bytes.Equal(snapshots[len(entries)-1], snapshotOf(t, m)))
		}
	})
}

// TestRefusedCommandsChangeNothing: a history whose refused records are replaced by ticks leads to
// the same state, but for the rolling hash in the snapshot's header.
func TestRefusedCommandsChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, twin := opened(), opened()
		for i, e := range enginetest.WorkspaceEntries(t) {
			results := outcomes(t, m, uint64(i)+1, [][]byte{e})[0]
			outcomes(t, twin, uint64(i)+1, [][]byte{withoutRefused(t, e, results)})
		}
		a, b := snapshotOf(t, m), snapshotOf(t, twin)
		require.True(t, bytes.Equal(a[workspace.HeaderBytes(a):], b[workspace.HeaderBytes(b):]))
		require.Equal(t, m.NextDue(), twin.NextDue())
	})
}

func withoutRefused(t tb, entry []byte, results []engine.Result) []byte {
	h, records, err := engine.ParseEntry(entry)
	require.NoError(t, err)
	kept := engine.AppendHeader(nil, h.Shard)
	engine.SetStamp(kept, h.Stamp)
	for _, result := range results {
		r, ok := records.Next()
		require.True(t, ok)
		if result.Outcome.Refused() {
			r = engine.Record{Kind: engine.KindTick}
		}
		kept = engine.AppendRecord(kept, r)
	}
	return kept
}

// TestEveryCentRunAndCreditIsAccountedFor: after every entry of any history, what each ledger says
// is what its runs, purchases and grants add up to.
func TestEveryCentRunAndCreditIsAccountedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := opened()
		for i, e := range enginetest.WorkspaceEntries(t) {
			outcomes(t, m, uint64(i)+1, [][]byte{e})
			require.Empty(t, m.Broken(), "entry %d", i)
		}
	})
}
