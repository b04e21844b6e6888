package client

import (
	"time"

	"tollgate/engine"
	"tollgate/server"
	"tollgate/server/billinglog"
)

// consistency reads X-Read-Consistency.
func consistency(x *server.Exchange) (stale bool, fault *server.Fault) {
	stale, known := server.Consistency(x)
	if !known {
		return false, server.FieldFault("X-Read-Consistency", server.FieldNotAllowed,
			`must be "stale", or absent`)
	}
	return stale, nil
}

// read runs an answer that is copied out of the node's memory, at the consistency that the request
// asks for. answer may run more than once; it returns a fault, or has written the answer.
func (a *base) read(x *server.Exchange, answer func() *server.Fault) *server.Fault {
	stale, fault := consistency(x)
	if fault != nil {
		return fault
	}
	if stale {
		server.NoteStaleness(x, a.reader)
		return answer()
	}
	fault, ok := server.ReadFresh(a.reader, a.readDeadline(), answer)
	if !ok {
		return server.FaultConsistency
	}
	return fault
}

// propose brings one command of a request into the log.
func (a *base) propose(x *server.Exchange, kind engine.Kind, payload []byte) engine.Result {
	records := [1]engine.Record{a.machine.Repeatable(kind, payload, newID)}
	var results [1]engine.Result
	billinglog.Propose(x, a.machine, a.proposer, a.writeDeadline(), records[:], results[:])
	return results[0]
}

func (a *base) writeDeadline() time.Time { return time.Now().Add(a.writeTimeout) }

func (a *base) readDeadline() time.Time { return time.Now().Add(a.readTimeout) }

func (a *base) nowMS() int64 { return a.now().UnixMilli() }
