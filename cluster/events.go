package cluster

import "time"

// Events are optional callbacks for metrics. They are read once, when the node opens; they run on
// the node's own goroutines and must return at once. A nil callback is not called.
type Events struct {
	// OnBatch: an entry of that many records and bytes was handed to Raft.
	OnBatch func(shard uint16, records, bytes int)
	// OnCommit: an entry came back applied, that long after it was handed to Raft.
	OnCommit func(shard uint16, d time.Duration)
	// OnStore: the log stored entries durably, fsync included, in that time.
	OnStore func(shard uint16, bytes int, d time.Duration)
	// OnSync: the disk took what was written to one file, or the names of a folder, in that time: of
	// the log, vote, snapshots or segments. Called from many goroutines at a time.
	OnSync func(shard uint16, d time.Duration)
	// OnApply: that many entries were applied in that time.
	OnApply func(shard uint16, entries int, d time.Duration)
	// OnEntry: one entry was carried out in that time, in which nothing else was applied.
	OnEntry func(shard uint16, d time.Duration)
	// OnForward: a frame of that many records and bytes went to the leader.
	OnForward func(shard uint16, records, bytes int)
	// OnSnapshot: a snapshot was written, of that size, in that time.
	OnSnapshot func(shard uint16, bytes int64, d time.Duration)
	// OnSnapshotFailed: no snapshot could be written. The log stays as long as it is until one is.
	OnSnapshotFailed func(shard uint16)
	// OnRestore: a snapshot was loaded into the state machine in that time.
	OnRestore func(shard uint16, d time.Duration)
	// OnLeader: this node learnt who leads; "" means nobody.
	OnLeader func(shard uint16, leader string, term uint64)
	// OnLease: this node got (true) or lost (false) the read lease.
	OnLease func(shard uint16, held bool)
}
