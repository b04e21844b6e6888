package billing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// everyFeature is a plan with a feature of each sort: no price and no limit, soft and hard limits,
// credits alone, credits with a price behind them, and one that no plan carries.
func everyFeature() billing.CatalogDocument {
	limit := func(n int64, mode string) billing.PricingDocument {
		return billing.PricingDocument{
			HasMax: true, MaxUsage: decimal.FromInt(n), LimitMode: mode,
			PricePerUnit: decimal.MustParse("0.5"),
		}
	}
	burn := billing.CreditsDocument{Pool: "studio", Weight: decimal.FromInt(2)}
	doc := billing.CatalogDocument{}
	for _, key := range []string{"sso", "soft", "hard", "credits", "mixed", "capped", "orphan"} {
		doc.Features = append(doc.Features, billing.FeatureDocument{Key: key})
	}
	capped := limit(3, "hard")
	capped.Credits = burn
	all := []billing.PlanFeatureDocument{
		{Key: "sso", PricingType: "included"},
		{Key: "soft", PricingType: "usage_based", Pricing: limit(10, "soft")},
		{Key: "hard", PricingType: "usage_based", Pricing: limit(10, "hard")},
		{Key: "credits", PricingType: "included", Pricing: billing.PricingDocument{Credits: burn}},
		{Key: "mixed", PricingType: "usage_based", Pricing: billing.PricingDocument{
			PricePerUnit: decimal.MustParse("0.1"), Credits: burn,
		}},
		{Key: "capped", PricingType: "usage_based", Pricing: capped},
	}
	doc.Plans = []billing.PlanDocument{
		{
			Key: "whole", Currency: "USD", IntervalMonths: 1, PriceAmount: decimal.FromInt(10),
			Features: all, CreditAllocations: []billing.CreditAllocationDocument{{
				Pool: "studio", Amount: decimal.FromInt(20), HardLimit: true,
			}},
		},
		{
			Key: "part", Currency: "USD", IntervalMonths: 1, PriceAmount: decimal.FromInt(10),
			Features: all[1:4],
		},
	}
	return doc
}

// asChecked reports whether the list of entitlements has what single checks decide, in each
// subscription that they would pick, and what it lists of others is of none that has ended.
func asChecked(t *testing.T, m *billing.Machine, now int64) (reasons map[string]billing.Reason) {
	t.Helper()
	reasons = map[string]billing.Reason{}
	rows, found := m.Entitlements(enginetest.Sandbox, "ada", now)
	require.True(t, found)
	for _, key := range []string{"sso", "soft", "hard", "credits", "mixed", "capped", "orphan"} {
		var want billing.Decision
		m.Check(&billing.CheckQuery{
			Env: enginetest.Sandbox, Customer: []byte("ada"), Feature: []byte(key), Now: now,
		}, &want)
		reasons[key] = want.Reason
		count := 0
		for i := range rows {
			got := rows[i].Decision
			if rows[i].FeatureKey != key || rows[i].SubscriptionID != want.SubscriptionID {
				continue
			}
			count++
			got.CustomerRow, got.LogIndex = want.CustomerRow, want.LogIndex
			got.EnvironmentTime = want.EnvironmentTime
			require.Equal(t, want, got, key)
		}
		picked := 0
		if want.SubscriptionID != ([16]byte{}) {
			picked = 1
		}
		require.Equal(t, picked, count, "%s is listed once where a check finds it", key)
	}
	return reasons
}

