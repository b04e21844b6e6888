package accounts

import (
	"sync/atomic"

	"tollgate/engine/billing/internal/rows"
)

// schedule is what falls due in a group. Of each environment one instant counts, in log time: the
// environments are heaps themselves, so that it does not matter how many there are.
type schedule struct {
	// live and sandbox are the environments by the instant at which something of them falls due.
	// Live ones come first: a sandbox whose clock was moved by years must not delay them.
	live, sandbox rows.Dues
	// Where each environment, subscription, pool and reservation stands in its heap.
	environments, subscriptions, Pools, holds rows.Chunks[uint32]
	// Next is the earliest instant of all in log time, for NextDue; 0 when there is none.
	Next atomic.Int64
}

// Reschedule notes a subscription's next instant.
func (s *Directory) Reschedule(e *Environment, row uint32, at int64) {
	e.Dues.Set(&s.Schedule.subscriptions, row, at)
	s.Requeue(e)
}

// RescheduleHold notes when a reservation expires.
func (s *Directory) RescheduleHold(e *Environment, row uint32, at int64) {
	e.HoldDues.Set(&s.Schedule.holds, row, at)
	s.Requeue(e)
}

// Requeue notes an environment's next instant, after one of its rows or its clock was moved.
func (s *Directory) Requeue(e *Environment) {
	at := min(e.Dues.First().At, e.PoolDues.First().At, e.HoldDues.First().At)
	e.Due.Store(at)
	if at != rows.Never {
		at -= e.Offset.Load()
	}
	q := &s.Schedule.live
	if e.Kind == EnvironmentSandbox {
		q = &s.Schedule.sandbox
	}
	q.Set(&s.Schedule.environments, e.Number, at)
	next := min(s.Schedule.live.First().At, s.Schedule.sandbox.First().At)
	if next == rows.Never {
		next = 0
	}
	s.Schedule.Next.Store(next)
}

// DueBy returns the environment in which something is due at a log time: a live one where there is
// one, then the earliest; nil when nothing is due.
func (s *Directory) DueBy(stamp int64) *Environment {
	for _, q := range [...]*rows.Dues{&s.Schedule.live, &s.Schedule.sandbox} {
		if first := q.First(); first.At <= stamp {
			return s.Environment(first.Row)
		}
	}
	return nil
}
