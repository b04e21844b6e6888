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

// listens makes an endpoint that hears everything.
func (s *heldSandbox) listens(name string) {
	s.t.Helper()
	r := s.Do(billing.KindCreateWebhookEndpoint, &billing.CreateWebhookEndpoint{
		Env: enginetest.Sandbox, ID: enginetest.ID(name), URL: "https://a.example/hook",
		Secret: []byte("sealed"), Actor: "ops",
	})
	require.Equal(s.t, engine.OutcomeDone, r.Outcome)
}

// leaves deletes it.
func (s *heldSandbox) leaves(name string) {
	s.t.Helper()
	r := s.Do(billing.KindDeleteWebhookEndpoint, &billing.DeleteWebhookEndpoint{
		Env: enginetest.Sandbox, ID: enginetest.ID(name), Actor: "ops",
	})
	require.Equal(s.t, engine.OutcomeDone, r.Outcome)
}

// thresholds are what an endpoint was told, newest first.
func (s *heldSandbox) thresholds(name string) (all []string) {
	s.t.Helper()
	page, _, ok := s.m.WebhookDeliveries(&billing.DeliveryQuery{
		Env: enginetest.Sandbox, Endpoint: enginetest.ID(name), Limit: 100,
	})
	require.True(s.t, ok)
	for i := range page {
		if m := &page[i].Message; m.Percent > 0 {
			all = append(all, fmt.Sprint(m.BudgetKey, m.FeatureKey, m.Percent))
		}
	}
	return all
}

// corrects amends a caller's event; to less than nothing: it is voided.
func (s *heldSandbox) corrects(key string, units int64) engine.Result {
	s.t.Helper()
	src := &enginetest.Source{Journal: s.m.Journal()}
	k := billing.UsageKey(enginetest.Sandbox, []byte(key))
	ref, found, err := s.m.FindUsage(src, nil, enginetest.Sandbox, k)
	require.NoError(s.t, err)
	require.True(s.t, found)
	if units < 0 {
		return s.Do(billing.KindVoidUsage, &billing.VoidUsage{
			Env: enginetest.Sandbox, Key: k, Original: ref,
		})
	}
	return s.Do(billing.KindAmendUsage, &billing.AmendUsage{
		Env: enginetest.Sandbox, Key: k, Original: ref, Units: decimal.FromInt(units),
		ID: enginetest.ID(fmt.Sprint(key, s.Index)),
	})
}

// amends is corrects where it succeeds.
func (s *heldSandbox) amends(key string, units int64) {
	s.t.Helper()
	require.Equal(s.t, engine.OutcomeDone, s.corrects(key, units).Outcome)
}

// TestWhatNobodyWasToldIsTold: usage that passes a threshold while no endpoint listens, is
// corrected and rises again tells it then, by an event or an amendment.
func TestWhatNobodyWasToldIsTold(t *testing.T) {
	for _, amends := range []bool{false, true} {
		s := newHeldSandbox(t)
		require.Equal(t, engine.OutcomeDone, s.event("a", "calls", 260))
		s.listens("hook")
		require.Equal(t, engine.OutcomeDone, s.event("b", "calls", 10))
		require.Empty(t, s.thresholds("hook"), "it was passed before")
		s.amends("a", 10)
		if amends {
			s.amends("a", 300)
		} else {
			require.Equal(t, engine.OutcomeDone, s.event("c", "calls", 290))
		}
		require.Equal(t, []string{"calls50"}, s.thresholds("hook"))
	}
}

// TestWhatWasToldStaysTold: though no endpoint listens while a correction takes usage below the
// threshold, also where an amendment told it, and after a restore.
func TestWhatWasToldStaysTold(t *testing.T) {
	for _, amends := range []bool{false, true} {
		s := newHeldSandbox(t)
		s.listens("hook")
		if amends {
			require.Equal(t, engine.OutcomeDone, s.event("a", "calls", 10))
			s.amends("a", 260)
		} else {
			require.Equal(t, engine.OutcomeDone, s.event("a", "calls", 260))
		}
		require.Equal(t, []string{"calls50"}, s.thresholds("hook"))
		s.leaves("hook")
		s.amends("a", 10)
		s.m = restored(t, enginetest.Snapshot(t, s.m))
		s.Machine = s.m
		s.listens("next")
		require.Equal(t, engine.OutcomeDone, s.event("b", "calls", 250))
		s.amends("b", 0)
		s.amends("b", 260)
		require.Empty(t, s.thresholds("next"))
		require.Equal(t, engine.OutcomeDone, s.event("c", "calls", 200))
		require.Equal(t, []string{"calls90"}, s.thresholds("next"))
	}
}

// TestWhatWasToldIsCounted: as memory of the counters.
func TestWhatWasToldIsCounted(t *testing.T) {
	s := newHeldSandbox(t)
	s.listens("hook")
	counters := func() uint64 {
		for _, part := range s.m.Stats().Bytes {
			if part.Part == "counters" {
				return part.Bytes
			}
		}
		return 0
	}
	before := counters()
	require.Equal(t, engine.OutcomeDone, s.event("a", "calls", 260))
	require.Greater(t, counters(), before)
}

// TestAVoidTellsNoThreshold: after a limit was lowered, usage may be above a threshold that no
// webhook has reported. Neither a void, a smaller amendment nor the next event reports it; usage
// that reaches the one behind it reports that.
func TestAVoidTellsNoThreshold(t *testing.T) {
	for _, units := range []int64{-1, 5} {
		limit := inUSD("100")
		limit.Thresholds = []byte{50, 90}
		s := newBudgetSandbox(t, limit)
		s.listens("hook")
		require.Equal(t, engine.OutcomeDone, s.event("a", "words", 25))
		require.Equal(t, engine.OutcomeDone, s.event("b", "words", 10))
		limit.Limit = decimal.FromInt(40)
		s.put("all", "", "", limit)
		s.amends("b", units)
		require.Empty(t, s.thresholds("hook"))
		require.Equal(t, engine.OutcomeDone, s.event("c", "words", 1))
		require.Empty(t, s.thresholds("hook"))
		require.Equal(t, engine.OutcomeDone, s.event("d", "words", 10-max(units, 0)))
		require.Equal(t, []string{"all90"}, s.thresholds("hook"))
	}
}
