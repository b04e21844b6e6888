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

// late records an event that occurred before.
func (s *heldSandbox) late(key, feature string, units, at int64) engine.Outcome {
	c := enginetest.Usage(s.Log, key, "ada", feature, units)
	c.OccurredAt = at
	return s.DoPayload(billing.KindRecordUsage, c.Seal(nil)).Outcome
}

// hardLimit is a price with a hard limit of 500.
func hardLimit(reset string) billing.PricingDocument {
	return billing.PricingDocument{
		PricePerUnit: decimal.FromInt(1), HasMax: true, MaxUsage: decimal.FromInt(500),
		LimitMode: "hard", ResetMode: reset,
	}
}

// passed checks that neither an event of now nor a late one, nor an amendment of a late one, takes
// what a reservation of 450 holds of a limit of 500.
func (s *heldSandbox) passed(feature string, early int64) {
	require.Equal(s.t, engine.OutcomeDone, s.late("e0", feature, 10, early))
	s.view(s.reserve("r", feature, 450))
	require.Equal(s.t, engine.OutcomeHardLimit, s.event("e1", feature, 41))
	require.Equal(s.t, engine.OutcomeHardLimit, s.late("e2", feature, 41, early))
	src := &enginetest.Source{Journal: s.m.Journal()}
	key := billing.UsageKey(enginetest.Sandbox, []byte("e0"))
	ref, found, err := s.m.FindUsage(src, nil, enginetest.Sandbox, key)
	require.NoError(s.t, err)
	require.True(s.t, found)
	amend := func(units int64) engine.Outcome {
		return s.Do(billing.KindAmendUsage, &billing.AmendUsage{
			Env: enginetest.Sandbox, Key: key, Original: ref, Units: decimal.FromInt(units),
			ID: enginetest.ID("amendment"),
		}).Outcome
	}
	require.Equal(s.t, engine.OutcomeHardLimit, amend(51))
	require.Equal(s.t, engine.OutcomeDone, amend(20))
	require.False(s.t, s.late("e3", feature, 30, early).Refused())
	v := s.view(s.settle("r", 450))
	require.True(s.t, v.Items[0].Overrun.IsZero())
	s.used(feature, 500, 0)
}

// TestLateUsageLeavesWhatIsHeld: of the span before an upgrade, and of one before a counter that
// accumulates went on.
func TestLateUsageLeavesWhatIsHeld(t *testing.T) {
	s := newHeldSandbox(t)
	doc := enginetest.PrepaidPlan()
	doc.Features = append(doc.Features, billing.FeatureDocument{Key: "calls"})
	p := &doc.Plans[0]
	p.Key = "more"
	p.Features = append(p.Features, billing.PlanFeatureDocument{
		Key: "calls", PricingType: "usage_based", Pricing: hardLimit(""),
	})
	require.Equal(t, engine.OutcomeDone,
		s.Do(billing.KindApplyCatalog, enginetest.ApplyCatalog(enginetest.Sandbox, doc)).Outcome)
	early := s.Stamp + 1000
	s.Stamp += 3_600_000
	require.Equal(t, engine.OutcomeDone, s.Do(billing.KindChangePlan, &billing.ChangePlan{
		Env: enginetest.Sandbox, ID: enginetest.ID("subscription ada prepaid"),
		ChangeID: enginetest.ID("c"), Plan: "more", Type: billing.ChangeUpgrade,
	}).Outcome)
	s.Stamp += 3_600_000
	s.passed("calls", early)

	m := billing.New(billing.Config{})
	s = &heldSandbox{enginetest.NewLog(m, enginetest.Epoch), t, m}
	doc = enginetest.PrepaidPlan()
	doc.Features = append(doc.Features, billing.FeatureDocument{Key: "places"})
	doc.Plans[0].Features = append(doc.Plans[0].Features, billing.PlanFeatureDocument{
		Key: "places", PricingType: "usage_based", Pricing: hardLimit("accumulate"),
	})
	enginetest.NewAccount(s.Log, doc)
	enginetest.NewCustomer(s.Log, "ada", "prepaid")
	s.Do(billing.KindMarkInvoicePaid, &billing.MarkInvoicePaid{
		Env: enginetest.Sandbox, ID: enginetest.ID("invoice ada prepaid"),
	})
	s.Stamp += 30 * dayMS
	for at := s.m.NextDue(); at != 0 && at <= s.Stamp; at = s.m.NextDue() {
		s.DoPayload(engine.KindTick, nil)
	}
	s.passed("places", s.Stamp-3*dayMS)
}

