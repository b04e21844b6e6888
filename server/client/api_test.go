package client_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/server"
	"tollgate/server/client"
)

const uuidUnknown = "018f0000-0000-7000-8000-000000000001"

// TestEveryRefusal goes through every (status, code) pair that is reachable over HTTP; what each
// was refused for must have changed nothing.
func TestEveryRefusal(t *testing.T) {
	n := start(t)
	n.customer("acme")
	good := `"eventName":"tokens","occurredAt":"` + now() + `"`
	rows := []struct {
		method, path, body string
		status             int
		code, detail       string
	}{
		{"GET", "nothing", "", 404, "not_found", "exactly"},
		{"GET", "plans/", "", 404, "not_found", "exactly"},
		{"GET", "customers/", "", 404, "not_found", ""},
		{"GET", "/api/v1/client", "", 404, "not_found", ""},
		{"GET", "/api/v1/client/%70lans", "", 404, "not_found", ""},
		{"DELETE", "plans", "", 405, "method_not_allowed", "Allow"},
		{"HEAD", "entitlements", "", 405, "", ""},
		{"GET", "customers/nobody", "", 404, "customer_not_found", ""},
		{"GET", "customers/a%0Ab", "", 400, "validation_failed", "control"},
		{"GET", "customers/%FF", "", 400, "validation_failed", "UTF-8"},
		{"GET", "customers/%C2%85", "", 400, "validation_failed", "control"},
		{"GET", "customers/" + strings.Repeat("x", 129), "", 400, "validation_failed", "128"},
		{"GET", "customers/nobody/subscriptions", "", 404, "customer_not_found", ""},
		{"GET", "customers/acme/subscriptions?status=dead", "", 400, "validation_failed", "status"},
		{"GET", "customers/nobody/events", "", 404, "customer_not_found", ""},
		{
			"GET", "customers/acme/events?limit=0&kind=x&from=y&to=z&cursor=q", "", 400,
			"validation_failed", "limit",
		},
		{"GET", "billing/invoices/nobody", "", 404, "customer_not_found", ""},
		{"GET", "billing/invoices/acme?include=all", "", 400, "validation_failed", "include"},
		{"GET", "subscriptions/abc", "", 400, "validation_failed", "UUID"},
		{"GET", "subscriptions/" + uuidUnknown, "", 404, "subscription_not_found", ""},
		{"POST", "billing/invoices/abc/mark-paid", "", 400, "validation_failed", "UUID"},
		{"POST", "billing/invoices/" + uuidUnknown + "/mark-paid", "", 404, "invoice_not_found", ""},
		{"POST", "customers", "", 400, "malformed_json", ""},
		{"POST", "customers", `{}`, 400, "validation_failed", "firstName is required; lastName"},
		{"POST", "customers", `{"externalClientCustomerId":"acme","firstName":"A","lastName":"B",` +
			`"email":"a@b"}`, 409, "customer_exists", ""},
		{"POST", "customers", `{"externalClientCustomerId":"","firstName":"","lastName":1,"email":"x",` +
			`"phoneNumber":[],"nick":1}`, 400, "validation_failed", `unknown field "nick"`},
		{"POST", "customers", `{"externalClientCustomerId":"x","customerReferenceId":"y",` +
			`"firstName":"A","lastName":"B","email":"a@b"}`, 400, "validation_failed", "differ"},
		{"POST", "subscriptions", `{"planId":"team"}`, 400, "validation_failed", "customerReferenceId"},
		{
			"POST", "subscriptions", `{"planId":"nope","customerReferenceId":"acme"}`, 404,
			"plan_not_found", "",
		},
		{
			"POST", "subscriptions", `{"planId":"draft","customerReferenceId":"acme"}`, 400,
			"plan_inactive", "",
		},
		{
			"POST", "subscriptions", `{"planId":"team","customerReferenceId":"nobody"}`, 404,
			"customer_not_found", "",
		},
		{
			"POST", "subscriptions", `{"planId":"team","customerReferenceId":"acme","gracePeriod":366}`,
			400, "validation_failed", "gracePeriod",
		},
		{
			"POST", "subscriptions", `{"planId":"team","customerReferenceId":"acme","gracePeriod":1.5}`,
			400, "validation_failed", "gracePeriod",
		},
		{
			"POST", "entitlements", `{"customerReferenceId":"acme"}`, 400, "validation_failed",
			"featureKey is required",
		},
		{
			"POST", "entitlements", `{"customerReferenceId":"acme","featureKey":"f","track":{"usageUnits":0}}`,
			400, "validation_failed", "greater than 0",
		},
		{"POST", "entitlements", `{"customerReferenceId":"acme","featureKey":"f","context":{"flowId":"` +
			strings.Repeat("x", 129) + `"}}`, 400, "validation_failed", "context.flowId"},
		{
			"POST", "entitlements", `{"customerReferenceId":"acme","featureKey":"f","track":{"units":1}}`,
			400, "validation_failed", `"units"`,
		},
		{"GET", "entitlements/acme/" + strings.Repeat("f", 129), "", 400, "validation_failed", "128"},
		{
			"POST", "events", `{` + good + `,"customerReferenceId":"acme"}`, 400, "validation_failed",
			"eventIdempotencyKey is required",
		},
		{
			"POST", "events", `{"eventIdempotencyKey":"r","customerReferenceId":"acme"}`, 400,
			"validation_failed", "eventName is required; occurredAt is required",
		},
		{
			"POST", "events", `{"eventIdempotencyKey":"r",` + good + `}`, 400, "validation_failed",
			"exactly one",
		},
		{"POST", "events", `{"eventIdempotencyKey":"r",` + good + `,"customerReferenceId":"acme",` +
			`"customerId":"` + uuidUnknown + `"}`, 400, "validation_failed", "exactly one"},
		{"POST", "events", event("r", `,"usageUnits":-1`), 400, "validation_failed", "negative"},
		{"POST", "events", event("r", `,"costAmount":-1`), 400, "validation_failed", "negative"},
		{"POST", "events", event("r", `,"usageUnits":0.1234567890123`), 400, "validation_failed", "12"},
		{"POST", "events", event("r", `,"usageUnits":1e25`), 400, "validation_failed", "10^24"},
		{
			"POST", "events", event("r", `,"usageUnits":"1"`), 400, "validation_failed",
			"usageUnits must be a number, not a string",
		},
		{"POST", "events", event("r", `,"usageUnist":1`), 400, "validation_failed", `"usageUnist"`},
		{"POST", "events", event("r", `,"featureId":"abc"`), 400, "validation_failed", "featureId"},
		{"POST", "events", event("r", `,"meta":[]`), 400, "validation_failed", "meta"},
		{
			"POST", "events", event("r", `,"meta":{"x":"`+strings.Repeat("y", 8190)+`"}`), 400,
			"validation_failed", "8192",
		},
		{"POST", "events", event("r", `,"featureId":"`+uuidUnknown+`"`), 404, "feature_not_found", ""},
		{
			"POST", "events", event("r", `,"subscriptionId":"`+uuidUnknown+`"`), 404,
			"subscription_not_found", "",
		},
		{
			"POST", "events", event("r", `,"entitlementId":"`+uuidUnknown+`"`), 404,
			"entitlement_not_found", "",
		},
		{"POST", "events", event("r", `,"invoiceId":"`+uuidUnknown+`"`), 404, "invoice_not_found", ""},
		{
			"POST", "events", strings.Replace(event("r", ""), "acme", "nobody", 1), 404,
			"customer_not_found", "",
		},
		{
			"POST", "events", `{"eventIdempotencyKey":"r","eventName":"tokens",` +
				`"customerReferenceId":"acme","occurredAt":"2001-01-01T00:00:00Z"}`, 400,
			"occurred_too_early", "",
		},
		{
			"POST", "events", `{"eventIdempotencyKey":"r","eventName":"tokens",` +
				`"customerReferenceId":"acme","occurredAt":"2101-01-01T00:00:00Z"}`, 400,
			"occurred_too_late", "",
		},
		{"POST", "events", event("r", `,"featureKey":"calls","usageUnits":4`), 402, "limit_exceeded", ""},
		{"POST", "events/batch", `7`, 400, "malformed_json", ""},
		{"POST", "events/batch", `[{}`, 400, "malformed_json", ""},
		{"POST", "events/batch", `[{}] x`, 400, "malformed_json", ""},
		{"POST", "events/batch", "[" + strings.Repeat("{},", 10_000) + "{}]", 413, "body_too_large", ""},
	}
	_, before := n.Machine.StateHash()
	for _, row := range rows {
		if row.method == "HEAD" {
			continue // its answer has no body; see TestMethodsAreExact
		}
		t.Run(row.method+" "+row.path[:min(len(row.path), 40)]+" "+row.code, func(t *testing.T) {
			a := n.call(row.method, row.path, row.body)
			a.t = t
			a.is(row.status, row.code)
			if row.detail != "" {
				require.Contains(t, a.fault()["detail"], row.detail)
			}
		})
	}
	a := n.call("GET", "entitlements/acme/tokens", "").is(200, "")
	require.Equal(t, 0.0, a.data("usage", "used"))
	events := n.call("GET", "customers/acme/events?kind=usage", "").is(200, "")
	require.Empty(t, events.data("events"))
	require.NotZero(t, before)
	// Only a recorded event uses up its key.
	n.call("POST", "events", event("r", "")).is(201, "")
}

