package engine

// ReadTicket is the permission to answer a linearizable read from a node's own memory. The holder
// copies the value out, and then asks whether the ticket is still valid: a leader whose lease ended
// in between must not answer.
type ReadTicket struct {
	// Term is the Raft term in which the ticket was given.
	Term uint64
	// Leader reports whether the ticket rests on this node's lease, and so must be asked again. A
	// follower's ticket rests on a read index that it has already applied, and stays valid.
	Leader bool
}
