package ascii_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/server/ascii"
)

func TestVisibleAndPrintable(t *testing.T) {
	for text, is := range map[string]struct{ visible, printable bool }{
		"": {}, "!": {true, true}, "~": {true, true}, "a b": {false, true}, " ": {false, true},
		"a\tb": {}, "\x00": {}, "\x7f": {}, "ä": {}, "\xff": {},
	} {
		require.Equal(t, is.visible, ascii.Visible(text, 3), "%q", text)
		require.Equal(t, is.visible, ascii.Visible([]byte(text), 3), "%q", text)
		require.Equal(t, is.printable, ascii.Printable(text), "%q", text)
	}
	require.True(t, ascii.Visible("abc", 3))
	require.False(t, ascii.Visible("abcd", 3))
}
