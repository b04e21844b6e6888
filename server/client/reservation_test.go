package client_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
	tollgate "tollgate/sdk/go"
	"tollgate/server"
)

// hold is the body of a reservation of calls, of which there are 3.
func hold(key, more string) string {
	return `{"reservationKey":"` + key + `","customerReferenceId":"acme"` + more + `}`
}

const calls = `,"featureKey":"calls","usageUnits":`

// TestAReservationIsSettled: reserve, look, settle in parts, and see the usage events.
func TestAReservationIsSettled(t *testing.T) {
	n := start(t)
	n.customer("acme")
	a := n.call("POST", "reservations", hold("r", calls+`2,"meta":{"a":1,"b":[2]}`)).is(201, "")
	id := a.data("id").(string)
	require.Equal(t, "open", a.data("state"))
	require.Equal(t, 600.0, a.data("remainingSeconds"))
	item := a.data("items").([]any)[0].(map[string]any)
	require.Equal(t, []any{2.0, 0.0, 2.0, "limit", 3.0, 1.0}, []any{
		item["grantedUnits"], item["settledUnits"], item["heldUnits"], item["rule"], item["limit"],
		item["remaining"],
	})
	check := n.call("GET", "entitlements/acme/calls", "").is(200, "")
	require.Equal(t, map[string]any{"used": 0.0, "limit": 3.0, "remaining": 1.0, "held": 2.0},
		check.data("usage"))

	again := n.call("POST", "reservations", hold("r", `,"meta":{"b":[2e0],"a":1}`+calls+`2.0`)).is(201, "")
	require.Equal(t, a.data(), again.data())
	n.call("POST", "reservations", hold("r", calls+`1`)).is(409, "reservation_key_reused")
	short := n.call("POST", "reservations", hold("r2", calls+`2`)).is(402, "reservation_short")
	shortage := short.body["error"].(map[string]any)["shortage"].(map[string]any)
	require.NotZero(t, shortage["logIndex"])
	delete(shortage, "logIndex")
	require.Equal(t, map[string]any{
		"level": "limit", "featureKey": "calls", "requestedUnits": 2.0, "used": 0.0, "held": 2.0,
		"limit": 3.0, "unit": "units",
	}, shortage)

	at := "reservations/" + id
	own := "reservation:" + id + ":1"
	n.call("POST", at+"/settle", `{"usageUnits":1,"eventIdempotencyKey":"`+own+`"}`).is(
		400, "event_key_reserved")
	n.call("POST", "events", event(own, "")).is(400, "event_key_reserved")
	part := n.call("POST", at+"/settle", `{"usageUnits":1,"final":false}`).is(200, "")
	require.Equal(t, []any{"open", "r"}, []any{part.data("state"), part.data("reservationKey")})
	n.call("POST", at+"/extend", `{"usageUnits":3,"ttlSeconds":60}`).is(200, "")
	n.call("POST", at+"/extend", `{"usageUnits":4}`).is(402, "reservation_short")
	reason := n.call("GET", "entitlements/acme/calls", "").is(200, "").data("meta", "reason").(map[string]any)
	require.Equal(t, []any{"limit_reached", "used + held >= limit", 1.0, 2.0, 3.0}, []any{
		reason["code"], reason["rule"], reason["used"], reason["held"], reason["limit"],
	})
	done := n.call("POST", at+"/settle", `{"usageUnits":2.5,"eventIdempotencyKey":"mine","costAmount":0.1}`)
	require.Equal(t, "settled", done.is(200, "").data("state"))
	n.call("POST", at+"/settle", `{"usageUnits":2.5}`).is(200, "")
	n.call("POST", at+"/settle", `{"usageUnits":2.6}`).is(409, "reservation_closed")
	n.call("POST", at+"/release", "").is(409, "reservation_closed")
	n.call("POST", at+"/extend", `{"ttlSeconds":9}`).is(409, "reservation_closed")
	whole := n.call("GET", at, "").is(200, "")
	require.Equal(t, []any{"r", "mine", map[string]any{"a": 1.0, "b": []any{2.0}}}, []any{
		whole.data("reservationKey"), whole.data("eventIdempotencyKey"), whole.data("meta"),
	})
	events := n.call("GET", "customers/acme/events?kind=usage", "").data("events").([]any)
	require.Len(t, events, 2)
	require.Equal(t, own, events[0].(map[string]any)["eventIdempotencyKey"])
	require.Equal(t, 0.1, events[1].(map[string]any)["costAmount"])
	n.call("POST", "events/"+own+"/void", "").is(200, "")
}

