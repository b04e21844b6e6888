package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
)

// TestReasonsHaveOneName: a check answers with the name under which reports count it.
func TestReasonsHaveOneName(t *testing.T) {
	for r, name := range billing.Reason(0).Names() {
		if name != "" {
			require.Equal(t, name, textOf(billing.Reason(r)).code)
		}
	}
	require.Len(t, reasonTexts, len(billing.Reason(0).Names()))
}
