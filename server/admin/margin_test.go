package admin_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/client"
)

func TestMargin(t *testing.T) {
	n := start(t)
	key := n.furnish()
	n.subscribe(key)
	record := func(id, more string) {
		n.send("POST", client.Prefix+"/events", `{"eventIdempotencyKey":"`+id+`","eventName":"tokens",`+
			`"customerReferenceId":"ada","occurredAt":"`+time.Now().UTC().Format(time.RFC3339Nano)+`"`+
			more+`}`, key, "application/json").is(201, "")
	}
	record("k1", `,"usageUnits":3`)                        // at the feature's cost per unit: 0.000003
	record("k2", `,"costAmount":1.5`)                      // at the cost that it names
	record("k3", `,"usageUnits":0`)                        // costs nothing
	record("k4", `,"featureKey":"none","costAmount":0.25`) // of no feature, and of no plan
	ask := func(by string) answer {
		query := url.Values{
			"from": {time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)},
			"to":   {time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}, "by": {by},
		}
		return n.call("GET", sandbox+"margin?"+query.Encode(), "")
	}
	row := func(key, currency string, revenue, cost, margin, events float64) map[string]any {
		r := map[string]any{
			"key": key, "currency": currency, "revenue": revenue, "cost": cost, "margin": margin,
			"events": events,
		}
		if currency == "" {
			delete(r, "currency")
		}
		return r
	}
	for by, want := range map[string][]any{
		"customer": {row("ada", "", 0, 0.25, -0.25, 1), row("ada", "USD", 20, 1.500003, 18.499997, 3)},
		"feature": {
			row("", "USD", 20, 0, 20, 0), row("none", "", 0, 0.25, -0.25, 1),
			row("tokens", "USD", 0, 1.500003, -1.500003, 3),
		},
		"plan": {row("", "", 0, 0.25, -0.25, 1), row("team", "USD", 20, 1.500003, 18.499997, 3)},
	} {
		a := ask(by).is(200, "")
		require.Equal(t, want, a.data()["rows"], by)
	}
	a := n.call("GET", sandbox+"margin?from=2001-01-01T00:00:00Z&to=2002-01-01T00:00:00Z&by=plan", "")
	require.Empty(t, a.is(200, "").data()["rows"])
	a = n.call("GET", sandbox+"margin?from=x&by=day", "").is(400, "validation_failed")
	for _, part := range []string{"from must", "to must", "by must"} {
		require.Contains(t, a.detail(), part)
	}
	a = n.call("GET", sandbox+"margin?from=2002-01-01T00:00:00Z&to=2001-01-01T00:00:00Z&by=plan", "")
	require.True(t, strings.Contains(a.is(400, "validation_failed").detail(), "before"))
}