// TestExactlySixOfTwentyReservations asks for them at the same time.
func TestExactlySixOfTwentyReservations(t *testing.T) {
	n := start(t)
	n.customer("acme")
	granted := make(chan bool, 20)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			a := n.call("POST", "reservations", hold(fmt.Sprint("r", i), calls+`0.45`))
			require.Contains(t, []int{201, 402}, a.status)
			granted <- a.status == 201
		})
	}
	all.Wait()
	close(granted)
	held := 0
	for ok := range granted {
		if ok {
			held++
		}
	}
	require.Equal(t, 6, held)
	n.call("GET", "entitlements/acme/calls", "").is(200, "")
	a := n.call("GET", "reservations?customerReferenceId=acme&limit=4&state=open", "").is(200, "")
	require.Len(t, a.data("reservations"), 4)
	a = n.call("GET", "reservations?customerReferenceId=acme&limit=4&cursor="+
		a.data("nextCursor").(string), "").is(200, "")
	require.Len(t, a.data("reservations"), 2)
	require.Nil(t, a.data().(map[string]any)["nextCursor"])
}

// TestSettleAndReleaseAtOnce: exactly one of them wins; the other is told.
func TestSettleAndReleaseAtOnce(t *testing.T) {
	n := start(t)
	n.customer("acme")
	for i := range 10 {
		at := "reservations/" + n.call("POST", "reservations", hold(fmt.Sprint("r", i), calls+`0.1`)).
			is(201, "").data("id").(string)
		var settled, released answer
		var both sync.WaitGroup
		both.Go(func() { settled = n.call("POST", at+"/settle", `{"usageUnits":0.1}`) })
		both.Go(func() { released = n.call("POST", at+"/release", "") })
		both.Wait()
		state := n.call("GET", at, "").is(200, "").data("state")
		if settled.status == 200 {
			require.Equal(t, "settled", state)
			released.is(409, "reservation_closed")
			continue
		}
		settled.is(409, "reservation_closed")
		released.is(200, "")
		require.Equal(t, "released", state)
	}
}

// TestALateSettlementAmends: what expired was billed, and the real number takes its place.
func TestALateSettlementAmends(t *testing.T) {
	n := start(t)
	n.customer("acme")
	at := "reservations/" + n.call("POST", "reservations",
		hold("r", calls+`3,"ttlSeconds":1,"onExpiry":"settle"`)).is(201, "").data("id").(string)
	n.Do(t, billing.KindAdvanceClock, &billing.AdvanceClock{
		Env: n.env, To: time.Now().UnixMilli() + 60_000,
	})
	require.Equal(t, "billed", n.call("GET", at, "").is(200, "").data("state"))
	for range 2 {
		a := n.call("POST", at+"/settle", `{"usageUnits":1}`).is(200, "")
		require.Equal(t, []any{"settled", true}, []any{a.data("state"), a.data("afterExpiry")})
		require.Equal(t, 1.0, n.call("GET", "entitlements/acme/calls", "").data("usage", "used"))
	}
}

