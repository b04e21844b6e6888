package client_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/client"
)

func TestEventsCountOnce(t *testing.T) {
	n := start(t)
	n.customer("acme")
	body := event("k1", `,"usageUnits":4`)
	n.call("POST", "events", body).is(201, "")
	n.call("POST", "events", body).is(409, "duplicate_key")
	a := n.call("POST", "events", event("k1", `,"usageUnits":5`)).is(409, "key_reused")
	require.Contains(t, a.fault()["detail"], "differs")
	header := map[string]string{"X-Idempotency-Key": "k1"}
	n.send("POST", "events", event("other", `,"usageUnits":3`), n.sandbox, header).
		is(409, "key_reused")
	header["X-Idempotency-Key"] = "k2"
	n.send("POST", "events", body, n.sandbox, header).is(201, "")
	n.send("POST", "events", strings.Replace(body, `"eventIdempotencyKey":"k1",`, "", 1), n.sandbox, header).
		is(409, "duplicate_key")
	header["X-Idempotency-Key"] = strings.Repeat("k", 256)
	n.send("POST", "events", body, n.sandbox, header).is(400, "validation_failed")
	a = n.call("GET", "entitlements/acme/tokens", "").is(200, "")
	require.Equal(t, 8.0, a.data("usage", "used"))
}

func TestOneKeyManyRequestsAtOnce(t *testing.T) {
	n := start(t)
	n.customer("acme")
	body := event("same", "")
	var wait sync.WaitGroup
	statuses := make([]int, 32)
	for i := range statuses {
		wait.Add(1)
		go func() {
			defer wait.Done()
			statuses[i] = n.call("POST", "events", body).status
		}()
	}
	wait.Wait()
	counts := map[int]int{}
	for _, s := range statuses {
		counts[s]++
	}
	require.Equal(t, map[int]int{201: 1, 409: 31}, counts)
}

func TestLimits(t *testing.T) {
	n := start(t)
	n.customer("acme")
	n.call("POST", "events", event("s1", `,"usageUnits":9.5`)).is(201, "")
	a := n.call("POST", "events", event("s2", "")).is(200, "")
	require.Equal(t, true, a.data("usageLimitExceeded"))
	require.NotEmpty(t, a.data("message"))
	a = n.call("GET", "entitlements/acme/tokens", "").is(200, "")
	require.Equal(t, false, a.data("isAllowed"))
	require.Equal(t, "limit_reached", a.data("meta", "reason", "code"))
	require.Equal(t, 0.0, a.data("usage", "remaining"))

	for i := range 3 {
		n.call("POST", "events", event(fmt.Sprint("h", i), `,"featureKey":"calls"`))
	}
	a = n.call("POST", "events", event("h3", `,"featureKey":"calls","usageUnits":2`)).
		is(402, "limit_exceeded")
	lacks := a.body["error"].(map[string]any)["shortage"].(map[string]any)
	require.NotZero(t, lacks["logIndex"])
	delete(lacks, "logIndex")
	require.Equal(t, map[string]any{
		"level": "limit", "featureKey": "calls", "requestedUnits": 2.0, "used": 3.0, "held": 0.0,
		"limit": 3.0, "unit": "units",
	}, lacks)
	require.Contains(t, a.body["error"].(map[string]any)["detail"],
		"The limit of calls: used 3, held 0, limit 3; asked for 2.")
	a = n.call("POST", "events", strings.Replace(event("h4", `,"featureKey":"calls"`),
		`"customerReferenceId":"acme"`, `"customerId":"`+n.call("GET", "customers/acme", "").data("id").(string)+`"`, 1)).
		is(402, "limit_exceeded")
	require.Contains(t, a.body["error"], "shortage", "of a customer that its id names")
	a = n.call("POST", "events/batch", "["+event("b1", `,"featureKey":"calls","usageUnits":2`)+","+
		event("b2", "")+","+event("b3", `,"featureKey":"calls","usageUnits":9`)+"]").is(200, "")
	for i, units := range map[int]float64{0: 2, 2: 9} {
		item := a.data("results").([]any)[i].(map[string]any)
		require.Equal(t, 402.0, item["status"])
		delete(item["shortage"].(map[string]any), "logIndex")
		lacks["requestedUnits"] = units
		require.Equal(t, lacks, item["shortage"])
	}
	n.call("POST", "events", event("h3", `,"featureKey":"calls","usageUnits":0`)).is(200, "")

	n.call("POST", "entitlements", `{"customerReferenceId":"acme","featureKey":"calls",`+
		`"track":{"usageUnits":4}}`).is(200, "")
	n.call("POST", "entitlements", `{"customerReferenceId":"nobody","featureKey":"calls"}`).is(200, "")
	var denied []any
	require.Eventually(t, func() bool { // checks are recorded after their answer
		denied = n.call("GET", "events?denied=true", "").is(200, "").data("events").([]any)
		return len(denied) == 3
	}, 10*time.Second, time.Millisecond)
	stranger, exceeding, reached := denied[0].(map[string]any), denied[1].(map[string]any),
		denied[2].(map[string]any)
	require.Equal(t, "nobody", stranger["customerReferenceId"])
	require.NotContains(t, stranger, "limit")
	require.Equal(t, []any{"limit_reached", 3.0, 0.0, 3.0, 4.0}, []any{
		exceeding["reason"], exceeding["used"], exceeding["held"], exceeding["limit"],
		exceeding["requestedUnits"],
	})
	require.Equal(t, []any{"limit_reached", 10.5, 0.0, 10.0, nil}, []any{
		reached["reason"], reached["used"], reached["held"], reached["limit"], reached["requestedUnits"],
	})
}

