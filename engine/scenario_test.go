package engine_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
)

// TestBillingScenarios plays engine/testdata/*.txt. With -rewrite it rewrites the answers.
func TestBillingScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		if name := filepath.Base(file); !strings.HasPrefix(name, workspacePrefix) {
			t.Run(name, func(t *testing.T) { enginetest.RunBilling(t, file) })
		}
	}
}

// workspacePrefix begins the names of the scenarios of the workspace machine.
const workspacePrefix = "workspace-"

// TestWorkspaceScenarios plays engine/testdata/workspace-*.txt. With -rewrite it rewrites the
// answers.
func TestWorkspaceScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/" + workspacePrefix + "*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { enginetest.RunWorkspace(t, file) })
	}
}