func TestWhatReservationsRefuse(t *testing.T) {
	n := start(t)
	n.customer("acme")
	id := n.call("POST", "reservations", hold("r", calls+`1`)).is(201, "").data("id").(string)
	const unknown = "reservations/01890000-0000-7000-8000-000000000000"
	nine := strings.Repeat(`{"featureKey":"calls","usageUnits":1},`, 9)
	for _, row := range []struct {
		path, body string
		status     int
		code, text string
	}{
		{"reservations", hold("x", calls+`0`), 400, "validation_failed", "greater than 0"},
		{"reservations", hold("x", calls+`-1`), 400, "validation_failed", "greater than 0"},
		{"reservations", hold("x", calls+`"1"`), 400, "validation_failed", "must be a number"},
		{"reservations", hold("x", ``), 400, "validation_failed", "usageUnits is required"},
		{"reservations", hold("x", `,"usageUnits":1`), 400, "validation_failed", "featureKey is required"},
		{"reservations", hold("x", `,"items":[]`), 400, "validation_failed", "items must not be empty"},
		{"reservations", hold("x", `,"items":[1]`), 400, "validation_failed", "items[0] must be an object"},
		{"reservations", hold("x", `,"items":{}`), 400, "validation_failed", "must be an array"},
		{"reservations", hold("x", `,"items":[`+nine[:len(nine)-1]+`]`), 400, "validation_failed", "at most 8"},
		{"reservations", hold("x", calls+`1,"items":[{"featureKey":"a","usageUnits":1}]`), 400, "validation_failed", "not taken together"},
		{"reservations", hold("x", `,"items":[{"featureKey":"calls"}]`), 400, "validation_failed", "items[0].usageUnits is required"},
		{"reservations", hold("x", `,"items":[{"featureKey":"calls","usageUnits":1,"x":1}]`), 400, "validation_failed", `"x"`},
		{"reservations", hold("x", `,"items":[{"featureKey":"calls","usageUnits":1},{"featureKey":"calls","usageUnits":1}]`), 400, "ids_contradict", ""},
		{"reservations", hold("x", calls+`1,"ttlSeconds":0`), 400, "validation_failed", "from 1 to 86400"},
		{"reservations", hold("x", calls+`1,"ttlSeconds":86401`), 400, "validation_failed", "from 1 to 86400"},
		{"reservations", hold("x", calls+`1,"overrun":"x"`), 400, "validation_failed", "record or refuse"},
		{"reservations", hold("x", calls+`1,"dryRun":1`), 400, "validation_failed", "a boolean"},
		{"reservations", hold("x", calls+`1,"budget":"b"`), 404, "budget_not_found", ""},
		{"reservations", hold("x", calls+`1,"budget":1`), 400, "validation_failed", `budget must be`},
		{"reservations", hold("x", `,"onShortage":"partial","items":[{"featureKey":"calls","usageUnits":1},{"featureKey":"seats","usageUnits":1}]`), 400, "validation_failed", "one item alone"},
		{"reservations", `{"reservationKey":"x"` + calls + `1}`, 400, "validation_failed", "exactly one"},
		{"reservations", `{"customerReferenceId":"acme"` + calls + `1}`, 400, "validation_failed", "reservationKey is required"},
		{"reservations", strings.Replace(hold("x", calls+`1`), "acme", "nobody", 1), 404, "customer_not_found", ""},
		{"reservations", hold("x", `,"featureKey":"none","usageUnits":1`), 404, "feature_not_found", ""},
		{"reservations", hold("x", `,"featureKey":"other","usageUnits":1`), 402, "not_entitled", "None of the customer's plans"},
		{"reservations/" + id + "/settle", `{}`, 400, "validation_failed", "usageUnits is required"},
		{"reservations/" + id + "/settle", `{"usageUnits":-1}`, 400, "validation_failed", "negative"},
		{"reservations/" + id + "/settle", `{"usageUnits":1,"final":"no"}`, 400, "validation_failed", "a boolean"},
		{"reservations/" + id + "/settle", `{"usageUnits":1,"occurredAt":"2000-01-01T00:00:00Z"}`, 400, "occurred_too_early", ""},
		{"reservations/" + id + "/settle", `{"usageUnits":1,"featureKey":"seats"}`, 404, "feature_not_found", ""},
		{"reservations/" + id + "/extend", `{}`, 400, "validation_failed", "usageUnits or ttlSeconds"},
		{"reservations/" + id + "/extend", `{"usageUnits":0}`, 400, "validation_failed", "greater than 0"},
		{"reservations/x/settle", `{"usageUnits":1}`, 400, "validation_failed", "UUID"},
		{unknown + "/settle", `{"usageUnits":1}`, 404, "reservation_not_found", ""},
		{unknown + "/extend", `{"usageUnits":1}`, 404, "reservation_not_found", ""},
		{unknown + "/release", ``, 404, "reservation_not_found", ""},
	} {
		a := n.call("POST", row.path, row.body).is(row.status, row.code)
		text := strings.ReplaceAll(string(a.raw), `\"`, `"`)
		require.Contains(t, text, row.text, row.body)
		require.LessOrEqual(t, strings.Count(text, `"field":"usageUnits"`), 1, "it is told once: %s", text)
	}
	require.Equal(t, 404, n.call("GET", unknown, "").status)
	n.call("GET", "reservations", "").is(400, "validation_failed")
	n.call("GET", "reservations?customerReferenceId=acme&cursor=zz", "").is(400, "validation_failed")
	n.call("GET", "reservations?customerReferenceId=acme&state=odd", "").is(400, "validation_failed")
	n.call("GET", "reservations?customerReferenceId=nobody", "").is(404, "customer_not_found")
	n.Do(t, billing.KindSetLimits, &billing.SetLimits{CustomerHolds: 1})
	a := n.call("POST", "reservations", hold("y", calls+`1`)).is(429, "reservation_limit")
	require.NotEmpty(t, a.header.Get("Retry-After"))
	require.Contains(t, string(a.raw), "The customer has 1.")
}