// TestEntitlementsAreListedAsChecked: every sort of feature, in every state of subscription and
// pool.
func TestEntitlementsAreListedAsChecked(t *testing.T) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	enginetest.NewAccount(l, everyFeature())
	enginetest.NewCustomer(l, "ada", "whole")
	seen := map[billing.Reason]bool{}
	look := func() map[string]billing.Reason {
		reasons := asChecked(t, m, l.Stamp)
		for _, r := range reasons {
			seen[r] = true
		}
		return reasons
	}
	use := func(key, feature string, units int64) {
		c := enginetest.Usage(l, key, "ada", feature, 0)
		c.Units = decimal.FromInt(units)
		r := l.DoPayload(billing.KindRecordUsage, c.Seal(nil))
		require.False(t, r.Outcome.Refused(), "%s", r.Outcome)
	}
	do := func(kind engine.Kind, c wire.Fielder) {
		require.Equal(t, engine.OutcomeDone, l.Do(kind, c).Outcome)
	}
	look()
	use("1", "soft", 7)
	use("2", "hard", 4)
	use("3", "credits", 4)
	use("4", "capped", 2)
	look()
	use("5", "soft", 7)
	use("6", "hard", 6)
	use("7", "mixed", 9)
	reasons := look()
	require.Equal(t, billing.ReasonLimitReached, reasons["hard"])
	require.Equal(t, billing.ReasonCreditsEmpty, reasons["credits"])
	require.Equal(t, billing.ReasonAllowed, reasons["mixed"])

	pool := m.Pools(1)[0].ID
	do(billing.KindGrantCredits, &billing.GrantCredits{
		Env: enginetest.Sandbox, ID: enginetest.ID("g"), Pool: pool, Amount: decimal.FromInt(9),
		ExpiresAt: l.Stamp + dayMS,
	})
	look()
	l.Stamp += 2 * dayMS // what has expired is not booked yet
	require.Equal(t, billing.ReasonCreditsEmpty, look()["credits"])
	do(billing.KindFreezePool, &billing.FreezePool{Env: enginetest.Sandbox, ID: pool})
	look()
	do(billing.KindUnfreezePool, &billing.UnfreezePool{Env: enginetest.Sandbox, ID: pool})

	enginetest.NewCustomer(l, "ada", "part") // some features are in two now
	use("8", "hard", 3)
	look()
	for _, plan := range []string{"whole", "part"} {
		do(billing.KindMarkInvoicePaid, &billing.MarkInvoicePaid{
			Env: enginetest.Sandbox, ID: enginetest.ID("invoice ada " + plan),
		})
	}
	l.Stamp += 30 * dayMS // a period's end that no tick has come to
	require.Equal(t, billing.ReasonAllowed, look()["hard"])
	l.DoPayload(engine.KindTick, nil)
	look()
	l.Stamp += 60 * dayMS // and a suspension
	require.Equal(t, billing.ReasonSuspended, look()["hard"])
	l.DoPayload(engine.KindTick, nil)
	look()
	for _, plan := range []string{"whole", "part"} {
		do(billing.KindCancelSubscription, &billing.CancelSubscription{
			Env: enginetest.Sandbox, ID: enginetest.ID("subscription ada " + plan),
			Mode: billing.CancelImmediate,
		})
		look()
	}
	rows, _ := m.Entitlements(enginetest.Sandbox, "ada", l.Stamp)
	require.Empty(t, rows)
	for _, r := range []billing.Reason{
		billing.ReasonAllowed, billing.ReasonLimitReached, billing.ReasonCreditsEmpty,
		billing.ReasonSuspended, billing.ReasonNotInPlan, billing.ReasonNoSubscription,
	} {
		require.True(t, seen[r], "%s was not met", r)
	}
}

// TestOfFullSubscriptionsTheOldestIsChosen: usage goes to the one that has room, to the oldest
// where none has.
func TestOfFullSubscriptionsTheOldestIsChosen(t *testing.T) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	enginetest.NewAccount(l, everyFeature())
	enginetest.NewCustomer(l, "ada", "whole")
	enginetest.NewCustomer(l, "ada", "part")
	first := check(m, "ada", "soft").SubscriptionID
	use := func(key string) [16]byte {
		c := enginetest.Usage(l, key, "ada", "soft", 10)
		require.False(t, l.DoPayload(billing.KindRecordUsage, c.Seal(nil)).Outcome.Refused())
		return check(m, "ada", "soft").SubscriptionID
	}
	require.NotEqual(t, first, use("1"))
	require.Equal(t, first, use("2"), "both are full")
	require.Equal(t, billing.ReasonLimitReached, check(m, "ada", "soft").Reason)
	use("3")
	require.Equal(t, decimal.FromInt(20), check(m, "ada", "soft").Used)
}
