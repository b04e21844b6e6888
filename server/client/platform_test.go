package client_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/client"
)

func (n *node) customerKey(customer string) string {
	key := server.MintKey(server.KeyPrefixCustomerSandbox)
	hash := sha256.Sum256([]byte(key))
	n.Do(n.t, billing.KindCreateKey, &billing.CreateKey{
		Env: n.env, ID: [16]byte(hash[:16]), Hash: hash, Scope: billing.ScopeCustomer,
		Customer: customer,
	})
	return key
}

func TestUpdateAndArchiveCustomer(t *testing.T) {
	n := start(t)
	n.customer("acme")
	n.call("PATCH", "customers/acme", `{"email":"new@example.com","phoneNumber":"+1"}`).is(200, "")
	a := n.call("GET", "customers/acme", "").is(200, "")
	require.Equal(t, "new@example.com", a.data("email"))
	require.Equal(t, "+1", a.data("phoneNumber"))
	require.Equal(t, "Ada", a.data("firstName"))
	n.call("PATCH", "customers/acme", `{"phoneNumber":null}`).is(200, "")
	require.NotContains(t, n.call("GET", "customers/acme", "").data(), "phoneNumber")
	a = n.call("PATCH", "customers/acme", `{"firstName":null,"email":"x","nick":1,"lastName":""}`)
	for _, part := range []string{"firstName must not be null", "email must", `"nick"`, "lastName"} {
		require.Contains(t, a.is(400, "validation_failed").fault()["detail"], part)
	}
	n.call("PATCH", "customers/nobody", `{}`).is(404, "customer_not_found")
	n.send("PATCH", "customers/acme", `{}`, n.read, nil).is(403, "access_denied")

	n.call("DELETE", "customers/acme", "").is(400, "customer_subscribed")
	n.call("DELETE", "customers/nobody", "").is(404, "customer_not_found")
	n.call("POST", "customers", `{"externalClientCustomerId":"b","firstName":"A","lastName":"B",`+
		`"email":"a@b"}`).is(201, "")
	n.call("DELETE", "customers/b", "").is(200, "")
	n.call("DELETE", "customers/b", "").is(200, "")
	n.call("PATCH", "customers/b", `{}`).is(400, "customer_archived")
	n.call("POST", "subscriptions", `{"planId":"team","customerReferenceId":"b"}`).
		is(400, "customer_archived")
	require.NotEmpty(t, n.call("GET", "customers/b", "").is(200, "").data("archivedAt"))
}

// TestCustomerKeys: what is a customer's own is answered; everything else is 403, and the same 403
// for customers that exist and for those that do not.
func TestCustomerKeys(t *testing.T) {
	n := start(t)
	subscription := n.customer("acme")
	n.customer("other")
	key := n.customerKey("acme")
	send := func(method, path, body string) answer { return n.send(method, path, body, key, nil) }
	send("GET", "customers/acme", "").is(200, "")
	send("GET", "customers/acme/events", "").is(200, "")
	send("GET", "billing/invoices/acme", "").is(200, "")
	send("GET", "entitlements/acme/tokens", "").is(200, "")
	send("POST", "entitlements", `{"customerReferenceId":"acme","featureKey":"tokens"}`).is(200, "")
	invoice := n.call("GET", "billing/invoices/acme", "").body["data"].([]any)[0].(map[string]any)
	for _, other := range []string{"other", "nobody", "a%0Ab", "%FF"} {
		for _, path := range []string{
			"customers/%s", "customers/%s/events", "billing/invoices/%s", "entitlements/%s/tokens",
		} {
			send("GET", fmt.Sprintf(path, other), "").is(403, "access_denied")
		}
	}
	for _, other := range []string{"other", "nobody"} {
		send("POST", "entitlements", `{"customerReferenceId":"`+other+`","featureKey":"tokens"}`).
			is(403, "access_denied")
	}
	for _, row := range [][3]string{
		{"GET", "plans"},
		{"GET", "customers/acme/subscriptions"},
		{"GET", "entitlements/acme"},
		{"GET", "subscriptions/" + subscription},
		{"POST", "events", event("k", "")},
		{"POST", "events/batch", "[]"},
		{"POST", "customers", "{}"},
		{"POST", "subscriptions", "{}"},
		{"PATCH", "customers/acme", "{}"},
		{"DELETE", "customers/acme"},
		{"POST", "billing/invoices/" + invoice["id"].(string) + "/mark-paid"},
	} {
		send(row[0], row[1], row[2]).is(403, "access_denied")
	}
}

