package measure

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"tollgate/cluster"
)

// reading is one number of something that is looked at when /metrics is asked for.
type reading[T any] struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	// value is the number; false leaves it out.
	value func(of *T) (float64, bool)
}

// gauge is a reading that may fall.
func gauge[T any](name, help string, value func(of *T) float64, labels ...string) reading[T] {
	return reading[T]{
		prometheus.NewDesc("tollgate_"+name, help, labels, nil), prometheus.GaugeValue,
		func(of *T) (float64, bool) { return value(of), true },
	}
}

// counter is a reading that only rises while the process runs.
func counter[T any](name, help string, value func(of *T) float64, labels ...string) reading[T] {
	r := gauge(name, help, value, labels...)
	r.kind = prometheus.CounterValue
	return r
}

// maybe is a gauge that is left out while nothing is known: value is then below zero.
func maybe[T any](name, help string, value func(of *T) float64, labels ...string) reading[T] {
	r := gauge(name, help, value, labels...)
	r.value = func(of *T) (float64, bool) {
		v := value(of)
		return v, v >= 0
	}
	return r
}

func (r *reading[T]) send(out chan<- prometheus.Metric, of *T, labels ...string) {
	if v, known := r.value(of); known {
		out <- prometheus.MustNewConstMetric(r.desc, r.kind, v, labels...)
	}
}

type (
	node   = cluster.Status
	group  = cluster.GroupStatus
	member = cluster.MemberStatus
)

// nodeReadings are about the node, groupReadings about each group on it.
var nodeReadings = []reading[node]{
	gauge("ready", "1 while /readyz answers 200.", func(s *node) float64 { return truth(s.Ready) }),
	gauge("disk_free_bytes", "Free space under the data folder.",
		func(s *node) float64 { return float64(s.DiskFreeBytes) }),
	gauge("disk_reserve_bytes", "Free space that is to stay.",
		func(s *node) float64 { return float64(s.DiskReserveBytes) }),
	gauge("disk_low",
		"1 while less than the reserve is free: this node does not lead while another has room.",
		func(s *node) float64 { return truth(s.DiskLow) }),
	gauge("memory_live_bytes", "Memory in use after the last collection.",
		func(s *node) float64 { return float64(s.MemoryLiveBytes) }),
	gauge("memory_low", "1 while writes that would make the state grow are refused.",
		func(s *node) float64 { return truth(s.MemoryLow) }),
	gauge("clock_ahead_seconds", "How far the clock is ahead of the median of the voters' clocks.",
		func(s *node) float64 { return seconds(s.ClockAheadMS) }),
	gauge("clock_compared", "1 while a majority of the voters' clocks is known.",
		func(s *node) float64 { return truth(s.ClockCompared) }),
	gauge("members", "Members of the cluster, with and without a vote.",
		func(s *node) float64 { return float64(len(s.Members)) }),
}

