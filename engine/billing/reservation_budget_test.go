package billing_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// budgetSandbox is a held sandbox whose plan has two more features of 1 USD a unit, without a
// limit, and one that costs 1 USD up to 10 units and 0.1 behind them. Ada has a budget, below "all".
type budgetSandbox struct{ *heldSandbox }

func newBudgetSandbox(t *testing.T, limits ...billing.LimitDocument) *budgetSandbox {
	m := billing.New(billing.Config{})
	s := &budgetSandbox{&heldSandbox{enginetest.NewLog(m, enginetest.Epoch), t, m}}
	doc := enginetest.PrepaidPlan()
	for _, key := range []string{"words", "lines", "falling", "costly"} {
		d := billing.FeatureDocument{Key: key}
		if key == "costly" {
			d.HasCost, d.CostPerUnit = true, decimal.MustParse("0.25")
		}
		doc.Features = append(doc.Features, d)
		f := billing.PlanFeatureDocument{Key: key, PricingType: "usage_based"}
		f.Pricing.PricePerUnit = decimal.FromInt(1)
		if key == "falling" {
			f.PricingType, f.Pricing.PricePerUnit = "graduated", decimal.Decimal{}
			f.Pricing.Tiers = []billing.TierDocument{
				{UpTo: decimal.FromInt(10), PricePerUnit: decimal.FromInt(1)},
				{Infinite: true, PricePerUnit: decimal.MustParse("0.1")},
			}
		}
		doc.Plans[0].Features = append(doc.Plans[0].Features, f)
	}
	enginetest.NewAccount(s.Log, doc)
	enginetest.NewCustomer(s.Log, "ada", "prepaid")
	s.put("all", "", "", limits...)
	s.put("ada", "all", "ada")
	return s
}

// newPricedSandbox is a budget sandbox of the features and prices that are given.
func newPricedSandbox(
	t *testing.T, features []billing.PlanFeatureDocument, limits ...billing.LimitDocument,
) *budgetSandbox {
	m := billing.New(billing.Config{})
	s := &budgetSandbox{&heldSandbox{enginetest.NewLog(m, enginetest.Epoch), t, m}}
	doc := enginetest.PrepaidPlan()
	for _, f := range features {
		doc.Features = append(doc.Features, billing.FeatureDocument{Key: f.Key})
		f.PricingType = "usage_based"
		doc.Plans[0].Features = append(doc.Plans[0].Features, f)
	}
	enginetest.NewAccount(s.Log, doc)
	enginetest.NewCustomer(s.Log, "ada", "prepaid")
	s.put("all", "", "", limits...)
	s.put("ada", "all", "ada")
	return s
}

// packages are features of 50 USD a package of 100.
func packages(keys ...string) (features []billing.PlanFeatureDocument) {
	for _, key := range keys {
		f := billing.PlanFeatureDocument{Key: key}
		f.Pricing.Model, f.Pricing.PackageSize = "package", decimal.FromInt(100)
		f.Pricing.PricePerPackage = decimal.FromInt(50)
		features = append(features, f)
	}
	return features
}

// first is the first limit of a budget.
func (s *budgetSandbox) first(budget string) billing.BudgetLimitView {
	s.t.Helper()
	v, ok := s.m.Budget(enginetest.Sandbox, budget, 0)
	require.True(s.t, ok)
	return v.Limits[0]
}

func inUSD(limit string) billing.LimitDocument {
	return billing.LimitDocument{
		Of: billing.MeasurePrice, Limit: decimal.MustParse(limit), Window: billing.WindowLifetime,
	}
}

func ofCost(limit string) billing.LimitDocument {
	return billing.LimitDocument{
		Of: billing.MeasureCost, Limit: decimal.MustParse(limit), Window: billing.WindowLifetime,
	}
}

func (s *budgetSandbox) put(key, parent, customer string, limits ...billing.LimitDocument) {
	s.t.Helper()
	s.done(billing.KindPutBudget, &billing.PutBudget{
		Env: enginetest.Sandbox, Key: key, Name: key, Parent: parent, Customer: customer, Limits: limits,
	})
}

func (s *budgetSandbox) done(kind engine.Kind, c wire.Fielder) {
	s.t.Helper()
	require.Equal(s.t, engine.OutcomeDone.String(), s.Do(kind, c).Outcome.String())
}

// counts checks what the first limit of a budget has used and holds.
func (s *budgetSandbox) counts(budget, used, held string) {
	s.t.Helper()
	v, ok := s.m.Budget(enginetest.Sandbox, budget, 0)
	require.True(s.t, ok)
	require.Equal(s.t, used+" used, "+held+" held",
		fmt.Sprint(v.Limits[0].Used, " used, ", v.Limits[0].Held, " held"))
}

