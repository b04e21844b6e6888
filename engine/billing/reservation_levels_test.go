package billing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

func ofUnits(feature, limit string) billing.LimitDocument {
	return billing.LimitDocument{
		Of: billing.MeasureUnits, Feature: feature, Limit: decimal.MustParse(limit),
		Window: billing.WindowLifetime,
	}
}

func (s *budgetSandbox) extend(key string, units, seconds int64) engine.Result {
	return s.Do(billing.KindExtendReservation, &billing.ExtendReservation{
		Env: 1, ID: enginetest.ID("reservation " + key), Units: decimal.FromInt(units),
		TTLMS: seconds * 1000,
	})
}

func (s *budgetSandbox) freeze(key string, frozen bool) {
	s.t.Helper()
	s.done(billing.KindFreezeBudget, &billing.FreezeBudget{Env: 1, Key: key, Frozen: frozen})
}

// TestExtendingAsksTheBudgetThatCameLater: a reservation that was made before its customer had a
// budget holds there once it is to hold more.
func TestExtendingAsksTheBudgetThatCameLater(t *testing.T) {
	s := newBudgetSandbox(t)
	s.put("ada", "all", "")
	s.view(s.reserve("r", "words", 1))
	s.put("new", "", "ada", ofUnits("words", "10"))
	require.Empty(t, s.view(s.extend("r", 0, 900)).Budget, "it holds as much as before")
	s.counts("new", "0", "0")
	s.refuses(engine.OutcomeBudgetExceeded, s.extend("r", 11, 0))
	s.freeze("new", true)
	s.refuses(engine.OutcomeBudgetFrozen, s.extend("r", 2, 0))
	s.freeze("new", false)
	require.Equal(t, "new", s.view(s.extend("r", 10, 0)).Budget)
	s.counts("new", "0", "10")
	first := s.view(s.reserve("r", "words", 1))
	require.Equal(t, "1", first.Items[0].Granted.String())
	require.Empty(t, first.Budget, "the first answer stays")
	s.m = restored(t, enginetest.Snapshot(t, s.m))
	s.Machine = s.m
	s.view(s.settle("r", 4, func(c *billing.SettleReservation) { c.Partial = true }))
	s.counts("new", "4", "6")
	require.NoError(t, billing.HeldAddsUp(s.m))
	s.view(s.settle("r", 10))
	s.counts("new", "10", "0")
}

// TestAnOverrunBeyondABudgetIsMarked: the units that no level of the budget would have admitted.
func TestAnOverrunBeyondABudgetIsMarked(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		s := newBudgetSandbox(t, inUSD("12"))
		s.view(s.reserve("r", "words", 10))
		want := "3"
		if s.freeze("all", frozen); frozen {
			want = "5" // what is beyond the hold is as any event
		}
		require.Equal(t, want, s.view(s.settle("r", 15)).Items[0].Overrun.String())
		require.Equal(t, uint64(1), s.m.Stats().Overruns)
		s.counts("all", "15", "0")
		require.True(t, s.first("all").Overrun)
	}
}

// TestWhatABudgetAdmitsIsNoOverrun: it is counted beyond the hold, as any event; what another item
// gives back is free.
func TestWhatABudgetAdmitsIsNoOverrun(t *testing.T) {
	s := newBudgetSandbox(t, inUSD("10"))
	s.reserveBoth("r", 4, 4)
	v := s.view(s.settleBoth("r", 8, 2))
	require.True(t, v.Items[0].Overrun.IsZero() && v.Items[1].Overrun.IsZero())
	require.Zero(t, s.m.Stats().Overruns)
	s.counts("all", "10", "0")
}

// TestEachItemsOverrunIsMarked: items before it count whole, items behind it what they hold.
func TestEachItemsOverrunIsMarked(t *testing.T) {
	s := newBudgetSandbox(t, inUSD("10"))
	s.reserveBoth("r", 4, 4)
	v := s.view(s.settleBoth("r", 9, 5))
	require.Equal(t, "3 1", v.Items[0].Overrun.String()+" "+v.Items[1].Overrun.String())
	require.Equal(t, uint64(2), s.m.Stats().Overruns)
	s.counts("all", "14", "0")
}

// TestALateOverrunBeyondABudgetIsMarked: of what expiry had billed.
func TestALateOverrunBeyondABudgetIsMarked(t *testing.T) {
	s := newBudgetSandbox(t, inUSD("12"))
	c := enginetest.Reservation("r", "ada", "words", 10)
	s.expireBilled(c)
	s.counts("all", "10", "0")
	require.Equal(t, "3", s.view(s.settle("r", 15, s.originals("r"))).Items[0].Overrun.String())
	s.counts("all", "15", "0")
}

