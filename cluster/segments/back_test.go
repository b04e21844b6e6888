package segments

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/journal"
)

// requireBack compares a walk backwards with reading everything.
func (h *history) requireBack(t *rapid.T) {
	q := journal.BackQuery{
		Kinds: rapid.SampledFrom([]journal.KindSet{
			0, journal.Kinds(journal.KindAudit), journal.Kinds(journal.KindUsage, journal.KindVoid),
		}).Draw(t, "kinds"),
		Index:    rapid.Uint64Range(0, h.index+1).Draw(t, "index"),
		Position: rapid.Uint32Range(0, 2).Draw(t, "position"),
		From:     -1 << 62, To: 1 << 62,
	}
	var want []journal.Record
	for _, data := range h.all() {
		require.NoError(t, journal.Scan(data, func(r journal.Record) error {
			if q.Reads(r.Kind.Part()) && (q.Index == 0 || r.Index < q.Index ||
				r.Index == q.Index && r.Position <= q.Position) {
				want = append(want, r)
			}
			return nil
		}))
	}
	newer := func(a, b journal.Record) int {
		return journal.Cursor{Index: b.Index, Position: b.Position}.Compare(
			journal.Cursor{Index: a.Index, Position: a.Position})
	}
	slices.SortFunc(want, newer)
	limit := rapid.IntRange(0, len(want)).Draw(t, "limit")
	var got []journal.Record
	require.NoError(t, h.store.Back(q, func(r journal.Record) (bool, error) {
		r.Payload = bytes.Clone(r.Payload)
		got = append(got, r)
		return len(got) < limit, nil
	}))
	require.Len(t, got, min(max(limit, 1), len(want)))
	for i := range got {
		require.True(t, bytes.Equal(want[i].Payload, got[i].Payload))
		want[i].Payload, got[i].Payload = nil, nil
		require.Equal(t, want[i], got[i])
	}
}

// TestAWalkBackwardsPassesSegmentsOver: those behind its place, and usage of other times.
func TestAWalkBackwardsPassesSegmentsOver(t *testing.T) {
	h := open(t, t.TempDir(), Options{})
	defer func() { require.NoError(t, h.store.Close()) }()
	for range 3 {
		h.seal()
	}
	infos := h.journal.Manifest()
	require.NoError(t, h.store.WaitDurable(t.Context(), infos))
	first := func(q journal.BackQuery) (index uint64) {
		require.NoError(t, h.store.Back(q, func(r journal.Record) (bool, error) {
			index = r.Index
			return false, nil
		}))
		return index
	}
	all := journal.BackQuery{From: -1 << 62, To: 1 << 62}
	require.Equal(t, infos[2].LastIndex, first(all))
	all.Index = infos[1].LastIndex
	require.Equal(t, infos[1].LastIndex, first(all))
	require.Zero(t, first(journal.BackQuery{From: infos[2].MaxAt + 1, To: 1 << 62}))
	require.Zero(t, first(journal.BackQuery{From: -1 << 62, To: infos[0].MinAt}))
	stop := errors.New("enough")
	err := h.store.Back(all, func(journal.Record) (bool, error) { return true, stop })
	require.ErrorIs(t, err, stop)
}
