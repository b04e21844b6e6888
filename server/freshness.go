package server

import (
	"strconv"
	"time"

	"tollgate/engine"
)

// ConsistencyParam is the header by which a request asks for a read of the node's own memory.
func ConsistencyParam() Param {
	return Param{
		In: "header", Name: "X-Read-Consistency", Schema: EnumSchema("stale"),
		About: "stale reads the asked node's own memory and says its age in X-Staleness-Ms",
	}
}

// Consistency reads X-Read-Consistency: absent is linearizable. It is not known when it is another
// word than stale.
func Consistency(x *Exchange) (stale, known bool) {
	switch string(x.Ctx.Request.Header.Peek("X-Read-Consistency")) {
	case "":
		return false, true
	case "stale":
		return true, true
	}
	return false, false
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
