package cluster

import (
	"fmt"
	"strconv"
	"strings"
	"time"
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
		ClockCompared: n.clocks.sure(), DiskReserveBytes: n.disk.need,
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
	if why := n.standing(); why != "" {
		s.Reasons = append(s.Reasons, why)
	}
	s.Ready = len(s.Reasons) == 0
	s.Members = n.memberStatus(s.Groups[ShardBilling].Leader)
	return s
}

// memberStatus describes all nodes, as seen from here.
func (n *Node) memberStatus(leader string) []MemberStatus {
	var list []MemberStatus
	for _, p := range n.roster() {
		ms := MemberStatus{
			Member: n.config.describe(p.Member), Disk: p.disk,
			Voter:  p.voter == [2]bool{true, true},
			Leader: p.ID == leader, Reachable: true, Version: -1,
		}
		if known, ok := n.knows(p); ok {
			ms.Version = int64(known)
		}
		if p.in != [2]bool{true, true} {
			ms.Problem = "a member of one group only: repeat the change"
		}
		if l := n.linkTo(p.ID); l != nil {
			ms.Reachable = l.reachable()
			if why := l.problem(); why != "" {
				ms.Problem = why
			}
			if ahead, trip, ok := n.clocks.sample(p.ID); ok {
				ms.ClockAheadMS, ms.RoundTripUS = ahead, trip.Microseconds()
			}
		}
		list = append(list, ms)
	}
	return list
}

// standing says why this node is no member, or not for long; "" when it is one.
func (n *Node) standing() string {
	if n.Billing().retired.Load() {
		return "about to stop"
	}
	p, ok := n.member(n.config.NodeID)
	switch {
	case n.waiting():
		return "waits to be joined: run `tollgate cluster join` on a node of the cluster"
	case !ok || p.in != [2]bool{true, true}:
		return "was removed from the cluster, or is being removed"
	}
	if err := n.outsider.Load(); err != nil {
		return (*err).Error() + ": it was removed, or has just been joined"
	}
	return ""
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
	s.Version, _ = g.machine.Version()
	_, s.Lease = g.lease.holds()
	if age, ok := g.lease.age(); ok {
		s.LeaseAgeMS, s.LastContactMS = age.Milliseconds(), 0
	} else if at := g.contact.Load(); at != never {
		s.LastContactMS = time.Duration(monotonic() - at).Milliseconds()
	}
	s.QueueBytes, s.InFlight = g.local.load()
	s.ForwardBytes, _ = g.remote.load()
	s.WaitingBytes, s.QueueLimitBytes = int(g.waiting.Load()), g.config.QueueBytes
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
