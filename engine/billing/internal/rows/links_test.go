package rows_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/billing/internal/rows"
)

func TestLinksAgreeWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x rows.Links
		want := map[uint32]uint32{}
		row := rapid.OneOf(rapid.Uint32Range(0, 600), rapid.Uint32Range(0, 1<<20))
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			from, to := row.Draw(t, "from"), rapid.Uint32Range(0, 3).Draw(t, "to")
			x.Set(from, to)
			want[from] = to
			other := row.Draw(t, "other")
			require.Equal(t, want[other], x.At(other))
		}
		for from, to := range want {
			require.Equal(t, to, x.At(from))
		}
	})
}

// TestLinksAreReadWhileTheyGrow: what was set is found, and the race
// detector reports nothing.
func TestLinksAreReadWhileTheyGrow(t *testing.T) {
	var x rows.Links
	x.Set(7, 1)
	var reading sync.WaitGroup
	for range 2 {
		reading.Go(func() {
			for row := range uint32(20_000) {
				if to := x.At(row); x.At(7) != 1 || to > 1 {
					t.Errorf("row %d leads to %d", row, to)
				}
			}
		})
	}
	for row := range uint32(20_000) {
		x.Set(row, 1)
	}
	reading.Wait()
	require.Positive(t, x.Bytes())
}