func (s *budgetSandbox) refuses(want engine.Outcome, r engine.Result) {
	s.t.Helper()
	require.Equal(s.t, want.String(), r.Outcome.String())
}

// both are items of words and lines.
func both(words, lines int64) []billing.ReserveItem {
	return []billing.ReserveItem{
		{FeatureKey: "words", Units: decimal.FromInt(words)},
		{FeatureKey: "lines", Units: decimal.FromInt(lines)},
	}
}

func (s *budgetSandbox) reserveBoth(
	key string, words, lines int64, more ...func(*billing.Reserve),
) {
	s.t.Helper()
	c := enginetest.Reservation(key, "ada", "words", 1)
	c.Items = both(words, lines)
	for _, f := range more {
		f(c)
	}
	s.view(s.Do(billing.KindReserve, c))
}

func (s *budgetSandbox) settleBoth(key string, words, lines int64) engine.Result {
	return s.settle(key, 0, func(c *billing.SettleReservation) {
		c.Items = nil
		for _, i := range both(words, lines) {
			c.Items = append(c.Items, billing.SettleItem{FeatureKey: i.FeatureKey, Units: i.Units})
		}
	})
}

func refusesOverruns(c *billing.Reserve) { c.RefuseOverrun = true }

// TestALateSettlementIsAskedAsAWhole: each of two items fits a budget, both do not: none is
// recorded.
func TestALateSettlementIsAskedAsAWhole(t *testing.T) {
	s := newBudgetSandbox(t, inUSD("10"))
	s.reserveBoth("r", 4, 4)
	s.counts("all", "0", "8")
	s.Stamp += 600_000
	require.Equal(t, engine.OutcomeDone, s.event("e", "words", 5))
	s.refuses(engine.OutcomeBudgetExceeded, s.settleBoth("r", 4, 4))
	s.counts("all", "5", "0")
	s.used("words", 5, 0)
	s.used("lines", 0, 0)
	v, _ := s.m.Reservation(enginetest.Sandbox, enginetest.ID("reservation r"), s.Stamp)
	require.Equal(t, billing.ReservationExpired, v.State)
	require.True(t, s.view(s.settleBoth("r", 2, 3)).Late)
	s.counts("all", "10", "0")
}

// TestARefusedOverrunIsAskedAsAWhole: each of two items fits a budget, but not both together. What
// the reservation already holds is not counted twice.
func TestARefusedOverrunIsAskedAsAWhole(t *testing.T) {
	s := newBudgetSandbox(t, inUSD("10"))
	s.reserveBoth("r", 2, 2, refusesOverruns)
	require.Equal(t, engine.OutcomeDone, s.event("e", "words", 4))
	s.refuses(engine.OutcomeBudgetExceeded, s.settleBoth("r", 4, 4))
	s.refuses(engine.OutcomeBudgetExceeded, s.settleBoth("r", 3, 4))
	s.counts("all", "4", "4")
	s.view(s.settleBoth("r", 1, 5))
	s.counts("all", "10", "0")
}

// TestAPartBeyondItsHoldCountsTheOtherItem checks that a budget counts what the other item holds.
func TestAPartBeyondItsHoldCountsTheOtherItem(t *testing.T) {
	s := newBudgetSandbox(t, inUSD("10"))
	s.reserveBoth("r", 2, 6, refusesOverruns)
	part := func(units int64) engine.Result {
		return s.settle("r", units, func(c *billing.SettleReservation) {
			c.Items[0].FeatureKey, c.Partial = "words", true
		})
	}
	s.refuses(engine.OutcomeBudgetExceeded, part(5))
	s.view(part(4))
	s.counts("all", "4", "6")
}

// TestAnOverrunAsksForWhatCreditsLeave: and for the cost beyond the one that is held.
func TestAnOverrunAsksForWhatCreditsLeave(t *testing.T) {
	s := newBudgetSandbox(t, inUSD("0.01"), ofCost("10"))
	c := enginetest.Reservation("r", "ada", "images", 20) // 60 of 100 credits, and 0.02 USD without
	c.RefuseOverrun, c.Items[0].Cost, c.Items[0].HasCost = true, decimal.FromInt(8), true
	s.view(s.Do(billing.KindReserve, c))
	s.counts("all", "0", "0")
	settle := func(cost int64) engine.Result {
		return s.settle("r", 25, func(c *billing.SettleReservation) {
			c.Items[0].Cost, c.Items[0].HasCost = decimal.FromInt(cost), true
		})
	}
	s.refuses(engine.OutcomeBudgetExceeded, settle(11))
	s.view(settle(10))
	s.counts("all", "0", "0")
}

