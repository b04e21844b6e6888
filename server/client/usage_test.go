package client_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
)

func TestUsage(t *testing.T) {
	n := start(t)
	n.customer("acme")
	n.customer("other")
	n.call("POST", "events", event("a", `,"usageUnits":2.5`)).is(201, "")
	n.call("POST", "events", event("b", `,"featureKey":"none"`)).is(201, "")
	ask := func(more string) answer { return n.call("GET", "usage?"+more, "") }
	a := ask("customer=acme").is(200, "")
	require.Equal(t, "day", a.data("by"))
	series := a.data("series").([]any)
	require.Len(t, series, 2)
	first := series[0].(map[string]any)
	points := first["points"].([]any)
	today := time.Now().UTC().Format("2006-01-02") + "T00:00:00.000Z"
	require.Equal(t, []any{map[string]any{"start": today, "events": 1.0, "usageUnits": 2.5}}, points)
	delete(first, "points")
	require.Equal(t, map[string]any{"featureKey": "tokens", "events": 1.0, "usageUnits": 2.5}, first)
	require.Empty(t, series[1].(map[string]any)["featureKey"], "of a name that no feature has")

	n.call("POST", "events/a/void", `{}`).is(200, "")
	require.Len(t, ask("customer=acme").data("series"), 1)
	require.Empty(t, ask("customer=other").is(200, "").data("series"))
	require.Len(t, ask("").is(200, "").data("series"), 1, "all customers together")
	require.Empty(t, ask("feature=tokens").is(200, "").data("series"))
	require.Equal(t, "2026-01-01T00:00:00.000Z",
		ask("by=month&from=2026-01-15T10:00:00%2B01:00&to=2026-02-01T00:00:00Z").data("from"))
}

// TestUsageRefusals: whatever is asked for gets a clear answer, and a small one.
func TestUsageRefusals(t *testing.T) {
	n := start(t)
	n.customer("acme")
	n.customer("other")
	for query, want := range map[string]struct {
		status       int
		code, detail string
	}{
		"by=week":        {400, "validation_failed", "by must be hour, day or month"},
		"from=yesterday": {400, "validation_failed", "from must be an RFC 3339 time"},
		"from=2026-01-02T00:00:00Z&to=2026-01-02T00:00:00Z": {400, "validation_failed", "before to"},
		"from=2026-01-02T00:00:00Z&to=2025-01-02T00:00:00Z": {400, "validation_failed", "before to"},
		"by=hour&from=1970-01-01T00:00:00Z":                 {400, "validation_failed", "1,000 buckets; shorten it"},
		"from=1000-01-01T00:00:00Z&to=9999-01-01T00:00:00Z": {400, "validation_failed", "1,000 buckets; shorten it"},
		"customer=nobody":                    {404, "customer_not_found", ""},
		"customer=%00":                       {404, "customer_not_found", ""},
		"feature=nothing":                    {404, "feature_not_found", ""},
		"feature=" + url.QueryEscape("';--"): {404, "feature_not_found", ""},
		"customers=acme":                     {400, "validation_failed", "customers"},
	} {
		a := n.call("GET", "usage?"+query, "").is(want.status, want.code)
		if want.detail != "" {
			require.Contains(t, a.fault()["detail"], want.detail, query)
		}
	}

	ahead := n.call("GET", "usage?from=2999-01-01T00:00:00Z", "").is(400, "validation_failed")
	require.Contains(t, ahead.fault()["detail"], "from must be before the environment's time, 20")

	// A customer key sees its customer, and has to name it.
	key := n.customerKey("acme")
	n.send("GET", "usage?customer=acme", "", key, nil).is(200, "")
	for _, query := range []string{"", "customer=other", "customer=nobody"} {
		n.send("GET", "usage?"+query, "", key, nil).is(403, "access_denied")
	}

	// A clock that was moved by years: the range goes with it.
	to := time.Now().AddDate(3, 0, 0)
	n.Do(t, billing.KindAdvanceClock, &billing.AdvanceClock{Env: n.env, To: to.UnixMilli()})
	a := n.call("GET", "usage?by=month", "").is(200, "")
	next := to.UTC().AddDate(0, 0, 1-to.UTC().Day()).AddDate(0, 1, 0)
	require.Contains(t, a.data("to"), next.Format("2006-01"))
	require.Empty(t, a.data("series"))
	n.call("GET", "usage?by=hour&from="+time.Now().UTC().Format("2006-01-02T15:04:05Z"), "").
		is(400, "validation_failed")
}
