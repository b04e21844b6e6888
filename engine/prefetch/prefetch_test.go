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
