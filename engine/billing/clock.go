package billing

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/period"
)

// maxAdvanceMS bounds one AdvanceClock: five years.
const maxAdvanceMS = (5*365 + 2) * accounts.DayMS

// AdvanceClock moves a sandbox's clock forward. Everything due by then happens, each at its own
// instant. Ticks do the work, and ClockSettled reports when it is done.
type AdvanceClock struct {
	Env uint32 `wire:"1"`
	// To is on the environment's clock, in milliseconds.
	To int64 `wire:"2" json:"advanceTo" as:"time" rule:"required"`

	Actor string `wire:"3"`
}

func (c *AdvanceClock) apply(t *turn, e *accounts.Environment) engine.Outcome {
	now := e.Now(t.Stamp)
	if outcome := advances(e, now, c.To); outcome.Refused() {
		return outcome
	}
	e.Offset.Store(c.To - t.Stamp)
	t.Requeue(e)
	t.Fold(uint64(c.To))
	t.NoteChange(c.Env, c.Actor, "clock.advanced", "",
		accounts.Changed("clock", period.Format(now), period.Format(c.To)))
	return engine.OutcomeDone
}

// advances reports whether an environment's clock may move from an instant to another.
func advances(e *accounts.Environment, now, to int64) engine.Outcome {
	switch {
	case e.Kind != accounts.EnvironmentSandbox:
		return engine.OutcomeClockLive
	case to <= now:
		return engine.OutcomeClockBackwards
	case to-now > maxAdvanceMS || to > maxInstant:
		return engine.OutcomeClockTooFar
	}
	return engine.OutcomeDone
}

// Advances says what AdvanceClock answers for an instant at a log time.
func (m *accountReader) Advances(env uint32, to, now int64) engine.Outcome {
	e := m.state.Load().Environment(env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	return advances(e, e.Now(now), to)
}

// maxInstant is the last instant that a clock may be set to: the year 9000.
const maxInstant = 221_845_392_000_000

// ClockSettled reports whether everything due by an environment's clock has happened.
func (m *accountReader) ClockSettled(env uint32) bool {
	s := m.state.Load()
	e := s.Environment(env)
	return e == nil || e.Due.Load() > e.Now(s.Log.Stamp())
}

// ClockSettledTo reports whether an environment's clock has reached an instant and everything due
// by then has happened. It differs from ClockSettled in two ways: a node that has not applied the
// advance yet answers no, and it does not wait for what fell due after the instant.
func (m *accountReader) ClockSettledTo(env uint32, to int64) bool {
	s := m.state.Load()
	e := s.Environment(env)
	return e == nil || e.Now(s.Log.Stamp()) >= to && e.Due.Load() > to
}

// FellDue counts what happened in an environment between two instants of its clock.
type FellDue struct {
	Issued, PastDue  uint32 // invoices
	Suspended, Ended uint32 // subscriptions
}

// maxFellDue bounds the customers that FellDue examines.
const maxFellDue = 20_000

// FellDue counts an environment's changes after one instant of its clock, up to another, that are
// still in force: an invoice that was paid since is not past due. It counts nothing in an
// environment with more than maxFellDue customers.
func (m *customerReader) FellDue(env uint32, from, to int64) (all FellDue) {
	s, left := m.state.Load(), maxFellDue
	within := func(at int64) bool { return at > from && at <= to }
	for row := uint32(1); row <= s.whole.customers.Load(); row++ {
		if s.Customers.Read(row).Env != env {
			continue
		}
		if left--; left < 0 {
			return FellDue{}
		}
		for _, v := range m.Invoices(env, row) {
			if v.Status == book.InvoicePending {
				continue
			}
			if within(v.CreatedAt) {
				all.Issued++
			}
			if v.Status == book.InvoicePastDue && within(v.DueDate) {
				all.PastDue++
			}
		}
		for _, v := range m.Subscriptions(row) {
			if within(v.SuspendedAt) {
				all.Suspended++
			}
			if within(v.EndedAt) {
				all.Ended++
			}
		}
	}
	return all
}

// UsageWindow returns the reading of an environment's clock when the node's clock reads nowMS, and
// the first and last instant that a usage event's occurredAt may then have. Right after the window
// was widened, keys from before may be gone, so older events are still refused.
func (m *accountReader) UsageWindow(env uint32, nowMS int64) (now, earliest, latest int64) {
	now = m.EnvironmentNow(env, nowMS)
	return now, now - m.state.Load().Limits.Load().WindowMS, now + aheadMS
}
