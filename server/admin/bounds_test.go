package admin_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
)

// TestAnAccountIsBounded: each kind of record has an error of its own at its bound, and GET
// /accounts/{account} says how much is used.
func TestAnAccountIsBounded(t *testing.T) {
	n := start(t)
	n.furnish()
	holds := func(kind, what string) any {
		all := n.call("GET", "accounts/demo", "").is(200, "").data()["holds"].(map[string]any)
		return all[kind].(map[string]any)[what]
	}
	for kind, limit := range map[string]float64{
		"customers": 10_000_000, "keys": 2000, "catalog": 100_000, "webhookEndpoints": 32,
	} {
		require.Equal(t, limit, holds(kind, "limit"))
	}
	keys := holds("keys", "used").(float64)
	require.Positive(t, keys)
	var results [1]engine.Result
	n.Propose(time.Now().Add(time.Second), []engine.Record{{
		Kind: billing.KindSetLimits, Payload: wire.Encode(nil, &billing.SetLimits{
			AccountKeys: uint64(keys), AccountEndpoints: 1,
			AccountCatalog: uint64(holds("catalog", "used").(float64)),
		}),
	}}, results[:])
	require.Equal(t, engine.OutcomeDone, results[0].Outcome)
	n.call("POST", sandbox+"keys", `{"scope":"read"}`).is(400, "key_limit")
	n.call("PUT", sandbox+"catalog", `{"features":[{"key":"one-more","name":"F"}]}`).
		is(400, "catalog_limit")
	hook := `{"url":"https://hooks.example/1","events":["invoice.created"]}`
	n.call("POST", hooksPath, hook).is(201, "")
	n.call("POST", hooksPath, hook).is(400, "webhook_endpoint_limit")
	require.Equal(t, 1.0, holds("webhookEndpoints", "used"))
	n.call("GET", "accounts/nobody", "").is(404, "account_not_found")
}
