package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tollgate/cluster"
	"tollgate/server/admin"
)

// shards are the groups' names by shard number.
var shards = [...]string{cluster.ShardBilling: "billing", cluster.ShardWorkspace: "workspace"}

// clusterEvents measures what the cluster does into a registry. Label values are resolved here,
// once.
func clusterEvents(registry *prometheus.Registry) (*cluster.Events, error) {
	m := clusterMetrics{registry: registry}
	batchRecords := m.histogram("batch_records", "Records in an entry.", sizes(1, 14))
	batchBytes := m.histogram("batch_bytes", "Bytes of an entry.", sizes(64, 13))
	commit := m.histogram("commit_seconds", "From handing an entry to Raft to its result.", times)
	store := m.histogram("store_seconds", "Storing entries durably, fsync included.", times)
	apply := m.histogram("apply_seconds", "Applying committed entries.", times)
	entry := m.histogram("entry_seconds", "Carrying out one entry.", fine)
	longest := m.longest("longest_entry_seconds",
		"What the longest of the entries took that were carried out in the last ten seconds.")
	forward := m.histogram("forward_records", "Records in a frame to the leader.", sizes(1, 14))
	snapshot := m.histogram("snapshot_seconds", "Writing a snapshot.", times)
	restore := m.histogram("restore_seconds", "Loading a snapshot.", times)
	leaders := m.counter("leader_changes_total", "How often this node learnt of a leader or lost it.")
	leases := m.counter("lease_changes_total", "How often this node got or lost the read lease.")
	if m.failed != nil {
		return nil, fmt.Errorf("metrics: %w", m.failed)
	}
	return &cluster.Events{
		OnBatch: func(shard uint16, records, bytes int) {
			batchRecords[shard].Observe(float64(records))
			batchBytes[shard].Observe(float64(bytes))
		},
		OnCommit: func(shard uint16, d time.Duration) { commit[shard].Observe(d.Seconds()) },
		OnStore: func(shard uint16, _ int, d time.Duration) {
			store[shard].Observe(d.Seconds())
		},
		OnApply: func(shard uint16, _ int, d time.Duration) { apply[shard].Observe(d.Seconds()) },
		OnEntry: func(shard uint16, d time.Duration) {
			entry[shard].Observe(d.Seconds())
			longest[shard].observe(d, time.Now())
		},
		OnForward:  func(shard uint16, records, _ int) { forward[shard].Observe(float64(records)) },
		OnSnapshot: func(shard uint16, _ int64, d time.Duration) { snapshot[shard].Observe(d.Seconds()) },
		OnRestore:  func(shard uint16, d time.Duration) { restore[shard].Observe(d.Seconds()) },
		OnLeader:   func(shard uint16, _ string, _ uint64) { leaders[shard].Inc() },
		OnLease:    func(shard uint16, _ bool) { leases[shard].Inc() },
	}, nil
}

// fine are buckets from 10 µs to 150 ms: an entry is to take no longer than 10 ms.
var fine = prometheus.ExponentialBuckets(0.000_01, 1.5, 24)

// times are buckets from 50 µs to 13 s.
var times = prometheus.ExponentialBuckets(0.000_05, 2, 18)

func sizes(first float64, count int) []float64 {
	return prometheus.ExponentialBuckets(first, 2, count)
}

// clusterMetrics makes metrics with one child for each group.
type clusterMetrics struct {
	registry *prometheus.Registry
	failed   error
}

func (m *clusterMetrics) histogram(name, help string, buckets []float64,
) (children [len(shards)]prometheus.Observer) {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "tollgate_cluster_" + name, Help: help, Buckets: buckets,
	}, []string{"group"})
	m.register(v)
	for shard, group := range shards {
		children[shard] = v.WithLabelValues(group)
	}
	return children
}

