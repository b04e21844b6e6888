// Package wal is the log under raft: a raft.LogStore of segment files whose every record carries a
// checksum chained with the record before it.
//
// It promises four things. Records that StoreLogs acknowledged are read back unchanged after any
// crash, or the log refuses to open. A torn tail that is cut off is reported, never dropped
// silently. After the first write or fsync error nothing more is written (Poisoned). And no setting
// turns fsync off.
//
// FORMAT.md describes the bytes and the crash model, DESIGN.md the decisions. Cache keeps the
// newest records in memory, Dump prints a log, faultfs is a disk that fails on demand.
package wal
