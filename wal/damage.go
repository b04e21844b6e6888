package wal

import (
	"errors"
	"fmt"
)

var (
	// ErrDamaged matches every DamageError (errors.Is).
	ErrDamaged = errors.New("wal: acknowledged records are damaged or missing")
	// ErrPoisoned is returned by writes after the first failed one; it wraps the failure.
	ErrPoisoned = errors.New("wal: refused, an earlier operation failed; restart the process")
	// ErrClosed means that the log was closed.
	ErrClosed = errors.New("wal: closed")
	// ErrGap means that a record does not have the index behind the last one. Nothing was written.
	ErrGap = errors.New("wal: record does not follow the last one")
	// ErrTooLarge means that MaxRecordBytes or MaxBatchBytes was exceeded. Nothing was written.
	ErrTooLarge = errors.New("wal: too large")
	// ErrHole means that a DeleteRange is neither a prefix nor a suffix. Nothing was deleted.
	ErrHole = errors.New("wal: a delete from the middle would leave a hole")
)

// Rejoin is the advice for a node whose log is damaged. A node that came back under its old id with
// an empty folder would have forgotten its vote, so it must come as a new member.
const Rejoin = "this node's copy is not safe to use and it will not start; to rejoin: " +
	"1. on a healthy node remove this node from the cluster, " +
	"2. move this node's data folder away and keep it, " +
	"3. start the node with an empty folder and add it as a new member; " +
	"it fetches everything from the others"

// DamageError names acknowledged data that this log can no longer give back.
type DamageError struct {
	// File is the path of the segment or of the manifest.
	File string
	// Offset is in bytes from the start of File.
	Offset int64
	// Index is of the first record that is lost, 0 if unknown.
	Index uint64
	// Reason describes the damage.
	Reason string
}

// Error names the place, the reason and the way back.
func (e *DamageError) Error() string {
	return fmt.Sprintf("wal: damaged: %s at offset %d, record %d: %s; %s",
		e.File, e.Offset, e.Index, e.Reason, Rejoin)
}

// Is makes errors.Is(err, ErrDamaged) true.
func (e *DamageError) Is(target error) bool { return target == ErrDamaged }

// Cut is a torn tail that Open removed: bytes of writes that a crash interrupted, so they were
// never acknowledged.
type Cut struct {
	// File is the path of the segment.
	File string
	// Offset is where the segment ends now, in bytes.
	Offset int64
	// Bytes is how much was removed, without the zeroes at the end.
	Bytes int64
	// Index is of the first record that was not whole; the log ends right before it. 0 if unknown.
	Index uint64
	// Reason describes the damage at Offset.
	Reason string
}