// TestARefusedOverrunAtAFrozenBudgetIsBilled: as at one that is full.
func TestARefusedOverrunAtAFrozenBudgetIsBilled(t *testing.T) {
	for _, archives := range []bool{false, true} {
		s := newBudgetSandbox(t, inUSD("10"))
		c := enginetest.Reservation("r", "ada", "words", 4)
		c.RefuseOverrun = true
		s.view(s.Do(billing.KindReserve, c))
		want := engine.OutcomeBudgetFrozen
		if archives {
			want = engine.OutcomeBudgetArchived
			s.done(billing.KindArchiveBudget, &billing.ArchiveBudget{Env: 1, Key: "all"})
		} else {
			s.done(billing.KindFreezeBudget, &billing.FreezeBudget{Env: 1, Key: "all", Frozen: true})
		}
		s.refuses(want, s.settle("r", 5))
		s.Stamp += 600_000
		s.DoPayload(engine.KindTick, nil)
		s.counts("all", "4", "0")
		s.used("words", 4, 0)
	}
}

// TestALateSettlementCountsWhereItWasHeld: although the customer has got another budget since.
func TestALateSettlementCountsWhereItWasHeld(t *testing.T) {
	s := newBudgetSandbox(t, inUSD("10"))
	s.view(s.reserve("r", "words", 4))
	s.put("other", "", "", inUSD("10"))
	s.put("ada", "all", "")
	s.put("new", "other", "ada")
	s.Stamp += 600_000
	s.view(s.settle("r", 3))
	s.counts("all", "3", "0")
	s.counts("other", "0", "0")
}

// TestExpiryBillsTheRestOfTheCost: not that of the part which was settled before.
func TestExpiryBillsTheRestOfTheCost(t *testing.T) {
	s := newBudgetSandbox(t, ofCost("100"))
	c := enginetest.Reservation("r", "ada", "words", 4)
	c.SettleOnExpiry, c.Items[0].Cost, c.Items[0].HasCost = true, decimal.FromInt(8), true
	s.view(s.Do(billing.KindReserve, c))
	s.view(s.settle("r", 2, func(c *billing.SettleReservation) {
		c.Partial, c.Items[0].Cost, c.Items[0].HasCost = true, decimal.FromInt(3), true
	}))
	s.counts("all", "3", "4")
	s.Stamp += 600_000
	s.DoPayload(engine.KindTick, nil)
	s.counts("all", "7", "0")
}

// TestTheCostFollowsWhatIsGranted: less of it where less is granted, more where it is extended.
func TestTheCostFollowsWhatIsGranted(t *testing.T) {
	s := newBudgetSandbox(t, ofCost("50"))
	c := enginetest.Reservation("r", "ada", "videos", 400) // 100 credits are 200 videos
	c.Partial, c.Items[0].Cost, c.Items[0].HasCost = true, decimal.FromInt(80), true
	v := s.view(s.Do(billing.KindReserve, c))
	require.Equal(t, "200 40", fmt.Sprint(v.Items[0].Granted, " ", v.Items[0].Cost))
	s.counts("all", "0", "40")
	s.view(s.settle("r", 200, func(c *billing.SettleReservation) { c.Items[0].HasCost = true }))

	c = enginetest.Reservation("r2", "ada", "words", 2)
	c.Items[0].Cost, c.Items[0].HasCost = decimal.FromInt(20), true
	s.view(s.Do(billing.KindReserve, c))
	extend := func(units int64) engine.Result {
		return s.Do(billing.KindExtendReservation, &billing.ExtendReservation{
			Env: 1, ID: c.ID, Units: decimal.FromInt(units),
		})
	}
	s.refuses(engine.OutcomeBudgetExceeded, extend(6))
	s.view(extend(5))
	s.m = restored(t, enginetest.Snapshot(t, s.m))
	s.Machine = s.m
	s.counts("all", "0", "50")
	v, _ = s.m.Reservation(1, c.ID, s.Stamp)
	require.Equal(t, "50", v.Items[0].Cost.String())
}

// TestExtendingPastThePeriodAsksForItsPrices: units that are cheap behind what is billed are dear
// at the start of the next period.
func TestExtendingPastThePeriodAsksForItsPrices(t *testing.T) {
	s := newBudgetSandbox(t, inUSD("14.5"))
	sub, ok := s.m.Subscription(1, enginetest.ID("subscription ada prepaid"))
	require.True(t, ok)
	s.done(billing.KindMarkInvoicePaid, &billing.MarkInvoicePaid{
		Env: 1, ID: enginetest.ID("invoice ada prepaid"),
	})
	s.Stamp = sub.PeriodEnd - 3_600_000
	require.Equal(t, engine.OutcomeDone, s.event("e", "falling", 10))
	s.view(s.reserve("r", "falling", 4))
	s.counts("all", "10", "0.4")
	extend := func(units, seconds int64) engine.Result {
		return s.Do(billing.KindExtendReservation, &billing.ExtendReservation{
			Env: 1, ID: enginetest.ID("reservation r"), Units: decimal.FromInt(units),
			TTLMS: seconds * 1000,
		})
	}
	s.view(extend(0, 1200))
	s.counts("all", "10", "0.4")
	s.refuses(engine.OutcomeBudgetExceeded, extend(5, 7200))
	s.counts("all", "10", "0.4")
	s.view(extend(0, 7200))
	s.counts("all", "10", "4")
	for range 2 { // again is nothing more
		require.Equal(t, s.Stamp+7_200_000, s.view(extend(0, 7200)).ExpiresAt)
		s.counts("all", "10", "4")
	}
	s.refuses(engine.OutcomeBudgetExceeded, extend(5, 0))
}

