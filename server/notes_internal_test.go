package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNotesUnderWayAreBounded: of all things together, and one of each.
func TestNotesUnderWayAreBounded(t *testing.T) {
	var n Notes[int]
	for of := range maxNotes {
		require.True(t, n.begin(of))
		require.False(t, n.begin(of))
	}
	require.False(t, n.begin(maxNotes))
	n.end(3)
	require.True(t, n.begin(maxNotes))
	require.Equal(t, maxNotes, n.UnderWay())
}
