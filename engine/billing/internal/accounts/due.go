package accounts

import (
	"sync/atomic"

	"tollgate/engine/billing/internal/rows"
)

// schedule has what falls due in a group. Each environment counts with one instant, in log time.
// The environments are heaps themselves, so their number does not matter.
type schedule struct {
	// live and sandbox have the environments by their next due instant. Live ones come first: a
	// sandbox whose clock moved by years must not delay them.
	live, sandbox rows.Dues
	// Places of environments, subscriptions, pools and reservations in their heaps.
	environments, subscriptions, Pools, holds rows.Chunks[uint32]
	// Next is the earliest instant of all in log time, for NextDue; 0 if there is none.
	Next atomic.Int64
}

// Reschedule sets a subscription's next instant.
func (s *Directory) Reschedule(e *Environment, row uint32, at int64) {
	e.Dues.Set(&s.Schedule.subscriptions, row, at)
	s.Requeue(e)
}

// RescheduleHold sets the instant when a reservation expires.
func (s *Directory) RescheduleHold(e *Environment, row uint32, at int64) {
	before := e.HoldDues.First().At
	e.HoldDues.Set(&s.Schedule.holds, row, at)
	if e.HoldDues.First().At != before {
		s.Requeue(e)
	}
}

// Requeue updates an environment's next instant after one of its rows or its clock moved.
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

// DueBy returns an environment with something due at a log time: live ones first, then the
// earliest; nil if nothing is due.
func (s *Directory) DueBy(stamp int64) *Environment {
	for _, q := range [...]*rows.Dues{&s.Schedule.live, &s.Schedule.sandbox} {
		if first := q.First(); first.At <= stamp {
			return s.Environment(first.Row)
		}
	}
	return nil
}