// TestWhatIsOverBlocksNoCorrectionAndNoMove: although no tick has come, of another customer, too.
func TestWhatIsOverBlocksNoCorrectionAndNoMove(t *testing.T) {
	for _, moves := range []bool{false, true} {
		s := newBudgetSandbox(t, inUSD("10"))
		enginetest.NewCustomer(s.Log, "bob", "prepaid")
		s.put("bob", "all", "bob")
		require.Equal(t, engine.OutcomeDone, s.event("e", "words", 1))
		s.view(s.Do(billing.KindReserve, enginetest.Reservation("b", "bob", "words", 9)))
		if moves {
			s.put("other", "", "", inUSD("5"))
			s.Stamp += 600_000
			s.done(billing.KindMoveBudget, &billing.MoveBudget{Env: 1, Key: "bob", Parent: "other"})
			s.counts("other", "0", "0")
			continue
		}
		s.Stamp += 600_000
		key := billing.UsageKey(1, []byte("e"))
		ref, found, err := s.m.FindUsage(&enginetest.Source{Journal: s.m.Journal()}, nil, 1, key)
		require.NoError(t, err)
		require.True(t, found)
		s.done(billing.KindAmendUsage, &billing.AmendUsage{
			Env: 1, Key: key, Units: decimal.FromInt(10), Original: ref, ID: enginetest.ID("amend"),
		})
		s.counts("all", "10", "0")
	}
}

// TestFewerUnitsMayCostMore: of 1 USD a unit up to 100 and half of it for all behind that, 40 of 50
// units that are held behind 60 cost 40.
func TestFewerUnitsMayCostMore(t *testing.T) {
	f := billing.PlanFeatureDocument{Key: "tokens"}
	f.Pricing.Model = "volume"
	f.Pricing.Tiers = []billing.TierDocument{
		{UpTo: decimal.FromInt(100), PricePerUnit: decimal.FromInt(1)},
		{Infinite: true, PricePerUnit: decimal.MustParse("0.5")},
	}
	s := newPricedSandbox(t, []billing.PlanFeatureDocument{f}, inUSD("90"))
	require.Equal(t, engine.OutcomeDone, s.event("e", "tokens", 60))
	s.refuses(engine.OutcomeBudgetExceeded, s.reserve("r", "tokens", 50))
	s.view(s.reserve("r", "tokens", 30))
	s.counts("all", "60", "30")
	s.view(s.settle("r", 30))
	s.counts("all", "90", "0")
}

// TestAFinalSettlementIsNoOverrun: what its second item still holds after the event of the first
// does not count beside that.
func TestAFinalSettlementIsNoOverrun(t *testing.T) {
	s := newPricedSandbox(t, packages("boxes", "crates"), inUSD("100"))
	c := enginetest.Reservation("r", "ada", "boxes", 10)
	c.Items = append(c.Items, billing.ReserveItem{FeatureKey: "crates", Units: decimal.FromInt(10)})
	s.view(s.Do(billing.KindReserve, c))
	s.counts("all", "0", "100")
	s.view(s.settle("r", 0, func(c *billing.SettleReservation) {
		c.Items = []billing.SettleItem{
			{FeatureKey: "boxes", Units: decimal.FromInt(4)},
			{FeatureKey: "crates", Units: decimal.FromInt(4)},
		}
	}))
	s.counts("all", "100", "0")
	require.False(t, s.first("all").Overrun)
}

// TestAnotherKeysReservationIsNoRepeat: an API key that is bound to another budget gets no answer
// of a reservation that it could not settle.
func TestAnotherKeysReservationIsNoRepeat(t *testing.T) {
	s := newBudgetSandbox(t, inUSD("100"))
	s.put("team a", "ada", "")
	s.put("team b", "ada", "")
	c := enginetest.Reservation("r", "ada", "words", 4)
	c.KeyBudget = billing.BudgetRow(s.m, enginetest.Sandbox, "team a")
	first := s.Do(billing.KindReserve, c)
	require.Equal(t, "team a", s.view(first).Budget)
	again := *c
	again.ID = enginetest.ID("another")
	require.Equal(t, first.Value, s.Do(billing.KindReserve, &again).Value)
	again.KeyBudget = billing.BudgetRow(s.m, enginetest.Sandbox, "team b")
	s.refuses(engine.OutcomeReservationKeyReused, s.Do(billing.KindReserve, &again))
	again.KeyBudget = 0
	s.refuses(engine.OutcomeReservationKeyReused, s.Do(billing.KindReserve, &again))
}