func TestMethodsAreExact(t *testing.T) {
	n := start(t)
	a := n.call("DELETE", "entitlements", "")
	require.Equal(t, "POST", a.header.Get("Allow"))
	a = n.call("PUT", "customers/acme", "{}")
	require.Equal(t, "DELETE, GET, HEAD, PATCH", a.header.Get("Allow"))
	for _, method := range []string{"OPTIONS", "get", "head"} {
		request, err := http.NewRequest(method, "http://"+n.addr+client.Prefix+"/plans", nil)
		require.NoError(t, err)
		response, err := n.http.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, 405, response.StatusCode, method)
	}
}

func TestOutsideTheAPIsErrorsHaveTheWorkspaceShape(t *testing.T) {
	n := start(t)
	for _, path := range []string{"/", "/nothing", "/api/v1/clients", "/api/v1/", "//api/v1/client/plans"} {
		a := n.call("GET", path, "")
		require.Equal(t, 404, a.status)
		require.Equal(t, "not_found", a.body["error"], path)
		require.NotEmpty(t, a.body["message"])
		require.Equal(t, a.header.Get("X-Request-Id"), a.body["request_id"])
	}
	require.Equal(t, false, n.call("GET", "/api/v1/admin/accounts", "").body["success"])
}

// TestOrderOfChecks gives each request every fault from its own on.
func TestOrderOfChecks(t *testing.T) {
	n := start(t)
	big := strings.Repeat("x", 2<<20)
	text := map[string]string{"Content-Type": "text/plain"}
	n.send("PUT", "nothing", big, "", text).is(404, "not_found")
	n.send("PUT", "events", big, "", text).is(405, "method_not_allowed")
	n.send("POST", "events", big, "", text).is(401, "invalid_key")
	n.send("POST", "events", big, n.read, text).is(403, "access_denied")
	n.send("POST", "events", big, n.sandbox, text).is(413, "body_too_large")
	n.send("POST", "events", "x", n.sandbox, text).is(415, "unsupported_media_type")
	n.send("POST", "events", "x", n.sandbox, nil).is(400, "malformed_json")
	n.send("POST", "events", "{}", n.sandbox, nil).is(400, "validation_failed")
	n.send("POST", "subscriptions", `{"planId":"draft","customerReferenceId":"nobody"}`, n.sandbox, nil).
		is(404, "customer_not_found")
}

