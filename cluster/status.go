package cluster

import (
	"strings"
	"time"
)

// Status is what a node knows about itself and the cluster at one moment.
//
//schema:client ClusterStatus
type Status struct {
	// NodeID is the node that answers.
	NodeID string `json:"nodeId"`
	// Ready reports whether this node may be sent requests: there is no reason against it.
	Ready bool `json:"ready"`
	// Reasons are why it is not ready, in the order of Causes; see patience for how they are
	// damped.
	Reasons []Reason `json:"reasons"`
	// Groups are billing and workspace, in this order.
	Groups []GroupStatus `json:"groups"`
	// Members are all nodes, this one included.
	Members []MemberStatus `json:"members"`
	// DiskFreeBytes is the free space under the data folder; DiskLow reports whether it is
	// below the reserve: as the leader this node hands over, or refuses writes.
	DiskFreeBytes int64 `json:"diskFreeBytes"`
	DiskLow       bool  `json:"diskLow"`
	// DiskReserveBytes is the free space that must remain.
	DiskReserveBytes int64 `json:"diskReserveBytes"`
	// MemoryLiveBytes is the memory that is in use after a collection, 0 where there is no limit;
	// MemoryLow reports whether writes that would make the state grow are refused.
	MemoryLiveBytes int64 `json:"memoryLiveBytes"`
	MemoryLow       bool  `json:"memoryLow"`
	// ClockAheadMS is how far this node's clock is ahead of the median of the voters' clocks.
	ClockAheadMS int64 `json:"clockAheadMs"`
	// ClockCompared reports whether a majority of the voters' clocks was heard in the last 30 s.
	ClockCompared bool `json:"clockCompared"`
}

// Roles of a MemberStatus.
const (
	RoleLeader   = "leader"
	RoleFollower = "follower"
	RoleLearner  = "learner"
	RoleDown     = "down"
)

// role derives a member's role from the rest of its status.
func (m *MemberStatus) role() string {
	switch {
	case !m.Reachable:
		return RoleDown
	case m.Leader:
		return RoleLeader
	case m.Voter:
		return RoleFollower
	}
	return RoleLearner
}

// MemberStatus is one node, as seen from here.
//
//schema:client ClusterMember
type MemberStatus struct {
	Member
	// Disk is the identity of its data folder, "" as long as no leader has met it.
	Disk string `json:"disk"`
	// Voter reports whether both groups count its vote.
	Voter bool `json:"voter"`
	// Leader reports whether it leads the billing group.
	Leader bool `json:"leader"`
	// Role is leader (of the billing group), follower, learner (it has no vote) or down (it does
	// not answer).
	Role string `json:"role"`
	// Reachable reports whether it answered within the last 3 s.
	Reachable bool `json:"reachable"`
	// LastSeenAt is when a member that is down last answered this node; nil when it never has since
	// this node's process began, and while it is reachable.
	LastSeenAt *time.Time `json:"lastSeenAt,omitempty"`
	// ClockAheadMS is how far its clock is ahead of this node's, 0 when unknown or not reachable.
	ClockAheadMS int64 `json:"clockAheadMs"`
	// Problem says why the node cannot take part; it is empty if no problem is known.
	Problem string `json:"problem"`
	// Version is the newest cluster version that its build knows, -1 while it is not reachable.
	Version int64 `json:"version"`
	// RoundTripUS is the last measured round trip to it, in microseconds; 0 while it is not
	// reachable.
	RoundTripUS int64 `json:"roundTripUs"`
}

// GroupStatus is one Raft group on one node.
//
//schema:client ClusterGroup
type GroupStatus struct {
	Shard uint16 `json:"shard"`
	Name  string `json:"name"`
	// Role is leader, follower, candidate or shutdown.
	Role string `json:"role"`
	// Leader is the id of the leader, "" when none is known.
	Leader string `json:"leader"`
	Term   uint64 `json:"term"`
	// CommitIndex, AppliedIndex and LastIndex are this node's; SnapshotIndex its newest snapshot's.
	// FirstIndex is the oldest entry of its log, 0 for none: a node that has none of it and behind
	// gets a snapshot.
	CommitIndex  uint64 `json:"commitIndex"`
	AppliedIndex uint64 `json:"appliedIndex"`
	// Lag is how many committed entries the machine has yet to take. Those of Raft's own, which no
	// machine sees, do not count once nothing else waits.
	Lag           uint64 `json:"lag"`
	LastIndex     uint64 `json:"lastIndex"`
	FirstIndex    uint64 `json:"firstIndex"`
	SnapshotIndex uint64 `json:"snapshotIndex"`
	// Lease reports whether this node answers linearizable reads from its own memory; LeaseAgeMS is
	// how long ago a majority last answered it, -1 when it does not lead.
	Lease      bool  `json:"lease"`
	LeaseAgeMS int64 `json:"leaseAgeMs"`
	// LastContactMS is how long ago this node had all that its leader had committed, 0 on the
	// leader, -1 when never since it began.
	LastContactMS int64 `json:"lastContactMs"`
	// StalenessMS is how old a stale read may be.
	StalenessMS int64 `json:"stalenessMs"`
	QueueStatus
	WorkStatus
	// SegmentsMissing counts journal segments that this node has yet to fetch.
	SegmentsMissing int `json:"segmentsMissing"`
	// Keys are the idempotency keys; nil in a group that keeps none.
	Keys *KeyStatus `json:"keys,omitempty"`
	// StandsForElection is false while this node's clock is too far off, or was not compared.
	StandsForElection bool `json:"standsForElection"`
	// StateHash is the rolling hash of everything applied up to StateIndex, in hex: the same on
	// every node that has applied as much.
	StateIndex uint64 `json:"stateIndex"`
	StateHash  string `json:"stateHash"`
	// Stamp is the newest applied stamp (log time), in milliseconds since 1970 UTC.
	Stamp int64 `json:"stamp"`
	// Version is the cluster version that the group has agreed on.
	Version uint32 `json:"version"`
	// SnapshotAt is when this process last wrote a snapshot; zero when it has not.
	SnapshotAt time.Time `json:"snapshotAt"`
}

