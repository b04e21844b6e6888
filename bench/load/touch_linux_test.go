package load_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/load"
)

// TestTouchingMemory gives back what it touched, and stops when it is told to.
func TestTouchingMemory(t *testing.T) {
	free := load.FreeMemory()
	require.NoError(t, load.TouchMemory(t.Context(), 128<<20))
	require.NoError(t, load.TouchMemory(t.Context(), 0))
	require.Greater(t, load.FreeMemory(), free/2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, load.TouchMemory(ctx, 128<<20), context.Canceled)
}