// TestAPartStaysWithinItsHold: what it leaves is held at no more than it has left, though the rest
// might begin a package, too; and it is held for longer, and for more only where there is room.
func TestAPartStaysWithinItsHold(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		s := newPricedSandbox(t, packages("boxes"), inUSD("50"))
		c := enginetest.Reservation("r", "ada", "boxes", 10)
		c.RefuseOverrun = refuses
		s.view(s.Do(billing.KindReserve, c))
		s.counts("all", "0", "50")
		part := func(units int64) {
			s.view(s.settle("r", units, func(c *billing.SettleReservation) { c.Partial = true }))
			s.counts("all", "50", "0")
			require.False(t, s.first("all").Overrun)
		}
		part(4)
		s.view(s.Do(billing.KindExtendReservation, &billing.ExtendReservation{
			Env: 1, ID: c.ID, TTLMS: 900_000,
		}))
		part(6)
		if refuses {
			part(12) // beyond its hold, and for nothing
		}
		s.refuses(engine.OutcomeBudgetExceeded, s.Do(billing.KindExtendReservation,
			&billing.ExtendReservation{Env: 1, ID: c.ID, Units: decimal.FromInt(20)}))
		s.view(s.settle("r", 20))
		s.counts("all", "50", "0")
	}
}

// TestAPartThatOthersMakeDearIsAnOverrun: others have filled the package that its hold was for.
func TestAPartThatOthersMakeDearIsAnOverrun(t *testing.T) {
	s := newPricedSandbox(t, packages("boxes"), inUSD("50"))
	s.view(s.reserve("r", "boxes", 10))
	s.view(s.settle("r", 4, func(c *billing.SettleReservation) { c.Partial = true }))
	require.Equal(t, engine.OutcomeDone, s.event("e", "boxes", 96))
	s.counts("all", "50", "0")
	require.Equal(t, "1", s.overrun(s.settle("r", 5)))
	s.counts("all", "100", "0")
	require.True(t, s.first("all").Overrun)
	require.EqualValues(t, 1, s.m.Stats().Overruns)
}

// TestMoneyBeyondTheHoldIsAnOverrun: a stated cost passes what is held, within the units that are.
func TestMoneyBeyondTheHoldIsAnOverrun(t *testing.T) {
	states := func(cost int64) func(*billing.SettleReservation) {
		return func(c *billing.SettleReservation) {
			c.Items[0].Cost, c.Items[0].HasCost = decimal.FromInt(cost), true
		}
	}
	reserve := func(s *budgetSandbox, refuses bool) {
		c := enginetest.Reservation("r", "ada", "words", 10)
		c.RefuseOverrun = refuses
		s.view(s.Do(billing.KindReserve, c))
	}
	s := newBudgetSandbox(t, ofCost("5"))
	reserve(s, false)
	require.Equal(t, "0", s.overrun(s.settle("r", 2, states(2),
		func(c *billing.SettleReservation) { c.Partial = true })))
	require.Equal(t, "8", s.overrun(s.settle("r", 10, states(1000))))
	require.EqualValues(t, 1, s.m.Stats().Overruns)
	require.True(t, s.first("all").Overrun)

	// Fewer units have their share of the cost, and none is sure to fit.
	for units, want := range map[int64]string{10: "5", 20: "15"} {
		s = newBudgetSandbox(t, ofCost("5"))
		reserve(s, false)
		require.Equal(t, want, s.overrun(s.settle("r", units, states(units))))
	}

	// What is held at no budget is only marked.
	s = &budgetSandbox{newHeldSandbox(t)}
	c := enginetest.Reservation("r", "ada", "calls", 10)
	c.RefuseOverrun = true
	s.view(s.Do(billing.KindReserve, c))
	s.put("all", "", "ada", ofCost("5"))
	require.Equal(t, "5", s.overrun(s.settle("r", 10, states(10))))

	s = newBudgetSandbox(t, ofCost("5"))
	reserve(s, true)
	s.refuses(engine.OutcomeBudgetExceeded, s.settle("r", 10, states(1000)))
	s.counts("all", "0", "0")
	require.Equal(t, "0", s.overrun(s.settle("r", 10, states(5))))
	s.counts("all", "5", "0")
}

