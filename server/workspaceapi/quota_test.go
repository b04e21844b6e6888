package workspaceapi

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/workspace"
)

// TestAFullWorkspaceSaysWhatItHolds: a stranger's flows end at a quarter of a MiB, and whoever
// claims the workspace goes on.
func TestAFullWorkspaceSaysWhatItHolds(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	large := strings.Replace(plainFlow, `"task":"`, `"task":"`+strings.Repeat("𝄞", 1800), 1)
	require.NotEqual(t, plainFlow, large)
	saved := 0
	a := c.call("POST", "/v1/flows", large)
	for ; a.status == 201 && saved < 100; saved++ {
		a = c.call("POST", "/v1/flows", large)
	}
	a.is(400, "workspace_full")
	require.Greater(t, saved, 20)
	require.EqualValues(t, workspace.MaxUnclaimedBytes, a.at("limitBytes"))
	require.Greater(t, a.at("usedBytes"), 0.9*workspace.MaxUnclaimedBytes)
	c.claim()
	c.call("POST", "/v1/flows", large).is(201, "")
}