func TestListEntitlements(t *testing.T) {
	n := start(t)
	n.customer("acme")
	n.call("POST", "events", event("k", `,"usageUnits":4`)).is(201, "")
	a := n.call("GET", "entitlements/acme", "").is(200, "")
	list := a.body["data"].([]any)
	require.Len(t, list, 3)
	first := list[0].(map[string]any)
	require.Equal(t, "tokens", first["featureKey"])
	require.Equal(t, map[string]any{"used": 4.0, "limit": 10.0, "remaining": 6.0, "held": 0.0},
		first["usage"])
	require.Equal(t, true, first["isAllowed"])
	// The id is the one that events may name.
	n.call("POST", "events", event("k2", `,"usageUnits":6,"entitlementId":"`+
		first["entitlementId"].(string)+`"`)).is(200, "")
	first = n.call("GET", "entitlements/acme", "").body["data"].([]any)[0].(map[string]any)
	require.Equal(t, "limit_reached", first["code"])
	require.Equal(t, false, first["isAllowed"])
	n.call("GET", "entitlements/nobody", "").is(404, "customer_not_found")
	// It is not a check, and leaves no audit event.
	require.Empty(t, n.call("GET", "customers/acme/events?kind=audit", "").data("events"))
}

func TestCloudEvents(t *testing.T) {
	n := start(t)
	n.customer("acme")
	one := map[string]string{"Content-Type": "application/cloudevents+json"}
	cloud := func(id, more string) string {
		return `{"specversion":"1.0","id":"` + id + `","source":"/app","type":"tokens",` +
			`"subject":"acme","time":"` + now() + `"` + more + `}`
	}
	send := func(body string) answer { return n.send("POST", "events", body, n.sandbox, one) }
	send(cloud("c1", `,"datacontenttype":"application/json","traceparent":"00-1",`+
		`"data":{"usageUnits":3,"meta":{"a":1},"flowId":"f"}`)).is(201, "")
	send(cloud("c1", `,"data":{"usageUnits":3}`)).is(409, "key_reused")
	n.call("POST", "events", event("c1", "")).is(409, "key_reused")
	require.Equal(t, 3.0, n.call("GET", "entitlements/acme/tokens", "").data("usage", "used"))
	list := n.call("GET", "customers/acme/events?kind=usage", "").data("events").([]any)
	require.Len(t, list, 1)
	got := list[0].(map[string]any)
	require.Equal(t, "c1", got["eventIdempotencyKey"])
	require.Equal(t, "f", got["flowId"])
	for more, detail := range map[string]string{
		`,"data":[]`:                                   "data must be an object",
		`,"usageunits":7`:                              "belongs in data",
		`,"usageUnits":7`:                              `unknown field "usageUnits"`,
		`,"data":{"usageUnist":7}`:                     `"usageUnist"`,
		`,"data_base64":"AA=="`:                        `"data_base64"`,
		`,"datacontenttype":"text/plain"`:              "application/json",
		`,"data":{"customerId":"` + uuidUnknown + `"}`: "exactly one",
	} {
		a := send(cloud("bad", more)).is(400, "validation_failed")
		require.Contains(t, a.fault()["detail"], detail, more)
	}
	send(cloud("bad", `,"data":{"eventName":"calls"}`)).is(400, "malformed_json")
	a := send(`{"id":"x","type":"tokens","specversion":"0.3"}`).is(400, "validation_failed")
	for _, part := range []string{`specversion must be "1.0"`, "source is required", "exactly one"} {
		require.Contains(t, a.fault()["detail"], part)
	}
	batch := map[string]string{"Content-Type": "application/cloudevents-batch+json"}
	a = n.send("POST", "events/batch", "["+cloud("b1", "")+","+cloud("c1", "")+`,{"id":"x"}]`,
		n.sandbox, batch).is(200, "")
	require.Equal(t, 1.0, a.data("accepted"))
	require.Equal(t, 1.0, a.data("duplicates"))
	require.Equal(t, 1.0, a.data("rejected"))
}

