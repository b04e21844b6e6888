package billing

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/rollup"
)

func TestTheFirstOfARankingAreThoseOfAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		order := func(a, b *rollup.Cell) int {
			return cmp.Or(cmp.Compare(b.Events, a.Events), a.Compare(b.Key))
		}
		sums := map[uint32]cellRows{}
		var all []*rollup.Cell
		for item := range uint32(3) {
			rows := make(cellRows, 3)
			sums[item] = rows
			for row, events := range rapid.MapOf(rapid.Uint32Range(1, 3*rowsOfPage-1),
				rapid.Int64Range(0, 9)).Draw(t, "rows") {
				c := rows.at(row)
				*c = rollup.Cell{Key: rollup.Key{Owner: uint64(row), Item: item}, Events: events}
				if events != 0 {
					all = append(all, c)
				}
			}
		}
		slices.SortFunc(all, order)
		most := rapid.IntRange(1, 20).Draw(t, "most")
		first, others := rank(most, sums, order)
		require.Equal(t, all[:min(most, len(all))], first[:len(first):len(first)])
		require.Equal(t, len(all)-len(first), others)
	})
}
