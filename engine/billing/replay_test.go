package billing_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/journal"
)

func restored(t enginetest.TB, snapshot []byte) *billing.Machine {
	t.Helper()
	m := billing.New(billing.Config{})
	require.NoError(t, m.Restore(bytes.NewReader(snapshot)))
	return m
}

// TestReplayEqualsSnapshotAndRest: whatever the history and wherever it is cut, snapshot, restore
// and the rest give the same outcomes, hash, snapshot and journal as the whole.
func TestReplayEqualsSnapshotAndRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := enginetest.BillingEntries(t)
		whole := billing.New(billing.Config{})
		var snapshots [][]byte
		var results [][]engine.Result
		for i, e := range entries {
			results = append(results, enginetest.Outcomes(t, whole, uint64(i)+1, [][]byte{e})...)
			snapshots = append(snapshots, enginetest.Snapshot(t, whole))
		}
		for range 3 {
			cut := rapid.IntRange(0, len(entries)-1).Draw(t, "cut")
			m := restored(t, snapshots[cut])
			require.Equal(t, uint64(cut)+1, m.Applied())
			require.True(t, bytes.Equal(snapshots[cut], enginetest.Snapshot(t, m)), "restored at %d", cut)
			rest := enginetest.Outcomes(t, m, uint64(cut)+2, entries[cut+1:])
			require.Equal(t, len(results)-cut-1, len(rest))
			for i := range rest {
				require.Equal(t, results[cut+1+i], rest[i], "entry %d after a cut at %d", i, cut)
			}
			require.Equal(t, enginetest.StateHash(whole), enginetest.StateHash(m), "cut at %d", cut)
			require.True(t, bytes.Equal(snapshots[len(entries)-1], enginetest.Snapshot(t, m)))
			requireSameTails(t, whole, m)
			require.Equal(t, whole.Journal().Manifest(), m.Journal().Manifest())
			require.Equal(t, whole.Stats().UsageEvents, m.Stats().UsageEvents)
		}
	})
}

// TestRefusedCommandsChangeNothing: a history whose refused records are replaced by what changes
// nothing leads to the same state, but for the rolling hash that the snapshot's header holds. A
// tick comes before what may be refused, since a refused command may carry out what is due.
func TestRefusedCommandsChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, twin := billing.New(billing.Config{}), billing.New(billing.Config{})
		for i, e := range enginetest.BillingEntries(t) {
			e = withTick(t, e)
			results := enginetest.Outcomes(t, m, uint64(i)+1, [][]byte{e})[0]
			without := enginetest.WithoutRefused(t, e, results,
				engine.Record{Kind: billing.KindSetLimits})
			enginetest.Outcomes(t, twin, uint64(i)+1, [][]byte{without})
		}
		require.True(t, bytes.Equal(behindHeader(t, m), behindHeader(t, twin)))
		requireSameTails(t, m, twin)
	})
}

// withTick puts a tick before an entry's records and behind each of them: one that moves a clock,
// or begins a subscription whose periods are over already, makes something due.
func withTick(t enginetest.TB, entry []byte) []byte {
	h, records, err := engine.ParseEntry(entry)
	require.NoError(t, err)
	ticked := engine.AppendRecord(engine.AppendHeader(nil, h.Shard), engine.Record{
		Kind: engine.KindTick,
	})
	engine.SetStamp(ticked, h.Stamp)
	for r, ok := records.Next(); ok; r, ok = records.Next() {
		ticked = engine.AppendRecord(ticked, r)
		ticked = engine.AppendRecord(ticked, engine.Record{Kind: engine.KindTick})
	}
	return ticked
}

// behindHeader is a snapshot of the machine, from its first account on.
func behindHeader(t enginetest.TB, m *billing.Machine) []byte {
	t.Helper()
	const before, crc = 4 + 2 + 4, 4
	snapshot := enginetest.Snapshot(t, m)
	return snapshot[before+int(binary.LittleEndian.Uint32(snapshot[6:]))+crc:]
}

// TestKeysCountOnce: in any history, each (environment, key) is recorded at most once while keys
// are kept.
func TestKeysCountOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := enginetest.BillingEntries(t)
		m := billing.New(billing.Config{})
		src := &enginetest.Source{Journal: m.Journal()}
		var out engine.Applied
		for i, e := range entries {
			require.NoError(t, m.Apply(uint64(i)+1, e, &out))
			src.Keep(&out)
		}
		for row := uint32(1); row <= uint32(m.Stats().Customers); row++ {
			events, _, err := m.Events(src, billing.EventQuery{
				Customer: row, From: -1 << 62, To: 1 << 62, Limit: 1000,
				Kinds: []billing.EventKind{billing.EventUsage},
			})
			require.NoError(t, err)
			seen := map[string]int64{}
			for _, e := range events {
				if at, twice := seen[e.Key]; twice {
					require.NotEqual(t, at, e.OccurredAt, "key %s counted twice for one event", e.Key)
				}
				seen[e.Key] = e.OccurredAt
			}
		}
	})
}

// TestFloorOutlivesARestore: a window that grows after a restore does not let in an event whose
// key was dropped before it.
func TestFloorOutlivesARestore(t *testing.T) {
	const day = 24 * 60 * 60 * 1000
	m, l := opened()
	l.Do(billing.KindSetLimits, &billing.SetLimits{KeyRetentionMS: day, WindowMS: day})
	u := enginetest.Usage(l, "k", "ada", "requests", 1)
	payload := u.Seal(nil)
	require.Equal(t, engine.OutcomeDone, l.DoPayload(billing.KindRecordUsage, payload).Outcome)
	l.Stamp += 2 * day
	l.DoPayload(engine.KindTick, nil)
	require.Zero(t, m.Stats().IdempotencyKeys)
	l.Do(billing.KindSetLimits, &billing.SetLimits{KeyRetentionMS: 9 * day, WindowMS: 9 * day})

	again := enginetest.NewLog(restored(t, enginetest.Snapshot(t, m)), l.Stamp)
	require.Equal(t, engine.OutcomeOccurredTooEarly,
		again.DoPayload(billing.KindRecordUsage, payload).Outcome)
}

// TestRestoreForgetsTheHashesOfTheStateBefore: they belong to another history.
func TestRestoreForgetsTheHashesOfTheStateBefore(t *testing.T) {
	a, la := opened()
	b, lb := opened()
	enginetest.NewCustomer(la, "grace", "")
	enginetest.NewCustomer(lb, "alan", "llm-team")
	index, hash := b.StateHash()
	for la.Index < index+3 {
		la.DoPayload(engine.KindTick, nil)
	}
	snapshot := enginetest.Snapshot(t, b)
	lb.DoPayload(engine.KindTick, nil)
	require.NoError(t, a.Restore(bytes.NewReader(snapshot)))
	_, other := b.StateHash()
	require.NotEqual(t, hash, other)
	la = enginetest.NewLog(a, la.Stamp)
	for at, h := range map[uint64]uint64{index: hash, index + 2: other} {
		payload := engine.AppendCheckState(nil, engine.CheckState{Index: at, Hash: h})
		require.Equal(t, engine.OutcomeDone,
			la.DoPayload(engine.KindCheckState, payload).Outcome, "index %d", at)
	}
}

// requireSameTails requires that two machines' journals have the same open segments.
func requireSameTails(t require.TestingT, a, b *billing.Machine) {
	for _, p := range journal.Parts() {
		require.True(t, bytes.Equal(a.Journal().Tail(p), b.Journal().Tail(p)), "%s", p)
	}
}
