package admin_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
	"tollgate/engine/rollup"
	"tollgate/server/admin"
	"tollgate/server/client"
)

func TestUsageTotals(t *testing.T) {
	n := start(t)
	key := n.furnish()
	n.subscribe(key)
	n.send("POST", client.Prefix+"/events", `{"eventIdempotencyKey":"k","eventName":"tokens",`+
		`"customerReferenceId":"ada","usageUnits":3,"occurredAt":"`+
		time.Now().UTC().Format(time.RFC3339Nano)+`"}`, key, "application/json").is(201, "")
	for _, feature := range []string{"tokens", "nothing", "nothing"} {
		n.send("GET", client.Prefix+"/entitlements/ada/"+feature, "", key, "").is(200, "")
	}
	var d map[string]any
	require.Eventually(t, func() bool { // audit events are recorded after the answer
		d = n.call("GET", sandbox+"usage", "").is(200, "").data()
		return len(d["checks"].([]any)) == 2
	}, 5*time.Second, 10*time.Millisecond)
	counts := map[string]any{}
	for _, c := range d["checks"].([]any) {
		counts[c.(map[string]any)["reason"].(string)] = c.(map[string]any)["checks"]
	}
	require.Equal(t, map[string]any{"allowed": 1.0, "feature_unknown": 2.0}, counts)
	series := d["series"].([]any)[0].(map[string]any)
	require.Equal(t, 3.0, series["usageUnits"])
	revenue := d["revenue"].([]any)[0].(map[string]any)
	require.Equal(t, "USD", revenue["currency"])
	require.Equal(t, 20.0, revenue["billed"])
	require.Equal(t, 20.0, revenue["due"])
	require.Equal(t, 0.0, revenue["collected"])
	require.Equal(t, 0.0, d["suspendedSubscriptions"])

	d = n.call("GET", sandbox+"usage?customer=ada&by=hour", "").is(200, "").data()
	require.Len(t, d["series"], 1)
	require.Empty(t, d["revenue"], "of a customer the usage alone")
	n.call("GET", sandbox+"usage?customer=nobody", "").is(404, "customer_not_found")
	d = n.call("GET", sandbox+"usage/customers?by=hour", "").is(200, "").data()
	require.Equal(t, []any{map[string]any{
		"customerReferenceId": "ada", "events": 1.0, "usageUnits": 3.0,
	}}, d["customers"])
	require.EqualValues(t, 0, d["others"])
	for _, query := range []string{"", "&currency=USD", "&feature=tokens"} {
		d = n.call("GET", sandbox+"usage/customers?sort=price"+query, "").is(200, "").data()
		require.Equal(t, []any{map[string]any{
			"customerReferenceId": "ada", "events": 1.0, "usageUnits": 3.0, "currency": "USD", "price": 0.000009,
		}}, d["customers"])
	}
	d = n.call("GET", sandbox+"usage/customers?sort=price&currency=EUR", "").is(200, "").data()
	require.Empty(t, d["customers"])
	n.call("GET", sandbox+"usage/customers?sort=name", "").is(400, "validation_failed")
	d = n.call("GET", sandbox+"checks/denied", "").is(200, "").data()
	require.Equal(t, []any{map[string]any{
		"customerReferenceId": "ada", "reason": "feature_unknown", "checks": 2.0,
	}}, d["customers"])
	d = n.call("GET", sandbox+"checks/denied?reason=limit_reached", "").is(200, "").data()
	require.Empty(t, d["customers"])
	n.call("GET", sandbox+"checks/denied?reason=allowed", "").is(400, "validation_failed")
	n.call("GET", sandbox+"usage/customers?feature=nothing", "").is(404, "feature_not_found")
	n.call("GET", sandbox+"usage/customers?customer=ada", "").is(400, "")
	n.call("GET", sandbox+"usage?by=second", "").is(400, "validation_failed")

	n.bare = &admin.Sources{Counts: refusing{billing.ErrRankingTooLarge}}
	n.serveAdmin(admin.NewMetrics(), [32]byte{2}, time.Minute)
	refused := n.call("GET", sandbox+"usage/customers?sort=price", "").is(400, "validation_failed")
	require.Contains(t, fmt.Sprint(refused.body), "field:sort")
	require.Contains(t, fmt.Sprint(refused.body), "shorten the range or leave sort out")
	n.bare.Counts = refusing{billing.ErrRanking}
	n.serveAdmin(admin.NewMetrics(), [32]byte{2}, time.Minute)
	busy := n.call("GET", sandbox+"usage/customers?sort=price", "").is(503, "overloaded")
	require.Contains(t, busy.detail(), "Repeat the request in some seconds")
}

// refusing cannot add usage up.
type refusing struct{ error }

func (r refusing) Sum(rollup.Query, func(rollup.Cell) error) error {
	return fmt.Errorf("add up: %w", r.error)
}