func TestIdempotencyKey(t *testing.T) {
	n := start(t)
	with := func(key string) map[string]string { return map[string]string{"Idempotency-Key": key} }
	body := `{"firstName":"A","lastName":"B","email":"a@b"}`
	first := n.send("POST", "customers", body, n.sandbox, with("k1")).is(201, "")
	again := n.send("POST", "customers", body, n.sandbox, with("k1")).is(201, "")
	require.Equal(t, first.header.Get("Location"), again.header.Get("Location"))
	require.Equal(t, first.raw, again.raw)
	n.send("POST", "customers", body+" ", n.sandbox, with("k1")).is(201, "")
	n.send("POST", "customers", strings.Replace(body, "A", "B", 1), n.sandbox, with("k1")).
		is(409, "idempotency_key_reused")
	other := n.send("POST", "customers", body, n.live, with("k1")).is(201, "")
	require.NotEqual(t, first.header.Get("Location"), other.header.Get("Location"), "per environment")

	id := strings.TrimPrefix(first.header.Get("Location"), client.Prefix+"/customers/")
	body = `{"planId":"team","customerReferenceId":"` + id + `"}`
	// A refused request leaves its key.
	n.send("POST", "subscriptions", `{"planId":"none","customerReferenceId":"`+id+`"}`, n.sandbox,
		with("k2")).is(404, "plan_not_found")
	var wait sync.WaitGroup
	answers := make([]answer, 8)
	for i := range answers {
		wait.Go(func() { answers[i] = n.send("POST", "subscriptions", body, n.sandbox, with("k2")) })
	}
	wait.Wait()
	for _, a := range answers {
		a.is(201, "")
		require.Equal(t, answers[0].raw, a.raw)
	}
	require.Len(t, n.call("GET", "customers/"+id+"/subscriptions", "").body["data"], 1, "one executed")
	invoice := answers[0].data("invoice", "id").(string)
	pay := "billing/invoices/" + invoice + "/mark-paid"
	n.send("POST", pay, "", n.sandbox, with("k3")).is(200, "")
	n.send("POST", pay, "", n.sandbox, with("k3")).is(200, "")
	n.send("POST", "billing/invoices/"+uuidUnknown+"/mark-paid", "", n.sandbox, with("k3")).
		is(409, "idempotency_key_reused")
	for _, bad := range []string{strings.Repeat("x", 256), "a b", "é"} {
		n.send("POST", pay, "", n.sandbox, with(bad)).is(400, "validation_failed")
	}
	n.Refuse(engine.OutcomeUnknown)
	n.send("POST", "subscriptions", body, n.sandbox, with("k4")).is(503, "outcome_unknown")
}

// TestRateLimitCountsItemsAndBytes: a batch counts as its events, bodies as their bytes; a batch
// larger than the limit passes once the bucket is full.
func TestRateLimitCountsItemsAndBytes(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	n := start(t, func(c *client.Config) {
		c.RateLimit = server.RateLimit{Items: 3, Bytes: 4000, Window: 30 * time.Second}
		c.Now = func() time.Time { return now }
	})
	batch := func(from, events int) answer {
		var lines []string
		for i := range events {
			lines = append(lines, fmt.Sprintf(`{"eventIdempotencyKey":"k%d","eventName":"e",`+
				`"customerReferenceId":"nobody","occurredAt":"2026-01-01T00:00:00Z"}`, from+i))
		}
		return n.send("POST", "events/batch", "["+strings.Join(lines, ",")+"]", n.sandbox, nil)
	}
	a := batch(0, 2).is(200, "")
	require.Contains(t, a.header.Get("RateLimit-Policy"), `"items";q=3;w=30`)
	require.Contains(t, a.header.Get("RateLimit-Policy"), `"bytes";q=4000;w=30`)
	require.Contains(t, a.header.Get("RateLimit"), `"items";r=1;t=20`)
	a = batch(2, 2).is(429, "rate_limited")
	require.Equal(t, "10", a.header.Get("Retry-After"))
	batch(2, 1).is(200, "")
	now = now.Add(30 * time.Second)
	batch(10, 6).is(200, "") // more than ever fits, from a full bucket
	batch(20, 1).is(429, "rate_limited")
	now = now.Add(5 * time.Minute)
	batch(30, 25).is(200, "")
	require.Contains(t, batch(60, 20).is(429, "rate_limited").header.Get("RateLimit"), `"bytes";r=`)
}

