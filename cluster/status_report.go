package cluster

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Status describes this node and what it knows of the others.
func (n *health) Status() Status {
	s := Status{
		NodeID:        n.config.NodeID,
		DiskFreeBytes: n.disk.free.Load(),
		DiskLow:       n.disk.low.Load(),
		MemoryLow:     n.memory.low.Load(), MemoryLiveBytes: n.memory.live.Load(),
		ClockAheadMS:  n.clocks.ahead(),
		ClockCompared: n.clocks.sure(), DiskReserveBytes: n.disk.need,
	}
	for _, g := range n.groups {
		s.Groups = append(s.Groups, g.Status())
	}
	s.Reasons = n.NotReady()
	s.Ready = len(s.Reasons) == 0
	s.Members = n.memberStatus(s.Groups[ShardBilling].Leader)
	return s
}

// memberStatus describes all nodes, as seen from here.
func (n *health) memberStatus(leader string) []MemberStatus {
	var list []MemberStatus
	for _, p := range n.roster() {
		ms := MemberStatus{
			Member: n.config.describe(p.Member), Disk: p.disk,
			Voter:  p.voter == [2]bool{true, true},
			Leader: p.ID == leader, Reachable: true, Version: -1,
		}
		if known, ok := n.versions.knows(p); ok {
			ms.Version = int64(known)
		}
		if p.in != [2]bool{true, true} {
			ms.Problem = "a member of one group only: repeat the change"
		}
		if l := n.peering.linkTo(p.ID); l != nil {
			ms.Reachable = l.reachable()
			if why := l.problem(); why != "" {
				ms.Problem = why
			}
			ahead, trip, sampled := n.clocks.sample(p.ID)
			at, answered := l.seen()
			switch {
			case ms.Reachable && sampled:
				ms.ClockAheadMS, ms.RoundTripUS = ahead, trip.Microseconds()
			case !ms.Reachable && answered:
				at = at.UTC().Truncate(time.Millisecond)
				ms.LastSeenAt = &at
			}
		} else if p.ID != n.config.NodeID {
			ms.Reachable = false
		}
		ms.Role = ms.role()
		list = append(list, ms)
	}
	return list
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
		WorkStatus:        WorkStatus{Batches: g.batches.Load(), Records: g.records.Load()},
		StandsForElection: g.standsForElection(), Stamp: g.machine.Stamp(),
	}
	if number("applied_index") < s.CommitIndex || number("fsm_pending") > 0 {
		s.Lag = s.CommitIndex - min(s.AppliedIndex, s.CommitIndex)
	}
	s.Version, _ = g.machine.Version()
	_, s.Lease = g.lease.holds()
	if age, ok := g.lease.age(); ok {
		s.LeaseAgeMS, s.LastContactMS = age.Milliseconds(), 0
	} else if at := g.contact.Load(); at != nil {
		s.LastContactMS = at.until(g.lease.clock()).Milliseconds()
	}
	s.QueueBytes, s.InFlight = g.local.load()
	s.ForwardBytes, _ = g.remote.load()
	s.WaitingBytes, s.QueueLimitBytes = g.proposer.waiting.bytes(), g.config.QueueBytes
	if g.logSize != nil {
		s.LogBytes, s.Syncs = g.logSize()
	}
	if g.segments != nil {
		s.SegmentsMissing = len(g.segments.Missing())
	}
	if g.keys != nil {
		s.Keys = g.keys.status()
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
