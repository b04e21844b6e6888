package admin_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
	"tollgate/server/client"
)

const hooksPath = "accounts/demo/environments/sandbox/webhook-endpoints"

// TestWebhooksOverHTTP: an operator adds an endpoint, a customer subscribes, the endpoint hears of
// it, and the operator sees what was sent and sends it again.
func TestWebhooksOverHTTP(t *testing.T) {
	n := start(t)
	n.describe()
	n.call("POST", "accounts", `{"name":"demo"}`).is(201, "")
	n.send("PUT", "accounts/demo/environments/sandbox/catalog", catalogYAML, n.key,
		"application/yaml").is(200, "")
	key := n.call("POST", "accounts/demo/environments/sandbox/keys", `{"scope":"full"}`).
		is(201, "").data()["key"].(string)
	var fails atomic.Bool
	fails.Store(true)
	requests := make(chan *http.Request, 100)
	bodies := make(chan string, 100)
	receiver := &http.Server{Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil || fails.Load() {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			requests <- r
			bodies <- string(body)
		})}
	go func() { _ = receiver.Serve(n.stripe) }() // ends when the test closes the listener
	t.Cleanup(func() { require.NoError(t, receiver.Close()) })

	made := n.call("POST", hooksPath, `{"url":"http://`+n.stripe.Addr().String()+
		`/hook","events":["invoice.due","credits.depleted"],"description":"books"}`).is(201, "").data()
	id, secret := made["id"].(string), made["secret"].(string)
	require.True(t, strings.HasPrefix(secret, "whsec_"))
	require.Equal(t, []any{"invoice.due", "credits.depleted"}, made["events"])
	require.NotContains(t, n.call("GET", hooksPath, "").is(200, "").raw, "whsec_")
	require.NotContains(t, n.call("GET", hooksPath+"/"+id, "").is(200, "").raw, "whsec_")
	require.Empty(t, n.call("GET", strings.Replace(hooksPath, "sandbox", "live", 1), "").
		is(200, "").list())

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		n.outbox.Run(ctx)
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	n.send("POST", client.Prefix+"/customers", `{"externalClientCustomerId":"ada","firstName":"Ada",`+
		`"lastName":"L","email":"ada@example.com"}`, key, "application/json").is(201, "")
	n.send("POST", client.Prefix+"/subscriptions",
		`{"planId":"team","customerReferenceId":"ada"}`, key, "application/json").is(201, "")

	list := func(query string) []any {
		return n.call("GET", hooksPath+"/"+id+"/deliveries"+query, "").
			is(200, "").data()["deliveries"].([]any)
	}
	require.Eventually(t, func() bool { return len(list("?status=failed")) == 1 },
		10*time.Second, 5*time.Millisecond)
	first := list("")[0].(map[string]any)
	require.EqualValues(t, 3, first["attempts"])
	last := first["log"].([]any)[2].(map[string]any)
	require.Equal(t, "the endpoint answered 500", last["reason"])
	require.EqualValues(t, 500, last["status"])
	message := hooksPath + "/" + id + "/deliveries/" + first["id"].(string)
	payload := n.call("GET", message, "").is(200, "").data()["payload"].(map[string]any)
	require.Equal(t, "invoice.due", payload["type"])
	require.Equal(t, "ada", payload["data"].(map[string]any)["customerReferenceId"])

	fails.Store(false)
	require.Equal(t, "pending", n.call("POST", message+"/resend", "").is(200, "").data()["status"])
	request, body := <-requests, <-bodies
	require.Equal(t, first["id"], request.Header.Get("webhook-id"))
	verifier, err := standard.NewWebhook(secret)
	require.NoError(t, err)
	require.NoError(t, verifier.Verify([]byte(body), request.Header))
	require.Contains(t, n.call("GET", message, "").raw, `"payload":`+body, "shown as it was sent")
	require.Eventually(t, func() bool { return len(list("?status=delivered")) == 1 },
		10*time.Second, 5*time.Millisecond)

	rotated := n.call("POST", hooksPath+"/"+id+"/rotate-secret", "").is(200, "").data()
	require.NotEqual(t, secret, rotated["secret"])
	require.Contains(t, rotated, "previousSecretUntil")
	off := n.call("PATCH", hooksPath+"/"+id, `{"enabled":false,"events":[],"description":""}`).
		is(200, "").data()
	require.Equal(t, false, off["enabled"])
	require.Equal(t, "disabled", off["disabledReason"])
	n.call("POST", message+"/resend", "").is(400, "webhook_endpoint_disabled")
	on := n.call("PATCH", hooksPath+"/"+id, `{"enabled":true}`).is(200, "").data()
	require.Equal(t, true, on["enabled"])
	require.EqualValues(t, 1, on["delivered"])
	changes := n.call("GET", "audit", "").is(200, "").raw
	for _, action := range []string{"created", "changed", "secret-rotated"} {
		require.Contains(t, changes, "webhook-endpoint."+action)
	}
	require.Contains(t, changes, "webhook.resent")
	require.NotContains(t, changes, "whsec_")
	metrics := n.send("GET", "/metrics", "", "", "").raw
	require.Contains(t, metrics, `tollgate_webhook_attempts_total{outcome="delivered"} 1`)
	require.Contains(t, metrics, "tollgate_webhook_endpoints 1")

	n.call("DELETE", hooksPath+"/"+id, "").is(200, "")
	n.call("DELETE", hooksPath+"/"+id, "").is(404, "webhook_endpoint_not_found")
	n.call("GET", message, "").is(404, "webhook_endpoint_not_found")
}

