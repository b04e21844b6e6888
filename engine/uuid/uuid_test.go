package uuid_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/uuid"
)

func TestTextsAreReadBack(t *testing.T) {
	const text = "018f3c2e-0000-7abc-8def-0123456789ab"
	id, ok := uuid.Parse(strings.ToUpper(text))
	require.True(t, ok)
	require.Equal(t, text, uuid.Text(id))
	again, ok := uuid.Parse([]byte(text))
	require.True(t, ok)
	require.Equal(t, id, again)
	for i := range text {
		for _, with := range []string{"g", " ", "-", "0", "\x00", "é"} {
			bad := text[:i] + with + text[i+1:]
			_, ok := uuid.Parse(bad)
			isDash, isDigit := text[i] == '-', strings.Contains("0123456789abcdef", with)
			require.Equal(t, isDash && with == "-" || !isDash && isDigit, ok, bad)
		}
	}
	for _, bad := range []string{"", text[1:], text + "0"} {
		_, ok := uuid.Parse(bad)
		require.False(t, ok, bad)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { id, ok = uuid.Parse(text) }))
}
