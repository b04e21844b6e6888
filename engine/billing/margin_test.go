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

// TestMarginFollowsCorrections: what was voided costs nothing, what was amended costs what its new
// units cost at the cost per unit of the event's own moment, and a cost that was stated stays.
func TestMarginFollowsCorrections(t *testing.T) {
	m, l := opened()
	src := &enginetest.Source{Journal: m.Journal()}
	record := func(key string, units, cost string) {
		u := enginetest.Usage(l, key, "ada", "input-tokens", 0)
		u.Units = decimal.MustParse(units)
		if cost != "" {
			u.HasCost, u.Cost = true, decimal.MustParse(cost)
		}
		require.False(t, l.DoPayload(billing.KindRecordUsage, u.Seal(nil)).Outcome.Refused())
	}
	void := func(key string) {
		id := billing.UsageKey(enginetest.Sandbox, []byte(key))
		ref, _, err := m.FindUsage(src, src, enginetest.Sandbox, id)
		require.NoError(t, err)
		r := l.Do(billing.KindVoidUsage, &billing.VoidUsage{
			Env: enginetest.Sandbox, Key: id, Original: ref,
		})
		require.Equal(t, engine.OutcomeDone, r.Outcome)
	}
	amend := func(key, units string) {
		id := billing.UsageKey(enginetest.Sandbox, []byte(key))
		ref, _, err := m.FindUsage(src, src, enginetest.Sandbox, id)
		require.NoError(t, err)
		r := l.Do(billing.KindAmendUsage, &billing.AmendUsage{
			Env: enginetest.Sandbox, Key: id, Original: ref, Units: decimal.MustParse(units),
			ID: enginetest.ID(key + units),
		})
		require.Equal(t, engine.OutcomeDone, r.Outcome)
	}
	cost := func() (cost string, events uint64) {
		rows, err := m.Margin(src, billing.MarginQuery{
			Env: enginetest.Sandbox, From: l.Stamp - 1, To: l.Stamp + 1, By: billing.MarginByFeature,
			MaxEvents: 100,
		})
		require.NoError(t, err)
		for _, r := range rows {
			if r.Key == "input-tokens" {
				return r.Cost.String(), r.Events
			}
		}
		return "", 0
	}
	expect := func(want string, count uint64) {
		t.Helper()
		got, events := cost()
		require.Equal(t, want, got)
		require.Equal(t, count, events)
	}
	record("computed", "3.5", "") // at 0.000001
	record("stated", "10", "2")
	record("nothing", "0", "")
	expect("2.0000035", 3)

	doc := enginetest.TokenPlan()
	doc.Features[1].CostPerUnit = decimal.MustParse("0.5") // of later events
	l.Do(billing.KindApplyCatalog, enginetest.ApplyCatalog(enginetest.Sandbox, doc))
	amend("computed", "7")
	amend("stated", "99")
	expect("2.000007", 3)
	amend("computed", "1.5")
	amend("nothing", "2") // its own cost per unit is not known any more
	expect("3.0000015", 3)
	void("computed")
	expect("3", 2)
	void("stated")
	expect("1", 1)
	amend("nothing", "0")
	expect("0", 1)
}

// TestAmendmentsOutOfRangeAreRefused: units that no exact number has the cost of.
func TestAmendmentsOutOfRangeAreRefused(t *testing.T) {
	m, l := opened()
	doc := enginetest.TokenPlan()
	doc.Features[0].HasCost, doc.Features[0].CostPerUnit = true, decimal.FromInt(1_000_000)
	l.Do(billing.KindApplyCatalog, enginetest.ApplyCatalog(enginetest.Sandbox, doc))
	u := enginetest.Usage(l, "k", "ada", "requests", 1)
	require.Equal(t, engine.OutcomeDone, l.DoPayload(billing.KindRecordUsage, u.Seal(nil)).Outcome)
	src := &enginetest.Source{Journal: m.Journal()}
	ref, found, err := m.FindUsage(src, src, enginetest.Sandbox, u.Key)
	require.NoError(t, err)
	require.True(t, found)
	r := l.Do(billing.KindAmendUsage, &billing.AmendUsage{
		Env: enginetest.Sandbox, Key: u.Key, Original: ref, Units: decimal.Largest(),
	})
	require.Equal(t, engine.OutcomeOverflow, r.Outcome)
}

// TestMarginByPlanFollowsPlanChanges: what was billed and used before an upgrade is the old plan's,
// also once the subscription is on another one; so are the time given back, and usage that comes
// late.
func TestMarginByPlanFollowsPlanChanges(t *testing.T) {
	k := &books{t: t, m: billing.New(billing.Config{})}
	k.l = enginetest.NewLog(k.m, enginetest.Epoch)
	k.src = &enginetest.Source{Journal: k.m.Journal()}
	enginetest.NewAccount(k.l, lifecyclePlans()) // llm-team at 20, grow at 7.77
	enginetest.NewCustomer(k.l, "ada", "llm-team")
	by := func(from, to int64) map[string]string {
		rows, err := k.m.Margin(k.src, billing.MarginQuery{
			Env: enginetest.Sandbox, From: from, To: to, By: billing.MarginByPlan, MaxEvents: 100,
		})
		require.NoError(t, err)
		got := map[string]string{}
		for _, r := range rows {
			got[r.Key] = fmt.Sprint(r.Currency, " ", r.Revenue, " ", r.Cost, " ", r.Events)
		}
		return got
	}
	k.use("before", 1_000_000, 0)
	k.to(enginetest.Epoch + 14*dayMS) // half of the period
	r := k.l.Do(billing.KindChangePlan, &billing.ChangePlan{
		Env: enginetest.Sandbox, ID: enginetest.ID("subscription ada llm-team"), Plan: "grow",
		Type: billing.ChangeUpgrade, ChangeID: enginetest.ID("change"),
	})
	require.Equal(t, engine.OutcomeDone, r.Outcome)
	k.use("after", 2_000_000, 0)
	k.use("late", 4_000_000, 3*dayMS)
	half := map[string]string{"llm-team": "USD 20 1 1"}
	require.Equal(t, half, by(0, enginetest.Epoch+10*dayMS), "grow came later")
	// The upgrade gives 10 back and charges 3.89; the rest, 6.11, is carried forward, on an invoice
	// of the period that llm-team began.
	require.Equal(t, map[string]string{
		"llm-team": "USD 16.11 5 2", "grow": "USD 3.89 2 1",
	}, by(0, enginetest.Epoch+28*dayMS-1))

	r = k.l.Do(billing.KindChangePlan, &billing.ChangePlan{
		Env: enginetest.Sandbox, ID: enginetest.ID("subscription ada llm-team"), Plan: "llm-team",
		Type: billing.ChangeDowngrade, ChangeID: enginetest.ID("back"),
	})
	require.Equal(t, engine.OutcomeDone, r.Outcome)
	k.l.Stamp = enginetest.Epoch + 28*dayMS // the change has no entry yet
	k.l.Do(billing.KindSetLimits, &billing.SetLimits{})
	got := by(enginetest.Epoch+28*dayMS, enginetest.Epoch+29*dayMS)
	// 5,000,000 tokens of llm-team are 10.10, 2,000,000 of grow 4.10; the new period's base price is
	// llm-team's again, and takes the 6.11 that were carried.
	require.Equal(t, map[string]string{"llm-team": "USD 23.99 0 0", "grow": "USD 4.1 0 0"}, got)
}
