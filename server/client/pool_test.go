package client_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

func TestCustomersShowTheirCreditPools(t *testing.T) {
	n := start(t)
	n.customer("acme")
	require.Empty(t, n.call("GET", "customers/acme", "").is(200, "").data("creditPools"))
	n.Do(t, billing.KindCreatePool, &billing.CreatePool{
		Env: n.env, ID: [16]byte{7}, Customer: "acme", Name: "Tokens", Denomination: "tokens",
		Currency: "USD", HardLimit: true,
	})
	n.Do(t, billing.KindGrantCredits, &billing.GrantCredits{
		Env: n.env, ID: [16]byte{8}, Pool: [16]byte{7}, Amount: decimal.FromInt(250),
	})
	a := n.call("GET", "customers/acme", "").is(200, "")
	pools := a.data("creditPools").([]any)
	require.Len(t, pools, 1)
	pool := pools[0].(map[string]any)
	require.Equal(t, "Tokens", pool["name"])
	require.Equal(t, 250.0, pool["balance"])
	require.Equal(t, 250.0, pool["totalGranted"])
	require.Equal(t, 0.0, pool["totalConsumed"])
	require.Equal(t, "ACTIVE", pool["status"])
	require.Equal(t, "NONE", pool["rolloverPolicy"])
	require.Equal(t, a.data("id"), pool["customerId"])
	require.NotContains(t, pool, "rolloverCap")
}