// TestARefusingSettlementKeepsSoftLimits: what a reservation may not hold of a soft limit, a
// settlement that refuses overruns may not take; one that records them may.
func TestARefusingSettlementKeepsSoftLimits(t *testing.T) {
	s := newHeldSandbox(t) // seats have a soft limit of 100
	refuses := enginetest.Reservation("r", "ada", "seats", 20)
	refuses.RefuseOverrun = true
	s.view(s.Do(billing.KindReserve, refuses))
	s.view(s.reserve("other", "seats", 30))
	require.Equal(t, engine.OutcomeReservationShort, s.settle("r", 71).Outcome)
	s.used("seats", 0, 50)
	s.view(s.settle("r", 70))
	require.True(t, s.view(s.settle("other", 31)).Items[0].Overrun.IsZero(), "a soft limit records")
	s.used("seats", 101, 0)
}

// TestAmendmentsDoNotPassBudgets: what an event has more is asked for at the customer's own budget:
// of one that counted in none, and where the budget is frozen or archived.
func TestAmendmentsDoNotPassBudgets(t *testing.T) {
	s := newBudgetSandbox(t, inUSD("40"))
	amend := func(key string, units int64) engine.Outcome {
		src := &enginetest.Source{Journal: s.m.Journal()}
		k := billing.UsageKey(enginetest.Sandbox, []byte(key))
		ref, found, err := s.m.FindUsage(src, src, enginetest.Sandbox, k)
		require.NoError(t, err)
		require.True(t, found)
		return s.Do(billing.KindAmendUsage, &billing.AmendUsage{
			Env: enginetest.Sandbox, Key: k, Original: ref, Units: decimal.FromInt(units),
			ID: enginetest.ID(fmt.Sprint("amendment ", key, units, s.Index)),
		}).Outcome
	}
	enginetest.NewCustomer(s.Log, "bob", "prepaid")
	require.Equal(t, engine.OutcomeDone, s.DoPayload(billing.KindRecordUsage,
		enginetest.Usage(s.Log, "before", "bob", "words", 1).Seal(nil)).Outcome)
	s.put("bob", "all", "bob")
	s.counts("all", "0", "0")
	require.Equal(t, engine.OutcomeBudgetExceeded, amend("before", 100_000))
	s.counts("all", "0", "0")
	require.Equal(t, engine.OutcomeDone, amend("before", 41))
	s.counts("all", "40", "0")
	require.Equal(t, engine.OutcomeBudgetExceeded, amend("before", 42))
	require.Equal(t, engine.OutcomeDone, amend("before", 0))
	s.counts("all", "0", "0")

	require.Equal(t, engine.OutcomeDone, s.event("e", "words", 5))
	s.done(billing.KindFreezeBudget, &billing.FreezeBudget{
		Env: enginetest.Sandbox, Key: "all", Frozen: true,
	})
	require.Equal(t, engine.OutcomeBudgetFrozen, amend("e", 6))
	require.Equal(t, engine.OutcomeDone, amend("e", 4), "less it always may be")
	s.done(billing.KindArchiveBudget, &billing.ArchiveBudget{Env: enginetest.Sandbox, Key: "all"})
	require.Equal(t, engine.OutcomeBudgetArchived, amend("e", 6))
	s.counts("all", "4", "0")
}