// TestSDKReserves: also where answers are lost. Only extending has a random key; the others do
// nothing when they are repeated, and have the key that their caller gives.
func TestSDKReserves(t *testing.T) {
	n := start(t)
	n.customer("acme")
	proxy, c := lossyTo(t, n)
	ctx := t.Context()
	r := tollgate.ReservationRequest{
		ReservationKey: "r1", CustomerReferenceID: "acme",
		ReservedItem: tollgate.ReservedItem{FeatureKey: "calls", UsageUnits: "1"},
	}
	held, err := c.Reserve(ctx, r)
	require.NoError(t, err)
	require.Equal(t, "open", held.State)
	again, err := c.Reserve(ctx, r)
	require.NoError(t, err)
	require.Equal(t, held, again)
	_, err = c.ExtendReservation(ctx, held.ID, tollgate.ReservationExtension{TTLSeconds: 900})
	require.NoError(t, err)
	settled, err := c.SettleReservation(ctx, held.ID, tollgate.ReservationSettlement{
		ReservedItem: tollgate.ReservedItem{UsageUnits: "1"},
	})
	require.NoError(t, err)
	require.Equal(t, "settled", settled.State)
	r.ReservationKey = "r2"
	second, err := c.Reserve(ctx, r)
	require.NoError(t, err)
	require.Len(t, proxy.seen(), 2)
	require.Equal(t, 5, proxy.seen()[""], "the first answer is lost")
	released, err := c.ReleaseReservation(tollgate.WithIdempotencyKey(ctx, "mine"), second.ID)
	require.NoError(t, err)
	require.Equal(t, "released", released.State)
	require.Equal(t, 2, proxy.seen()["mine"])
	var states []string
	for v, err := range c.Reservations(ctx, "acme", "") {
		require.NoError(t, err)
		states = append(states, v.State)
	}
	require.Equal(t, []string{"released", "settled"}, states)
	one, err := c.Reservation(ctx, held.ID)
	require.NoError(t, err)
	require.Equal(t, "r1", one.ReservationKey)
}

