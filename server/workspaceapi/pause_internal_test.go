package workspaceapi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/server/provider/runner"
)

// TestACheckpointIsSealedOrNone: one that is not sealed never reaches the agent.
func TestACheckpointIsSealedOrNone(t *testing.T) {
	t.Parallel()
	var h held
	checkpoint, err := h.unseal(nil)
	require.NoError(t, err)
	require.Nil(t, checkpoint)
	checkpoint, err = h.unseal([]byte("page 2"))
	require.ErrorIs(t, err, runner.ErrUnavailable)
	require.Nil(t, checkpoint)
	require.Nil(t, h.checkpoint)
}
