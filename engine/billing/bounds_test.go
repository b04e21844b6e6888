package billing_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
)

// TestBoundsOutliveASnapshot: a replica that was restored counts what an account holds as the
// others do, and refuses what they refuse.
func TestBoundsOutliveASnapshot(t *testing.T) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	enginetest.NewAccount(l, enginetest.TokenPlan())
	name := m.Accounts()[0].Name
	use, bounds, ok := m.Use(name)
	require.True(t, ok)
	require.Equal(t, billing.DefaultBounds, bounds)
	require.Positive(t, use.Catalog)
	enginetest.NewCustomer(l, "ada", "llm-team")
	l.Do(billing.KindSetLimits, &billing.SetLimits{AccountCustomers: 1})

	restored := billing.New(billing.Config{})
	require.NoError(t, restored.Restore(bytes.NewReader(enginetest.Snapshot(t, m))))
	for _, m := range []*billing.Machine{m, restored} {
		use, bounds, _ := m.Use(name)
		require.Equal(t, uint64(1), use.Customers)
		require.Equal(t, uint64(1), bounds.Customers)
		require.Equal(t, billing.DefaultBounds.Keys, bounds.Keys)
		l := enginetest.NewLog(m, l.Stamp)
		l.Index = m.Applied()
		r := l.Do(billing.KindCreateCustomer, &billing.CreateCustomer{
			Env: enginetest.Sandbox, ID: enginetest.ID("bob"), ExternalID: "bob", FirstName: "B",
			LastName: "B", Email: "b@example.com",
		})
		require.Equal(t, engine.OutcomeCustomerLimit, r.Outcome)
	}
	_, _, ok = m.Use("nobody")
	require.False(t, ok)
}