var groupReadings = []reading[group]{
	inGroup("leader", "1 on the node that leads.",
		func(g *group) float64 { return truth(g.Role == "leader") }),
	inGroup("leader_known", "1 while this node knows a leader, itself included.",
		func(g *group) float64 { return truth(g.Leader != "") }),
	inGroup("stands_for_election", "0 while this node may not be elected: its clock is far off or "+
		"not compared, or it is about to stop.",
		func(g *group) float64 { return truth(g.StandsForElection) }),
	inGroup("lease", "1 while this node answers linearizable reads from its own memory.",
		func(g *group) float64 { return truth(g.Lease) }),
	maybe("cluster_lease_age_seconds", "On the leader: how long ago a majority last answered it.",
		func(g *group) float64 { return seconds(g.LeaseAgeMS) }, "group"),
	maybe("cluster_last_contact_seconds", "How long ago this node had all that the leader had "+
		"committed; 0 on the leader.",
		func(g *group) float64 { return seconds(g.LastContactMS) }, "group"),
	inGroup("staleness_seconds", "How old a stale read here may be.",
		func(g *group) float64 { return seconds(g.StalenessMS) }),
	inGroup("term", "Raft's term.", func(g *group) float64 { return float64(g.Term) }),
	inGroup("commit_index", "Last log entry that a majority has.",
		func(g *group) float64 { return float64(g.CommitIndex) }),
	inGroup("applied_index", "Last log entry that was applied here.",
		func(g *group) float64 { return float64(g.AppliedIndex) }),
	inGroup("last_index", "Last log entry here.",
		func(g *group) float64 { return float64(g.LastIndex) }),
	inGroup("first_index", "First log entry here; 0 for none.",
		func(g *group) float64 { return float64(g.FirstIndex) }),
	inGroup("snapshot_index", "Last log entry in the newest snapshot.",
		func(g *group) float64 { return float64(g.SnapshotIndex) }),
	inGroup("snapshot_last_timestamp_seconds", "When this process last wrote a snapshot; 0: never.",
		func(g *group) float64 {
			if g.SnapshotAt.IsZero() {
				return 0
			}
			return float64(g.SnapshotAt.UnixMilli()) / 1000
		}),
	inGroup("queue_bytes", "Commands in the leader's queue, until they are applied.",
		func(g *group) float64 { return float64(g.QueueBytes) }),
	inGroup("forward_bytes", "Commands on their way to the leader, until it has answered.",
		func(g *group) float64 { return float64(g.ForwardBytes) }),
	inGroup("waiting_bytes", "Commands that wait until a leader is known.",
		func(g *group) float64 { return float64(g.WaitingBytes) }),
	inGroup("queue_limit_bytes", "What each of queue, forward and waiting may hold.",
		func(g *group) float64 { return float64(g.QueueLimitBytes) }),
	inGroup("entries_in_flight", "Log entries handed to Raft and not yet applied.",
		func(g *group) float64 { return float64(g.InFlight) }),
	counter("cluster_proposed_entries_total", "Log entries that this node proposed as the leader.",
		func(g *group) float64 { return float64(g.Batches) }, "group"),
	counter("cluster_proposed_records_total", "Commands in these entries.",
		func(g *group) float64 { return float64(g.Records) }, "group"),
	inGroup("log_bytes", "The log on disk.",
		func(g *group) float64 { return float64(g.LogBytes) }),
	counter("cluster_log_syncs_total", "Fsyncs of the log.",
		func(g *group) float64 { return float64(g.Syncs) }, "group"),
	inGroup("segments_missing", "Journal segments that this node has yet to fetch.",
		func(g *group) float64 { return float64(g.SegmentsMissing) }),
	ofKeys("keys_uncovered", "Idempotency keys that left memory and are in no file yet.",
		func(k *cluster.KeyStatus) uint64 { return k.Uncovered }),
	ofKeys("key_files", "Files of idempotency keys.",
		func(k *cluster.KeyStatus) uint64 { return k.Files }),
	ofKeys("key_files_keys", "Idempotency keys in files, those included that are in memory, too.",
		func(k *cluster.KeyStatus) uint64 { return k.FileKeys }),
	ofKeys("key_files_bytes", "Length of the files of idempotency keys.",
		func(k *cluster.KeyStatus) uint64 { return k.FileBytes }),
	ofKeys("key_files_memory_bytes", "What the files of idempotency keys take in memory.",
		func(k *cluster.KeyStatus) uint64 { return k.FilterBytes }),
	ofKeys("key_voters_behind", "Voters whose key files are behind, as the leader sees it.",
		func(k *cluster.KeyStatus) uint64 { return uint64(len(k.HeldUpBy)) }),
	total(ofKeys("key_files_failed_total", "Tries to make or merge key files that failed.",
		func(k *cluster.KeyStatus) uint64 { return k.Failures })),
	total(ofKeys("key_probes_total", "Idempotency keys that were looked for in files.",
		func(k *cluster.KeyStatus) uint64 { return k.Probes })),
	total(ofKeys("key_filter_hits_total", "Filters of key files that did not exclude a key.",
		func(k *cluster.KeyStatus) uint64 { return k.FilterHits })),
	total(ofKeys("key_page_reads_total", "Pages of key files that were read for a key.",
		func(k *cluster.KeyStatus) uint64 { return k.PageReads })),
	total(ofKeys("key_files_damaged_total", "Files of idempotency keys that were found damaged.",
		func(k *cluster.KeyStatus) uint64 { return k.Damages })),
}

