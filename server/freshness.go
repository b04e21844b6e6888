package server

import (
	"strconv"
	"time"

	"tollgate/engine"
)

// The header by which a request asks for a read of the node's own memory, and its one value.
const (
	consistencyHeader = "X-Read-Consistency"
	consistencyStale  = "stale"
)

// ConsistencyParam is the header by which a request asks for a read of the node's own memory.
func ConsistencyParam() Param {
	return Param{
		In: "header", Name: consistencyHeader, Schema: EnumSchema(consistencyStale),
		About: "stale reads the asked node's own memory and says its age in X-Staleness-Ms",
	}
}

// Consistency reads X-Read-Consistency: absent is linearizable. It is not known when it is another
// word than stale.
func Consistency(x *Exchange) (stale, known bool) {
	switch string(x.Ctx.Request.Header.Peek(consistencyHeader)) {
	case "":
		return false, true
	case consistencyStale:
		return true, true
	}
	return false, false
}

// OwnMemory reports whether another part of this process asks for what the node has, with or
// without a leader, of a row that clients cannot ask so.
func OwnMemory(x *Exchange) bool {
	stale, _ := Consistency(x)
	return stale && x.Called()
}

// NoteStaleness says in the answer how old the node's own memory may be, rounded up.
func NoteStaleness(x *Exchange, r Reader) {
	ms := (r.Staleness() + time.Millisecond - 1) / time.Millisecond
	var digits [20]byte
	x.Ctx.Response.Header.SetBytesV("X-Staleness-Ms", strconv.AppendInt(digits[:0], int64(ms), 10))
}

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

// cutOffWait is how long Current waits on a node that is known to be cut off.
const cutOffWait = 100 * time.Millisecond

// Current is Fresh for a page that can be shown from the node's own memory instead: a node that has
// heard of nothing for longer than patience is asked only briefly, so that its pages are not all
// held up.
func Current(r Reader, patience time.Duration) bool {
	wait := patience
	if r.Staleness() > patience {
		wait = min(wait, cutOffWait)
	}
	return Fresh(r, time.Now().Add(wait))
}

// ReadFresh runs answer over memory that holds every acknowledged write, once more where that did
// not hold throughout; so answer may run more than once. ok is false when the deadline has passed.
func ReadFresh(r Reader, deadline time.Time, answer func() *Fault) (fault *Fault, ok bool) {
	for time.Now().Before(deadline) {
		ticket, outcome := r.BeginRead(deadline)
		if outcome != engine.OutcomeDone {
			break
		}
		fault = answer()
		if r.ReadStands(ticket) {
			return fault, true
		}
	}
	return nil, false
}