// TestAPlanWithoutTheFeatureHoldsItsPrice: what a part leaves is held at the price at which it was.
func TestAPlanWithoutTheFeatureHoldsItsPrice(t *testing.T) {
	s := &budgetSandbox{newHeldSandbox(t)}
	s.put("all", "", "ada", inUSD("10"))
	s.view(s.reserve("r", "calls", 10))
	s.Stamp++
	s.changePlan("bare")
	s.Stamp++
	s.view(s.settle("r", 4, func(c *billing.SettleReservation) { c.Partial = true }))
	s.counts("all", "4", "6")
	require.Equal(t, "0", s.overrun(s.settle("r", 10)))
	s.counts("all", "10", "0")
}

// TestMoneyBeyondTheHoldIsAskedOfEachItem: also where the first has settled all that it held, so
// that budgets hold nothing for it any more.
func TestMoneyBeyondTheHoldIsAskedOfEachItem(t *testing.T) {
	for _, order := range [][]string{{"words", "lines"}, {"lines", "words"}} {
		s := newBudgetSandbox(t, ofCost("10"))
		c := enginetest.Reservation("r", "ada", "", 0)
		c.Items, c.RefuseOverrun = both(2, 2), true
		s.view(s.Do(billing.KindReserve, c))
		settles := func(feature string, cost int64, partial bool) engine.Result {
			return s.settle("r", 0, func(c *billing.SettleReservation) {
				c.Partial, c.Items = partial, []billing.SettleItem{{
					FeatureKey: feature, Units: decimal.FromInt(2), Cost: decimal.FromInt(cost), HasCost: true,
				}}
			})
		}
		s.view(settles(order[0], 1, true))
		s.refuses(engine.OutcomeBudgetExceeded, settles(order[1], 1000, false))
		s.counts("all", "1", "0")
		s.view(settles(order[1], 9, false))
		s.counts("all", "10", "0")
		require.Zero(t, s.m.Stats().Overruns)
	}
}

// TestLostCreditsAreAnOverrunOfABudget: credits that were to pay have expired, and the price passes
// a hard limit, also when the hold expires into usage.
func TestLostCreditsAreAnOverrunOfABudget(t *testing.T) {
	for _, how := range []string{"record", "refuse", "expire"} {
		s := newBudgetSandbox(t, inUSD("1"))
		require.Equal(t, engine.OutcomeDone, s.event("e", "videos", 200)) // what the plan gave
		require.Equal(t, engine.OutcomeDone, s.Do(billing.KindGrantCredits, &billing.GrantCredits{
			Env: 1, ID: enginetest.ID("g"), Pool: s.pool(), Amount: decimal.FromInt(300),
			ExpiresAt: s.Stamp + 1000,
		}).Outcome)
		c := enginetest.Reservation("r", "ada", "images", 100) // 2 USD
		c.RefuseOverrun, c.SettleOnExpiry = how == "refuse", how == "expire"
		s.view(s.Do(billing.KindReserve, c))
		s.counts("all", "0", "0")
		s.Stamp += 1000
		switch how {
		case "record":
			require.Equal(t, "50", s.overrun(s.settle("r", 100)))
		case "refuse":
			s.refuses(engine.OutcomeBudgetExceeded, s.settle("r", 100))
			require.Equal(t, "0", s.overrun(s.settle("r", 50)))
			continue
		default:
			s.Stamp += 600_000
			s.DoPayload(engine.KindTick, nil)
			v, _ := s.m.Reservation(enginetest.Sandbox, enginetest.ID("reservation r"), s.Stamp)
			require.Equal(t, "50", v.Items[0].Overrun.String())
			// The real units take the overrun back first.
			ref, _ := s.ownEvent("r", 1)
			v = s.view(s.settle("r", 60, func(c *billing.SettleReservation) {
				c.Originals = []billing.UsageRef{ref}
			}))
			require.Equal(t, "10", v.Items[0].Overrun.String())
			continue
		}
		s.counts("all", "2", "0")
		require.EqualValues(t, 1, s.m.Stats().Overruns)
	}
}

