package rows

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/page"
)

// TestTextsChangeInTheirPlaces: each row has the text that was set last, also while a snapshot
// runs, which has those of its beginning.
func TestTextsChangeInTheirPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store := page.NewStore()
		texts := OpenChangingTexts(store, 1)
		var want []string
		change := func() {
			for range rapid.IntRange(0, 200).Draw(t, "changes") {
				if len(want) < 3 || rapid.IntRange(0, 3).Draw(t, "add") == 0 {
					texts.Append()
					want = append(want, "")
				}
				n := rapid.IntRange(0, len(want)-1).Draw(t, "row")
				length := rapid.SampledFrom([]int{
					0, 1, 13, 14, 15, 30, 31, 60, 200, textUnits*unitBytes - 2, textUnits*unitBytes - 1,
					3000,
				}).Draw(t, "length")
				want[n] = strings.Repeat(string(rune('a'+n%26)), length)
				texts.Set(uint32(n)+1, []byte(want[n]))
			}
		}
		equal := func(texts *ChangingTexts, want []string) {
			require.EqualValues(t, len(want), texts.Len())
			for i := range want {
				require.Equal(t, want[i], string(texts.Get(uint32(i)+1)))
			}
		}
		change()
		equal(texts, want)
		sn, begun := store.Begin(), append([]string(nil), want...)
		change()
		var stream bytes.Buffer
		_, err := sn.WriteTo(&stream)
		require.NoError(t, err)
		again := page.NewStore()
		restored := OpenChangingTexts(again, 1)
		require.NoError(t, again.Restore(&stream))
		equal(restored, begun)
		equal(texts, want)
	})
}

// TestTextsThatGoLeaveTheirRoom to those that come.
func TestTextsThatGoLeaveTheirRoom(t *testing.T) {
	texts := OpenChangingTexts(page.NewStore(), 1)
	for range 100 {
		texts.Append()
	}
	for n := range 100_000 {
		row := uint32(n%100) + 1
		texts.Set(row, bytes.Repeat([]byte{1}, n%400))
		texts.Set(row, nil)
	}
	require.Less(t, texts.Bytes(), uint64(400<<10))
}
