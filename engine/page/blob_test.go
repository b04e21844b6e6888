package page

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSummedBlobsAreComparedByTheirSum: HashNext copies none of them, sees each change, and gives
// the same hash after a restore; their snapshot is that of Blobs.
func TestSummedBlobsAreComparedByTheirSum(t *testing.T) {
	const rows = 2 * hashRows
	s, plain := NewStore(), NewStore()
	table, blobs := NewSummedBlobTable(s, 3), NewBlobTable(plain, 3)
	for range rows - 1 {
		_, b := table.Append()
		b.Set(make([]byte, 1<<20))
		_, p := blobs.Append()
		p.Bytes = b.Bytes()
	}
	table.Append()
	blobs.Append()
	var same, snapshot bytes.Buffer
	_, err := plain.Begin().WriteTo(&same)
	require.NoError(t, err)
	_, err = s.Begin().WriteTo(&snapshot)
	require.NoError(t, err)
	require.True(t, bytes.Equal(same.Bytes(), snapshot.Bytes()))
	again := NewStore()
	restored := NewSummedBlobTable(again, 3)
	require.NoError(t, again.Restore(&snapshot))
	require.Equal(t, table.Read(1).Bytes(), restored.Read(1).Bytes())

	table.Write(rows - 2).Set([]byte{1})
	restored.Write(rows - 2).Set([]byte{2})
	require.Equal(t, s.HashNext(0), again.HashNext(0))
	require.NotEqual(t, s.HashNext(0), again.HashNext(0))
	require.Less(t, cap(s.scratch), 4096)
}
