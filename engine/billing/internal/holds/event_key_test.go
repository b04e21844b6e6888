package holds

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestEventKeysAreOfTheirTexts: one text has one key, and no other text has it.
func TestEventKeysAreOfTheirTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		env, n := rapid.Uint32().Draw(t, "env"), rapid.Uint32().Draw(t, "n")
		var id [16]byte
		copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		text := AppendEventKey(nil, &id, n)
		key, ok := EventKeyOf(env, text)
		require.True(t, ok)
		require.Equal(t, EventKey(env, &id, n), key)
		require.NotEqual(t, key, EventKey(env, &id, n+1))
		require.NotEqual(t, key, EventKey(env+1, &id, n))
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		text[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if other, also := EventKeyOf(env, text); also {
			require.NotEqual(t, key, other)
		}
	})
	id := [16]byte{0xab, 15: 0xcd}
	text := string(AppendEventKey(nil, &id, 7))
	for _, other := range []string{
		"", EventPrefix, text[:len(text)-1], text + " ", strings.Replace(text, ":7", ":07", 1),
		strings.Replace(text, ":7", ":+7", 1), strings.Replace(text, ":7", ":4294967296", 1),
		strings.Replace(text, "ab", "AB", 1), strings.Replace(text, "-", "0", 1),
		strings.Replace(text, "reservation", "Reservation", 1),
	} {
		_, ok := EventKeyOf(1, []byte(other))
		require.False(t, ok, other)
	}
}