// TestAStoppedPoolPaysItsHoldOnce: what it pays of one item does not pay the next one, whatever
// it has been granted since. The price of that one passes a hard limit.
func TestAStoppedPoolPaysItsHoldOnce(t *testing.T) {
	for _, how := range []string{"record", "refuse", "expire"} {
		s := newBudgetSandbox(t, inUSD("0.1"))
		first, second := s.pool(), enginetest.ID("second")
		s.done(billing.KindCreatePool, &billing.CreatePool{
			Env: 1, ID: second, Customer: "ada", Name: "studio", HardLimit: true,
		})
		s.done(billing.KindGrantCredits, &billing.GrantCredits{
			Env: 1, ID: enginetest.ID("g"), Pool: second, Amount: decimal.FromInt(30),
			ExpiresAt: s.Stamp + 1000,
		})
		c := enginetest.Reservation("r", "ada", "", 0)
		c.Items = []billing.ReserveItem{
			{FeatureKey: "videos", Units: decimal.FromInt(200)}, // the first pool's 100 credits
			{FeatureKey: "images", Units: decimal.FromInt(10)},  // 30 of the second, or 0.20 USD
		}
		c.RefuseOverrun, c.SettleOnExpiry = how == "refuse", how == "expire"
		s.view(s.Do(billing.KindReserve, c))
		s.done(billing.KindFreezePool, &billing.FreezePool{Env: 1, ID: first})
		s.done(billing.KindGrantCredits, &billing.GrantCredits{
			Env: 1, ID: enginetest.ID("more"), Pool: first, Amount: decimal.FromInt(500),
		})
		s.Stamp += 1000
		settle := func(images int64) engine.Result {
			return s.settle("r", 0, settlesBoth(images, 200))
		}
		switch how {
		case "record":
			require.Equal(t, "5", s.view(settle(10)).Items[1].Overrun.String())
		case "refuse":
			s.refuses(engine.OutcomeBudgetExceeded, settle(10))
			require.Equal(t, "0", s.view(settle(5)).Items[1].Overrun.String())
			s.counts("all", "0.1", "0")
			continue
		default:
			s.Stamp += 600_000
			s.DoPayload(engine.KindTick, nil)
			v, _ := s.m.Reservation(enginetest.Sandbox, enginetest.ID("reservation r"), s.Stamp)
			require.Equal(t, "5", v.Items[1].Overrun.String())
		}
		s.counts("all", "0.2", "0")
		require.EqualValues(t, 1, s.m.Stats().Overruns)
		v, _ := s.m.Pool(enginetest.Sandbox, first)
		require.Equal(t, "500", v.Balance.String())
	}
}

// TestAPartMayCostMoreThanItsShare: what is left to hold of the expected cost is less then.
func TestAPartMayCostMoreThanItsShare(t *testing.T) {
	s := newBudgetSandbox(t, ofCost("20"))
	c := enginetest.Reservation("r", "ada", "words", 10)
	c.Items[0].Cost, c.Items[0].HasCost = decimal.FromInt(20), true
	s.view(s.Do(billing.KindReserve, c))
	s.view(s.settle("r", 4, func(c *billing.SettleReservation) {
		c.Partial, c.Items[0].Cost, c.Items[0].HasCost = true, decimal.FromInt(12), true
	}))
	s.counts("all", "12", "8")
}

// TestASettlementHasItsShareOfTheExpectedCost: where neither it nor the feature states a cost; a
// late one of what expiry has billed, too.
func TestASettlementHasItsShareOfTheExpectedCost(t *testing.T) {
	s := newBudgetSandbox(t, ofCost("100"))
	reserve := func(key, feature string, bills bool) {
		c := enginetest.Reservation(key, "ada", feature, 10)
		c.SettleOnExpiry, c.Items[0].Cost, c.Items[0].HasCost = bills, decimal.FromInt(20), true
		s.view(s.Do(billing.KindReserve, c))
	}
	reserve("r", "words", false)
	s.counts("all", "0", "20")
	s.view(s.settle("r", 3, func(c *billing.SettleReservation) { c.Partial = true }))
	s.counts("all", "6", "14")
	s.view(s.settle("r", 8))
	s.counts("all", "16", "0")

	reserve("feature", "costly", false)
	s.view(s.settle("feature", 8))
	s.counts("all", "18", "0")

	for key, billed := range map[string]bool{"expires": false, "billed": true} {
		before := s.first("all").Used
		reserve(key, "words", billed)
		s.Stamp += 600_000
		s.DoPayload(engine.KindTick, nil)
		var more []func(*billing.SettleReservation)
		if billed {
			require.Equal(t, decimal.FromInt(20), without(s.first("all").Used, before))
			ref, _ := s.ownEvent(key, 1)
			more = append(more, func(c *billing.SettleReservation) {
				c.Originals = []billing.UsageRef{ref}
			})
		}
		s.view(s.settle(key, 1, more...))
		require.Equal(t, decimal.FromInt(2), without(s.first("all").Used, before))
	}
}

func hourly(limit string) billing.LimitDocument {
	l := inUSD(limit)
	l.Window = billing.WindowHour
	return l
}

