package client

import (
	"strconv"
	"time"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
)

// consistency reads X-Read-Consistency: absent is linearizable.
func consistency(x *server.Exchange) (stale bool, fault *server.Fault) {
	switch string(x.Ctx.Request.Header.Peek("X-Read-Consistency")) {
	case "":
		return false, nil
	case "stale":
		return true, nil
	default:
		f := server.FaultFields.With(`X-Read-Consistency must be "stale", or absent`)
		return false, &f
	}
}

// noteStaleness says how old the node's own memory may be, rounded up.
func (a *API) noteStaleness(x *server.Exchange) {
	ms := (a.config.Reader.Staleness() + time.Millisecond - 1) / time.Millisecond
	var digits [20]byte
	x.Ctx.Response.Header.SetBytesV("X-Staleness-Ms", strconv.AppendInt(digits[:0], int64(ms), 10))
}

// read runs an answer that is copied out of the node's memory, at the consistency that the request
// asks for. answer may run more than once; it returns a fault, or has written the answer.
func (a *API) read(x *server.Exchange, answer func() *server.Fault) {
	if fault := a.look(x, answer); fault != nil {
		x.Refuse(*fault)
	}
}

// look is read without an answer: it returns the fault.
func (a *API) look(x *server.Exchange, answer func() *server.Fault) *server.Fault {
	stale, fault := consistency(x)
	if fault != nil {
		return fault
	}
	if stale {
		a.noteStaleness(x)
		return answer()
	}
	deadline := a.readDeadline()
	for time.Now().Before(deadline) {
		ticket, outcome := a.config.Reader.BeginRead(deadline)
		if outcome != engine.OutcomeDone {
			break
		}
		fault := answer()
		if !a.config.Reader.ReadStands(ticket) {
			continue
		}
		return fault
	}
	return &server.FaultConsistency
}

// propose brings one command into the log.
func (a *API) propose(kind engine.Kind, payload []byte) engine.Result {
	records := [1]engine.Record{billing.Repeatable(kind, payload, newID)}
	var results [1]engine.Result
	a.config.Proposer.Propose(a.writeDeadline(), records[:], results[:])
	return results[0]
}