// TestSingleEventsAndChecksAreItems: whichever way they are sent.
func TestSingleEventsAndChecksAreItems(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	n := start(t, func(c *client.Config) {
		c.RateLimit = server.RateLimit{Items: 3, Window: 30 * time.Second}
		c.Now = func() time.Time { return now }
	})
	n.customer("acme")
	for name, send := range map[string]func() answer{
		"a check": func() answer { return n.call("GET", "entitlements/acme/seats", "") },
		"a check by POST": func() answer {
			return n.call("POST", "entitlements", `{"customerReferenceId":"acme","featureKey":"seats"}`)
		},
		"an event": func() answer {
			return n.call("POST", "events", `{"eventIdempotencyKey":"k","eventName":"seats",`+
				`"customerReferenceId":"acme","usageUnits":1,"occurredAt":"2026-01-01T00:00:00Z"}`)
		},
	} {
		now = now.Add(time.Hour)
		for left := 2; left >= 0; left-- {
			a := send()
			require.NotEqual(t, 429, a.status, name)
			require.Contains(t, a.header.Get("RateLimit"), fmt.Sprintf(`"items";r=%d;`, left), name)
		}
		send().is(429, "rate_limited")
	}
}

// TestNothingEscapesTheRateLimit: broken items of a batch count like others, what is beyond the
// limit is refused before it is read, and bytes that no header announces count like others.
func TestNothingEscapesTheRateLimit(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	n := start(t, func(c *client.Config) {
		c.RateLimit = server.RateLimit{Items: 10, Bytes: 4000, Window: 10 * time.Second}
		c.Now = func() time.Time { return now }
	})
	batch := func(body string) answer { return n.send("POST", "events/batch", body, n.sandbox, nil) }
	a := batch(`[1,2,3,4,{},{}]`).is(200, "")
	require.Contains(t, a.header.Get("RateLimit"), `"items";r=4;t=6`)
	batch(`[1,2,3,4]`).is(200, "")
	a = batch(`no batch`).is(429, "rate_limited")
	require.Equal(t, "1", a.header.Get("Retry-After"))
	require.Contains(t, a.header.Get("RateLimit"), `"items";r=0;t=10`)
	now = now.Add(time.Second)
	batch(`no batch`).is(400, "malformed_json")

	now = now.Add(time.Minute)
	chunked := func(media string) *http.Response {
		body := io.MultiReader(strings.NewReader("["), strings.NewReader(strings.Repeat(" ", 2998)+"]"))
		request, err := http.NewRequest("POST", "http://"+n.addr+client.Prefix+"/events/batch", body)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+n.sandbox)
		request.Header.Set("Content-Type", media)
		response, err := n.http.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response
	}
	answered := chunked("application/json")
	require.Equal(t, 200, answered.StatusCode)
	require.Contains(t, answered.Header.Get("RateLimit"), `"bytes";r=1000;`)
	answered = chunked("application/json")
	require.Equal(t, 429, answered.StatusCode)
	require.NotEmpty(t, answered.Header.Get("Retry-After"))

	now = now.Add(time.Minute)
	require.Equal(t, 415, chunked("text/plain").StatusCode)
	require.Equal(t, 429, chunked("application/json").StatusCode, "what is refused counts, too")

	now = now.Add(time.Minute)
	packed := gzipped(t, "["+strings.Repeat(" ", 2998)+"]")
	a = n.send("POST", "events/batch", packed, n.sandbox, coded("gzip")).is(200, "")
	require.Contains(t, a.header.Get("RateLimit"), `"bytes";r=1000;`, "what comes out counts")
	n.send("POST", "events/batch", packed, n.sandbox, coded("gzip")).is(429, "rate_limited")
}

func TestRateLimitPerKey(t *testing.T) {
	clock := time.Unix(1_800_000_000, 0)
	n := start(t, func(c *client.Config) {
		c.RateLimit = server.RateLimit{Requests: 3, Window: 30 * time.Second}
		c.Now = func() time.Time { return clock }
	})
	plans := func(key string) answer { return n.send("GET", "plans", "", key, nil) }
	for left := 2; left >= 0; left-- {
		a := plans(n.sandbox).is(200, "")
		require.Equal(t, `"key";q=3;w=30`, a.header.Get("RateLimit-Policy"))
		require.Equal(t, fmt.Sprintf(`"key";r=%d;t=%d`, left, 30-10*left), a.header.Get("RateLimit"))
	}
	a := plans(n.sandbox).is(429, "rate_limited")
	require.Equal(t, "10", a.header.Get("Retry-After"))
	require.Equal(t, `"key";r=0;t=30`, a.header.Get("RateLimit"))
	plans(n.read).is(200, "")
	n.send("GET", "plans", "", "", nil).is(401, "invalid_key")
	clock = clock.Add(10 * time.Second)
	plans(n.sandbox).is(200, "")
	plans(n.sandbox).is(429, "rate_limited")
	clock = clock.Add(time.Hour)
	require.Equal(t, `"key";r=2;t=10`, plans(n.sandbox).is(200, "").header.Get("RateLimit"))
}