// TestAllCustomersEvents: page by page, by what selects those of one customer.
func TestAllCustomersEvents(t *testing.T) {
	n := start(t)
	n.customer("acme")
	n.customer("globex")
	for i := range 6 {
		body := event(fmt.Sprint("e", i), "")
		if i%2 == 1 {
			body = strings.Replace(body, "acme", "globex", 1)
		}
		n.call("POST", "events", body)
	}
	n.call("POST", "events/e5/void", "{}").is(200, "")
	var keys []string
	cursor := ""
	for {
		a := n.call("GET", "events?limit=4"+cursor, "").is(200, "")
		for _, e := range a.data("events").([]any) {
			e := e.(map[string]any)
			keys = append(keys, fmt.Sprint(e["kind"], " ", e["eventIdempotencyKey"], " ", e["customerReferenceId"]))
			if e["kind"] == "usage" {
				_, voided := e["voidedAt"]
				require.Equal(t, e["eventIdempotencyKey"] == "e5", voided)
			}
		}
		next, more := a.body["data"].(map[string]any)["nextCursor"]
		if !more {
			break
		}
		cursor = "&cursor=" + next.(string)
	}
	require.Equal(t, []string{
		"void e5 globex", "usage e5 globex", "usage e4 acme", "usage e3 globex", "usage e2 acme",
		"usage e1 globex", "usage e0 acme",
	}, keys)
	require.Len(t, n.call("GET", "events?kind=void", "").is(200, "").data("events"), 1)
	require.Empty(t, n.call("GET", "events?feature=calls", "").is(200, "").data("events"))
	n.call("GET", "events?order=desc", "").is(400, "validation_failed")
	ofOne := n.call("GET", "customers/acme/events?limit=1", "").is(200, "").data("nextCursor").(string)
	n.call("GET", "events?cursor="+ofOne, "").is(400, "validation_failed")
	newest := n.send("GET", "events", "", n.read, nil).is(200, "").data("newestCursor").(string)
	n.call("GET", "events?until="+ofOne, "").is(400, "validation_failed")
	n.call("GET", "customers/acme/events?until="+newest, "").is(400, "validation_failed")
	since := func() []any {
		a := n.call("GET", "events?kind=usage&until="+newest, "").is(200, "")
		newest = a.data("newestCursor").(string)
		return a.data("events").([]any)
	}
	require.Empty(t, since())
	n.call("POST", "events", event("e6", ""))
	require.Len(t, since(), 1)
	require.Empty(t, since())
}

