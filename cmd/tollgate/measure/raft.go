package measure

import (
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-metrics"
	sink "github.com/hashicorp/go-metrics/prometheus"
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

// raftPeers are the numbers that Raft keeps of each peer that it leads, with the label peer_id. One
// that has not changed for raftPeerExpiry is no longer shown.
var raftPeers = []string{
	"raft.replication.heartbeat", "raft.replication.appendEntries.rpc",
	"raft.replication.appendEntries.logs",
}

const raftPeerExpiry = 10 * time.Minute

// Raft brings what Raft counts into a registry, from now on and instead of any earlier one: Raft
// knows one place for the whole process. What is not listed here is not shown, so that their number
// is bounded. An error says which metric was there already.
func Raft(registry *prometheus.Registry) error {
	options := sink.PrometheusOpts{
		Name: "tollgate_raft", Registerer: registry, Expiration: raftPeerExpiry,
	}
	allowed := make([]string, 0, len(raftCounters)+len(raftTimes)+len(raftPeers))
	name := func(of string) []string {
		full := "tollgate." + of
		allowed = append(allowed, full)
		return strings.Split(full, ".")
	}
	for _, c := range raftCounters {
		options.CounterDefinitions = append(options.CounterDefinitions,
			sink.CounterDefinition{Name: name(c.name), Help: c.help})
	}
	for _, t := range raftTimes {
		options.SummaryDefinitions = append(options.SummaryDefinitions,
			sink.SummaryDefinition{Name: name(t.name), Help: t.help})
	}
	for _, p := range raftPeers {
		name(p)
	}
	to, err := sink.NewPrometheusSinkFrom(options)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	_, err = metrics.NewGlobal(&metrics.Config{
		ServiceName: "tollgate", TimerGranularity: time.Millisecond,
		AllowedPrefixes: allowed, AllowedLabels: []string{"peer_id"},
	}, to)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}