func TestCustomerKeysInBrowsers(t *testing.T) {
	n := start(t)
	n.customer("acme")
	key := n.customerKey("acme")
	const shop, other = "https://shop.example", "https://other.example"
	preflight := func(origin string) *http.Response {
		request, err := http.NewRequest("OPTIONS", "http://"+n.addr+client.Prefix+"/customers/acme", nil)
		require.NoError(t, err)
		request.Header.Set("Origin", origin)
		request.Header.Set("Access-Control-Request-Method", "GET")
		response, err := n.http.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.NotEmpty(t, response.Header.Get("X-Request-Id"))
		return response
	}
	require.Equal(t, 405, preflight(shop).StatusCode)
	n.Do(t, billing.KindSetOrigins, &billing.SetOrigins{Env: n.env, Origins: []string{shop}})
	answer := preflight(shop)
	require.Equal(t, 204, answer.StatusCode)
	require.Equal(t, shop, answer.Header.Get("Access-Control-Allow-Origin"))
	require.Contains(t, answer.Header.Get("Access-Control-Allow-Headers"), "Authorization")
	require.Equal(t, 405, preflight(other).StatusCode)
	allowed := func(key, origin string) string {
		a := n.send("GET", "customers/acme", "", key, map[string]string{"Origin": origin}).is(200, "")
		return a.header.Get("Access-Control-Allow-Origin")
	}
	require.Equal(t, shop, allowed(key, shop))
	require.Empty(t, allowed(key, other))
	require.Empty(t, allowed(n.sandbox, shop), "other keys do not belong into a browser")
	a := n.send("GET", "plans", "", key, map[string]string{"Origin": shop}).is(403, "access_denied")
	require.Equal(t, shop, a.header.Get("Access-Control-Allow-Origin"), "the page may read why")
}

// TestEmptyTextIsNotNull: only null is left out of answers. What was given as "" is sent as "", as
// long as it is not changed.
func TestEmptyTextIsNotNull(t *testing.T) {
	n := start(t)
	n.call("POST", "customers", `{"externalClientCustomerId":"blank","firstName":"A","lastName":"B",`+
		`"email":"a@b","phoneNumber":"","address":""}`).is(201, "")
	n.call("POST", "subscriptions", `{"planId":"team","customerReferenceId":"blank"}`).is(201, "")
	is := func(phone, address any) {
		t.Helper()
		data := n.call("GET", "customers/blank", "").is(200, "").data().(map[string]any)
		nested := data["subscriptions"].([]any)[0].(map[string]any)["customer"].(map[string]any)
		for name, want := range map[string]any{"phoneNumber": phone, "address": address} {
			got, there := data[name]
			require.Equal(t, want != nil, there, "%s: %v", name, data)
			require.Equal(t, want, got)
		}
		require.Equal(t, phone, nested["phoneNumber"])
		require.NotContains(t, nested, "address")
	}
	is("", "")
	n.call("PATCH", "customers/blank", `{"address":"1 Street"}`).is(200, "")
	is("", "1 Street")
	n.call("PATCH", "customers/blank", `{"phoneNumber":"+1","address":""}`).is(200, "")
	is("+1", "")
	n.call("PATCH", "customers/blank", `{"phoneNumber":null,"address":null}`).is(200, "")
	is(nil, nil)
	n.call("PATCH", "customers/blank", `{"phoneNumber":""}`).is(200, "")
	is("", nil)
	for _, field := range []string{"firstName", "lastName", "email"} {
		n.call("PATCH", "customers/blank", `{"`+field+`":""}`).is(400, "validation_failed")
		n.call("PATCH", "customers/blank", `{"`+field+`":null}`).is(400, "validation_failed")
	}
}
