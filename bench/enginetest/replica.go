package enginetest

import (
	"bytes"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing"
)

// TB is what testing.T, testing.B and rapid.T have in common.
type TB interface {
	require.TestingT
	Helper()
}

// Snapshot is what a snapshot of the machine writes.
func Snapshot(t TB, m engine.Machine) []byte {
	t.Helper()
	sn, err := m.Snapshot()
	require.NoError(t, err)
	defer sn.Release()
	require.Equal(t, m.Applied(), sn.Index())
	var b bytes.Buffer
	n, err := sn.WriteTo(&b)
	require.NoError(t, err)
	require.Equal(t, int64(b.Len()), n)
	return b.Bytes()
}

// Outcomes applies entries from an index on, and returns what came of each record.
func Outcomes(t TB, m engine.Machine, first uint64, entries [][]byte) [][]engine.Result {
	t.Helper()
	var all [][]engine.Result
	var out engine.Applied
	for i, e := range entries {
		require.NoError(t, m.Apply(first+uint64(i), e, &out))
		all = append(all, append([]engine.Result(nil), out.Results...))
	}
	return all
}

// StateHash is the machine's rolling hash, behind the index that it belongs to.
func StateHash(m engine.Machine) [2]uint64 {
	index, hash := m.StateHash()
	return [2]uint64{index, hash}
}

// billedAtExpiry reports whether a record was refused, and may have changed what becomes of its
// reservation all the same.
func billedAtExpiry(r engine.Record, result engine.Result) bool {
	switch result.Outcome {
	case engine.OutcomeReservationShort, engine.OutcomeBudgetExceeded, engine.OutcomeBudgetFrozen,
		engine.OutcomeBudgetArchived:
		return r.Kind == billing.KindSettleReservation
	}
	return false
}

// WithoutRefused is an entry with another record in place of each that was refused.
func WithoutRefused(t TB, entry []byte, results []engine.Result, other engine.Record) []byte {
	h, records, err := engine.ParseEntry(entry)
	require.NoError(t, err)
	kept := engine.AppendHeader(nil, h.Shard)
	engine.SetStamp(kept, h.Stamp)
	for _, result := range results {
		r, ok := records.Next()
		require.True(t, ok)
		if result.Outcome.Refused() && !billedAtExpiry(r, result) {
			r = other
		}
		kept = engine.AppendRecord(kept, r)
	}
	return kept
}
