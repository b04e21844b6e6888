package bench

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMetricsAreDocumented: what is read of nodes is in the operators' table under the same name,
// which a test of the program compares with what nodes expose.
func TestMetricsAreDocumented(t *testing.T) {
	manual, err := os.ReadFile("../cluster/OPERATIONS.md")
	require.NoError(t, err)
	for _, metric := range []string{longestMetric, syncsMetric} {
		name, _, _ := strings.Cut(metric, "{")
		require.Contains(t, string(manual), "\n| `"+name+"` | ")
	}
}
