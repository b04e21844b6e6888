package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/journal"
)

// FuzzCursor: a cursor is one that we wrote, to the last bit, or none.
func FuzzCursor(f *testing.F) {
	for _, descending := range []bool{false, true} {
		f.Add(encodeCursor(journal.Cursor{At: 1, Index: 2, Position: 3, Ordinal: 4}, descending))
	}
	f.Add("")
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		c, descending, ok := decodeCursor(text)
		if ok {
			require.Equal(t, text, encodeCursor(c, descending))
		}
	})
}
