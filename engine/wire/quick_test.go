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

// TestQuickSeeksAField passes over fields of each type, of one byte and of many.
func TestQuickSeeksAField(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var src []byte
		type field struct {
			tag   byte
			begin int
		}
		var fields []field
		for tag := byte(1); tag < 16; tag++ {
			switch rapid.IntRange(0, 2).Draw(t, "field") {
			case 0:
				fields = append(fields, field{tag << 3, len(src)})
				v := rapid.Uint64Range(1, math.MaxUint64>>rapid.IntRange(0, 63).Draw(t, "cut")).Draw(t, "v")
				src = binary.AppendUvarint(append(src, tag<<3), v)
			case 1:
				fields = append(fields, field{tag<<3 | 2, len(src)})
				n := rapid.SampledFrom([]int{1, 127, 128, 16_383}).Draw(t, "length")
				src = binary.AppendUvarint(append(src, tag<<3|2), uint64(n))
				src = append(src, make([]byte, n)...)
			}
		}
		for _, f := range fields {
			from := rapid.SampledFrom([]int{0, f.begin}).Draw(t, "from")
			require.Equal(t, f.begin, wire.Quick(src).Seek(from, f.tag))
			cut := wire.Quick(src[:rapid.IntRange(0, f.begin).Draw(t, "cut")])
			require.GreaterOrEqual(t, cut.Seek(0, f.tag), len(cut))
		}
		require.Equal(t, len(src), wire.Quick(src).Seek(0, 0xff))
	})
}
