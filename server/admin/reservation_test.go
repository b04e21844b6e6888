package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOperatorsSettle: in parts, of several features, under an event's key, and what an expiry has
// billed is amended to the real units. Wrong requests change nothing.
func TestOperatorsSettle(t *testing.T) {
	n := start(t)
	key := n.furnish()
	n.subscribe(key)
	held := func(reservation, more string) string {
		t.Helper()
		return sandbox + "reservations/" + n.post(key, "/reservations", `{"reservationKey":"`+reservation+
			`","customerReferenceId":"ada",`+more+`}`).is(201, "").data()["id"].(string)
	}
	both := held("both", `"items":[{"featureKey":"tokens","usageUnits":50},`+
		`{"featureKey":"seats","usageUnits":2}]`)
	for body, text := range map[string]string{
		`{}`:                                 "usageUnits",
		`{"usageUnits":-1}`:                  "must not be negative",
		`{"items":[]}`:                       "must not be empty",
		`{"items":[{}]}`:                     "items[0].usageUnits is required",
		`{"items":1}`:                        "must be an array",
		`{"items":[{"usageUnits":1,"x":1}]}`: "unknown field",
		`{"items":[{"usageUnits":1}],"usageUnits":1}`:                                "not taken together",
		`{"usageUnits":1,"final":"no"}`:                                              "must be a boolean, not a string",
		`{"usageUnits":1,"featureId":"x"}`:                                           "UUID",
		`{"usageUnits":1,"meta":[]}`:                                                 "must be an object",
		`{"usageUnits":1,"occurredAt":"yesterday"}`:                                  "occurredAt",
		`{"usageUnits":1,"eventIdempotencyKey":""}`:                                  "eventIdempotencyKey",
		`{"items":[` + strings.Repeat(`{"usageUnits":1},`, 8) + `{"usageUnits":1}]}`: "at most 8",
	} {
		require.Contains(t, n.call("POST", both+"/settle", body).
			is(400, "validation_failed").detail(), text, body)
	}
	n.call("POST", both+"/settle", `{"usageUnits":1}`).is(404, "feature_not_found")
	item := func(a answer, i int) map[string]any {
		return a.data()["items"].([]any)[i].(map[string]any)
	}
	part := n.call("POST", both+"/settle",
		`{"items":[{"featureKey":"tokens","usageUnits":20}],"final":false}`).is(200, "")
	require.Equal(t, "open", part.data()["state"])
	require.EqualValues(t, 20, item(part, 0)["settledUnits"])
	require.EqualValues(t, 2, item(part, 1)["heldUnits"])
	for range 2 { // again is the same
		all := n.call("POST", both+"/settle", `{"items":[{"featureKey":"tokens","usageUnits":60},`+
			`{"featureKey":"seats","usageUnits":1,"costAmount":0.5}],"meta":{"by":"hand"}}`).is(200, "")
		require.Equal(t, "settled", all.data()["state"])
		require.EqualValues(t, 60, item(all, 0)["settledUnits"])
	}

	one := held("one", `"featureKey":"tokens","usageUnits":10`)
	n.call("POST", one+"/settle", `{"usageUnits":4,"eventIdempotencyKey":"call-7","occurredAt":"`+
		n.clock().Format(time.RFC3339Nano)+`"}`).is(200, "")
	n.use(key, "call-7", `,"usageUnits":4`).is(409, "")

	billed := held("billed", `"featureKey":"tokens","usageUnits":10,"ttlSeconds":1,"onExpiry":"settle"`)
	n.advanceTo(n.clock().Add(2*time.Second)).is(200, "")
	require.Equal(t, "billed", n.call("GET", billed, "").is(200, "").data()["state"])
	amended := n.call("POST", billed+"/settle", `{"usageUnits":3}`).is(200, "")
	require.Equal(t, "settled", amended.data()["state"])
	require.EqualValues(t, 3, item(amended, 0)["settledUnits"])

	changes := n.call("GET", "audit?actor=admin-key&environment=sandbox&account=demo", "").
		is(200, "").data()["changes"].([]any)
	var settled []any
	for _, c := range changes {
		if c := c.(map[string]any); c["action"] == "reservation.settled" {
			settled = append(settled, c["after"].(map[string]any)["settled"])
		}
	}
	require.Equal(t, []any{"tokens 3", "tokens 4", "tokens 60, seats 1", "tokens 20, seats 0"}, settled)
}

// TestReservationsAreListedByCustomerAndBudget: by both, and in a state of all customers.
func TestReservationsAreListedByCustomerAndBudget(t *testing.T) {
	n := start(t)
	key := n.furnish()
	n.subscribe(key)
	n.post(key, "/reservations", `{"reservationKey":"r","featureKey":"tokens","usageUnits":1,`+
		`"customerReferenceId":"ada"}`).is(201, "")
	for path, status := range map[string]int{
		"customers/ada/reservations?budget=nothing": 404, "reservations?state=open&budget=": 400,
		"reservations": 400,
	} {
		require.Equal(t, status, n.call("GET", sandbox+path, "").status, path)
	}
	for path, listed := range map[string]int{
		"customers/ada/reservations": 1, "reservations?state=open": 1, "reservations?state=settled": 0,
	} {
		a := n.call("GET", sandbox+path, "").is(200, "")
		require.Len(t, a.data()["reservations"], listed, path)
	}
}