// TestAHardLimitHoldsHoweverManyAskAtOnce: 10,000 events of 0.03 against a hard limit of 3, singly
// and in batches, all at once: exactly 100 of them pass.
func TestAHardLimitHoldsHoweverManyAskAtOnce(t *testing.T) {
	n := start(t)
	n.customer("acme")
	const units = `,"featureKey":"calls","usageUnits":0.03`
	var wait sync.WaitGroup
	var passed, refused atomic.Int64
	for sender := range 50 {
		wait.Go(func() {
			for i := range 40 {
				status := 408 // it did not arrive in time, as may be on a busy machine
				for status == 408 {
					body := event(fmt.Sprint("one", sender, ".", i), units)
					status = n.call("POST", "events", body).status
				}
				switch status {
				case 201, 200:
					passed.Add(1)
				case 402:
					refused.Add(1)
				}
			}
		})
	}
	for batch := range 8 {
		items := make([]string, 1000)
		for i := range items {
			items[i] = event(fmt.Sprint("many", batch, ".", i), units)
		}
		wait.Go(func() {
			a := n.call("POST", "events/batch", "["+strings.Join(items, ",")+"]")
			passed.Add(int64(a.data("accepted").(float64)))
			refused.Add(int64(a.data("rejected").(float64)))
		})
	}
	wait.Wait()
	require.Equal(t, []int64{100, 9900}, []int64{passed.Load(), refused.Load()})
	a := n.call("GET", "entitlements/acme/calls", "").is(200, "")
	require.Equal(t, 3.0, a.data("usage", "used"))
}

func TestFieldsOfAnEvent(t *testing.T) {
	n := start(t)
	subscription := n.customer("acme")
	n.call("POST", "events", `{"eventIdempotencyKey":"k\u00e9\"","eventName":"llm.tokens",`+
		`"customerReferenceId":"acme","occurredAt":"`+strings.Replace(now(), "Z", "+00:00", 1)+
		`","flowId":"f 1","subscriptionId":"`+subscription+`","costAmount":1.25e-1,"usageUnits":2.50,`+
		` "meta": { "a" : [1, {"b":"\u0041"}] } }`).is(201, "")
	n.call("POST", "events", event("k2", `,"usageUnits":null,"meta":null,"flowId":null,"featureKey":null`)).
		is(201, "")
	n.call("POST", "events", event("k3", `,"featureKey":"nowhere"`)).is(201, "")
	a := n.call("GET", "customers/acme/events", "").is(200, "")
	events := a.data("events").([]any)
	require.Len(t, events, 3)
	first := events[0].(map[string]any)
	require.Equal(t, `ké"`, first["eventIdempotencyKey"])
	require.Equal(t, "llm.tokens", first["eventName"])
	require.Equal(t, "tokens", first["featureKey"])
	require.Equal(t, 2.5, first["usageUnits"])
	require.Equal(t, 0.125, first["costAmount"])
	require.Equal(t, subscription, first["subscriptionId"])
	require.Equal(t, "f 1", first["flowId"])
	require.Contains(t, string(a.raw), `"meta":{"a":[1,{"b":"\u0041"}]}`)
	second := events[1].(map[string]any)
	require.Equal(t, 1.0, second["usageUnits"], "absent is 1")
	require.NotContains(t, second, "meta")
	require.NotContains(t, events[2].(map[string]any), "subscriptionId", "unpriced")
}

