package measure

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-metrics"
	"github.com/prometheus/client_golang/prometheus"
)

// raftNumber is one of the numbers that Raft counts by itself: of both groups together, for Raft
// does not tell them apart.
type raftNumber struct {
	name, help string
}

var raftCounters = []raftNumber{
	{"raft.state.follower", "How often a group here became a follower."},
	{"raft.state.candidate", "How often a group here stood for election."},
	{"raft.state.leader", "How often a group here was elected."},
	{"raft.transition.heartbeat_timeout", "How often a follower here missed its leader."},
	{"raft.transition.leader_lease_timeout", "How often a leader here lost its majority."},
}

// raftTimes are in milliseconds, but for the last three.
var raftTimes = []raftNumber{
	{"raft.commitTime", "From taking an entry to its commit, on the leader."},
	{"raft.leader.lastContact", "Since a voter last answered, on the leader."},
	{"raft.leader.dispatchLog", "Writing entries to the leader's own disk."},
	{"raft.candidate.electSelf", "Asking for votes."},
	{"raft.candidate.preElectSelf", "Asking whether votes would be given."},
	{"raft.rpc.appendEntries", "Taking entries from the leader."},
	{"raft.rpc.appendEntries.storeLogs", "Storing them."},
	{"raft.rpc.appendEntries.processLogs", "Handing what is committed of them on."},
	{"raft.rpc.processHeartbeat", "Taking a heartbeat."},
	{"raft.rpc.requestVote", "Answering a candidate."},
	{"raft.rpc.installSnapshot", "Taking a snapshot from the leader."},
	{"raft.compactLogs", "Deleting the log behind a snapshot."},
	{"raft.fsm.enqueue", "Committed entries waiting to be applied."},
	{"raft.fsm.applyBatchNum", "Entries applied at a time."},
	{"raft.thread.main.saturation", "Share of its time that Raft's main loop works, 0 to 1."},
	{"raft.thread.fsm.saturation", "Share of its time that applying works, 0 to 1."},
}

// The numbers that Raft keeps of each peer that it leads, with the label peer_id. One that has not
// changed for raftPeerExpiry is no longer shown.
const (
	raftBeat       = "raft.replication.heartbeat"
	raftAppend     = "raft.replication.appendEntries.rpc"
	raftAppended   = "raft.replication.appendEntries.logs"
	peerLabel      = "peer_id"
	raftPeerExpiry = 10 * time.Minute
)

// Raft brings what Raft counts into a registry, from now on and instead of any earlier one: Raft
// knows one place for the whole process. What is not listed here is not shown, so that their number
// is bounded. An error says which metric was there already.
func Raft(registry *prometheus.Registry) error {
	_, err := openRaft(registry)
	return err
}

func openRaft(registry *prometheus.Registry) (*raftSink, error) {
	s := &raftSink{
		counters: map[string]prometheus.Counter{}, times: map[string]prometheus.Summary{},
		peers: map[string]*raftPeer{}, now: time.Now,
	}
	all := []prometheus.Collector{s}
	for _, c := range raftCounters {
		s.counters[c.name] = raftCounter(c, nil)
		all = append(all, s.counters[c.name])
	}
	for _, t := range raftTimes {
		s.times[t.name] = raftTime(t, nil)
		all = append(all, s.times[t.name])
	}
	for _, c := range all {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	_, err := metrics.NewGlobal(&metrics.Config{
		TimerGranularity: time.Millisecond, FilterDefault: true,
	}, s)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return s, nil
}

func raftName(of string) string { return "tollgate_" + strings.ReplaceAll(of, ".", "_") }

func raftCounter(of raftNumber, labels prometheus.Labels) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Name: raftName(of.name), Help: of.help, ConstLabels: labels,
	})
}

// raftTime is of the last 5 to 10 s: each further bucket of ages takes every value once more.
func raftTime(of raftNumber, labels prometheus.Labels) prometheus.Summary {
	return prometheus.NewSummary(prometheus.SummaryOpts{
		Name: raftName(of.name), Help: of.help, ConstLabels: labels,
		MaxAge: 10 * time.Second, AgeBuckets: 2,
		Objectives: map[float64]float64{0.5: 0.05, 0.9: 0.01, 0.99: 0.001},
	})
}

// raftSink receives what Raft counts and measures: some twenty numbers for each entry, half of
// which are not shown. So it looks a name up before anything else, and allocates nothing for that.
type raftSink struct {
	metrics.BlackholeSink
	counters map[string]prometheus.Counter
	times    map[string]prometheus.Summary
	now      func() time.Time

	mu    sync.Mutex
	peers map[string]*raftPeer
}

// raftPeer are the numbers of one peer.
type raftPeer struct {
	beat, appends prometheus.Summary
	appended      prometheus.Counter
	changed       time.Time
}

// IncrCounterWithLabels implements metrics.MetricSink, for all counters.
func (s *raftSink) IncrCounterWithLabels(key []string, by float32, labels []metrics.Label) {
	var room [64]byte
	name := appendKey(room[:0], key)
	if c, ok := s.counters[string(name)]; ok {
		c.Add(float64(by))
	} else if string(name) == raftAppended {
		s.peer(labels).appended.Add(float64(by))
	}
}

// AddSampleWithLabels implements metrics.MetricSink, for all times.
func (s *raftSink) AddSampleWithLabels(key []string, took float32, labels []metrics.Label) {
	var room [64]byte
	name := appendKey(room[:0], key)
	if t, ok := s.times[string(name)]; ok {
		t.Observe(float64(took))
		return
	}
	switch string(name) {
	case raftBeat:
		s.peer(labels).beat.Observe(float64(took))
	case raftAppend:
		s.peer(labels).appends.Observe(float64(took))
	}
}

func appendKey(dst []byte, key []string) []byte {
	for i, part := range key {
		if i > 0 {
			dst = append(dst, '.')
		}
		dst = append(dst, part...)
	}
	return dst
}

// peer are the numbers of the peer that the labels name.
func (s *raftSink) peer(labels []metrics.Label) *raftPeer {
	id := ""
	for _, l := range labels {
		if l.Name == peerLabel {
			id = l.Value
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.peers[id]
	if p == nil {
		of := prometheus.Labels{peerLabel: id}
		p = &raftPeer{
			beat:     raftTime(raftNumber{raftBeat, "A heartbeat to that member."}, of),
			appends:  raftTime(raftNumber{raftAppend, "Sending entries to that member."}, of),
			appended: raftCounter(raftNumber{raftAppended, "Entries sent to that member."}, of),
		}
		s.peers[id] = p
	}
	p.changed = s.now()
	return p
}

// Describe implements prometheus.Collector: which peers there will be is not known.
func (s *raftSink) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector, for the numbers of peers.
func (s *raftSink) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, p := range s.peers {
		if s.now().Sub(p.changed) > raftPeerExpiry {
			delete(s.peers, id)
			continue
		}
		p.beat.Collect(to)
		p.appends.Collect(to)
		p.appended.Collect(to)
	}
}
