package client_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/server/client"
)

func (n *node) usedTokens() any {
	n.t.Helper()
	return n.call("GET", "entitlements/acme/tokens", "").is(200, "").data("usage", "used")
}

func TestVoidAndAmend(t *testing.T) {
	n := start(t)
	n.customer("acme")
	n.call("POST", "events", event("k1", `,"usageUnits":4`)).is(201, "")
	n.call("POST", "events", event("a/b", `,"usageUnits":2`)).is(201, "")
	require.Equal(t, 6.0, n.usedTokens())
	n.call("POST", "events/k1/amend", `{"usageUnits":1.5,"reason":"measured again"}`).is(200, "")
	n.call("POST", "events/k1/amend", `{"usageUnits":1.5}`).is(200, "")
	require.Equal(t, 3.5, n.usedTokens())
	n.call("POST", "events/a%2Fb/void", `{"reason":"test traffic"}`).is(200, "")
	n.call("POST", "events/a%2Fb/void", `{}`).is(200, "")
	require.Equal(t, 1.5, n.usedTokens())
	n.call("POST", "events/a%2Fb/amend", `{"usageUnits":1}`).is(400, "usage_voided")
	require.Equal(t, 409, n.call("POST", "events", event("a/b", `,"usageUnits":2`)).status)

	a := n.call("GET", "customers/acme/events?kind=void", "").is(200, "")
	void := a.data("events").([]any)[0].(map[string]any)
	require.Equal(t, "test traffic", void["reason"])
	events := n.call("GET", "customers/acme/events?kind=usage", "").data("events").([]any)
	require.NotContains(t, events[0], "voidedAt")
	require.NotEmpty(t, events[1].(map[string]any)["voidedAt"])
	amended := n.call("GET", "customers/acme/events?kind=amend", "").data("events").([]any)
	require.Equal(t, 1.5, amended[0].(map[string]any)["usageUnits"])
}

func TestCorrectionsMindAHardLimit(t *testing.T) {
	n := start(t)
	n.customer("acme")
	call := func(key string) answer {
		return n.call("POST", "events", event(key, `,"featureKey":"calls"`))
	}
	for _, key := range []string{"c1", "c2", "c3"} {
		call(key)
	}
	call("c4").is(402, "limit_exceeded")
	n.call("POST", "events/c3/amend", `{"usageUnits":2}`).is(402, "limit_exceeded")
	n.call("POST", "events/c3/void", "").is(200, "")
	call("c4").is(200, "")
	require.Equal(t, 409, call("c3").status)
}

func TestWhatCorrectionsRefuse(t *testing.T) {
	n := start(t)
	n.customer("acme")
	n.call("POST", "events", event("k", `,"usageUnits":4`)).is(201, "")
	long := strings.Repeat("r", 501)
	for _, row := range []struct{ path, body, code, detail string }{
		{"events/nothing/void", "", "usage_not_found", ""},
		{"events/nothing/amend", `{"usageUnits":1}`, "usage_not_found", ""},
		{"events/" + strings.Repeat("k", 256) + "/void", "", "validation_failed", "255"},
		{"events/k%0A/void", "", "validation_failed", "control"},
		{"events/k/void", `{"why":"x"}`, "validation_failed", `"why"`},
		{"events/k/void", `[]`, "validation_failed", "object"},
		{"events/k/void", `{"reason":"` + long + `"}`, "validation_failed", "500"},
		{"events/k/amend", ``, "malformed_json", ""},
		{"events/k/amend", `{}`, "validation_failed", "usageUnits is required"},
		{"events/k/amend", `{"usageUnits":null}`, "validation_failed", "usageUnits is required"},
		{"events/k/amend", `{"usageUnits":"1"}`, "validation_failed", "must be a number"},
		{"events/k/amend", `{"usageUnits":-1}`, "validation_failed", "negative"},
		{"events/k/amend", `{"usageUnits":1,"usageUnits":2}`, "malformed_json", "more than once"},
	} {
		status := 400
		if row.code == "usage_not_found" {
			status = 404
		}
		a := n.call("POST", row.path, row.body).is(status, row.code)
		require.Contains(t, a.fault()["detail"], row.detail)
	}
	require.Equal(t, 4.0, n.usedTokens())
	n.send("POST", "events/k/void", "", n.live, nil).is(404, "usage_not_found")
	n.send("POST", "events/k/void", "", n.read, nil).is(403, "access_denied")
	n.Refuse(engine.OutcomeUnknown)
	n.call("POST", "events/k/void", "").is(503, "outcome_unknown")
	n.Refuse(engine.OutcomeNone)
	n.NoLeader.Store(true)
	n.call("POST", "events/k/void", "").is(503, "unavailable")

	without := start(t, func(c *client.Config) { c.Events = nil })
	without.call("POST", "events/k/void", "").is(503, "journal_unavailable")
}