// TestABoundKeyCorrectsWhatItCounts: a key that is bound to a budget corrects events that count
// there or below it, by whatever request, and what an event has more that counted in no budget is
// asked for and counted there.
func TestABoundKeyCorrectsWhatItCounts(t *testing.T) {
	s := newBudgetSandbox(t)
	record := func(key, customer string, f func(*billing.RecordUsage)) {
		t.Helper()
		c := enginetest.Usage(s.Log, key, customer, "words", 1)
		f(c)
		require.Equal(t, engine.OutcomeDone, s.DoPayload(billing.KindRecordUsage, c.Seal(nil)).Outcome)
	}
	plain := func(*billing.RecordUsage) {}
	enginetest.NewCustomer(s.Log, "bob", "prepaid")
	record("before", "bob", plain)
	s.put("agent", "ada", "", inUSD("5"))
	s.put("below", "agent", "")
	agent := billing.BudgetRow(s.m, enginetest.Sandbox, "agent")
	c := enginetest.Reservation("r", "ada", "words", 1)
	c.Budget = "below"
	s.view(s.Do(billing.KindReserve, c))
	s.view(s.settle("r", 1))
	record("above", "ada", plain)
	record("named", "ada", func(c *billing.RecordUsage) { c.Budget = []byte("below") })
	record("key", "ada", func(c *billing.RecordUsage) { c.KeyBudget = agent })
	s.counts("agent", "3", "0")

	bindings := uint32(0)
	correct := func(key [16]byte, units int64) engine.Outcome {
		t.Helper()
		src := &enginetest.Source{Journal: s.m.Journal()}
		ref, found, err := s.m.FindUsage(src, src, enginetest.Sandbox, key)
		require.NoError(t, err)
		require.True(t, found)
		if units == 0 {
			return s.Do(billing.KindVoidUsage, &billing.VoidUsage{
				Env: enginetest.Sandbox, Key: key, Original: ref, KeyBudget: agent, Bindings: bindings,
			}).Outcome
		}
		return s.Do(billing.KindAmendUsage, &billing.AmendUsage{
			Env: enginetest.Sandbox, Key: key, Original: ref, Units: decimal.FromInt(units),
			ID: enginetest.ID(fmt.Sprint("amendment ", s.Index)), KeyBudget: agent, Bindings: bindings,
		}).Outcome
	}
	key := func(text string) [16]byte { return billing.UsageKey(enginetest.Sandbox, []byte(text)) }
	require.Equal(t, engine.OutcomeBudgetUnknown, correct(key("above"), 2))
	require.Equal(t, engine.OutcomeBudgetUnknown, correct(key("above"), 0))
	_, own := s.ownEvent("r", 1)
	for i, k := range [][16]byte{own, key("named"), key("key")} {
		require.Equal(t, engine.OutcomeBudgetExceeded, correct(k, 7), "%d", i)
		require.Equal(t, engine.OutcomeDone, correct(k, 2), "%d", i)
		require.Equal(t, engine.OutcomeDone, correct(k, 0), "%d", i)
	}
	s.counts("agent", "0", "0")

	require.Equal(t, engine.OutcomeBudgetExceeded, correct(key("before"), 7))
	require.Equal(t, engine.OutcomeDone, correct(key("before"), 6))
	s.counts("agent", "5", "0")
	require.Equal(t, engine.OutcomeDone, correct(key("before"), 2))
	s.counts("agent", "1", "0")
	bindings = 9
	require.Equal(t, engine.OutcomeKeyRebound, correct(key("before"), 1))
}

