// Package engine holds what every replicated state machine of Tollgate has in common: the format
// of log entries, the named outcomes of commands, and the Machine interface through which the
// cluster drives one. The machines themselves are engine/billing and engine/workspace. Nothing
// below this folder reads a clock, draws a random number, does I/O or starts a goroutine.
package engine

import (
	"errors"
	"io"

	"tollgate/engine/journal"
)

// ErrHalt means that this replica must stop: an entry of an unknown kind or version, an entry that
// does not decode, or a state that differs from the leader's. Going on would diverge.
var ErrHalt = errors.New("engine: this replica must stop")

// Machine is one replicated state machine: a pure function of its log.
//
// The cluster calls Apply, Snapshot and Restore from one goroutine at a time, in log order. Every
// other method, and the queries that a domain adds, may be called from any goroutine concurrently
// with them.
type Machine interface {
	// Apply carries out one entry and describes its effects in out, which it resets first.
	// out.Results has one Result per record, in order. An error wraps ErrHalt, and the node stops.
	Apply(index uint64, entry []byte, out *Applied) error

	// Applied is the index of the last entry that was applied, or restored from a snapshot.
	Applied() uint64
	// Stamp is the newest stamp that was applied, in milliseconds since 1970 UTC.
	Stamp() int64
	// NextDue is the instant (log time) at which the next timer falls due, 0 when there is none.
	// The leader proposes a KindTick record when it is reached.
	NextDue() int64
	// StateHash is the rolling hash of everything applied so far, and the index it belongs to.
	StateHash() (index, hash uint64)

	// Version is the cluster version that the log has agreed on, and the newest that this machine
	// knows: see Version. Since is the agreed version from which a record, and the one it may
	// carry, can be proposed.
	Version() (agreed, known uint32)
	Since(r Record) uint32

	// Snapshot fixes the present state in under a millisecond; it is written concurrently with
	// later Applys. One snapshot at a time: Release must come before the next Snapshot.
	Snapshot() (Snapshot, error)
	// Restore replaces the whole state by that of a Snapshot. Journal segments that the state lists
	// are not in it: see Segments.
	Restore(src io.Reader) error

	// Journal is the machine's append-only record of usage and audit events; nil when it keeps
	// none.
	Journal() *journal.Journal
}

// An Answerer is a Machine that answers questions in bytes, so that another node can ask them.
type Answerer interface {
	// Answer answers a question from the applied state; the answer is empty when the question is
	// malformed. It does not retain the question and is safe for concurrent use.
	Answer(question []byte) []byte
}

// Snapshot is a state that was fixed by Machine.Snapshot.
type Snapshot interface {
	// Index is the last entry that the snapshot contains.
	Index() uint64
	// WriteTo writes it in blocks of 64 KiB to 1 MiB. It runs concurrently with Apply.
	WriteTo(dst io.Writer) (int64, error)
	// Pressed reports whether Apply will soon wait for WriteTo, which should not rest then. It is
	// for the goroutine of WriteTo.
	Pressed() bool
	// Segments lists the journal segments that the snapshot refers to. The snapshot is final only
	// when each of them is on disk.
	Segments() []journal.SegmentInfo
	// Release ends the snapshot, written or not.
	Release()
}

// Applied describes the effects of one entry.
type Applied struct {
	// Results has one Result per record of the entry.
	Results []Result
	// Sealed are the journal segments that this entry cut. Their bytes never change again.
	Sealed []journal.Segment
}

// Reset empties a, keeping its memory.
func (a *Applied) Reset() {
	a.Results, a.Sealed = a.Results[:0], a.Sealed[:0]
}
