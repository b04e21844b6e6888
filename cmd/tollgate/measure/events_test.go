package measure

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// TestTheLongestEntryIsRemembered: a value counts for five seconds at least, ten at most, and a
// smaller one after it does not hide it.
func TestTheLongestEntryIsRemembered(t *testing.T) {
	var m maximum
	at := func(s float64) time.Time {
		return time.Unix(1_000_000, 0).Add(time.Duration(s * float64(time.Second)))
	}
	require.Zero(t, m.value(at(0)))
	m.observe(3*time.Millisecond, at(1))
	m.observe(time.Millisecond, at(2))
	require.Equal(t, 3*time.Millisecond, m.value(at(6)))
	m.observe(2*time.Millisecond, at(6.5))
	require.Equal(t, 3*time.Millisecond, m.value(at(9)))
	require.Equal(t, 2*time.Millisecond, m.value(at(12)))
	require.Zero(t, m.value(at(60)))
}

func TestEntriesAreMeasured(t *testing.T) {
	registry := prometheus.NewRegistry()
	events := Events(registry)
	events.OnEntry(0, 3*time.Millisecond)
	events.OnSnapshotFailed(0)
	families, err := registry.Gather()
	require.NoError(t, err)
	found := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() != "billing" {
				continue
			}
			found[f.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue() +
				float64(m.GetHistogram().GetSampleCount())
		}
	}
	require.InDelta(t, 0.003, found["tollgate_cluster_longest_entry_seconds"], 1e-9)
	require.InDelta(t, 1, found["tollgate_cluster_entry_seconds"], 0)
	require.InDelta(t, 1, found["tollgate_cluster_snapshots_failed_total"], 0)
}
