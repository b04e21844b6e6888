package prefetch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/prefetch"
)

// TestLinesReadsNothing: an address at which there is no memory does no harm.
func TestLinesReadsNothing(t *testing.T) {
	values := make([]uint64, 1000)
	lines := []prefetch.Address{0, 8, ^prefetch.Address(0)}
	for i := range values {
		values[i] = uint64(i)
		lines = append(lines, prefetch.Of(&values[i]))
	}
	require.Equal(t, prefetch.Address(8), lines[4]-lines[3])
	prefetch.Lines(nil)
	prefetch.Lines(lines)
	for i, v := range values {
		require.EqualValues(t, i, v)
	}
}

// BenchmarkLines is for one address in the caches.
func BenchmarkLines(b *testing.B) {
	var v uint64
	lines := []prefetch.Address{prefetch.Of(&v)}
	for b.Loop() {
		prefetch.Lines(lines)
	}
}

// TestPopulateChangesNothing: memory of any place and length keeps what it holds.
func TestPopulateChangesNothing(t *testing.T) {
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = byte(i)
	}
	for _, part := range [][]byte{nil, b[:0], b[1:2], b[100:200], b[4095:8193], b[3:], b} {
		prefetch.Populate(part)
	}
	for i, v := range b {
		require.EqualValues(t, byte(i), v)
	}
}
