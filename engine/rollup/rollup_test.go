package rollup_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/decimal"
	"tollgate/engine/rollup"
)

func drawCell(t *rapid.T) rollup.Cell {
	owner := uint64(rapid.Uint32Range(0, 3).Draw(t, "owner"))
	if rapid.Bool().Draw(t, "environment") {
		owner = rollup.Environment(uint32(owner))
	}
	return rollup.Cell{
		Key: rollup.Key{
			Owner: owner, Item: rapid.Uint32Range(0, 3).Draw(t, "item"),
			Hour: rapid.Int32Range(-2, 2).Draw(t, "hour"),
		},
		Events: rapid.Int64Range(-3, 3).Draw(t, "events"),
		Units: decimal.FromBits(rapid.SampledFrom([]int64{0, -1, 5, -5, 1<<63 - 1, -1 << 63}).Draw(t, "high"),
			rapid.SampledFrom([]uint64{0, 1, 3_000_000_000_000, 1<<64 - 3_000_000_000_000, 1<<64 - 1}).
				Draw(t, "low")),
	}
}

// Cells are what a map counts, in the order of their keys, and a block holds them.
func TestTallyAndBlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tally rollup.Tally
		counted := map[rollup.Key]*rollup.Cell{}
		for _, c := range rapid.SliceOfN(rapid.Custom(drawCell), 0, 60).Draw(t, "cells") {
			tally.Add(c)
			if counted[c.Key] == nil {
				counted[c.Key] = &rollup.Cell{Key: c.Key}
			}
			counted[c.Key].Add(c.Events, c.Units)
		}
		var want []rollup.Cell
		for _, c := range counted {
			if !c.Empty() {
				want = append(want, *c)
			}
		}
		slices.SortFunc(want, func(a, b rollup.Cell) int { return a.Compare(b.Key) })
		cells := tally.Cells()
		require.True(t, slices.Equal(want, cells))

		var block []byte
		var last rollup.Cell
		for i := range cells {
			block = rollup.AppendCell(block, &last, &cells[i])
			last = cells[i]
		}
		var read []rollup.Cell
		require.NoError(t, rollup.ReadBlock(block, func(c rollup.Cell) error {
			read = append(read, c)
			return nil
		}))
		require.True(t, slices.Equal(want, read))
		for n := range block {
			if err := rollup.ReadBlock(block[:n], func(rollup.Cell) error { return nil }); err != nil {
				require.ErrorIs(t, err, rollup.ErrBlock)
			}
		}
	})
}

func TestHours(t *testing.T) {
	require.Equal(t, int32(-1), rollup.HourOf(-1))
	require.Equal(t, int32(0), rollup.HourOf(rollup.HourMS-1))
	require.Equal(t, int32(-1), rollup.HourOf(-rollup.HourMS))
}

func FuzzBlock(f *testing.F) {
	f.Add([]byte{1, 0, 0, 2, 4})
	f.Fuzz(func(t *testing.T, data []byte) {
		last, seen := rollup.Key{}, false
		err := rollup.ReadBlock(data, func(c rollup.Cell) error {
			require.True(t, !seen || last.Compare(c.Key) < 0)
			last, seen = c.Key, true
			return nil
		})
		if err != nil {
			require.ErrorIs(t, err, rollup.ErrBlock)
		}
	})
}