// TestAnExtensionIsRepeatedByItsKey: the same Idempotency-Key and body moves the expiry once, and
// is the first answer; so is that of a release.
func TestAnExtensionIsRepeatedByItsKey(t *testing.T) {
	n := start(t)
	n.customer("acme")
	at := "reservations/" + n.call("POST", "reservations", hold("r", calls+`1`)).is(201, "").
		data("id").(string)
	const body = `{"ttlSeconds":3600}`
	first := n.once("k", "POST", at+"/extend", body).is(200, "")
	longer := n.call("POST", at+"/extend", `{"ttlSeconds":7200}`).is(200, "")
	again := n.once("k", "POST", at+"/extend", ` {"ttlSeconds": 36e2}`).is(200, "")
	require.Equal(t, string(first.raw), string(again.raw))
	require.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
	require.Equal(t, longer.data("expiresAt"), n.call("GET", at, "").is(200, "").data("expiresAt"))
	n.once("k", "POST", at+"/extend", `{"ttlSeconds":3601}`).is(409, "idempotency_key_reused")
	n.once(" ", "POST", at+"/extend", body).is(400, "validation_failed")
}

// TestReservationsAreListedByStateAndByCustomersId: with and without a customer.
func TestReservationsAreListedByStateAndByCustomersId(t *testing.T) {
	n := start(t)
	n.customer("acme")
	n.customer("other")
	at := "reservations/" + n.call("POST", "reservations", hold("r", calls+`1`)).is(201, "").
		data("id").(string)
	n.call("POST", "reservations", strings.Replace(hold("s", calls+`1`), "acme", "other", 1)).is(201, "")
	n.call("POST", at+"/release", "").is(200, "")
	id := n.call("GET", "customers/acme", "").is(200, "").data("id").(string)
	for query, want := range map[string][]string{
		"state=open": {"s"}, "state=released": {"r"}, "customerId=" + id: {"r"},
		"customerId=" + id + "&state=open": {},
	} {
		got := []string{}
		for _, v := range n.call("GET", "reservations?"+query, "").is(200, "").data("reservations").([]any) {
			got = append(got, v.(map[string]any)["reservationKey"].(string))
		}
		require.Equal(t, want, got, query)
	}
	for query, status := range map[string]int{
		"": 400, "customerId=x": 400, "customerReferenceId=acme&customerId=" + id: 400,
		"customerId=01890000-0000-7000-8000-000000000000": 404,
	} {
		require.Equal(t, status, n.call("GET", "reservations?"+query, "").status, query)
	}
}

// TestAnEventLeadsToItsReservation: with the caller's own key, too, and says what did not fit.
func TestAnEventLeadsToItsReservation(t *testing.T) {
	n := start(t)
	n.customer("acme")
	id := n.call("POST", "reservations", hold("r", calls+`2`)).is(201, "").data("id").(string)
	n.call("POST", "reservations/"+id+"/settle", `{"usageUnits":4,"eventIdempotencyKey":"own"}`).is(200, "")
	n.call("POST", "events", event("plain", "")).is(201, "")
	events := map[any]map[string]any{}
	for _, v := range n.call("GET", "customers/acme/events?kind=usage", "").is(200, "").data("events").([]any) {
		e := v.(map[string]any)
		events[e["eventIdempotencyKey"]] = e
	}
	require.Equal(t, []any{id, 1.0}, []any{events["own"]["reservationId"], events["own"]["overrunUnits"]})
	for _, field := range []string{"reservationId", "overrunUnits"} {
		require.NotContains(t, events["plain"], field)
	}
}

// TestAReservationIsTheSameByIDsAndByKeys: under one reservationKey customer and feature may be
// named by id or by key, and a dryRun is answered as the reservation was.
func TestAReservationIsTheSameByIDsAndByKeys(t *testing.T) {
	n := start(t)
	n.customer("acme")
	n.customer("other")
	first := n.call("POST", "reservations", hold("r", calls+`2`)).is(201, "")
	customer := n.call("GET", "customers/acme", "").is(200, "").data("id").(string)
	feature := string(server.AppendUUID(nil, [16]byte{0xfe, 1, 9}))
	byIDs := `{"reservationKey":"r","customerId":"` + customer + `","featureId":"` + feature + `"`
	require.Equal(t, first.data(), n.call("POST", "reservations", byIDs+`,"usageUnits":2}`).is(201, "").data())
	dry := n.call("POST", "reservations", byIDs+`,"usageUnits":2,"dryRun":true}`).is(200, "")
	require.Equal(t, first.data(), dry.data())
	for _, other := range []string{
		byIDs + `,"usageUnits":1,"dryRun":true}`, byIDs + `,"usageUnits":2,"ttlSeconds":9}`,
		strings.Replace(hold("r", calls+`2`), "acme", "other", 1),
		strings.Replace(hold("r", calls+`2`), "calls", "seats", 1),
		strings.Replace(hold("r", calls+`2`), "acme", "nobody", 1),
		hold("r", `,"items":[{"featureKey":"calls","usageUnits":2},{"featureKey":"seats","usageUnits":1}]`),
	} {
		n.call("POST", "reservations", other).is(409, "reservation_key_reused")
	}
}