// ofKeys is a reading about the idempotency keys of a group that keeps some.
func ofKeys(name, help string, value func(k *cluster.KeyStatus) uint64) reading[group] {
	return maybe("cluster_"+name, help, func(g *group) float64 {
		if g.Keys == nil {
			return -1
		}
		return float64(value(g.Keys))
	}, "group")
}

// total makes a reading a counter.
func total[T any](r reading[T]) reading[T] {
	r.kind = prometheus.CounterValue
	return r
}

// memberReadings are about each member as this node sees it, itself included.
var memberReadings = []reading[member]{
	gauge("member_reachable", "1 while the member has answered within the last 3 s.",
		func(m *member) float64 { return truth(m.Reachable) }, "member"),
	gauge("member_voter", "1 when both groups count its vote.",
		func(m *member) float64 { return truth(m.Voter) }, "member"),
	gauge("member_problem", "1 while something that is known keeps it from taking part.",
		func(m *member) float64 { return truth(m.Problem != "") }, "member"),
	gauge("member_round_trip_seconds", "The last round trip to it; 0 to the node itself.",
		func(m *member) float64 { return float64(m.RoundTripUS) / 1e6 }, "member"),
	gauge("member_clock_ahead_seconds", "How far its clock is ahead of this node's.",
		func(m *member) float64 { return seconds(m.ClockAheadMS) }, "member"),
}

func inGroup(name, help string, value func(*group) float64) reading[group] {
	return gauge("cluster_"+name, help, value, "group")
}

func seconds(ms int64) float64 { return float64(ms) / 1000 }

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// notReady is 1 under each cause that keeps the node from being ready, and 0 under the others.
var notReady = prometheus.NewDesc("tollgate_not_ready",
	"1 under each cause that keeps the node from being ready.", []string{"cause"}, nil)

// statusCollector asks for the status at each scrape.
type statusCollector struct{ status func() cluster.Status }

// Status brings every number of a node's status into a registry.
func Status(registry *prometheus.Registry, status func() cluster.Status) {
	registry.MustRegister(statusCollector{status})
}

// Describe implements prometheus.Collector.
func (statusCollector) Describe(out chan<- *prometheus.Desc) {
	out <- notReady
	for i := range nodeReadings {
		out <- nodeReadings[i].desc
	}
	for i := range groupReadings {
		out <- groupReadings[i].desc
	}
	for i := range memberReadings {
		out <- memberReadings[i].desc
	}
}

// Collect implements prometheus.Collector.
func (c statusCollector) Collect(out chan<- prometheus.Metric) {
	s := c.status()
	for i := range nodeReadings {
		nodeReadings[i].send(out, &s)
	}
	for _, cause := range cluster.Causes() {
		given := slices.ContainsFunc(s.Reasons, func(r cluster.Reason) bool {
			return r.Cause == cause
		})
		out <- prometheus.MustNewConstMetric(notReady, prometheus.GaugeValue, truth(given),
			string(cause))
	}
	for k := range s.Groups {
		for i := range groupReadings {
			groupReadings[i].send(out, &s.Groups[k], s.Groups[k].Name)
		}
	}
	for k := range s.Members {
		for i := range memberReadings {
			memberReadings[i].send(out, &s.Members[k], s.Members[k].ID)
		}
	}
}