// TestAWindowThatIsOverHoldsNothing: whether or not anything has begun the next one, an amendment
// of an event of the hour before is not asked for what is held now, and a refusal says what counted
// then.
func TestAWindowThatIsOverHoldsNothing(t *testing.T) {
	for _, opened := range []bool{true, false} {
		s := newBudgetSandbox(t, hourly("10"))
		require.Equal(t, engine.OutcomeDone, s.event("a", "words", 6))
		s.Stamp += 3_600_000
		s.view(s.reserve("r", "words", 8))
		if opened {
			require.Equal(t, engine.OutcomeDone, s.event("b", "words", 1))
		}
		before := s.first("all").Start
		s.amends("a", 7)
		refused := s.corrects("a", 11)
		s.refuses(engine.OutcomeBudgetExceeded, refused)
		var r billing.Refusal
		require.NoError(t, wire.Decode(refused.Value, &r))
		require.Equal(t, "7 0 10", fmt.Sprint(r.Used, " ", r.Held, " ", r.Limit))
		require.Equal(t, before-3_600_000, r.Start)
		require.Equal(t, before, r.End)
		windows, _ := s.m.BudgetWindows(enginetest.Sandbox, "all", s.m.Clock(s.Stamp))
		require.False(t, windows[0][0].Overrun)
	}
}

// TestAWindowThatIsOverKeepsItsLimit: also where a PUT comes before anything has begun the next. An
// amendment of what counted there is judged by it.
func TestAWindowThatIsOverKeepsItsLimit(t *testing.T) {
	s := newBudgetSandbox(t, hourly("10"))
	require.Equal(t, engine.OutcomeDone, s.event("a", "words", 6))
	s.Stamp += 3_600_000
	s.put("all", "", "", hourly("5"))
	windows, ok := s.m.BudgetWindows(enginetest.Sandbox, "all", s.m.Clock(s.Stamp))
	require.True(t, ok)
	require.Equal(t, "6 10", fmt.Sprint(windows[0][0].Used, " ", windows[0][0].Limit))
	require.Equal(t, "0 5", fmt.Sprint(s.first("all").Used, " ", s.first("all").Limit))
	s.amends("a", 9)
	refused := s.corrects("a", 11)
	s.refuses(engine.OutcomeBudgetExceeded, refused)
	var r billing.Refusal
	require.NoError(t, wire.Decode(refused.Value, &r))
	require.Equal(t, "9 of 10", fmt.Sprint(r.Used, " of ", r.Limit))
}

// TestOnlyUsageThatReachesAThresholdTellsIt: neither a PUT that puts it below what is used nor an
// event of nothing, nor usage after it was reached while no endpoint listened.
func TestOnlyUsageThatReachesAThresholdTellsIt(t *testing.T) {
	l := inUSD("100")
	l.Thresholds = []byte{50, 100}
	s := newBudgetSandbox(t, l)
	s.listens("hook")
	require.Equal(t, engine.OutcomeDone, s.event("a", "words", 30))
	l.Limit = decimal.FromInt(20)
	s.put("all", "", "", l)
	require.Equal(t, engine.OutcomeBudgetExceeded, s.event("b", "words", 1))
	require.Equal(t, engine.OutcomeDone, s.event("c", "words", 0))
	require.Empty(t, s.thresholds("hook"))
	l.Limit = decimal.FromInt(40)
	s.put("all", "", "", l)
	require.Equal(t, engine.OutcomeDone, s.event("d", "words", 10))
	require.Equal(t, []string{"all100"}, s.thresholds("hook"))

	l.Limit = decimal.FromInt(100)
	s = newBudgetSandbox(t, l)
	require.Equal(t, engine.OutcomeDone, s.event("a", "words", 60))
	s.listens("hook")
	require.Equal(t, engine.OutcomeDone, s.event("b", "words", 1))
	require.Empty(t, s.thresholds("hook"))
	s.amends("a", 10)
	require.Equal(t, engine.OutcomeDone, s.event("c", "words", 60))
	require.Equal(t, []string{"all50"}, s.thresholds("hook"))
}

// TestARefusedSettlementSaysThatItStays: of a budget, too.
func TestARefusedSettlementSaysThatItStays(t *testing.T) {
	s := newBudgetSandbox(t, inUSD("10"))
	c := enginetest.Reservation("r", "ada", "words", 4)
	c.RefuseOverrun = true
	s.view(s.Do(billing.KindReserve, c))
	stays := func(want engine.Outcome) (r billing.Refusal) {
		t.Helper()
		refused := s.settle("r", 11)
		s.refuses(want, refused)
		require.NoError(t, wire.Decode(refused.Value, &r))
		return r
	}
	require.True(t, stays(engine.OutcomeBudgetExceeded).Stays)
	s.done(billing.KindFreezeBudget, &billing.FreezeBudget{Env: 1, Key: "all", Frozen: true})
	require.True(t, stays(engine.OutcomeBudgetFrozen).Stays)
	s.Stamp += 600_000
	s.DoPayload(engine.KindTick, nil)
	ref, _ := s.ownEvent("r", 1)
	refused := s.settle("r", 11, func(c *billing.SettleReservation) {
		c.Originals = []billing.UsageRef{ref}
	})
	s.refuses(engine.OutcomeBudgetFrozen, refused)
	var r billing.Refusal
	require.NoError(t, wire.Decode(refused.Value, &r))
	require.False(t, r.Stays, "it was billed")
}