// TestAnIdempotencyKeyGuardsAReservation: the same one with another body is refused, and with the
// same it is the first answer, of a refusal none.
func TestAnIdempotencyKeyGuardsAReservation(t *testing.T) {
	n := start(t)
	n.customer("acme")
	first := n.once("k", "POST", "reservations", hold("r", calls+`2`)).is(201, "")
	again := n.once("k", "POST", "reservations", hold("r", calls+`2.0`)).is(201, "")
	require.Equal(t, string(first.raw), string(again.raw))
	require.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
	n.once("k", "POST", "reservations", hold("s", calls+`1`)).is(409, "idempotency_key_reused")
	n.once(" ", "POST", "reservations", hold("s", calls+`1`)).is(400, "validation_failed")

	at := "reservations/" + first.data("id").(string)
	n.once("l", "POST", at+"/settle", `{"usageUnits":-1}`).is(400, "validation_failed")
	part := n.once("l", "POST", at+"/settle", `{"usageUnits":1,"final":false}`).is(200, "")
	n.once("l", "POST", at+"/settle", `{"usageUnits":2,"final":false}`).is(409, "idempotency_key_reused")
	n.call("POST", at+"/settle", `{"usageUnits":1.5,"final":false}`).is(200, "")
	again = n.once("l", "POST", at+"/settle", `{"usageUnits":1,"final":false}`).is(200, "")
	require.Equal(t, string(part.raw), string(again.raw))
	require.Equal(t, 1.5, n.call("GET", "entitlements/acme/calls", "").data("usage", "used"))

	second := "reservations/" + n.call("POST", "reservations", hold("t", calls+`1`)).is(201, "").
		data("id").(string)
	n.once("l", "POST", second+"/settle", `{"usageUnits":1,"final":false}`).is(409, "idempotency_key_reused")
	gone := n.once("m", "POST", second+"/release", "").is(200, "")
	require.Equal(t, string(gone.raw), string(n.once("m", "POST", second+"/release", "").is(200, "").raw))
	n.once("m", "POST", at+"/release", "").is(409, "idempotency_key_reused")
}

// TestAnEventThatWasRecordedIsTheAnswer to a settlement under its key, with what it counts now.
func TestAnEventThatWasRecordedIsTheAnswer(t *testing.T) {
	n := start(t)
	n.customer("acme")
	n.customer("other")
	n.call("POST", "events", strings.Replace(event("mine", `,"usageUnits":3`), "acme", "other", 1)).is(201, "")
	n.call("POST", "events/mine/amend", `{"usageUnits":2}`).is(200, "")
	at := "reservations/" + n.call("POST", "reservations", hold("r", calls+`2`)).is(201, "").
		data("id").(string)
	for range 2 {
		a := n.call("POST", at+"/settle", `{"usageUnits":2,"eventIdempotencyKey":"mine"}`).is(200, "")
		require.Equal(t, []any{"settled", true, "mine"}, []any{
			a.data("state"), a.data("recordedBefore"), a.data("eventIdempotencyKey"),
		})
		e := a.data("recordedEvent").(map[string]any)
		require.Equal(t, []any{"mine", "other", "tokens", 2.0}, []any{
			e["eventIdempotencyKey"], e["customerReferenceId"], e["featureKey"], e["usageUnits"],
		})
		require.NotEmpty(t, e["occurredAt"])
		require.NotEmpty(t, e["recordedAt"])
	}
	require.NotContains(t, n.call("GET", at, "").is(200, "").data(), "recordedEvent")
	n.call("POST", "events/mine/void", "").is(200, "")
	a := n.call("POST", at+"/settle", `{"usageUnits":2,"eventIdempotencyKey":"mine"}`).is(200, "")
	require.Equal(t, 0.0, a.data("recordedEvent", "usageUnits"))
}

