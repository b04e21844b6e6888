package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNotesUnderWayAreBounded: of all things together, and one of each.
func TestNotesUnderWayAreBounded(t *testing.T) {
	var n Notes[int]
	for of := range mostNotes {
		require.True(t, n.begin(of))
		require.False(t, n.begin(of))
	}
	require.False(t, n.begin(mostNotes))
	n.end(3)
	require.True(t, n.begin(mostNotes))
	require.Equal(t, mostNotes, n.UnderWay())
}
