package billing

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/period"
)

// maxAdvanceMS is how far one AdvanceClock may go: five years.
const maxAdvanceMS = (5*365 + 2) * accounts.DayMS

// AdvanceClock moves a sandbox's clock forward. What is due by then happens, each at its own
// instant; ticks work it off, and ClockSettled says when it is done.
type AdvanceClock struct {
	Env uint32 `wire:"1"`
	To  int64  `wire:"2"` // on the environment's clock, in milliseconds

	Actor string `wire:"3"`
}

func (c *AdvanceClock) apply(t *turn) engine.Outcome {
	e := t.Environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	now := e.Now(t.Stamp)
	switch {
	case e.Kind != accounts.EnvironmentSandbox:
		return engine.OutcomeClockLive
	case c.To <= now:
		return engine.OutcomeClockBackwards
	case c.To-now > maxAdvanceMS || c.To > maxInstant:
		return engine.OutcomeClockTooFar
	}

	e.Offset.Store(c.To - t.Stamp)
	t.Requeue(e)
	t.Fold(uint64(c.To))
	t.NoteChange(c.Env, c.Actor, "clock.advanced", "",
		accounts.Changed("clock", period.Format(now), period.Format(c.To)))
	return engine.OutcomeDone
}

// maxInstant is the last instant that a clock may be set to: the year 9000.
const maxInstant = 221_845_392_000_000

// ClockSettled reports whether everything that is due by an environment's clock has happened.
func (m *accountReader) ClockSettled(env uint32) bool {
	s := m.state.Load()
	e := s.Environment(env)
	return e == nil || e.Due.Load() > e.Now(s.Log.Stamp())
}

// ClockSettledTo reports whether an environment's clock has reached an instant, and everything that
// was due by then has happened. Unlike ClockSettled it answers on any node: one that has not
// applied the advance yet says no. And since a clock runs on, it does not wait for what has fallen
// due meanwhile.
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

// maxFellDue is how many customers FellDue looks at.
const maxFellDue = 20_000

// FellDue counts an environment's changes after one instant of its clock, up to another, that are
// still in force: an invoice that was paid since is not past due. It counts nothing if the
// environment has very many customers.
func (m *customerReader) FellDue(env uint32, from, to int64) (all FellDue) {
	s, left := m.state.Load(), maxFellDue
	within := func(at int64) bool { return at > from && at <= to }
	for row := uint32(1); row <= s.Customers.Len(); row++ {
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

// UsageWindow says what the clock of an environment reads when the node's clock reads nowMS, and
// between which instants, both included, a usage event's occurredAt may be then. Where the window
// was widened a moment ago, keys of before may be gone, and what is older is refused all the same.
func (m *accountReader) UsageWindow(env uint32, nowMS int64) (now, earliest, latest int64) {
	now = m.EnvironmentNow(env, nowMS)
	return now, now - m.state.Load().Limits.Load().WindowMS, now + aheadMS
}