func TestPagesOfEvents(t *testing.T) {
	n := start(t)
	subscription := n.customer("acme")
	for i := range 7 {
		n.call("POST", "events", event(fmt.Sprint("k", i), `,"featureKey":"seats"`)).is(201, "")
	}
	n.call("GET", "entitlements/acme/seats", "").is(200, "")
	require.NoError(t, n.api.Close()) // the audit event is in the log then
	listed := func(path string) (keys []string) {
		for next := path; next != ""; {
			a := n.call("GET", next, "").is(200, "")
			for _, e := range a.data("events").([]any) {
				keys = append(keys, e.(map[string]any)["eventIdempotencyKey"].(string))
			}
			next = ""
			if cursor, more := a.data("nextCursor").(string); more {
				next = path + "&cursor=" + cursor
			}
		}
		return keys
	}
	keys := listed("customers/acme/events?kind=usage&limit=3")
	require.Equal(t, []string{"k0", "k1", "k2", "k3", "k4", "k5", "k6"}, keys)
	slices.Reverse(keys)
	require.Equal(t, keys, listed("customers/acme/events?kind=usage&limit=3&order=desc"))
	require.Empty(t, listed("customers/acme/events?limit=3&unbilled=true"))
	n.call("POST", "events", event("u1", `,"featureKey":"nowhere"`)).is(201, "")
	n.call("POST", "events", event("c1", `,"featureKey":"calls"`)).is(201, "")
	n.call("POST", "events", event("u2", `,"featureKey":"nowhere","subscriptionId":"`+subscription+`"`)).
		is(201, "") // which does not have the feature
	require.Equal(t, []string{"u1", "u2"}, listed("customers/acme/events?limit=1&unbilled=true"))
	a := n.call("GET", "customers/acme/events?kind=usage&order=desc&limit=1", "")
	require.Equal(t, true, a.data("events").([]any)[0].(map[string]any)["unbilled"])
	require.Equal(t, keys, listed("customers/acme/events?kind=usage&limit=3&order=desc&feature=seats"))
	a = n.call("GET", "customers/acme/events?order=desc&limit=1", "").is(200, "")
	n.call("GET", "customers/acme/events?limit=1&cursor="+a.data("nextCursor").(string), "").
		is(400, "validation_failed")
	a = n.call("GET", "customers/acme/events?limit=1", "").is(200, "")
	n.call("GET", "customers/acme/events?order=desc&cursor="+a.data("nextCursor").(string), "").
		is(400, "validation_failed")
	require.Equal(t, []string{"c1"}, listed("customers/acme/events?limit=1&feature=calls&order=desc"))
	require.Equal(t, keys[:1], listed("customers/acme/events?kind=usage&feature=seats&order=desc")[:1])
	n.call("GET", "customers/acme/events?order=x&denied=no&unbilled=1&feature=%01", "").
		is(400, "validation_failed")
	a = n.call("GET", "customers/acme/events?kind=audit", "").is(200, "")
	require.Len(t, a.data("events"), 1)
	a = n.call("GET", "customers/acme/events?from=2001-01-01T00:00:00+02:00&to=2001-01-02T00:00:00Z", "")
	require.Empty(t, a.is(200, "").data("events"))
}

func TestBatch(t *testing.T) {
	n := start(t)
	n.customer("acme")
	items := []string{
		event("b0", `,"usageUnits":10`), event("b1", `,"featureKey":"calls"`), event("b1", ""),
		`{"eventName":"tokens"}`, event("b2", `,"usageUnits":1,"usageUnits":2`), `7`, `{"a":tru}`,
		event("b3", `,"meta":{"x":[{}]}`), event("b4", `,"featureKey":"calls","usageUnits":9`),
	}
	statuses := func(a answer) (list []int) {
		for _, r := range a.data("results").([]any) {
			list = append(list, int(r.(map[string]any)["status"].(float64)))
		}
		return list
	}
	want := []int{200, 201, 409, 400, 400, 400, 400, 200, 402}
	a := n.call("POST", "events/batch", "["+strings.Join(items, " , ")+"]").is(200, "")
	require.Equal(t, want, statuses(a), string(a.raw))
	require.Equal(t, 3.0, a.data("accepted"))
	require.Equal(t, 1.0, a.data("duplicates"))
	require.Equal(t, 5.0, a.data("rejected"))
	lines := map[string]string{"Content-Type": "application/x-ndjson"}
	a = n.send("POST", "events/batch", strings.Join(items, "\r\n")+"\n\n", n.sandbox, lines).is(200, "")
	require.Equal(t, []int{409, 409, 409, 400, 400, 400, 400, 409, 402}, statuses(a), string(a.raw))
	a = n.call("POST", "events/batch", " [ ] ").is(200, "")
	require.Empty(t, a.data("results"))
	n.send("POST", "events/batch", "[]", n.sandbox, map[string]string{"X-Idempotency-Key": "k"}).
		is(400, "validation_failed")
	n.send("POST", "events/batch", "[]", n.read, nil).is(403, "access_denied")
	a = n.call("GET", "entitlements/acme/tokens", "").is(200, "")
	require.Equal(t, 11.0, a.data("usage", "used"))
}

