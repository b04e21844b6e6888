package wire_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/wire"
)

// TestQuickReadsVarintsOfAnyLength: up to ten bytes, as hashes have them, in their shortest form
// alone.
func TestQuickReadsVarintsOfAnyLength(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Uint64Range(1, math.MaxUint64>>rapid.IntRange(0, 63).Draw(t, "cut")).Draw(t, "v")
		before := rapid.IntRange(0, 9).Draw(t, "before")
		src := binary.AppendUvarint(make([]byte, before), v)
		end := len(src)
		src = append(src, rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "after")...)
		got, next := wire.Quick(src).Uint(before, math.MaxUint64)
		require.Equal(t, v, got)
		require.Equal(t, end, next)
		_, next = wire.Quick(src).Uint(before, v-1)
		require.Greater(t, next, len(src), "it is above the limit")
		_, next = wire.Quick(src[:end-1]).Uint(before, math.MaxUint64)
		require.Greater(t, next, end-1, "it is cut short")

		longer := append([]byte(nil), src[:end]...)
		longer[end-1] |= 0x80
		longer = append(longer, 0)
		_, next = wire.Quick(longer).Uint(before, math.MaxUint64)
		require.Greater(t, next, len(longer), "there is a shorter form")
	})
}