func TestMediaTypes(t *testing.T) {
	n := start(t)
	n.customer("acme")
	for media, status := range map[string]int{
		"application/json; charset=utf-8": 201, "APPLICATION/JSON": 201,
		"application/json; charset=latin1": 415, "application/jsonx": 415,
		"application/x-www-form-urlencoded": 415, "multipart/form-data; boundary=x": 415,
	} {
		a := n.send("POST", "events", event(media, ""), n.sandbox, map[string]string{"Content-Type": media})
		require.Equal(t, status, a.status, media)
	}
}

// TestScopes sends every operation with every kind of key.
func TestScopes(t *testing.T) {
	n := start(t)
	unknown := server.MintKey(server.KeyPrefixSandbox)
	admin := server.MintKey(server.KeyPrefixAdmin)
	for _, route := range n.api.Table().Routes() {
		path := strings.NewReplacer("{subscriptionId}", uuidUnknown, "{invoiceId}", uuidUnknown,
			"{", "", "}", "").Replace(route.Path)
		body := ""
		if route.Body != nil {
			body = "{}"
		}
		send := func(key string) answer { return n.send(route.Method, path, body, key, nil) }
		if route.Access == server.AccessOpen {
			require.Equal(t, 200, send("").status)
			continue
		}
		for _, key := range []string{"", "sk_test_", unknown, admin, n.sandbox + "x", n.sandbox[:20]} {
			a := send(key).is(401, "invalid_key")
			require.Equal(t, "Invalid or missing API key", a.fault()["message"])
			require.Equal(t, "Bearer", a.header.Get("WWW-Authenticate"))
		}
		for _, key := range []string{n.sandbox, n.live} {
			require.NotContains(t, []int{401, 403}, send(key).status, route.Operation)
		}
		reads := route.Method == "GET" || strings.HasPrefix(route.Operation, "evaluateEntitlement")
		if a := send(n.read); reads {
			require.NotEqual(t, 403, a.status, route.Operation)
		} else {
			a.is(403, "access_denied")
			require.Equal(t, "Access denied", a.fault()["message"])
		}
	}
}