// TestBatchItemsMayBeAsDeepAsEvents: the array around them does not count.
func TestBatchItemsMayBeAsDeepAsEvents(t *testing.T) {
	n := start(t)
	n.customer("acme")
	deep := event("d", `,"meta":`+strings.Repeat(`{"a":`, 31)+"1"+strings.Repeat("}", 31))
	a := n.call("POST", "events/batch", "["+deep+"]").is(200, "")
	require.Equal(t, 1.0, a.data("accepted"), string(a.raw))
}

func TestLargeBatch(t *testing.T) {
	n := start(t)
	n.customer("acme")
	var b strings.Builder
	b.WriteByte('[')
	meta := strings.Repeat("m", 600)
	for i := range 10_000 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(event(fmt.Sprint("k", i), `,"featureKey":"seats","meta":{"x":"`+meta+`"}`))
	}
	b.WriteByte(']')
	require.Less(t, b.Len(), 8<<20)
	require.Greater(t, b.Len(), 7<<20)
	a := n.call("POST", "events/batch", b.String()).is(200, "")
	require.Equal(t, 10_000.0, a.data("accepted"))
	n.call("POST", "events/batch", b.String()+strings.Repeat(" ", 2<<20)).is(413, "body_too_large")
}

func TestEntitlements(t *testing.T) {
	n := start(t)
	subscription := n.customer("acme")
	n.call("POST", "customers", `{"externalClientCustomerId":"bare","firstName":"A","lastName":"B",`+
		`"email":"a@b"}`).is(201, "")
	n.call("POST", "events", event("k", `,"usageUnits":4`)).is(201, "")
	check := func(body string) answer { return n.call("POST", "entitlements", body).is(200, "") }
	for _, row := range [][4]string{
		{"nobody", "tokens", "customer_unknown", "unknown customer"},
		{"acme", "nothing", "feature_unknown", "unknown feature"},
		{"bare", "tokens", "no_subscription", "no subscription"},
		{"acme", "other", "feature_not_in_plan", "feature in no plan"},
		{"acme", "tokens", "allowed", "none of the rules denies"},
	} {
		a := n.call("GET", "entitlements/"+row[0]+"/"+row[1], "").is(200, "")
		require.Equal(t, row[0], a.data("referenceCustomerId"))
		require.Equal(t, row[1], a.data("featureKey"))
		require.Equal(t, row[2], a.data("meta", "reason", "code"), string(a.raw))
		require.Equal(t, row[3], a.data("meta", "reason", "rule"))
		reason := a.data("meta", "reason").(map[string]any)
		_, described := reason["description"]
		require.Equal(t, row[2] != "allowed", described)
		require.Contains(t, reason, "logIndex")
		require.NotContains(t, a.data(), "simulation")
		require.NotContains(t, a.data(), "flowId")
	}
	a := check(`{"customerReferenceId":"acme","featureKey":"tokens","track":{"usageUnits":7,` +
		`"eventName":"x","meta":{"a":1}},"context":{"flowId":"","idempotencyKey":"i"}}`)
	require.Equal(t, false, a.data("isAllowed"))
	require.Equal(t, "would_exceed_limit", a.data("meta", "reason", "code"))
	require.Equal(t, subscription, a.data("meta", "reason", "subscriptionId"))
	require.Equal(t, "", a.data("flowId"), "an empty text is sent")
	require.Equal(t, map[string]any{
		"requestedUsage": 7.0, "projectedUsage": 11.0, "projectedRemaining": 0.0,
		"wouldExceedLimit": true, "projectedCost": 3.5,
	}, a.data("simulation"))
	a = check(`{"customerReferenceId":"acme","featureKey":"tokens","track":{}}`)
	require.Equal(t, 1.0, a.data("simulation", "requestedUsage"))
	a = check(`{"customerReferenceId":"acme","featureKey":"seats","track":{},"context":null}`)
	require.Equal(t, map[string]any{"used": 0.0, "held": 0.0}, a.data("usage"), "unlimited")
	require.NotContains(t, a.data("simulation"), "projectedRemaining")
	require.Equal(t, false, a.data("simulation", "wouldExceedLimit"))
	// A simulation records no usage.
	a = n.call("GET", "entitlements/acme/tokens", "").is(200, "")
	require.Equal(t, 4.0, a.data("usage", "used"))
}

