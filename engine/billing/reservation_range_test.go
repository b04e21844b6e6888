package billing_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// TestACostOutOfRangeIsNotHeldAnew: a part is settled after the provider's cost has risen so far
// that what all reservations hold would leave the range of numbers. The state is restored as it is.
func TestACostOutOfRangeIsNotHeldAnew(t *testing.T) {
	s := newBudgetSandbox(t)
	l := ofCost("10")
	l.Soft = true
	s.put("all", "", "", l)
	const reservations = 195
	for i := range reservations {
		s.view(s.reserve(fmt.Sprint("r", i), "words", 2))
	}
	require.Equal(t, engine.OutcomeDone, s.Do(billing.KindApplyCatalog,
		enginetest.ApplyCatalog(1, billing.CatalogDocument{Features: []billing.FeatureDocument{{
			Key: "words", HasCost: true, CostPerUnit: decimal.MustParse("900000000000000000000000"),
		}}})).Outcome)
	for i := range reservations {
		s.settle(fmt.Sprint("r", i), 1, func(c *billing.SettleReservation) { c.Partial = true })
	}
	restored := billing.New(billing.Config{})
	require.NoError(t, restored.Restore(bytes.NewReader(enginetest.Snapshot(t, s.m))))
	_, want := s.m.StateHash()
	_, got := restored.StateHash()
	require.Equal(t, want, got)
}
