package billing

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
	// Where each environment, subscription and pool stands in its heap.
	environments, subscriptions, pools rows.Chunks[uint32]
	// next is the earliest instant of all in log time, for NextDue; 0 when there is none.
	next atomic.Int64
}

// reschedule notes a subscription's next instant.
func (s *directory) reschedule(e *environment, row uint32, at int64) {
	e.dues.Set(&s.schedule.subscriptions, row, at)
	s.requeue(e)
}

// reschedulePool notes when the first of a pool's live grants expires.
func (s *vault) reschedulePool(row uint32) {
	p, at := s.pools.Read(row), int64(rows.Never)
	if !p.archived && p.nextExpiry != 0 {
		at = p.nextExpiry
	}
	e := s.environment(s.customers.Read(p.customer).env)
	e.poolDues.Set(&s.schedule.pools, row, at)
	s.requeue(e)
}

// requeue notes an environment's next instant, after one of its rows or its clock was moved.
func (s *directory) requeue(e *environment) {
	at := min(e.dues.First().At, e.poolDues.First().At)
	e.due.Store(at)
	if at != rows.Never {
		at -= e.offset.Load()
	}
	q := &s.schedule.live
	if e.kind == EnvironmentSandbox {
		q = &s.schedule.sandbox
	}
	q.Set(&s.schedule.environments, e.number, at)
	next := min(s.schedule.live.First().At, s.schedule.sandbox.First().At)
	if next == rows.Never {
		next = 0
	}
	s.schedule.next.Store(next)
}

// dueBy returns the environment in which something is due at a log time: a live one where there is
// one, then the earliest; nil when nothing is due.
func (s *directory) dueBy(stamp int64) *environment {
	for _, q := range [...]*rows.Dues{&s.schedule.live, &s.schedule.sandbox} {
		if first := q.First(); first.At <= stamp {
			return s.environment(first.Row)
		}
	}
	return nil
}
