package page

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestArchiveKeepsWhatWasPut: whatever the lengths, those that are longer than a chunk included.
func TestArchiveKeepsWhatWasPut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, kept := NewArchive(), map[uint32][]byte{}
		length := rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(0, 3<<16))
		for n := range rapid.IntRange(1, 60).Draw(t, "puts") {
			b := bytes.Repeat([]byte{byte(n)}, length.Draw(t, "length"))
			place := a.Put(b)
			require.NotZero(t, place)
			require.LessOrEqual(t, place, uint32(maxPlace))
			require.NotContains(t, kept, place)
			kept[place] = b
		}
		for place, b := range kept {
			require.True(t, bytes.Equal(b, a.Read(place)))
		}
	})
}

// TestArchiveIsDense: a string costs its length, and two to six bytes.
func TestArchiveIsDense(t *testing.T) {
	a := NewArchive()
	const count, size = 100_000, 100
	for range count {
		a.Put(make([]byte, size))
	}
	require.Less(t, a.Bytes(), uint64(count*(size+6)))
}

// TestAFullArchiveSaysSo: its chunks are counted before they are made.
func TestAFullArchiveSaysSo(t *testing.T) {
	a := NewArchive()
	full := make([][]byte, maxPlace>>unitsShift+1)
	a.chunks.Store(&full)
	require.Zero(t, a.Put([]byte("more")))
	require.Len(t, *a.chunks.Load(), len(full))
}
