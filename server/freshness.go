package server

import (
	"time"

	"tollgate/engine"
)

// Fresh waits until the node's own memory holds every write that was acknowledged anywhere before
// the call, for readers that look at it piece by piece and cannot begin again: it asks at once
// whether the ticket stands, since the machine may have slept under its lease. What is read then is
// no older. False when that did not happen before the deadline.
func Fresh(r Reader, deadline time.Time) bool {
	for {
		ticket, outcome := r.BeginRead(deadline)
		if outcome != engine.OutcomeDone {
			return false
		}
		if r.ReadStands(ticket) {
			return true
		}
		if !time.Now().Before(deadline) {
			return false
		}
	}
}