func TestWebhookRefusals(t *testing.T) {
	n := start(t)
	n.describe()
	n.call("POST", "accounts", `{"name":"demo"}`).is(201, "")
	id := n.call("POST", hooksPath, `{"url":"https://hooks.example/secret-path"}`).is(201, "").
		data()["id"].(string)
	one := hooksPath + "/" + id
	for _, row := range []struct {
		method, path, body string
		status             int
		code, detail       string
	}{
		{"POST", hooksPath, `{}`, 400, "validation_failed", "url is required"},
		{"POST", hooksPath, `{"url":"ftp://a.example"}`, 400, "validation_failed", "url"},
		{"POST", hooksPath, `{"url":"http://10.0.0.1/"}`, 400, "validation_failed", "public address"},
		{"POST", hooksPath, `{"url":"https://a.example:22/"}`, 400, "validation_failed", "ports"},
		{"POST", hooksPath, `{"url":"https://u:p@a.example/"}`, 400, "validation_failed", "userinfo"},
		{"POST", hooksPath, `{"url":"https://a.example","events":["x"]}`, 400, "validation_failed", "events[0]"},
		{"POST", hooksPath, `{"url":"https://a.example","secret":"x"}`, 400, "validation_failed", "unknown field"},
		{"PATCH", one, `{"url":"http://127.1/"}`, 400, "validation_failed", "url"},
		{"PATCH", one, `{"enabled":"yes"}`, 400, "validation_failed", "enabled"},
		{"POST", one + "/rotate-secret", `{"secret":"x"}`, 400, "validation_failed", "unknown field"},
		{"DELETE", one, `{"force":true}`, 400, "validation_failed", "unknown field"},
		{"PATCH", hooksPath + "/x", `{}`, 400, "validation_failed", "UUID"},
		{"GET", hooksPath + "/018f0000-0000-7000-8000-000000000001", "", 404, "webhook_endpoint_not_found", ""},
		{
			"GET", hooksPath + "/018f0000-0000-7000-8000-000000000001/deliveries", "", 404,
			"webhook_endpoint_not_found", "",
		},
		{"GET", one + "/deliveries?limit=0", "", 400, "validation_failed", "limit"},
		{"GET", one + "/deliveries?limit=%2B5", "", 400, "validation_failed", "limit"},
		{"GET", one + "/deliveries?cursor=05", "", 400, "validation_failed", "cursor"},
		{"GET", one + "/deliveries?cursor=x", "", 400, "validation_failed", "cursor"},
		{"GET", one + "/deliveries?status=new", "", 400, "validation_failed", "status"},
		{"GET", one + "/deliveries/x", "", 400, "validation_failed", "webhook-id"},
		{"GET", one + "/deliveries/msg_" + strings.Repeat("0", 32), "", 404, "delivery_not_found", ""},
		{
			"POST", one + "/deliveries/msg_" + strings.Repeat("0", 32) + "/resend", "", 404,
			"delivery_not_found", "",
		},
	} {
		a := n.call(row.method, row.path, row.body).is(row.status, row.code)
		require.Contains(t, a.detail(), row.detail)
		require.NotContains(t, a.raw, "secret-path")
	}
	for range 15 {
		n.call("POST", hooksPath, `{"url":"https://hooks.example/"}`).is(201, "")
	}
	n.call("POST", hooksPath, `{"url":"https://hooks.example/"}`).is(400, "webhook_limit")
}

