package segments

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/journal"
)

// walked copies what a walk yields, and of owners only theirs.
func walked(
	t require.TestingT, src journal.Source, owners []uint32, from uint64,
) (list []journal.Record) {
	require.NoError(t, src.Walk(owners, from, func(r journal.Record) error {
		if len(owners) == 0 || slices.Contains(owners, r.Owner) {
			r.Payload = bytes.Clone(r.Payload)
			list = append(list, r)
		}
		return nil
	}))
	return list
}

// requireWalk compares a walk with reading everything.
func (h *history) requireWalk(t *rapid.T) {
	owners := rapid.SampledFrom([][]uint32{nil, {1}, {2, 3}, {1, 2, 3}, {4}}).Draw(t, "owners")
	from := rapid.Uint64Range(0, h.index+1).Draw(t, "from")
	var want []journal.Record
	for _, data := range h.all() {
		require.NoError(t, journal.Scan(data, func(r journal.Record) error {
			if r.Kind.Part() == journal.PartUsage && r.Index >= from &&
				(len(owners) == 0 || slices.Contains(owners, r.Owner)) {
				want = append(want, r)
			}
			return nil
		}))
	}
	got := walked(t, h.store, owners, from)
	require.Len(t, got, len(want))
	for i := range want {
		require.True(t, bytes.Equal(want[i].Payload, got[i].Payload))
		want[i].Payload, got[i].Payload = nil, nil
	}
	require.Equal(t, want, got)
}

// TestAWalkReadsFewRecordsOfFewOwners: a segment with much of others' and little of the owner's is
// not read whole.
func TestAWalkReadsFewRecordsOfFewOwners(t *testing.T) {
	h := open(t, t.TempDir(), Options{})
	defer func() { require.NoError(t, h.store.Close()) }()
	for i := range uint32(3 * blockEntries * blocksPerOwner) {
		h.index++
		r := journal.Record{
			Kind: journal.KindUsage, Index: h.index, Owner: 9, At: int64(i),
			Payload: bytes.Repeat([]byte{byte(i)}, 8<<10),
		}
		if i%100 == 0 {
			r.Owner = 1 + i/100%2
		}
		h.journal.Append(r)
		h.end()
	}
	require.NotEmpty(t, h.sealed)
	require.NoError(t, h.store.WaitDurable(t.Context(), h.journal.Manifest()))
	in := func(owners ...uint32) (records int) {
		seg := h.store.lookup(h.sealed[0].SegmentInfo)
		require.NoError(t, h.store.walkSegment(seg, owners, func(journal.Record) error {
			records++
			return nil
		}))
		return records
	}
	few, all := in(1), int(h.sealed[0].Records)
	require.Less(t, few, 8)
	require.Equal(t, few+in(2), in(1, 2), "each record once, and no other")
	require.Equal(t, all, in(1, 2, 3, 4, 5, 6, 7), "too many owners to look each up")
	require.Equal(t, all, in(9), "too many records to read them one by one")
	require.Equal(t, all, in())
	last := h.index
	require.Len(t, walked(t, h.store, nil, last), 1)

	stop := errors.New("enough")
	require.ErrorIs(t, h.store.Walk([]uint32{9}, 0, func(journal.Record) error {
		return fmt.Errorf("yield: %w", stop)
	}), stop)
}