func TestBothWaysOfAuthentication(t *testing.T) {
	n := start(t)
	header := func(name, value string) map[string]string { return map[string]string{name: value} }
	n.send("GET", "plans", "", "", header("X-API-Key", n.sandbox)).is(200, "")
	n.send("GET", "plans", "", "", header("Authorization", "bearer "+n.sandbox)).is(200, "")
	n.send("GET", "plans", "", "", header("Authorization", n.sandbox)).is(401, "invalid_key")
	n.send("GET", "plans", "", n.sandbox, header("X-API-Key", n.sandbox)).is(200, "")
	n.send("GET", "plans", "", n.sandbox, header("X-API-Key", n.read)).is(401, "invalid_key")
}

func TestMalformedKeysAreRefusedWithoutALookup(t *testing.T) {
	n := start(t)
	before := n.Reads.Load()
	for _, key := range []string{n.sandbox + "x", n.sandbox[:len(n.sandbox)-1] + "~", "sk_test_x"} {
		n.send("GET", "plans", "", key, nil).is(401, "invalid_key")
	}
	require.Equal(t, before, n.Reads.Load())
}

func TestEnvironmentsShareNothing(t *testing.T) {
	n := start(t)
	n.customer("acme")
	n.send("GET", "customers/acme", "", n.live, nil).is(404, "customer_not_found")
	require.Empty(t, n.send("GET", "plans", "", n.live, nil).is(200, "").data())
}

func TestSandboxHost(t *testing.T) {
	n := start(t, func(c *client.Config) { c.SandboxHost = "sandbox.example" })
	there := map[string]string{"Host": "Sandbox.Example:8080"}
	n.send("GET", "plans", "", n.sandbox, there).is(200, "")
	n.send("GET", "plans", "", n.live, there).is(401, "invalid_key")
	n.send("GET", "plans", "", n.sandbox, nil).is(401, "invalid_key")
	n.send("GET", "plans", "", n.live, nil).is(200, "")
}

func TestPathParametersAreDecodedOnceAfterMatching(t *testing.T) {
	n := start(t)
	for _, id := range []string{`a/b`, `50%`, `a b`, `a+b`, `é😀`, `..`, `plans`, `%2F`} {
		body := `{"externalClientCustomerId":"` + id + `","firstName":"A","lastName":"B","email":"a@b"}`
		location := n.call("POST", "customers", body).is(201, "").header.Get("Location")
		a := n.call("GET", location, "").is(200, "")
		require.Equal(t, id, a.data("externalClientCustomerId"))
	}
	n.call("GET", "customers/a/b", "").is(404, "not_found")
	n.call("GET", "customers/a%252Fb", "").is(404, "customer_not_found")
}