// TestAHoldCoversASettlementOfAnotherPeriod: of the one before, in which the units were dearer.
func TestAHoldCoversASettlementOfAnotherPeriod(t *testing.T) {
	s := newBudgetSandbox(t, inUSD("14"))
	sub, ok := s.m.Subscription(1, enginetest.ID("subscription ada prepaid"))
	require.True(t, ok)
	s.done(billing.KindMarkInvoicePaid, &billing.MarkInvoicePaid{
		Env: 1, ID: enginetest.ID("invoice ada prepaid"),
	})
	s.Stamp = sub.PeriodEnd + 86_400_000
	s.DoPayload(engine.KindTick, nil)
	require.Equal(t, engine.OutcomeDone, s.event("e", "falling", 10)) // others cost 0.1
	s.refuses(engine.OutcomeBudgetExceeded, s.reserve("r", "falling", 5))
	s.view(s.reserve("r2", "falling", 4))
	s.counts("all", "10", "4")
	s.view(s.settle("r2", 4, func(c *billing.SettleReservation) {
		c.OccurredAt = sub.PeriodEnd - 86_400_000
	}))
	s.counts("all", "14", "0")
	require.False(t, s.first("all").Overrun)
}

// TestAnEventThatIsThereIsAPartsAnswer: by whichever call, and whether or not the settlement adds
// anything.
func TestAnEventThatIsThereIsAPartsAnswer(t *testing.T) {
	named := func(partial bool) func(*billing.SettleReservation) {
		return func(c *billing.SettleReservation) { c.EventKey, c.Partial = "mine", partial }
	}
	for _, partial := range []bool{false, true} {
		s := newHeldSandbox(t)
		s.reserve("r", "calls", 75)
		s.view(s.settle("r", 20, func(c *billing.SettleReservation) { c.Partial = true }))
		require.Equal(t, engine.OutcomeDone, s.event("mine", "calls", 60))
		units := int64(20)
		if partial {
			units = 30
			s.used("calls", 80, 55)
			s.view(s.settle("r", 20, named(true)))
			s.used("calls", 80, 55) // a part that adds nothing is one that was repeated
		}
		for range 2 {
			v := s.view(s.settle("r", units, named(partial)))
			require.True(t, v.Recorded)
			require.Equal(t, "mine", v.Event)
			require.Equal(t, billing.ReservationSettled, v.State)
			s.used("calls", 80, 0)
		}
	}
}

// TestACheckSaysWhatTheEventGets: of usage that adds nothing to a limit that is full.
func TestACheckSaysWhatTheEventGets(t *testing.T) {
	s := newBudgetSandbox(t, inUSD("5"), ofCost("0"))
	require.Equal(t, engine.OutcomeDone, s.event("e", "words", 5))
	require.Equal(t, billing.ReasonBudgetExceeded, s.check("words", 1).Reason)
	require.Equal(t, billing.ReasonBudgetExceeded, s.check("videos", 0).Reason, "it is full")
	require.Equal(t, billing.ReasonAllowed, s.check("videos", 1).Reason) // credits pay it
	require.Equal(t, engine.OutcomeDone, s.event("e2", "videos", 1))
	s.view(s.reserve("r", "videos", 1))
}

// TestWhatExpiryCannotBillHasExpired: its cost leaves the range of numbers, and a later settlement
// is an ordinary event.
func TestWhatExpiryCannotBillHasExpired(t *testing.T) {
	s := newBudgetSandbox(t)
	c := enginetest.Reservation("r", "ada", "words", 10)
	c.SettleOnExpiry = true
	s.view(s.Do(billing.KindReserve, c))
	costs := func(unit string) {
		s.done(billing.KindApplyCatalog, enginetest.ApplyCatalog(1, billing.CatalogDocument{
			Features: []billing.FeatureDocument{
				{Key: "words", HasCost: true, CostPerUnit: decimal.MustParse(unit)},
			},
		}))
	}
	costs("900000000000000000000000")
	s.Stamp += 600_000
	s.DoPayload(engine.KindTick, nil)
	v, _ := s.m.Reservation(1, c.ID, s.Stamp)
	require.Equal(t, billing.ReservationExpired, v.State)
	costs("1")
	require.True(t, s.view(s.settle("r", 4)).Late)
	s.used("words", 4, 0)
}
