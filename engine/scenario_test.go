package engine_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/enginetest"
)

// TestBillingScenarios plays engine/testdata/*.txt. With -rewrite it writes the answers anew.
func TestBillingScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { enginetest.RunBilling(t, file) })
	}
}
