// Package billinglog is the one way of a request's commands into the billing log: who is recorded
// for what an operator asks, and what is carried out once by an Idempotency-Key.
package billinglog

import (
	"time"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
)

// It compiles where the record takes every name that the kit has cut.
var _ [billing.MaxActor - server.MaxActor]struct{}

// Propose brings the commands of a request into the billing log. It is the one way there for both
// APIs and all pages: what an operator asks for enters the log as theirs, and so the record of
// changes. It panics where that record does not cover a command: a new one is to be added there.
func Propose(x *server.Exchange, m *billing.Machine, p server.Proposer, deadline time.Time,
	records []engine.Record, results []engine.Result,
) {
	flow := x.Flow()
	for i := range records {
		records[i].Flow = flow
	}
	if by := x.By(); by != "" {
		signed := make([]engine.Record, len(records))
		for i := range records {
			var err error
			if signed[i], err = m.Administered(by, records[i]); err != nil {
				panic(err)
			}
			signed[i].Flow = flow
		}
		records = signed
	}
	step := x.Step("log")
	p.Propose(deadline, records, results)
	step.End()
}
