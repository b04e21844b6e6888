package billing_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// overdue is a budget of 10 USD for ada, who holds 8 of it, and bob.
type overdue struct{ *budgetSandbox }

func newOverdue(t *testing.T, more ...func(*billing.Reserve)) overdue {
	s := overdue{newBudgetSandbox(t, inUSD("10"))}
	enginetest.NewCustomer(s.Log, "bob", "prepaid")
	s.put("bob", "all", "bob")
	s.reserveBoth("r", 4, 4, more...)
	return s
}

// check is one for bob. Nothing is allocated for it.
func (s overdue) check(units int64) (d billing.Decision) {
	s.t.Helper()
	q := billing.CheckQuery{
		Env: enginetest.Sandbox, Customer: []byte("bob"), Feature: []byte("words"), Now: s.Stamp,
		Track: true, Units: decimal.FromInt(units),
	}
	require.Zero(s.t, testing.AllocsPerRun(20, func() { s.m.Check(&q, &d) }))
	return d
}

// sees holds what checks and views see of what ada holds: now, and after a restore. No tick comes.
func (s overdue) sees(held string, fits int64) {
	s.t.Helper()
	kept := s.m
	for _, m := range []*billing.Machine{kept, restored(s.t, enginetest.Snapshot(s.t, kept))} {
		s.m = m
		s.counts("all", "0", held)
		list, _, _ := m.Budgets(enginetest.Sandbox, "all", "", 10, 0)
		require.Len(s.t, list, 2)
		require.Equal(s.t, held, list[1].Binding.Held.String())
		require.Equal(s.t, decimal.FromInt(fits).String(), list[1].Binding.Remaining.String())
		require.Equal(s.t, billing.ReasonAllowed, s.check(fits).Reason)
		d := s.check(fits + 1)
		require.Equal(s.t, billing.ReasonBudgetExceeded, d.Reason)
		require.Equal(s.t, held, d.Refused.Held.String())
	}
	s.m = kept
}

// later lets time pass, with an entry that ends no reservation.
func (s overdue) later(ms int64, customer string) {
	s.Stamp += ms
	enginetest.NewCustomer(s.Log, customer, "")
}

// TestOverdueHoldsHoldNothing: before a tick, too, what another customer's reservation held of a
// budget is free from its instant on, for checks, views and events.
func TestOverdueHoldsHoldNothing(t *testing.T) {
	s := newOverdue(t)
	s.sees("8", 2)
	s.later(599_999, "carl")
	s.sees("8", 2)
	s.later(1, "dora")
	require.Equal(t, s.Stamp, s.m.NextDue(), "no tick came")
	s.sees("0", 10)
	require.Equal(t, engine.OutcomeDone, s.DoPayload(billing.KindRecordUsage,
		enginetest.Usage(s.Log, "e", "bob", "words", 10).Seal(nil)).Outcome)
	s.counts("all", "10", "0")
}

// TestOverdueHoldsThatAreBilledHold: what becomes usage at its expiry is not free before that, also
// where that was decided after it was reserved.
func TestOverdueHoldsThatAreBilledHold(t *testing.T) {
	s := newOverdue(t, refusesOverruns)
	s.refuses(engine.OutcomeBudgetExceeded, s.settleBoth("r", 20, 4))
	s.later(700_000, "carl")
	s.sees("8", 2)
	s.DoPayload(engine.KindTick, nil)
	s.counts("all", "8", "0")
	require.Equal(t, billing.ReasonAllowed, s.check(2).Reason)
	require.Equal(t, billing.ReasonBudgetExceeded, s.check(3).Reason)

	s = newOverdue(t, func(c *billing.Reserve) { c.SettleOnExpiry = true })
	s.later(700_000, "carl")
	s.sees("8", 2)
}

// TestExtendedHoldsAreNotOverdue: an extension counts from where it was made.
func TestExtendedHoldsAreNotOverdue(t *testing.T) {
	s := newOverdue(t)
	s.Stamp += 300_000
	s.done(billing.KindExtendReservation, &billing.ExtendReservation{
		Env: enginetest.Sandbox, ID: enginetest.ID("reservation r"), TTLMS: 600_000,
	})
	s.later(400_000, "carl")
	s.sees("8", 2)
	s.later(200_000, "dora")
	s.sees("0", 10)
}

// TestManyOverdueHoldsHoldNothing: 100,000 reservations of one budget expire in one instant. The
// first check behind it is right, and so are those between the ticks that end them, a move of the
// budget, and a change of its limits.
func TestManyOverdueHoldsHoldNothing(t *testing.T) {
	many := int64(100_000)
	if testing.Short() {
		many = 5_000
	}
	s := overdue{newBudgetSandbox(t, inUSD("100000"))}
	enginetest.NewCustomer(s.Log, "bob", "prepaid")
	s.put("bob", "all", "bob")
	s.done(billing.KindSetLimits, &billing.SetLimits{
		CustomerHolds: uint64(many), EnvironmentHolds: uint64(many),
	})
	for n := range many {
		c := enginetest.Reservation(fmt.Sprint("hold ", n), "ada", "words", 1)
		c.TTLMS = 600_000
		require.Equal(t, engine.OutcomeDone, s.Do(billing.KindReserve, c).Outcome)
	}
	rest := 100_000 - many
	free := func(units int64) {
		t.Helper()
		ask := func(units int64) (d billing.Decision) {
			s.m.Check(&billing.CheckQuery{
				Env: enginetest.Sandbox, Customer: []byte("bob"), Feature: []byte("words"), Now: s.Stamp,
				Track: true, Units: decimal.FromInt(units),
			}, &d)
			return d
		}
		require.Equal(t, billing.ReasonAllowed, ask(units).Reason)
		require.Equal(t, billing.ReasonBudgetExceeded, ask(units+1).Reason)
	}
	s.later(599_999, "carl")
	free(rest)
	s.later(1, "dora")
	free(100_000)
	ticks := 0
	for s.m.NextDue() <= s.Stamp {
		held := s.first("all").Held
		require.Zero(t, held)
		require.Equal(t, engine.OutcomeDone, s.DoPayload(engine.KindTick, nil).Outcome)
		switch ticks++; ticks {
		case 1:
			s.done(billing.KindPutBudget, &billing.PutBudget{Env: enginetest.Sandbox, Key: "top", Name: "top"})
		case 2:
			s.done(billing.KindMoveBudget, &billing.MoveBudget{
				Env: enginetest.Sandbox, Key: "all", Parent: "top",
			})
		}
		free(100_000)
	}
	require.Greater(t, ticks, 1, "one entry does not end them all")
}
