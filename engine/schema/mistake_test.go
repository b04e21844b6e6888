package schema_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/schema"
)

// TestCheckText compares with what unicode says, for texts and bytes.
func TestCheckText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
			"a", " ", "é", "語", "😀", "\ufffd", "\x00", "\n", "\x7f", "\u0080", "\u009f", "\u00a0", "\xff", "\xe8\xaa",
		}), 0, 6).Draw(t, "text"), "")
		least, limit := rapid.IntRange(0, 1).Draw(t, "least"), rapid.IntRange(0, 5).Draw(t, "limit")
		wrong := schema.CheckText(text, least, limit)
		require.Equal(t, wrong, schema.CheckText([]byte(text), least, limit))
		n := utf8.RuneCountInString(text)
		control, valid := strings.ContainsFunc(text, unicode.IsControl), utf8.ValidString(text)
		switch wrong {
		case schema.Control:
			require.True(t, control)
		case schema.NotUTF8:
			require.False(t, valid)
		case schema.Empty:
			require.True(t, n == 0 && least == 1)
		case "":
			require.True(t, valid && !control && n >= least && (limit == 0 || n <= limit))
		default:
			require.Equal(t, schema.TooLong(limit), wrong)
			require.Greater(t, n, limit)
			require.Positive(t, limit)
		}
	})
}

func TestMistakesAreWorded(t *testing.T) {
	require.Equal(t, "must have at most 64 characters", schema.TooLong(64))
	require.Equal(t, "must be a whole number from -5 to 5", schema.Outside(-5, 5))
	require.Equal(t, "must be true", schema.NotAllowed("true"))
	require.Equal(t, "must be NONE, FULL or CAPPED", schema.NotAllowed("NONE", "FULL", "CAPPED"))
}
