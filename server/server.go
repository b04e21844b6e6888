// Package server is what the HTTP APIs have in common: the route table, authentication, envelopes,
// limits, and the small interfaces through which they reach the cluster. It never imports the
// cluster: cmd hands it a Proposer and a Reader. See DESIGN.md.
package server

import (
	"time"

	"tollgate/engine"
)

// Proposer brings commands into the replicated log.
type Proposer interface {
	// Propose brings records into the log, in order, on whichever node leads, and waits until each
	// has an outcome or the deadline has passed. results has the length of records and receives one
	// Result each; what became of records whose fate this node cannot learn is OutcomeUnknown.
	// Records may end up in several entries; those of one call stay in order. Payloads may be
	// reused when it returns. Safe for concurrent use.
	Propose(deadline time.Time, records []engine.Record, results []engine.Result)
}

// Reader decides when a node may answer from its own memory.
type Reader interface {
	// BeginRead returns once the node's own memory holds every write that was acknowledged anywhere
	// before the call. The outcome is OutcomeDone, or OutcomeUnavailable when no leader with a
	// quorum could be asked before the deadline.
	BeginRead(deadline time.Time) (engine.ReadTicket, engine.Outcome)
	// Behind reports whether this node applies writes so late that its leader answers sooner.
	Behind() bool
	// Ask has the leader answer a question of engine.Answerer, from a memory that holds every write
	// that was acknowledged anywhere before the call. It reports false where no answer came: then
	// BeginRead is the way. The question may be reused once Ask has returned.
	Ask(deadline time.Time, question []byte) (answer []byte, ok bool)
	// ReadStands says, after the value was copied out, that the ticket was valid throughout.
	ReadStands(engine.ReadTicket) bool
	// Staleness is how old the node's own memory may be; 0 on a leader under lease.
	Staleness() time.Duration
}