func TestCustomersSubscriptionsInvoices(t *testing.T) {
	n := start(t)
	a := n.call("POST", "customers", `{"firstName":"A","lastName":"B","email":"a@b","address":"1 Street",`+
		`"phoneNumber":null}`).is(201, "")
	require.Equal(t, `{"success":true}`, string(a.raw))
	a = n.call("GET", a.header.Get("Location"), "").is(200, "")
	require.Len(t, a.data("externalClientCustomerId"), 36)
	require.Equal(t, "1 Street", a.data("address"))
	require.Equal(t, []any{}, a.data("subscriptions"))
	require.Equal(t, []any{}, a.data("creditPools"))
	require.NotContains(t, a.data(), "phoneNumber", "null is left out")

	id := n.customer("acme")
	plans := n.call("GET", "plans", "").is(200, "").data().([]any)
	require.Len(t, plans, 1, "drafts are not listed")
	plan := plans[0].(map[string]any)
	a = n.call("POST", "subscriptions", `{"planId":"`+plan["id"].(string)+
		`","customerReferenceId":"acme","gracePeriod":0}`).is(201, "")
	require.Equal(t, 0.0, a.data("subscription", "gracePeriodDays"))
	require.Equal(t, "1", a.data("subscription", "intervalMonths"))
	require.Equal(t, true, a.data("subscription", "isActive"))
	require.Equal(t, "DUE", a.data("invoice", "status"))
	require.Equal(t, 20.0, a.data("invoice", "amount"))
	require.Equal(t, map[string]any{}, a.data("metadata"))
	invoice := a.data("invoice", "id").(string)

	a = n.call("GET", "subscriptions/"+id, "").is(200, "")
	require.Equal(t, 7.0, a.data("gracePeriodDays"))
	require.Equal(t, "acme", a.data("customer", "externalClientCustomerId"))
	for _, status := range []string{"", "?status=active", "?status=all"} {
		require.Len(t, n.call("GET", "customers/acme/subscriptions"+status, "").is(200, "").data(), 2)
	}
	n.call("POST", "billing/invoices/"+invoice+"/mark-paid", "").is(200, "")
	n.call("POST", "billing/invoices/"+invoice+"/mark-paid", "{}").is(200, "")
	list := n.call("GET", "billing/invoices/acme", "").is(200, "").data().([]any)
	require.Len(t, list, 2)
	require.Equal(t, "DUE", list[0].(map[string]any)["status"])
	require.Equal(t, "PAID", list[1].(map[string]any)["status"])
	require.NotContains(t, list[0], "paidAt")
}

func TestPublishedDocumentNamesEveryRoute(t *testing.T) {
	n := start(t)
	a := n.send("GET", "openapi.json", "", "", nil)
	paths := a.body["paths"].(map[string]any)
	for _, route := range n.api.Table().Routes() {
		item := paths[route.Path].(map[string]any)
		operation := item[strings.ToLower(route.Method)].(map[string]any)
		require.Equal(t, route.Operation, operation["operationId"])
		require.True(t, strings.HasPrefix(route.Path, client.Prefix+"/"))
	}
}