func (m *clusterMetrics) counter(name, help string) (children [len(shards)]prometheus.Counter) {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tollgate_cluster_" + name, Help: help,
	}, []string{"group"})
	m.register(v)
	for shard, group := range shards {
		children[shard] = v.WithLabelValues(group)
	}
	return children
}

// longest makes gauges that keep the largest value of the last seconds.
func (m *clusterMetrics) longest(name, help string) (children [len(shards)]*maximum) {
	for shard, group := range shards {
		c := &maximum{}
		m.register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tollgate_cluster_" + name, Help: help,
			ConstLabels: prometheus.Labels{"group": group},
		}, func() float64 { return c.value(time.Now()).Seconds() }))
		children[shard] = c
	}
	return children
}

// maximum is the largest of the values of the last five to ten seconds.
type maximum struct {
	mu           sync.Mutex
	since        time.Time // when recent began
	past, recent time.Duration
}

// maximumSpan is how long a value counts at least.
const maximumSpan = 5 * time.Second

// turn forgets what is too old.
func (m *maximum) turn(now time.Time) {
	switch age := now.Sub(m.since); {
	case age >= 2*maximumSpan:
		m.since, m.past, m.recent = now, 0, 0
	case age >= maximumSpan:
		m.since, m.past, m.recent = now, m.recent, 0
	}
}

func (m *maximum) observe(d time.Duration, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(now)
	m.recent = max(m.recent, d)
}

func (m *maximum) value(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(now)
	return max(m.past, m.recent)
}

func (m *clusterMetrics) register(c prometheus.Collector) {
	if err := m.registry.Register(c); err != nil {
		m.failed = err
	}
}

// clusterView shows the operations listener what the cluster node knows; it is an admin.Cluster.
type clusterView struct{ node *cluster.Node }

// Status describes the node, its groups and the members.
func (v clusterView) Status() any { return v.node.Status() }

// NotReady lists why the node should not be sent requests.
func (v clusterView) NotReady() []string { return v.node.Status().Reasons }

// Change changes the members.
func (v clusterView) Change(ctx context.Context, c admin.MemberChange) error {
	switch c.Action {
	case "join":
		return v.node.Join(ctx, cluster.Member{ID: c.ID, Raft: c.Raft, HTTP: c.HTTP, Ops: c.Ops})
	case "promote":
		return v.node.Promote(ctx, c.ID)
	case "remove":
		return v.node.Remove(ctx, c.ID)
	case "transfer":
		return v.node.Transfer(ctx, c.ID)
	}
	return fmt.Errorf("%w: no change is called %q", cluster.ErrMembers, c.Action)
}

// Gauges calls each with every number of the status.
func (v clusterView) Gauges(each func(name, group string, value float64)) {
	s := v.node.Status()
	each("disk_free_bytes", "", float64(s.DiskFreeBytes))
	each("disk_low", "", truth(s.DiskLow))
	each("clock_ahead_seconds", "", float64(s.ClockAheadMS)/1000)
	each("ready", "", truth(s.Ready))
	for _, g := range s.Groups {
		each("leader", g.Name, truth(g.Role == "leader"))
		each("lease", g.Name, truth(g.Lease))
		each("term", g.Name, float64(g.Term))
		each("commit_index", g.Name, float64(g.CommitIndex))
		each("applied_index", g.Name, float64(g.AppliedIndex))
		each("last_index", g.Name, float64(g.LastIndex))
		each("snapshot_index", g.Name, float64(g.SnapshotIndex))
		each("staleness_seconds", g.Name, float64(g.StalenessMS)/1000)
		each("queue_bytes", g.Name, float64(g.QueueBytes))
		each("forward_bytes", g.Name, float64(g.ForwardBytes))
		each("entries_in_flight", g.Name, float64(g.InFlight))
		each("log_bytes", g.Name, float64(g.LogBytes))
		each("log_syncs", g.Name, float64(g.Syncs))
		each("segments_missing", g.Name, float64(g.SegmentsMissing))
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
