package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/journal"
)

// FuzzCursor: a cursor is one that we wrote, to the last bit, or none.
func FuzzCursor(f *testing.F) {
	for order := byTime; order <= byLog; order++ {
		f.Add(encodeCursor(journal.Cursor{At: 1, Index: 2, Position: 3, Ordinal: 4}, order))
	}
	f.Add("")
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		c, order, ok := decodeCursor(text)
		if ok {
			require.Equal(t, text, encodeCursor(c, order))
		}
	})
}
