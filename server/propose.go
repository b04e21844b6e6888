package server

import (
	"strings"
	"time"

	"tollgate/engine"
	"tollgate/engine/billing"
)

// AdminKey is the name in the record of changes of whoever holds the admin key.
const AdminKey = "admin-key"

// By is who is recorded for what the request changes: the operator in whose name another part of
// this process calls, or the holder of the admin key. It is empty for a program's own key, whose
// requests are not administration. A name that is too long for a record is cut.
func (x *Exchange) By() string {
	switch {
	case x.Actor != "":
		return strings.ToValidUTF8(x.Actor[:min(len(x.Actor), billing.LongestActor)], "")
	case x.Route != nil && x.Route.Access == AccessOperator:
		return AdminKey
	}
	return ""
}

// Propose brings the commands of a request into the billing log. It is the one way there for both
// APIs and all pages: what an operator asks for enters the log as theirs, and so the record of
// changes. It panics where that record does not cover a command: a new one is to be added there.
func Propose(x *Exchange, m *billing.Machine, p Proposer, deadline time.Time,
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
	p.Propose(deadline, records, results)
}