// TestARotationThatIsStillAnsweredIsNotLost: a repeat that comes before the first answer is kept
// shows the secret in use, and advises no other rotation. One that has been replaced is not shown.
func TestARotationThatIsStillAnsweredIsNotLost(t *testing.T) {
	n := start(t)
	n.describe()
	n.call("POST", "accounts", `{"name":"demo"}`).is(201, "")
	one := hooksPath + "/" +
		n.call("POST", hooksPath, `{"url":"https://hooks.example/"}`).is(201, "").data()["id"].(string)
	unanswered := func(key string) {
		t.Helper()
		n.RefuseKind.Store(uint32(billing.KindKeepAnswer))
		n.RefuseNext.Store(1)
		n.once(one+"/rotate-secret", key, "").is(503, "outcome_unknown")
	}
	unanswered("a")
	shown := n.once(one+"/rotate-secret", "a", "").is(200, "")
	require.True(t, strings.HasPrefix(shown.data()["secret"].(string), "whsec_"))
	require.Equal(t, 1, strings.Count(n.call("GET", "audit", "").raw, "secret-rotated"))
	require.Equal(t, shown.raw, n.once(one+"/rotate-secret", "a", "").is(200, "").raw)

	unanswered("b")
	newer := n.once(one+"/rotate-secret", "c", "").is(200, "").data()["secret"]
	require.NotEqual(t, shown.data()["secret"], newer)
	require.NotContains(t, n.once(one+"/rotate-secret", "b", "").is(409, "secret_not_shown").raw, newer)
}

// TestARepeatedEndpointRequestIsTheFirstAnswer: its signing secret included, whatever has become of
// the endpoint since.
func TestARepeatedEndpointRequestIsTheFirstAnswer(t *testing.T) {
	n := start(t)
	n.describe()
	n.call("POST", "accounts", `{"name":"demo"}`).is(201, "")
	const request = `{"url":"https://hooks.example/","description":"\"enabled\":true"}`
	first := n.once(hooksPath, "k", request).is(201, "")
	require.True(t, strings.HasPrefix(first.data()["secret"].(string), "whsec_"))
	again := func() {
		t.Helper()
		repeated := n.once(hooksPath, "k", request).is(201, "")
		require.Equal(t, first.raw, repeated.raw)
		require.Equal(t, "true", repeated.header.Get("Idempotency-Replayed"))
	}
	again()
	one := hooksPath + "/" + first.data()["id"].(string)
	n.call("PATCH", one, `{"url":"https://moved.example/","enabled":false}`).is(200, "")
	rotated := n.once(one+"/rotate-secret", "r", "").is(200, "")
	require.True(t, strings.HasPrefix(rotated.data()["secret"].(string), "whsec_"))
	require.NotEqual(t, first.data()["secret"], rotated.data()["secret"])
	require.Equal(t, rotated.raw, n.once(one+"/rotate-secret", "r", "").is(200, "").raw,
		"the secret in use stays")
	again()
	n.once(hooksPath, "k", `{"url":"https://other.example/"}`).is(409, "idempotency_key_reused")
	require.Len(t, n.call("GET", hooksPath, "").list(), 1)
	n.call("DELETE", one, "").is(200, "")
	again()
	require.Empty(t, n.call("GET", hooksPath, "").list())
	require.NotContains(t, n.call("GET", "audit", "").raw, "whsec_")

	second := n.once(hooksPath, "another", request).is(201, "").data()
	snapshot, err := n.Machine.Snapshot()
	require.NoError(t, err)
	defer snapshot.Release()
	var stored bytes.Buffer
	_, err = snapshot.WriteTo(&stored)
	require.NoError(t, err)
	require.Contains(t, stored.String(), `"secret":"sealed:`, "first answers are kept")
	for _, made := range []map[string]any{first.data(), rotated.data(), second} {
		require.NotContains(t, stored.String(), made["secret"], "with their secrets sealed")
	}

	n.RefuseKind.Store(uint32(billing.KindKeepAnswer))
	n.RefuseNext.Store(1)
	n.once(hooksPath, "lost", request).is(503, "outcome_unknown")
	list := n.call("GET", hooksPath, "").list()
	require.Len(t, list, 2)
	n.call("DELETE", hooksPath+"/"+list[1].(map[string]any)["id"].(string), "").is(200, "")
	n.once(hooksPath, "lost", request).is(404, "webhook_endpoint_not_found")
	require.Len(t, n.call("GET", hooksPath, "").list(), 1, "a deleted endpoint does not come back")

	const day = int64(25 * time.Hour / time.Millisecond)
	n.Stamp.Store(n.clock().UnixMilli() + day)
	late := n.once(hooksPath, "another", request).is(201, "")
	require.Equal(t, second["id"], late.data()["id"])
	require.NotContains(t, late.raw, "whsec_", "a day later the secret is not shown again")
	n.Stamp.Add(day)
	n.once(hooksPath, "another", `{"url":"https://hooks.example/"}`).is(409, "idempotency_key_reused")
	n.call("PATCH", hooksPath+"/"+second["id"].(string), `{"url":"https://moved.example/"}`).is(200, "")
	n.Stamp.Add(day)
	require.Equal(t, "https://moved.example/",
		n.once(hooksPath, "another", request).is(201, "").data()["url"], "as it is then")
}
