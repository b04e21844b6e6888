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

// TestOverdueHoldsAreOfTheLogsInstant: a query whose clock is ahead frees nothing, for itself or
// for those behind it. Where no entry has come for a second it frees what is over by its clock, for
// itself and not for those whose clocks are right.
func TestOverdueHoldsAreOfTheLogsInstant(t *testing.T) {
	s := newOverdue(t)
	q := billing.CheckQuery{
		Env: enginetest.Sandbox, Customer: []byte("bob"), Feature: []byte("words"),
		Now: s.Stamp + 600_000, Track: true, Units: decimal.FromInt(3),
	}
	var d billing.Decision
	s.m.Check(&q, &d)
	require.Equal(t, billing.ReasonBudgetExceeded, d.Reason)
	v, _ := s.m.Budget(enginetest.Sandbox, "all", q.Now)
	require.Equal(t, "8", v.Limits[0].Held.String())
	s.sees("8", 2)

	for range 2 {
		q.Now = s.Stamp + 601_000
		d = billing.Decision{}
		s.m.Check(&q, &d)
		require.Equal(t, billing.ReasonAllowed, d.Reason)
		v, _ = s.m.Budget(enginetest.Sandbox, "all", q.Now)
		require.Equal(t, "0", v.Limits[0].Held.String())
		require.Equal(t, billing.ReasonBudgetExceeded, s.check(3).Reason, "before any view")
		s.sees("8", 2)
	}
	s.later(600_000, "carl")
	s.sees("0", 10)
}

// TestEntitlementsCatchUpWithoutALock: where a budget is put once they have, they begin again, and
// add nothing up while the customer's lock keeps Apply waiting.
func TestEntitlementsCatchUpWithoutALock(t *testing.T) {
	s := overdue{newBudgetSandbox(t, inUSD("10"))}
	enginetest.NewCustomer(s.Log, "bob", "prepaid")
	s.put("bob", "all", "bob")
	s.reserveBoth("r", 6, 4)
	words := func() (reason billing.Reason) {
		list, ok := s.m.Entitlements(enginetest.Sandbox, "bob", s.Stamp)
		require.True(t, ok)
		for _, e := range list {
			if e.FeatureKey == "words" {
				reason = e.Decision.Reason
			}
		}
		return reason
	}
	require.Equal(t, billing.ReasonBudgetExceeded, words())
	s.later(600_000, "carl")
	require.Equal(t, billing.ReasonAllowed, words())
	require.False(t, billing.EntitlementsBehind(s.m, "bob", s.Stamp))
	s.put("top", "", "")
	require.True(t, billing.EntitlementsBehind(s.m, "bob", s.Stamp))
	require.True(t, billing.EntitlementsBehind(s.m, "bob", s.Stamp), "they have not caught up")
	require.Equal(t, billing.ReasonAllowed, words())
}

// TestHoldsInDeepTreesExpireInBoundedTicks: each visits all limits above it.
func TestHoldsInDeepTreesExpireInBoundedTicks(t *testing.T) {
	s := newBudgetSandbox(t)
	parent := ""
	for level := range 8 {
		key, customer := fmt.Sprint("level ", level), ""
		if level == 7 {
			key, customer = "ada", "ada"
			s.done(billing.KindMoveBudget, &billing.MoveBudget{
				Env: enginetest.Sandbox, Key: key, Parent: parent,
			})
			parent = "" // it stays
		}
		var limits []billing.LimitDocument
		for _, window := range []billing.Window{
			billing.WindowHour, billing.WindowDay, billing.WindowWeek, billing.WindowLifetime,
		} {
			for _, l := range []billing.LimitDocument{inUSD("100000"), ofCost("100000")} {
				l.Window = window
				limits = append(limits, l)
			}
		}
		s.put(key, parent, customer, limits...)
		parent = key
	}
	const many = 200
	s.done(billing.KindSetLimits, &billing.SetLimits{CustomerHolds: many, EnvironmentHolds: many})
	for n := range many {
		s.reserveBoth(fmt.Sprint("r", n), 4, 4)
	}
	s.Stamp += 600_000
	const perTick = billing.EntryWork / 4 / (2 * 2 * 64 / 8)
	require.GreaterOrEqual(t, settled(t, s.Log, oneStep), many/(perTick+1))
}

// TestManyOverdueHoldsHoldNothing: 100,000 reservations of one budget expire in one instant. The
// first check behind it is right, and so are those between the ticks that end them, and behind a
// budget that is put.
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
		v, _ := s.m.Budget(enginetest.Sandbox, "all", 0)
		for _, l := range v.Limits {
			require.Zero(t, l.Held)
		}
		require.Equal(t, engine.OutcomeDone, s.DoPayload(engine.KindTick, nil).Outcome)
		if ticks++; ticks == 1 { // a limit that has what is held from its beginning
			daily := inUSD("100000")
			daily.Window = billing.WindowDay
			s.done(billing.KindPutBudget, &billing.PutBudget{
				Env: enginetest.Sandbox, Key: "all", Name: "all",
				Limits: []billing.LimitDocument{daily, inUSD("100000")},
			})
		}
		free(100_000)
	}
	require.Greater(t, ticks, 1, "one entry does not end them all")
}
