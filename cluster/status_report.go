package cluster

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

// readyStaleness is how far behind a follower may be and still be ready.
const readyStaleness = 2 * time.Second

// Status describes this node and what it knows of the others.
func (n *Node) Status() Status {
	s := Status{
		NodeID:        n.config.NodeID,
		DiskFreeBytes: n.disk.free.Load(),
		DiskLow:       n.disk.low.Load(),
		ClockAheadMS:  n.clocks.ahead(),
	}
	for _, g := range n.groups {
		gs := g.Status()
		s.Groups = append(s.Groups, gs)
		s.Reasons = append(s.Reasons, gs.reasons()...)
	}
	if n.clocks.wrong() {
		s.Reasons = append(s.Reasons, fmt.Sprintf(
			"clock is %d ms away from the median of the nodes' clocks", s.ClockAheadMS))
	}
	if n.Billing().retired.Load() {
		s.Reasons = append(s.Reasons, "about to stop")
	}
	s.Ready = len(s.Reasons) == 0
	leader := s.Groups[ShardBilling].Leader
	voters := make(map[raft.ServerID]bool)
	for _, id := range n.Billing().voters()[0] {
		voters[id] = true
	}
	for _, m := range n.config.Members {
		ms := MemberStatus{
			Member: m, Voter: voters[raft.ServerID(m.ID)], Leader: m.ID == leader, Reachable: true,
		}
		if l := n.links[m.ID]; l != nil {
			ms.Reachable = l.reachable()
			if ahead, trip, ok := n.clocks.sample(m.ID); ok {
				ms.ClockAheadMS, ms.RoundTripUS = ahead, trip.Microseconds()
			}
		}
		s.Members = append(s.Members, ms)
	}
	return s
}

// Status describes the group on this node.
func (g *Group) Status() GroupStatus {
	r := g.route.Load()
	stats := g.raft.Stats()
	number := func(key string) uint64 {
		v, err := strconv.ParseUint(stats[key], 10, 64)
		if err != nil {
			return 0
		}
		return v
	}
	s := GroupStatus{
		Shard: g.shard, Name: g.name, Role: strings.ToLower(stats["state"]),
		Leader: r.leader, Term: number("term"),
		CommitIndex: number("commit_index"), AppliedIndex: g.machine.Applied(),
		LastIndex: number("last_log_index"), SnapshotIndex: number("last_snapshot_index"),
		LeaseAgeMS: -1, LastContactMS: -1, StalenessMS: g.Staleness().Milliseconds(),
		Batches: g.batches.Load(), Records: g.records.Load(),
		StandsForElection: g.standsForElection(), Stamp: g.machine.Stamp(),
	}
	_, s.Lease = g.lease.holds()
	if age, ok := g.lease.age(); ok {
		s.LeaseAgeMS, s.LastContactMS = age.Milliseconds(), 0
	} else if at := g.contact.Load(); at != never {
		s.LastContactMS = time.Duration(monotonic() - at).Milliseconds()
	}
	s.QueueBytes, s.InFlight = g.local.load()
	s.ForwardBytes, _ = g.remote.load()
	if g.logSize != nil {
		s.LogBytes, s.Syncs = g.logSize()
	}
	if g.segments != nil {
		s.SegmentsMissing = len(g.segments.Missing())
	}
	if first, err := g.store.FirstIndex(); err == nil { // a log that cannot be read ends the process
		s.FirstIndex = first
	}
	index, hash := g.machine.StateHash()
	s.StateIndex, s.StateHash = index, fmt.Sprintf("%016x", hash)
	if ms := g.snapshotAt.Load(); ms != 0 {
		s.SnapshotAt = time.UnixMilli(ms).UTC()
	}
	return s
}

// reasons say why this group keeps its node from being ready.
func (s *GroupStatus) reasons() []string {
	var why []string
	add := func(format string, args ...any) {
		why = append(why, s.Name+": "+fmt.Sprintf(format, args...))
	}
	if s.Leader == "" {
		add("no leader is known")
	}
	if s.LastContactMS < 0 {
		add("not caught up since this node began")
	}
	if stale := readyStaleness.Milliseconds(); s.StalenessMS > stale {
		add("behind by %d ms", s.StalenessMS)
	}
	if s.SegmentsMissing > 0 {
		add("%d journal segments are missing", s.SegmentsMissing)
	}
	return why
}
