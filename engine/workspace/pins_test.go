package workspace_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
)

// TestPins replays stored histories, 200 drawn ones and those of the scenarios, and compares all
// that came of them with what is pinned. See engine/DESIGN.md, "Pins".
func TestPins(t *testing.T) {
	enginetest.Pins{
		Folder: "testdata/pins",
		Open:   func() engine.Machine { return opened() },
		Draw: func(t *testing.T) []enginetest.History {
			scenarios, err := filepath.Glob("../testdata/workspace-*.txt")
			require.NoError(t, err)
			return append(enginetest.Drawn("commands", 200, enginetest.WorkspaceEntries),
				enginetest.Played(t, scenarios, enginetest.RunWorkspace)...)
		},
	}.Check(t)
}
