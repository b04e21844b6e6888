package workspace

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
)

func entry(stamp int64, records ...engine.Record) []byte {
	e := engine.AppendHeader(nil, 1)
	for _, r := range records {
		e = engine.AppendRecord(e, r)
	}
	engine.SetStamp(e, stamp)
	return e
}

func check(index, hash uint64) engine.Record {
	payload := engine.AppendCheckState(nil, engine.CheckState{Index: index, Hash: hash})
	return engine.Record{Kind: engine.KindCheckState, Payload: payload}
}

var tick = engine.Record{Kind: engine.KindTick}

func TestApplyKnowsTheCommonKinds(t *testing.T) {
	m := New(Config{Shard: 1})
	var out engine.Applied
	require.NoError(t, m.Apply(7, entry(1000, tick), &out))
	require.Equal(t, []engine.Result{{Outcome: engine.OutcomeDone}}, out.Results)
	require.EqualValues(t, 7, m.Applied())
	require.EqualValues(t, 1000, m.Stamp())
	index, hash := m.StateHash()
	require.EqualValues(t, 7, index)
	require.NotZero(t, hash)

	require.NoError(t, m.Apply(9, entry(900, check(index, hash), tick), &out))
	require.Len(t, out.Results, 2)
	require.EqualValues(t, 1000, m.Stamp(), "stamps never go backwards")
	require.Zero(t, m.NextDue())
	require.Nil(t, m.Journal())
}

func TestApplyHaltsAndChangesNothing(t *testing.T) {
	m := New(Config{Shard: 1})
	var out engine.Applied
	require.NoError(t, m.Apply(7, entry(1000, tick), &out))
	before := m.present()
	other := engine.AppendRecord(engine.AppendHeader(nil, 0), tick)
	for name, bad := range map[string][]byte{
		"unknown kind":      entry(1001, tick, engine.Record{Kind: engine.FirstDomainKind}),
		"another shard":     other,
		"another hash":      entry(1001, check(7, before.Hash+1)),
		"short state check": entry(1001, engine.Record{Kind: engine.KindCheckState, Payload: []byte{1}}),
		"torn record":       append(entry(1001, tick), 2, 16, 0),
		"version":           {9, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"empty":             nil,
	} {
		require.ErrorIs(t, m.Apply(8, bad, &out), engine.ErrHalt, name)
		require.Equal(t, before, m.present(), name)
	}
}

func TestSnapshotAndReplayAgree(t *testing.T) {
	entries := [][]byte{entry(5, tick), entry(6, tick, tick), entry(7), entry(8, tick)}
	for cut := range len(entries) + 1 {
		whole, part := New(Config{Shard: 1}), New(Config{Shard: 1})
		var out engine.Applied
		var snap bytes.Buffer
		for i, e := range entries {
			if i == cut {
				writeSnapshot(t, whole, &snap)
			}
			require.NoError(t, whole.Apply(uint64(i+2), e, &out))
		}
		if cut == len(entries) {
			writeSnapshot(t, whole, &snap)
		}
		require.NoError(t, part.Restore(&snap))
		for i, e := range entries[cut:] {
			require.NoError(t, part.Apply(uint64(cut+i+2), e, &out))
		}
		require.Equal(t, whole.present(), part.present())
	}
}

func writeSnapshot(t *testing.T, m *Machine, dst *bytes.Buffer) {
	t.Helper()
	s, err := m.Snapshot()
	require.NoError(t, err)
	defer s.Release()
	require.Equal(t, m.Applied(), s.Index())
	require.Empty(t, s.Segments())
	n, err := s.WriteTo(dst)
	require.NoError(t, err)
	require.EqualValues(t, dst.Len(), n)
}

func TestRestoreRefusesWhatIsNoSnapshot(t *testing.T) {
	for _, bad := range []string{"", "TGWS", "TGWS\x02", "TGWS\x01\xff", "TGWS\x01\x08", "nonsense"} {
		m := New(Config{Shard: 1})
		require.ErrorIs(t, m.Restore(bytes.NewBufferString(bad)), engine.ErrHalt, "%q", bad)
		require.Zero(t, m.Applied())
	}
}
