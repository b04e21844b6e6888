package cluster

import "time"

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