// QueueStatus is the work that waits in a group on one node.
type QueueStatus struct {
	// QueueBytes is what the leader's queue holds; ForwardBytes what was sent to the leader and
	// not answered; InFlight the number of entries handed to Raft and not yet applied. WaitingBytes
	// is what calls hold that wait for a leader. QueueLimitBytes is how much each of the three
	// bytes may come to; beyond, writes are refused.
	QueueBytes      int `json:"queueBytes"`
	ForwardBytes    int `json:"forwardBytes"`
	InFlight        int `json:"inFlight"`
	WaitingBytes    int `json:"waitingBytes"`
	QueueLimitBytes int `json:"queueLimitBytes"`
}

// WorkStatus is what a group has done on one node.
type WorkStatus struct {
	// Batches and Records count what this node proposed as leader; LogBytes is the log on disk,
	// Syncs its fsyncs since the process began.
	Batches  uint64 `json:"batches"`
	Records  uint64 `json:"records"`
	LogBytes int64  `json:"logBytes"`
	Syncs    uint64 `json:"syncs"`
}

// KeyStatus is where a node has a group's idempotency keys.
//
//schema:client ClusterKeys
type KeyStatus struct {
	// InMemory and OnDisk count them; OnDisk have left memory, and are in files. Uncovered of these
	// are in none yet: until they are, this node records no usage events.
	InMemory  uint64 `json:"inMemory"`
	OnDisk    uint64 `json:"onDisk"`
	Uncovered uint64 `json:"uncovered"`
	// Failures counts tries to make or merge files that failed, since the process began; Problem is
	// why the last one did, "" where it did not. HeldUpBy are, on the leader, the voters whose
	// files are behind: keys wait in memory for them, for a while.
	Failures uint64   `json:"failures"`
	Problem  string   `json:"problem,omitempty"`
	HeldUpBy []string `json:"heldUpBy,omitempty"`
	// Files are the files, which have FileKeys keys, those included that are in memory, too;
	// FileBytes is their length, FilterBytes what they take in memory.
	Files       uint64 `json:"files"`
	FileKeys    uint64 `json:"fileKeys"`
	FileBytes   uint64 `json:"fileBytes"`
	FilterBytes uint64 `json:"filterBytes"`
	// Probes are keys that were looked for in files, FilterHits how often a filter could not
	// exclude it, PageReads the pages that were read then, Damages the files found damaged, since
	// the process began.
	Probes     uint64 `json:"probes"`
	FilterHits uint64 `json:"filterHits"`
	PageReads  uint64 `json:"pageReads"`
	Damages    uint64 `json:"damages"`
}

// Cause names why a node should not be sent requests. The names are fixed: operators' tools know
// them.
type Cause string

// Causes, in the order in which a node looks for them.
const (
	// CauseStopping: it was told to stop, and hands over what it leads.
	CauseStopping Cause = "stopping"
	// CauseNotJoined: it waits for `tollgate cluster join`.
	CauseNotJoined Cause = "not_joined"
	// CauseRemoved: it is no longer a member, or not yet.
	CauseRemoved Cause = "removed"
	// CauseNoLeader: a group knows no leader.
	CauseNoLeader Cause = "no_leader"
	// CauseNotCaughtUp: a group has not come, since the process began, to where its leader is.
	CauseNotCaughtUp Cause = "not_caught_up"
	// CauseBehind: what a group has in memory is older than readyStaleness.
	CauseBehind Cause = "behind"
	// CauseSegmentsMissing: journal segments are yet to be fetched.
	CauseSegmentsMissing Cause = "segments_missing"
	// CauseKeysUncovered: files of idempotency keys that left memory have yet to be made.
	CauseKeysUncovered Cause = "keys_uncovered"
	// CauseClockNotCompared: the clocks of too few voters are known.
	CauseClockNotCompared Cause = "clock_not_compared"
	// CauseClockOff: the clock is too far from the median of the voters'.
	CauseClockOff Cause = "clock_off"
	// CauseDiskLow: the disk is nearly full; as the leader this node hands over, or refuses writes.
	CauseDiskLow Cause = "disk_low"
	// CauseDiskSilent: the disk has not answered for a while; it ends the process when it goes on.
	CauseDiskSilent Cause = "disk_silent"
)

// Causes lists all of them.
func Causes() []Cause {
	return []Cause{
		CauseStopping, CauseNotJoined, CauseRemoved, CauseNoLeader, CauseNotCaughtUp, CauseBehind,
		CauseSegmentsMissing, CauseKeysUncovered, CauseClockNotCompared, CauseClockOff, CauseDiskLow,
		CauseDiskSilent,
	}
}

// Reason is why a node should not be sent requests: a cause in one group, or in the node as a whole
// (no group), and what it is in words.
//
//schema:client ClusterReason
type Reason struct {
	Cause Cause  `json:"cause"`
	Group string `json:"group,omitempty"`
	Text  string `json:"text"`
}

// String is the group and the words.
func (r Reason) String() string {
	if r.Group == "" {
		return r.Text
	}
	return r.Group + ": " + r.Text
}

// Words are all reasons in words, in one line.
func Words(reasons []Reason) string {
	texts := make([]string, len(reasons))
	for i, r := range reasons {
		texts[i] = r.String()
	}
	return strings.Join(texts, "; ")
}
