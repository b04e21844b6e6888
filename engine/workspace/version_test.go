package workspace_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/enginetest"
	"tollgate/engine/workspace"
)

// last is the last kind that every build knows, also those that do not know of cluster versions.
const last = 45

// A kind that not every build knows waits for the version with which it came. A new kind that fails
// here needs a row in the table of its machine, and engine.Version is raised once for a release.
func TestNewKindsWaitForTheirVersion(t *testing.T) {
	m := workspace.New(workspace.Config{Shard: 1})
	for kind := range engine.Kind(1000) {
		since := m.Since(kind)
		require.LessOrEqual(t, since, engine.Version)
		require.Equal(t, kind > last, since > 0, "kind %d", kind)
	}
}

func TestVersionOnlyRises(t *testing.T) {
	m := workspace.New(workspace.Config{Shard: 1})
	l := enginetest.NewLog(m, 1_000)
	l.Shard = 1
	agreed, known := m.Version()
	require.Equal(t, []uint32{0, engine.Version}, []uint32{agreed, known})
	for _, version := range []uint32{1, 0, 1} {
		outcome := l.DoPayload(engine.KindSetVersion, engine.AppendSetVersion(nil, version)).Outcome
		require.Equal(t, engine.OutcomeDone, outcome)
		agreed, _ = m.Version()
		require.EqualValues(t, 1, agreed)
	}
	restored := workspace.New(workspace.Config{Shard: 1})
	require.NoError(t, restored.Restore(bytes.NewReader(snapshotOf(t, m))))
	agreed, _ = restored.Version()
	require.EqualValues(t, 1, agreed)
	_, before := m.StateHash()
	_, after := restored.StateHash()
	require.Equal(t, before, after)
}

func TestVersionThatIsNotKnownStopsTheReplica(t *testing.T) {
	m := workspace.New(workspace.Config{Shard: 1})
	newer := engine.AppendRecord(engine.AppendHeader(nil, 1), engine.Record{
		Kind: engine.KindSetVersion, Payload: engine.AppendSetVersion(nil, engine.Version+1),
	})
	err := m.Apply(1, newer, &engine.Applied{})
	require.ErrorIs(t, err, engine.ErrHalt)
	require.ErrorIs(t, err, engine.ErrNewerVersion)
	require.ErrorContains(t, err, "start a newer build")
	short := engine.AppendRecord(engine.AppendHeader(nil, 1), engine.Record{
		Kind: engine.KindSetVersion, Payload: []byte{1},
	})
	require.ErrorIs(t, m.Apply(1, short, &engine.Applied{}), engine.ErrHalt)

	fixed := workspace.SnapshotOfVersion(m, engine.Version+1)
	require.ErrorIs(t, m.Restore(bytes.NewReader(fixed)), engine.ErrNewerVersion)
	agreed, _ := m.Version()
	require.Zero(t, agreed)
}
