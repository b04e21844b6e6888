package client_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/server"
)

// A node that has just started knows no key yet, and one without a quorum cannot ask. Neither may
// call a good key a bad one: clients give up for good at 401, and come back at 503.
func TestAKeyThatCannotBeLookedUpIsNotCalledInvalid(t *testing.T) {
	n := start(t)
	unknown := server.MintKey(server.KeyPrefixSandbox)
	n.send("GET", "plans", "", unknown, nil).is(401, "invalid_key")
	n.NoLeader.Store(true)
	a := n.send("GET", "plans", "", unknown, nil).is(503, "unavailable")
	require.Equal(t, "1", a.header.Get("Retry-After"))
	n.send("GET", "plans", "", unknown[:len(unknown)-1]+"_", nil).is(401, "invalid_key")
	n.send("GET", "plans", "", n.sandbox, map[string]string{"X-Read-Consistency": "stale"}).is(200, "")
}

// A header that names one thing may be there twice only if it says the same twice.
func TestRepeatedHeadersMustAgree(t *testing.T) {
	n := start(t)
	n.customer("acme")
	key, other := "X-API-Key: "+n.sandbox+"\r\n", "X-API-Key: "+n.read+"\r\n"
	bearer := "Authorization: Bearer " + n.read + "\r\n"
	for _, row := range []struct {
		headers string
		status  int
	}{
		{key + key, 200},
		{key + other, 401},
		{other + bearer + bearer, 200},
		{strings.Replace(bearer, n.read, n.sandbox, 1) + bearer, 401},
		{bearer + "Authorization: Basic YTpi\r\n", 401},
	} {
		c := n.raw("GET /api/v1/client/plans HTTP/1.1\r\nHost: x\r\n" + row.headers + "\r\n")
		status, _ := readAnswer(t, c)
		require.Equal(t, row.status, status, row.headers)
	}
	body := event("unused", "")
	for headers, want := range map[string]int{
		"X-Idempotency-Key: a\r\nX-Idempotency-Key: a\r\n": 201,
		"X-Idempotency-Key: b\r\nX-Idempotency-Key: c\r\n": 400,
	} {
		c := n.raw(fmt.Sprintf("POST /api/v1/client/events HTTP/1.1\r\nHost: x\r\nX-API-Key: KEY\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s", len(body), headers, body))
		status, _ := readAnswer(t, c)
		require.Equal(t, want, status, headers)
	}
}

// What an answer names is what was wrong.
func TestRefusalsNameTheRightField(t *testing.T) {
	n := start(t)
	n.customer("acme")
	a := n.call("POST", "entitlements", `{"customerReferenceId":"acme","featureKey":"tokens",`+
		`"track":{"usageUnits":1,"usageUnits":2}}`).is(400, "malformed_json")
	require.Contains(t, a.fault()["detail"], `"usageUnits"`)
	cloud := map[string]string{"Content-Type": "application/cloudevents+json"}
	a = n.send("POST", "events", `{"specversion":"1.0","id":"a","source":"s","type":"tokens",`+
		`"subject":"acme","time":"`+now()+`","data":{"usageUnits":2,"usageUnits":3}}`, n.sandbox, cloud).
		is(400, "malformed_json")
	require.Contains(t, a.fault()["detail"], `"usageUnits"`)
	a = n.call("POST", "entitlements", `{"featureKey":"a","featureKey":"b"}`).is(400, "malformed_json")
	require.Contains(t, a.fault()["detail"], `"featureKey"`)
	// 1970-01-01T00:00:00Z is a time like any other, and not a missing one.
	const old = `{"eventIdempotencyKey":"old","eventName":"tokens","customerReferenceId":"acme",` +
		`"occurredAt":`
	n.call("POST", "events", old+`"1970-01-01T00:00:00Z"}`).is(400, "occurred_too_early")
	a = n.call("POST", "events", old+`null}`).is(400, "validation_failed")
	require.Contains(t, a.fault()["detail"], "occurredAt is required")
}

// The media type says where items end: a broken first line costs that line only.
func TestLinesOfABatchStandAlone(t *testing.T) {
	n := start(t)
	n.customer("acme")
	lines := map[string]string{"Content-Type": "application/x-ndjson"}
	body := "nonsense\n[" + event("l1", "") + "]\n" + event("l2", "") + "\n"
	a := n.send("POST", "events/batch", body, n.sandbox, lines).is(200, "")
	require.Equal(t, 1.0, a.data("accepted"))
	require.Equal(t, 2.0, a.data("rejected"))
	n.send("POST", "events/batch", "\r\n\n", n.sandbox, lines).is(400, "malformed_json")
	n.call("POST", "events/batch", "nonsense\n"+event("l3", "")).is(400, "malformed_json")
}

// A body is read where none is needed, too: what it says must not be passed over.
func TestBodiesThatAreNotNeeded(t *testing.T) {
	n := start(t)
	n.customer("acme")
	invoice := n.invoice("acme")
	path := "billing/invoices/" + invoice + "/mark-paid"
	n.call("POST", path, "{{").is(400, "malformed_json")
	n.call("POST", path, `{"amount":5}`).is(400, "validation_failed")
	n.call("POST", path, `[]`).is(400, "validation_failed")
	n.call("POST", path, `{}`).is(200, "")
	n.call("POST", path, "").is(200, "")
}

// A subscription has no key under which a repeat is recognised, so no answer may promise it.
func TestAnUnknownSubscriptionIsNotSafeToRepeat(t *testing.T) {
	n := start(t)
	n.customer("acme")
	n.Refuse(engine.OutcomeUnknown)
	a := n.call("POST", "subscriptions", `{"planId":"team","customerReferenceId":"acme"}`).
		is(503, "outcome_unknown")
	require.NotContains(t, a.fault()["detail"], "twice")
	require.Contains(t, a.fault()["detail"], "subscriptions")
}
