package enginetest

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
)

// Versions is a kind of machine whose handling of cluster versions is tested.
type Versions[M engine.Machine] struct {
	Shard uint16
	Open  func() M
	// Agree makes a version the one that the log has agreed on, whether it is known or not.
	Agree func(m M, version uint32)
}

// OnlyRise tests that the version that is agreed on only rises, and that snapshots keep it.
func (v Versions[M]) OnlyRise(t *testing.T) {
	m := v.Open()
	l := NewLog(m, 1_000)
	l.Shard = v.Shard
	agreed, known := m.Version()
	require.Equal(t, []uint32{0, engine.Version}, []uint32{agreed, known})
	for _, version := range []uint32{1, 0, 1} {
		outcome := l.DoPayload(engine.KindSetVersion, engine.AppendSetVersion(nil, version)).Outcome
		require.Equal(t, engine.OutcomeDone, outcome)
		agreed, _ = m.Version()
		require.EqualValues(t, 1, agreed)
	}
	restored := v.Open()
	require.NoError(t, restored.Restore(bytes.NewReader(Snapshot(t, m))))
	agreed, _ = restored.Version()
	require.EqualValues(t, 1, agreed)
	require.Equal(t, StateHash(m), StateHash(restored))
}

// StopTheReplica tests that a version which is not known is neither applied nor restored.
func (v Versions[M]) StopTheReplica(t *testing.T) {
	m := v.Open()
	apply := func(payload []byte) error {
		entry := engine.AppendRecord(engine.AppendHeader(nil, v.Shard), engine.Record{
			Kind: engine.KindSetVersion, Payload: payload,
		})
		return m.Apply(1, entry, &engine.Applied{})
	}
	err := apply(engine.AppendSetVersion(nil, engine.Version+1))
	require.ErrorIs(t, err, engine.ErrHalt)
	require.ErrorIs(t, err, engine.ErrNewerVersion)
	require.ErrorContains(t, err, "start a newer build")
	err = apply([]byte{1})
	require.ErrorIs(t, err, engine.ErrHalt)
	require.ErrorContains(t, err, "payload of 1 bytes")

	newer := v.Open()
	v.Agree(newer, engine.Version+1)
	require.ErrorIs(t, m.Restore(bytes.NewReader(Snapshot(t, newer))), engine.ErrNewerVersion)
	agreed, _ := m.Version()
	require.Zero(t, agreed)
}
