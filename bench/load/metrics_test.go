package load

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMetricsAreDocumented: what is read of nodes is in the operators' table under the same name,
// which a test of the program compares with what nodes expose.
func TestMetricsAreDocumented(t *testing.T) {
	manual, err := os.ReadFile("../../cluster/OPERATIONS.md")
	require.NoError(t, err)
	for _, metric := range []string{
		maxMetric, syncsMetric, snapshotIndexMetric, appliedMetric, logBytesMetric, restoreMetric,
		snapshotsMetric, snapshotTimeMetric, snapshotAtMetric, termMetric, journalMetric,
		keysMetric, keysOnDiskMetric, keyBytesMetric, fileKeysMetric, filterBytesMetric, fileBytesMetric,
	} {
		name, _, _ := strings.Cut(strings.TrimSpace(metric), "{")
		name = strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count")
		require.Contains(t, string(manual), "\n| `"+name+"` | ")
	}
}
