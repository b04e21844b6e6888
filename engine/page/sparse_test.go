package page_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/page"
)

func snapshotOf(t *testing.T, s *page.Store) []byte {
	var b bytes.Buffer
	_, err := s.Begin().WriteTo(&b)
	require.NoError(t, err)
	return b.Bytes()
}

// TestSparseRowsAreFoundAndKept: rows have their bytes again after a restore, and a table without
// any leaves a snapshot as it was without the table.
func TestSparseRowsAreFoundAndKept(t *testing.T) {
	s := page.NewStore()
	without := snapshotOf(t, s)
	x := page.NewSparse(s, 1)
	require.Equal(t, without, snapshotOf(t, s))
	require.Empty(t, x.Get(7))
	x.Put(2, nil)
	for row := uint32(3); row < 3000; row += 3 {
		x.Put(row, []byte{byte(row), byte(row >> 8)})
	}
	require.Panics(t, func() { x.Put(2997, []byte("again")) })

	first := []byte{3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 6, 0, 0, 0, 2, 0, 0, 0, 6, 0}
	require.True(t, bytes.Contains(snapshotOf(t, s), first), "the format stays")

	restored := page.NewStore()
	y := page.NewSparse(restored, 1)
	require.NoError(t, restored.Restore(bytes.NewReader(snapshotOf(t, s))))
	for row := uint32(1); row < 3010; row++ {
		want := ""
		if row%3 == 0 && row < 3000 {
			want = string([]byte{byte(row), byte(row >> 8)})
		}
		require.Equal(t, want, x.Get(row))
		require.Equal(t, want, y.Get(row))
	}
	fine := func(string) error { return nil }
	require.NoError(t, y.Check(2997, fine))
	require.ErrorIs(t, y.Check(2996, fine), page.ErrSnapshot)
	bad := errors.New("bad")
	require.ErrorIs(t, y.Check(2997, func(string) error { return bad }), bad)
}
