package measure

import (
	"testing"
	"time"

	"github.com/hashicorp/go-metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// shown are the counts and values of a registry that have changed, by name and peer.
func shown(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	families, err := registry.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			values[name] = m.GetCounter().GetValue() + float64(m.GetSummary().GetSampleCount())
			if values[name] == 0 {
				delete(values, name)
			}
		}
	}
	return values
}

func TestWhatRaftCountsIsShown(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s, err := openRaft(registry)
	require.NoError(t, err)
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, len(raftCounters)+len(raftTimes), "shown before anything was counted")
	require.Empty(t, shown(t, registry))

	now := time.Now()
	s.now = func() time.Time { return now }
	peer := func(id string) []metrics.Label { return []metrics.Label{{Name: "peer_id", Value: id}} }
	metrics.IncrCounter([]string{"raft", "state", "leader"}, 1)
	metrics.IncrCounter([]string{"raft", "state", "leader"}, 1)
	metrics.IncrCounter([]string{"raft", "apply"}, 1)
	metrics.MeasureSince([]string{"raft", "commitTime"}, now)
	metrics.MeasureSince([]string{"raft", "fsm", "apply"}, now)
	metrics.MeasureSinceWithLabels([]string{"raft", "replication", "heartbeat"}, now, peer("a"))
	metrics.IncrCounterWithLabels([]string{"raft", "replication", "appendEntries", "logs"}, 3,
		peer("b"))
	require.Equal(t, map[string]float64{
		"tollgate_raft_state_leader":                             2,
		"tollgate_raft_commitTime":                               1,
		"tollgate_raft_replication_heartbeat peer_id=a":          1,
		"tollgate_raft_replication_appendEntries_logs peer_id=b": 3,
	}, shown(t, registry))

	now = now.Add(raftPeerExpiry)
	metrics.MeasureSinceWithLabels([]string{"raft", "replication", "heartbeat"}, now, peer("a"))
	now = now.Add(time.Second)
	require.Equal(t, map[string]float64{
		"tollgate_raft_state_leader":                    2,
		"tollgate_raft_commitTime":                      1,
		"tollgate_raft_replication_heartbeat peer_id=a": 2,
	}, shown(t, registry), "a peer that was left is no longer shown")
}

func TestRaftIsShownOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	require.NoError(t, Raft(registry))
	require.ErrorContains(t, Raft(registry), "metrics: ")
}

// BenchmarkRaft is what Raft measures of one entry on a leader of two followers, and on one of
// them.
func BenchmarkRaft(b *testing.B) {
	require.NoError(b, Raft(prometheus.NewRegistry()))
	labels := []metrics.Label{{Name: "peer_id", Value: "node2"}}
	kind := []metrics.Label{{Name: "rpcType", Value: "AppendEntries"}}
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		metrics.IncrCounter([]string{"raft", "apply"}, 1)
		metrics.SetGauge([]string{"raft", "leader", "dispatchNumLogs"}, 1)
		metrics.MeasureSince([]string{"raft", "leader", "dispatchLog"}, start)
		for range 2 {
			metrics.MeasureSinceWithLabels(
				[]string{"raft", "replication", "appendEntries", "rpc"}, start, labels)
			metrics.IncrCounterWithLabels(
				[]string{"raft", "replication", "appendEntries", "logs"}, 1, labels)
		}
		metrics.MeasureSince([]string{"raft", "commitTime"}, start)
		metrics.MeasureSince([]string{"raft", "fsm", "enqueue"}, start)
		metrics.SetGauge([]string{"raft", "commitNumLogs"}, 1)
		metrics.MeasureSince([]string{"raft", "fsm", "applyBatch"}, start)
		metrics.AddSample([]string{"raft", "fsm", "applyBatchNum"}, 1)

		metrics.MeasureSince([]string{"raft", "net", "getRPCType"}, start)
		metrics.MeasureSinceWithLabels([]string{"raft", "net", "rpcDecode"}, start, kind)
		metrics.MeasureSinceWithLabels([]string{"raft", "net", "rpcEnqueue"}, start, kind)
		metrics.MeasureSinceWithLabels([]string{"raft", "net", "rpcRespond"}, start, kind)
		metrics.MeasureSince([]string{"raft", "rpc", "appendEntries"}, start)
		metrics.MeasureSince([]string{"raft", "rpc", "appendEntries", "storeLogs"}, start)
		metrics.MeasureSince([]string{"raft", "rpc", "appendEntries", "processLogs"}, start)
		metrics.MeasureSince([]string{"raft", "fsm", "applyBatch"}, start)
		metrics.AddSample([]string{"raft", "fsm", "applyBatchNum"}, 1)
	}
}
