package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/demo"
	api "tollgate/sdk/go"
)

// TestPurchaseOrder: the command line sends the field by the client of sdk/go, and prints it.
func TestPurchaseOrder(t *testing.T) {
	s := newShell(t)
	out, code := alone(append([]string{
		"subscriptions", "create", "ada", demo.ReplayPlan,
		"--purchase-order", "PO-7",
	}, s.clientArgs...)...)
	require.Zero(t, code)
	s.holds(out, "Purchase order", "PO-7")
	all, err := s.api.Subscriptions(t.Context(), "ada")
	require.NoError(t, err)
	require.Equal(t, api.SubscriptionDetails{PurchaseOrder: "PO-7"}, all[1].SubscriptionDetails)
	out, _ = alone("help", "subscriptions", "create")
	require.Contains(t, out, "--purchase-order=STRING")
}
