// Package measure brings what a node knows about itself into its Prometheus registry: the cluster's
// events and status, Raft's own numbers, listeners, certificates and the program. Every metric is
// in the table of cluster/OPERATIONS.md ("Monitoring"), which a test holds against a live node.
package measure

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"tollgate/cluster"
)

// shards are the groups' names by shard number.
var shards = [...]string{cluster.ShardBilling: "billing", cluster.ShardWorkspace: "workspace"}

// Events measures what the cluster does into a registry, which must have none of these metrics.
// Label values are resolved here, once.
func Events(registry *prometheus.Registry) *cluster.Events {
	m := clusterMetrics{promauto.With(registry)}
	batchRecords := m.histogram("batch_records", "Records in an entry.", sizes(1, 14))
	batchBytes := m.histogram("batch_bytes", "Bytes of an entry.", sizes(64, 13))
	commit := m.histogram("commit_seconds", "From handing an entry to Raft to its result.", times)
	store := m.histogram("store_seconds", "Storing entries durably, fsync included.", times)
	fsync := m.histogram("fsync_seconds", "One fsync: of log, vote, snapshots or segments.", times)
	apply := m.histogram("apply_seconds", "Applying committed entries.", times)
	entry := m.histogram("entry_seconds", "Carrying out one entry.", fine)
	longest := m.longest("longest_entry_seconds",
		"What the longest of the entries took that were carried out in the last ten seconds.")
	forward := m.histogram("forward_records", "Records in a frame to the leader.", sizes(1, 14))
	snapshot := m.histogram("snapshot_seconds", "Writing a snapshot.", times)
	snapshotBytes := m.gauge("snapshot_bytes", "Size of the last snapshot that was written.")
	unwritten := m.counter("snapshots_failed_total", "Snapshots that could not be written.")
	restore := m.histogram("restore_seconds", "Loading a snapshot.", times)
	leaders := m.counter("leader_changes_total", "How often this node learnt of a leader or lost it.")
	leases := m.counter("lease_changes_total", "How often this node got or lost the read lease.")
	return &cluster.Events{
		OnBatch: func(shard uint16, records, bytes int) {
			batchRecords[shard].Observe(float64(records))
			batchBytes[shard].Observe(float64(bytes))
		},
		OnCommit: func(shard uint16, d time.Duration) { commit[shard].Observe(d.Seconds()) },
		OnStore: func(shard uint16, _ int, d time.Duration) {
			store[shard].Observe(d.Seconds())
		},
		OnSync:  func(shard uint16, d time.Duration) { fsync[shard].Observe(d.Seconds()) },
		OnApply: func(shard uint16, _ int, d time.Duration) { apply[shard].Observe(d.Seconds()) },
		OnEntry: func(shard uint16, d time.Duration) {
			entry[shard].Observe(d.Seconds())
			longest[shard].observe(d, time.Now())
		},
		OnForward: func(shard uint16, records, _ int) { forward[shard].Observe(float64(records)) },
		OnSnapshot: func(shard uint16, bytes int64, d time.Duration) {
			snapshot[shard].Observe(d.Seconds())
			snapshotBytes[shard].Set(float64(bytes))
		},
		OnSnapshotFailed: func(shard uint16) { unwritten[shard].Inc() },
		OnRestore:        func(shard uint16, d time.Duration) { restore[shard].Observe(d.Seconds()) },
		OnLeader:         func(shard uint16, _ string, _ uint64) { leaders[shard].Inc() },
		OnLease:          func(shard uint16, _ bool) { leases[shard].Inc() },
	}
}

// fine are buckets from 10 µs to 150 ms: an entry is to take no longer than 10 ms.
var fine = prometheus.ExponentialBuckets(0.000_01, 1.5, 24)

// times are buckets from 50 µs to 13 s.
var times = prometheus.ExponentialBuckets(0.000_05, 2, 18)

func sizes(first float64, count int) []float64 {
	return prometheus.ExponentialBuckets(first, 2, count)
}

// clusterMetrics makes metrics with one child for each group.
type clusterMetrics struct{ promauto.Factory }

func (m *clusterMetrics) histogram(
	name, help string, buckets []float64,
) [len(shards)]prometheus.Observer {
	return perGroup(m.NewHistogramVec(prometheus.HistogramOpts{
		Name: "tollgate_cluster_" + name, Help: help, Buckets: buckets,
	}, byGroup).WithLabelValues)
}

func (m *clusterMetrics) counter(name, help string) [len(shards)]prometheus.Counter {
	return perGroup(m.NewCounterVec(prometheus.CounterOpts{
		Name: "tollgate_cluster_" + name, Help: help,
	}, byGroup).WithLabelValues)
}

func (m *clusterMetrics) gauge(name, help string) [len(shards)]prometheus.Gauge {
	return perGroup(m.NewGaugeVec(prometheus.GaugeOpts{
		Name: "tollgate_cluster_" + name, Help: help,
	}, byGroup).WithLabelValues)
}

var byGroup = []string{"group"}

// perGroup makes the child of a metric for each group.
func perGroup[T any](child func(labels ...string) T) (children [len(shards)]T) {
	for shard, group := range shards {
		children[shard] = child(group)
	}
	return children
}

// longest makes gauges that keep the largest value of the last seconds.
func (m *clusterMetrics) longest(name, help string) (children [len(shards)]*maximum) {
	for shard, group := range shards {
		c := &maximum{}
		m.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tollgate_cluster_" + name, Help: help,
			ConstLabels: prometheus.Labels{"group": group},
		}, func() float64 { return c.value(time.Now()).Seconds() })
		children[shard] = c
	}
	return children
}