// TestATakenKeyIsCorrected: what a late settlement has named by a key of its caller is amended and
// voided by that, of several features by what the refusal names.
func TestATakenKeyIsCorrected(t *testing.T) {
	n := start(t)
	n.customer("acme")
	expires := `,"ttlSeconds":1,"onExpiry":"settle"`
	one := "reservations/" + n.call("POST", "reservations", hold("r", calls+`2`+expires)).is(201, "").
		data("id").(string)
	two := n.call("POST", "reservations", hold("s", expires+
		`,"items":[{"featureKey":"calls","usageUnits":1},{"featureKey":"seats","usageUnits":1}]`)).
		is(201, "").data("id").(string)
	n.call("POST", "reservations/"+two+"/settle", `{"eventIdempotencyKey":"part","final":false,"items":[`+
		`{"featureKey":"calls","usageUnits":0.25},{"featureKey":"seats","usageUnits":0}]}`).is(200, "")
	advance := func(ms int64) {
		n.Do(t, billing.KindAdvanceClock, &billing.AdvanceClock{
			Env: n.env, To: time.Now().UnixMilli() + ms,
		})
	}
	advance(60_000)
	used := func(want float64) {
		t.Helper()
		require.Equal(t, want, n.call("GET", "entitlements/acme/calls", "").data("usage", "used"))
	}
	used(3)
	n.call("POST", "events/late/void", "").is(404, "usage_not_found")
	n.call("POST", one+"/settle", `{"usageUnits":1,"eventIdempotencyKey":"late"}`).is(200, "")
	used(2)
	p := n.call("GET", "events/late/correction-preview?usageUnits=1.5", "").is(200, "")
	require.Equal(t, []any{1.0, 1.5}, []any{p.data("usageUnits"), p.data("newUsageUnits")})
	n.call("POST", "events/late/amend", `{"usageUnits":1.5}`).is(200, "")
	used(2.5)
	n.call("POST", "events/late/void", "").is(200, "")
	used(1)
	n.call("POST", "events", event("late", "")).is(409, "key_reused")

	n.call("POST", "reservations/"+two+"/settle", `{"eventIdempotencyKey":"both","items":[`+
		`{"featureKey":"calls","usageUnits":0.5},{"featureKey":"seats","usageUnits":1}]}`).is(200, "")
	a := n.call("POST", "events/both/void", "").is(404, "usage_not_found")
	require.Contains(t, string(a.raw), "one: reservation:"+two+":2, reservation:"+two+":3.")
	n.call("POST", "events/reservation:"+two+":2/void", "").is(200, "")
	used(0.25)

	// Of these the expiry bills one: the other was settled before.
	three := "reservations/" + n.call("POST", "reservations", hold("t", expires+
		`,"items":[{"featureKey":"calls","usageUnits":1},{"featureKey":"seats","usageUnits":1}]`)).
		is(201, "").data("id").(string)
	n.call("POST", three+"/settle", `{"final":false,"items":[`+
		`{"featureKey":"calls","usageUnits":0},{"featureKey":"seats","usageUnits":1}]}`).is(200, "")
	advance(120_000)
	n.call("POST", three+"/settle", `{"eventIdempotencyKey":"third","items":[`+
		`{"featureKey":"calls","usageUnits":0.5},{"featureKey":"seats","usageUnits":1}]}`).is(200, "")
	used(0.75)
	n.call("POST", "events/third/void", "").is(200, "")
	used(0.25)
}