// TestABoundKeyCorrectsAgain: also where its budget has no limit, or gets others meanwhile.
func TestABoundKeyCorrectsAgain(t *testing.T) {
	s := newBudgetSandbox(t, inUSD("100"))
	enginetest.NewCustomer(s.Log, "bob", "prepaid")
	record := func(key, customer, named string, node uint32) {
		t.Helper()
		c := enginetest.Usage(s.Log, key, customer, "words", 1)
		c.Budget, c.KeyBudget = []byte(named), node
		require.Equal(t, engine.OutcomeDone, s.DoPayload(billing.KindRecordUsage, c.Seal(nil)).Outcome)
	}
	record("before", "bob", "", 0)
	s.put("bob", "all", "bob")
	s.put("bare", "bob", "")
	bare := billing.BudgetRow(s.m, enginetest.Sandbox, "bare")
	record("above", "bob", "", 0)
	record("named", "bob", "bare", 0)
	record("key", "bob", "", bare)
	amend := func(key string, units int64) engine.Outcome {
		t.Helper()
		src := &enginetest.Source{Journal: s.m.Journal()}
		k := billing.UsageKey(enginetest.Sandbox, []byte(key))
		ref, found, err := s.m.FindUsage(src, src, enginetest.Sandbox, k)
		require.NoError(t, err)
		require.True(t, found)
		return s.Do(billing.KindAmendUsage, &billing.AmendUsage{
			Env: enginetest.Sandbox, Key: k, Original: ref, Units: decimal.FromInt(units),
			ID: enginetest.ID(fmt.Sprint("amendment ", s.Index)), KeyBudget: bare,
		}).Outcome
	}
	for units := range int64(3) {
		require.Equal(t, engine.OutcomeBudgetUnknown, amend("above", 5+units))
		for _, key := range []string{"before", "named", "key"} {
			require.Equal(t, engine.OutcomeDone, amend(key, 5+units), "%s %d", key, units)
		}
		s.put("bare", "", "", inUSD(fmt.Sprint(90+units)))
	}
}

// TestALateSettlementCountsAtTheBudgetOfNow: where what expiry has billed counted in no budget,
// what a late settlement adds counts at the customer's own, in one question where it refuses
// overruns.
func TestALateSettlementCountsAtTheBudgetOfNow(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		s := newBudgetSandbox(t)
		enginetest.NewCustomer(s.Log, "bob", "prepaid")
		c := enginetest.Reservation("r", "bob", "words", 1)
		c.Items, c.SettleOnExpiry, c.RefuseOverrun = both(10, 10), true, refuses
		s.view(s.Do(billing.KindReserve, c))
		s.Stamp += 600_000
		s.DoPayload(engine.KindTick, nil)
		s.put("bob", "all", "bob", inUSD("20"))
		s.counts("bob", "0", "0")
		settle := func(words, lines int64, more ...func(*billing.SettleReservation)) engine.Result {
			return s.settle("r", 0, append(more, s.originals("r"), func(c *billing.SettleReservation) {
				c.Items = nil
				for _, i := range both(words, lines) {
					c.Items = append(c.Items, billing.SettleItem{FeatureKey: i.FeatureKey, Units: i.Units})
				}
			})...)
		}
		s.view(settle(12, 10, func(c *billing.SettleReservation) { c.Partial = true }))
		s.counts("bob", "2", "0")
		if refuses {
			s.refuses(engine.OutcomeBudgetExceeded, settle(20, 21)) // each fits
			s.counts("bob", "2", "0")
			s.view(settle(19, 21))
			s.counts("bob", "20", "0")
			continue
		}
		s.view(settle(5, 40))
		s.counts("bob", "30", "0") // and no more is given back than was counted
		v, _ := s.m.Budget(enginetest.Sandbox, "bob", 0)
		require.True(t, v.Limits[0].Overrun)
	}
}

// TestHeldCreditsStayInRange: of a pool without an end no more is held than numbers reach.
func TestHeldCreditsStayInRange(t *testing.T) {
	s := newHeldSandbox(t)
	s.Do(billing.KindCreatePool, &billing.CreatePool{
		Env: enginetest.Sandbox, ID: enginetest.ID("soft"), Customer: "ada", Name: "studio",
	})
	hold := func(key, feature, units string) engine.Outcome {
		c := enginetest.Reservation(key, "ada", feature, 1)
		c.Items[0].Units = decimal.MustParse(units)
		return s.Do(billing.KindReserve, c).Outcome
	}
	require.Equal(t, engine.OutcomeDone, hold("i", "images", "330000000000000000000000"))
	require.Equal(t, engine.OutcomeOverflow, hold("v", "videos", "900000000000000000000000"))
	require.Equal(t, engine.OutcomeDone, hold("w", "videos", "2"))
	require.NoError(t, billing.HeldAddsUp(s.m))
}
