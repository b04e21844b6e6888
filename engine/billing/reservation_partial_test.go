package billing_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// part reserves what there is of a feature.
func (s *budgetSandbox) part(
	key, feature, units string, more ...func(*billing.Reserve),
) engine.Result {
	c := enginetest.Reservation(key, "ada", feature, 1)
	c.Items[0].Units, c.Partial = decimal.MustParse(units), true
	for _, f := range more {
		f(c)
	}
	return s.Do(billing.KindReserve, c)
}

// TestWhatFitsBudgetsIsGranted: where a budget has no room for all, a partial reservation holds
// what fits each level: of units, money by tiers, or cost; whole units where such are asked for.
func TestWhatFitsBudgetsIsGranted(t *testing.T) {
	s := newBudgetSandbox(t, inUSD("15"))
	// 10 units for 1 USD each, the others for 0.1.
	v := s.view(s.part("a", "falling", "100"))
	require.Equal(t, "60 budget", fmt.Sprint(v.Items[0].Granted, " ", v.Items[0].Rule))
	s.counts("all", "0", "15")
	s.refuses(engine.OutcomeBudgetExceeded, s.part("b", "falling", "100"))
	s.view(s.release("a"))

	s.put("ada", "all", "ada", billing.LimitDocument{
		Of: billing.MeasureUnits, Feature: "words", Limit: decimal.FromInt(7), Window: billing.WindowDay,
	})
	v = s.view(s.part("c", "words", "30"))
	require.Equal(t, "7", v.Items[0].Granted.String())
	s.counts("ada", "0", "7")
	s.counts("all", "0", "7")
	v = s.view(s.part("d", "lines", "30.5"))
	require.Equal(t, "8", v.Items[0].Granted.String())
	s.view(s.release("d"))
	require.Equal(t, engine.OutcomeDone, s.event("e", "lines", 6))
	v = s.view(s.part("f", "lines", "2", func(c *billing.Reserve) { c.DryRun = true }))
	require.Equal(t, "2 budget", fmt.Sprint(v.Items[0].Granted, " ", v.Items[0].Rule), "all of it fits")
	v = s.view(s.part("g", "lines", "2.5"))
	require.Equal(t, "2", v.Items[0].Granted.String())

	s = newBudgetSandbox(t, ofCost("1"))
	v = s.view(s.part("a", "words", "10", func(c *billing.Reserve) {
		c.Items[0].Cost, c.Items[0].HasCost = decimal.MustParse("2.4"), true
	}))
	require.Equal(t, "4 0.96", fmt.Sprint(v.Items[0].Granted, " ", v.Items[0].Cost))
	s.counts("all", "0", "0.96")
	s.done(billing.KindFreezeBudget, &billing.FreezeBudget{
		Env: enginetest.Sandbox, Key: "all", Frozen: true,
	})
	s.refuses(engine.OutcomeBudgetFrozen, s.part("b", "lines", "10"))
}

// TestTheMostThatFitsIsGranted: of drawn prices and limits a partial reservation is granted the
// most units that one of all or nothing would be, of all whole numbers.
func TestTheMostThatFitsIsGranted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		number := func(label string, maximum int64) decimal.Decimal {
			return decimal.FromInt(rapid.Int64Range(1, maximum).Draw(rt, label))
		}
		m := billing.New(billing.Config{})
		s := &budgetSandbox{&heldSandbox{enginetest.NewLog(m, enginetest.Epoch), t, m}}
		doc := enginetest.PrepaidPlan()
		doc.Features = append(doc.Features, billing.FeatureDocument{
			Key: "words", HasCost: true, CostPerUnit: number("cost", 3),
		})
		p := billing.PlanFeatureDocument{Key: "words", PricingType: "graduated"}
		end := decimal.Decimal{}
		for range rapid.IntRange(0, 4).Draw(rt, "tiers") {
			end = plus(end, number("wide", 20))
			p.Pricing.Tiers = append(p.Pricing.Tiers, billing.TierDocument{
				UpTo: end, PricePerUnit: number("price", 5),
			})
		}
		p.Pricing.Tiers = append(p.Pricing.Tiers, billing.TierDocument{
			Infinite: true, PricePerUnit: number("price", 5),
		})
		doc.Plans[0].Features = append(doc.Plans[0].Features, p)
		enginetest.NewAccount(s.Log, doc)
		enginetest.NewCustomer(s.Log, "ada", "prepaid")
		limits := []billing.LimitDocument{inUSD(number("money", 120).String())}
		if rapid.Bool().Draw(rt, "limits cost") {
			limits = append(limits, ofCost(number("most cost", 90).String()))
		}
		s.put("all", "", "", limits...)
		s.put("ada", "all", "ada", billing.LimitDocument{
			Of: billing.MeasureUnits, Feature: "words", Limit: number("units", 90),
			Window: billing.WindowDay,
		})
		s.event("e", "words", rapid.Int64Range(0, 20).Draw(rt, "used"))

		asked := rapid.Int64Range(1, 60).Draw(rt, "asked")
		most := int64(0)
		for units := int64(1); units <= asked; units++ {
			c := enginetest.Reservation("r", "ada", "words", units)
			c.DryRun = true
			if s.Do(billing.KindReserve, c).Outcome == engine.OutcomeDone {
				most = units
			}
		}
		r := s.part("r", "words", fmt.Sprint(asked))
		if most == 0 {
			s.refuses(engine.OutcomeBudgetExceeded, r)
			return
		}
		require.Equal(rt, decimal.FromInt(most), s.view(r).Items[0].Granted)
		require.NoError(rt, billing.HeldAddsUp(m))
	})
}
