package billing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/enginetest"
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
		ref, _, err := m.FindUsage(src, enginetest.Sandbox, id)
		require.NoError(t, err)
		r := l.Do(billing.KindVoidUsage, &billing.VoidUsage{
			Env: enginetest.Sandbox, Key: id, Original: ref,
		})
		require.Equal(t, engine.OutcomeDone, r.Outcome)
	}
	amend := func(key, units string) {
		id := billing.UsageKey(enginetest.Sandbox, []byte(key))
		ref, _, err := m.FindUsage(src, enginetest.Sandbox, id)
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
	ref, found, err := m.FindUsage(src, enginetest.Sandbox, u.Key)
	require.NoError(t, err)
	require.True(t, found)
	r := l.Do(billing.KindAmendUsage, &billing.AmendUsage{
		Env: enginetest.Sandbox, Key: u.Key, Original: ref, Units: decimal.Largest(),
	})
	require.Equal(t, engine.OutcomeOverflow, r.Outcome)
}