// A node that is behind its leader passes checks on: the answers are those of its own memory, once
// that is up to date. Where the leader does not answer, the node waits as before.
func TestALaggingNodeAsksItsLeader(t *testing.T) {
	n := start(t)
	n.customer("acme")
	n.call("POST", "events", event("e", `,"usageUnits":0.25`)).is(201, "")
	checks := []func() answer{
		func() answer { return n.call("GET", "entitlements/acme/tokens", "") },
		func() answer { return n.call("GET", "entitlements/acme/nothing", "") },
		func() answer { return n.call("GET", "entitlements/globex/tokens", "") },
		func() answer {
			return n.call("POST", "entitlements", `{"customerReferenceId":"acme",
				"featureKey":"tokens","track":{"usageUnits":1.5}}`)
		},
	}
	for _, send := range checks {
		check := func() answer { // the records of earlier checks are entries that come meanwhile
			a := send()
			delete(a.data("meta", "reason").(map[string]any), "logIndex")
			return a
		}
		n.Lagging.Store(false)
		own, asks, reads := check(), n.Asks.Load(), n.Reads.Load()
		n.Lagging.Store(true)
		passed := check()
		require.Equal(t, own.status, passed.status)
		require.Equal(t, own.body, passed.body)
		require.Equal(t, asks+1, n.Asks.Load())
		require.Equal(t, reads, n.Reads.Load(), "nothing is waited for")
		n.Mute.Store(true)
		require.Equal(t, own.body, check().body)
		require.Equal(t, reads+1, n.Reads.Load())
		n.Mute.Store(false)
	}
	asks, reads := n.Asks.Load(), n.Reads.Load()
	n.call("POST", "entitlements/batch", `[{"customerReferenceId":"acme","featureKey":"tokens"}]`).
		is(200, "")
	require.Equal(t, asks, n.Asks.Load(), "a batch waits for the log")
	require.Equal(t, reads+1, n.Reads.Load())
	stale := map[string]string{"X-Read-Consistency": "stale"}
	n.send("GET", "entitlements/acme/tokens", "", n.sandbox, stale).is(200, "")
	require.Equal(t, asks, n.Asks.Load(), "a stale read is of the node's own memory")
}

func TestReadConsistency(t *testing.T) {
	n := start(t)
	n.customer("acme")
	const one = `{"customerReferenceId":"acme","featureKey":"tokens"}`
	consistency := func(word string) map[string]string {
		return map[string]string{"X-Read-Consistency": word}
	}
	reads := []func(headers map[string]string) answer{
		func(h map[string]string) answer { return n.send("POST", "entitlements", one, n.sandbox, h) },
		func(h map[string]string) answer {
			return n.send("POST", "entitlements/batch", "["+one+","+one+"]", n.sandbox, h)
		},
	}
	for _, path := range []string{
		"plans", "customers/acme", "customers/acme/subscriptions", "billing/invoices/acme",
		"customers/acme/events", "entitlements/acme/tokens",
	} {
		reads = append(reads, func(h map[string]string) answer {
			return n.send("GET", path, "", n.sandbox, h)
		})
	}
	n.Stale.Store(3_000_000_001)
	for _, read := range reads {
		asked := n.Reads.Load()
		a := read(consistency("stale")).is(200, "")
		require.Equal(t, "3001", a.header.Get("X-Staleness-Ms"))
		require.Equal(t, asked, n.Reads.Load(), "no leader is asked")
		require.Empty(t, read(nil).is(200, "").header.Get("X-Staleness-Ms"))
		require.Equal(t, asked+1, n.Reads.Load(), "the leader is asked once")
		read(consistency("strict")).is(400, "validation_failed")
		n.Fickle.Store(3) // tickets that end before the value is copied out are not answers
		read(nil).is(200, "")
		require.Zero(t, n.Fickle.Load(), "each ticket was asked again")
		require.Equal(t, asked+5, n.Reads.Load())
	}
	n.NoLeader.Store(true)
	n.Refuse(engine.OutcomeUnavailable)
	for _, read := range reads {
		read(nil).is(503, "unavailable")
		read(consistency("stale")).is(200, "")
	}
	n.call("POST", "events", event("k", "")).is(503, "unavailable")
}

func TestOutcomesOfTheCluster(t *testing.T) {
	n := start(t)
	n.customer("acme")
	codes := map[engine.Outcome]string{
		engine.OutcomeUnavailable: "unavailable", engine.OutcomeOverloaded: "overloaded",
		engine.OutcomeUnknown: "outcome_unknown", engine.OutcomeDiskLow: "disk_low",
		engine.OutcomeKeysFull: "keys_full",
	}
	for outcome, code := range codes {
		n.Refuse(outcome)
		n.call("POST", "events", event("k", "")).is(503, code)
		a := n.call("POST", "events/batch", "["+event("k", "")+"]").is(200, "")
		require.Equal(t, 1.0, a.data("rejected"))
		n.call("POST", "customers", `{"firstName":"A","lastName":"B","email":"a@b"}`).is(503, code)
		n.call("POST", "subscriptions", `{"planId":"team","customerReferenceId":"acme"}`).is(503, code)
		n.call("POST", "billing/invoices/"+uuidUnknown+"/mark-paid", "").is(503, code)
	}
	n.Refuse(engine.OutcomeTooLarge)
	n.call("POST", "events", event("k", "")).is(413, "too_large")
}
