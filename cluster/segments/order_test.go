package segments

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestOrderIsCompareOrder(t *testing.T) {
	var used sortingRoom
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.OneOf(
			rapid.Just(int64(7)), rapid.Int64Range(-5, 5), rapid.Int64Range(0, 1<<40),
			rapid.SampledFrom([]int64{math.MinInt64, -1, 0, math.MaxInt64}),
		)
		owners := rapid.OneOf(
			rapid.Uint32Range(1, 4), rapid.Uint32Range(1<<10, 1<<12), rapid.Uint32(),
		)
		var entries []entry
		index, position := uint64(1), uint32(0)
		for range rapid.IntRange(0, 200).Draw(t, "entries") {
			if rapid.Bool().Draw(t, "next entry") {
				index, position = index+1, 0
			}
			position++
			for ordinal := range rapid.Uint32Range(1, 3).Draw(t, "ordinals") {
				entries = append(entries, entry{
					at: times.Draw(t, "at"), owner: owners.Draw(t, "owner"),
					index: index, position: position, ordinal: ordinal,
				})
			}
		}
		want := slices.Clone(entries)
		slices.SortFunc(want, func(a, b entry) int { return a.compare(&b) })
		require.Equal(t, want, new(sortingRoom).order(slices.Clone(entries)))
		require.Equal(t, want, used.order(entries))
	})
}

func BenchmarkOrder(b *testing.B) {
	for _, owners := range []uint32{100, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(owners), func(b *testing.B) {
			entries := make([]entry, 75_000)
			for i := range entries {
				draw := uint32(i) * 2654435761
				entries[i] = entry{index: uint64(i), owner: draw % owners, at: int64(draw % 60_000)}
			}
			var room sortingRoom
			for b.Loop() {
				room.order(entries)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(entries)), "ns/entry")
		})
	}
}
