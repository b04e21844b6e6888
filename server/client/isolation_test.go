package client_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"
	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/server"
	"tollgate/server/client"
	"tollgate/server/link"
	"tollgate/server/payments"
	"tollgate/server/provider/fetch"
)

// attempt is one way to reach a record of somebody else's through a route. Names in braces stand
// for the record.
type attempt struct {
	method, path, body string
	// status is the answer; 0 is 404.
	status int
	// own reports whether the route takes no record: its answer must not show what is another's.
	own bool
	// mixed reports whether the rest of the request is the asker's, so that the record's own key is
	// refused.
	mixed bool
	// headers are the request's, where it has more than its key.
	headers map[string]string
}

// open are routes without a key; what proves who asks is in the path or the body, where it says so.
var open = map[string]string{
	"describe":              "the published document",
	"receivePaymentWebhook": "the provider's signature over the body",
	"showSandboxPage":       "a sealed token in the path",
	"actOnSandboxPage":      "a sealed token in the path",
	"showReturnPage":        "shows nothing of anybody",
}

const (
	aSubscription = "subscriptions/{subscription}"
	ofEvents      = `{"eventIdempotencyKey":"{fresh}","eventName":"tokens",` +
		`"customerReferenceId":"{customer}","occurredAt":"{now}"}`
)

// matrix says of every route, by operation, how a record of another account is asked for there.
var matrix = map[string][]attempt{
	"createCustomer": {{
		method: "POST", path: "customers", own: true, status: 201,
		body: `{"externalClientCustomerId":"{fresh}","firstName":"A","lastName":"B","email":"a@b.c"}`,
	}},
	"getCustomer":               {{method: "GET", path: "customers/{customer}"}},
	"updateCustomer":            {{method: "PATCH", path: "customers/{customer}", body: `{"firstName":"Eve"}`}},
	"archiveCustomer":           {{method: "DELETE", path: "customers/{customer}"}},
	"listCustomerEvents":        {{method: "GET", path: "customers/{customer}/events"}},
	"listEvents":                {{method: "GET", path: "events", own: true, status: 200}},
	"listCustomerSubscriptions": {{method: "GET", path: "customers/{customer}/subscriptions"}},
	"createSubscription": {
		{method: "POST", path: "subscriptions", body: `{"planId":"team","customerReferenceId":"{customer}"}`},
		{method: "POST", path: "subscriptions", body: `{"planId":"{plan}","customerReferenceId":"acme"}`, mixed: true},
	},
	"getSubscription": {{method: "GET", path: aSubscription}},
	"cancelSubscription": {{
		method: "POST", path: "subscriptions/cancellation/{subscription}",
	}},
	"revertScheduledCancellation": {{
		method: "DELETE", path: "subscriptions/cancellation/{subscription}/scheduled",
	}},
	"changeSubscriptionPlan": {
		{method: "POST", path: aSubscription + "/plan-change", body: `{"changeToPlanId":"rival-plan","changeType":"UPGRADE"}`},
	},
	"cancelScheduledPlanChange": {{method: "DELETE", path: aSubscription + "/plan-change/scheduled"}},
	"listPlanChanges":           {{method: "GET", path: aSubscription + "/plan-changes"}},
	"getUpcomingInvoice":        {{method: "GET", path: aSubscription + "/upcoming-invoice"}},
	"listPlans":                 {{method: "GET", path: "plans", own: true, status: 200}},
	"listEntitlements":          {{method: "GET", path: "entitlements/{customer}"}},
	"checkEntitlement":          {{method: "GET", path: "entitlements/{customer}/tokens", status: 200}},
	"evaluateEntitlement": {{
		method: "POST", path: "entitlements", status: 200,
		body: `{"customerReferenceId":"{customer}","featureKey":"tokens"}`,
	}},
	"evaluateEntitlements": {{
		method: "POST", path: "entitlements/batch", status: 200,
		body: `[{"customerReferenceId":"{customer}","featureKey":"tokens"}]`,
	}},
	"ingestEvent":      {{method: "POST", path: "events", body: ofEvents}},
	"ingestEventBatch": {{method: "POST", path: "events/batch", body: "[" + ofEvents + "]", status: 200}},
	"voidEvent":        {{method: "POST", path: "events/{event}/void", body: "{}"}},
	"previewCorrection": {
		{method: "GET", path: "events/{event}/correction-preview"},
		{method: "GET", path: "events/{event}/correction-preview?usageUnits=1"},
	},
	"amendEvent": {{method: "POST", path: "events/{event}/amend", body: `{"usageUnits":1}`}},

	"reserve": {{
		method: "POST", path: "reservations",
		body: `{"reservationKey":"{fresh}","customerReferenceId":"{customer}","featureKey":"tokens",` +
			`"usageUnits":1}`,
	}},
	"listReservations": {
		{method: "GET", path: "reservations?customerReferenceId={customer}"},
		{method: "GET", path: "reservations?budget={budget}"},
	},
	"getReservation":     {{method: "GET", path: "reservations/{reservation}"}},
	"settleReservation":  {{method: "POST", path: "reservations/{reservation}/settle", body: `{"usageUnits":1}`}},
	"extendReservation":  {{method: "POST", path: "reservations/{reservation}/extend", body: `{"usageUnits":1}`}},
	"releaseReservation": {{method: "POST", path: "reservations/{reservation}/release"}},

	"createPortalLink":  {{method: "POST", path: "customers/{customer}/portal-links"}},
	"revokePortalLinks": {{method: "DELETE", path: "customers/{customer}/portal-links"}},
	"search": {
		{method: "GET", path: "search?q={customer}", status: 200},
		{method: "GET", path: "search?q={subscription}", status: 200},
		{method: "GET", path: "search?q={invoice}", status: 200},
		{method: "GET", path: "search?q={event}", status: 200},
	},
	"putBudget": {
		{
			method: "PUT", path: "budgets/{fresh}", own: true, status: 200,
			body: `{"name":"N"}`,
		},
		{method: "PUT", path: "budgets/mine", body: `{"name":"N","parent":"{budget}"}`},
		{method: "PUT", path: "budgets/mine", body: `{"name":"N","customerReferenceId":"{customer}"}`},
	},
	"getBudget":         {{method: "GET", path: "budgets/{budget}"}},
	"listBudgets":       {{method: "GET", path: "budgets?parent={budget}"}},
	"listBudgetWindows": {{method: "GET", path: "budgets/{budget}/windows"}},
	"moveBudget":        {{method: "POST", path: "budgets/{budget}/move", body: `{}`}},
	"freezeBudget":      {{method: "POST", path: "budgets/{budget}/freeze"}},
	"unfreezeBudget":    {{method: "POST", path: "budgets/{budget}/unfreeze"}},
	"archiveBudget":     {{method: "DELETE", path: "budgets/{budget}"}},

	"setTopUp": {{
		method: "PUT", path: "pools/{pool}/top-up",
		body: `{"below":1,"amount":1,"price":1,"monthlyCap":1,"paymentMethod":"x"}`,
	}},
	"getTopUp":  {{method: "GET", path: "pools/{pool}/top-up"}},
	"stopTopUp": {{method: "DELETE", path: "pools/{pool}/top-up"}},

	"getUsage":             {{method: "GET", path: "usage?customer={customer}"}},
	"getClock":             {{method: "GET", path: "clock", own: true, status: 200}},
	"getCustomerInvoice":   {{method: "GET", path: "billing/invoices/{customer}/{invoice}"}},
	"listCustomerInvoices": {{method: "GET", path: "billing/invoices/{customer}"}},
	"markInvoicePaid":      {{method: "POST", path: "billing/invoices/{invoice}/mark-paid"}},
	"createCheckoutSession": {{
		method: "POST", path: "billing/invoices/{invoice}/payprovider/checkout",
	}},
}

// record is a customer with all that belongs to it, as requests name it.
type record map[string]string

// rival makes a second account with a catalog, a customer, a subscription, an invoice and a usage
// event of its own, and returns its key.
func (n *node) rival() (key string, r record) {
	n.t.Helper()
	n.Do(n.t, billing.KindCreateAccount, &billing.CreateAccount{ID: [16]byte{2}, Name: "rival"})
	env, ok := n.Machine.Environment("rival", billing.EnvironmentSandbox)
	require.True(n.t, ok)
	key = n.addKey(env, server.KeyPrefixSandbox, billing.ScopeFull)
	plan := func(key string) billing.PlanDocument {
		return billing.PlanDocument{
			Key: key, Name: "Rival " + key, PriceAmount: decimal.MustParse("7"), Currency: "USD",
			IntervalMonths: 1,
			Features:       []billing.PlanFeatureDocument{{Key: "tokens", PricingType: "included"}},
		}
	}
	n.Do(n.t, billing.KindApplyCatalog, &billing.ApplyCatalog{
		Env: env, FeatureIDs: bytes.Repeat([]byte{0xee}, 16),
		PlanIDs: slices.Concat(bytes.Repeat([]byte{0xed}, 16), bytes.Repeat([]byte{0xec}, 16)),
		Document: billing.CatalogDocument{
			Features: []billing.FeatureDocument{{Key: "tokens", Name: "Rival tokens"}},
			Plans:    []billing.PlanDocument{plan("rival-plan"), plan("team")},
		},
	})
	send := func(path, body string) answer {
		return n.send("POST", path, body, key, nil).is(201, "")
	}
	send("customers", `{"externalClientCustomerId":"rival-customer","firstName":"Rival",`+
		`"lastName":"Rival","email":"rival@example.com"}`)
	made := send("subscriptions", `{"planId":"rival-plan","customerReferenceId":"rival-customer"}`)
	send("events", strings.NewReplacer("{fresh}", "rival-event", "{customer}", "rival-customer",
		"{now}", now()).Replace(ofEvents))
	n.send("PUT", "budgets/rival-budget", `{"name":"Rival"}`, key, nil).is(200, "")
	held := send("reservations", `{"reservationKey":"rival-hold","featureKey":"tokens","usageUnits":1,`+
		`"customerReferenceId":"rival-customer"}`)
	pool := [16]byte{0xeb}
	n.Do(n.t, billing.KindCreatePool, &billing.CreatePool{
		Env: env, ID: pool, Customer: "rival-customer", Name: "rival-pool",
	})
	n.Do(n.t, billing.KindSetPaymentProvider, &billing.SetPaymentProvider{
		Env: env, Provider: billing.ProviderSandbox,
	})
	n.Do(n.t, billing.KindSetTopUp, &billing.SetTopUp{
		Env: env, ID: pool, Below: decimal.FromInt(1), Amount: decimal.FromInt(1),
		Price: decimal.FromInt(1), MonthlyCap: decimal.FromInt(1), CooldownMS: 60_000, Method: "rival-card",
	})
	return key, record{
		"reservation": held.data("id").(string), "pool": string(server.AppendUUID(nil, pool)),
		"customer": "rival-customer", "subscription": made.data("subscription", "id").(string),
		"invoice": made.data("invoice", "id").(string), "event": "rival-event", "plan": "rival-plan",
		"budget": "rival-budget",
	}
}

// nobody names what does not exist anywhere.
func nobody() record {
	return record{
		"reservation": uuid.Must(uuid.NewV4()).String(), "pool": uuid.Must(uuid.NewV4()).String(),
		"customer": "nobodys-record", "subscription": uuid.Must(uuid.NewV4()).String(),
		"invoice": uuid.Must(uuid.NewV4()).String(), "event": "nobodys-event", "plan": "nobodys-plan",
		"budget": "nobodys-budget",
	}
}

// try makes an attempt at a record.
func (n *node) try(a attempt, r record, key string) answer {
	n.t.Helper()
	names := []string{"{fresh}", uuid.Must(uuid.NewV4()).String(), "{now}", now()}
	for name, value := range r {
		names = append(names, "{"+name+"}", value)
	}
	fill := strings.NewReplacer(names...)
	return n.send(a.method, fill.Replace(a.path), fill.Replace(a.body), key, a.headers)
}

// connected gives a node what its routes of payments and links need.
func connected(t *testing.T) func(*client.Config) {
	guarded, err := fetch.New(fetch.Config{})
	require.NoError(t, err)
	t.Cleanup(guarded.Close)
	return func(c *client.Config) {
		c.Payments, err = payments.New(payments.Config{
			Machine: c.Machine, Proposer: c.Proposer, Reader: c.Reader, Fetch: guarded,
			PublicURL: "http://127.0.0.1", SealKey: sha256.Sum256(nil),
		})
		require.NoError(t, err)
		c.Links = link.New([32]byte{1}, "http://127.0.0.1")
	}
}

var changing = regexp.MustCompile(
	`[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[^"]*|rival-\w+|nobodys-\w+|"logIndex":\d+`)

// TestNoKeyReachesAnothersRecords: on every route, a record of another account, and of the same
// account's other environment, is answered as one that exists nowhere, word for word; a customer
// key gets the same 403 for everything but its own customer. A route that the matrix does not name
// fails here.
func TestNoKeyReachesAnothersRecords(t *testing.T) {
	n := start(t, connected(t))
	n.customer("acme")
	n.customer("neighbour")
	keyOfRival, rivals := n.rival()
	customer := n.customerKey("acme")
	tried := 0
	for _, route := range n.api.Table().Routes() {
		if open[route.Operation] != "" {
			require.Equal(t, server.AccessOpen, route.Access, route.Operation)
			continue
		}
		attempts := matrix[route.Operation]
		require.NotEmpty(t, attempts, "the matrix lacks %s %s", route.Method, route.Path)
		for _, a := range attempts {
			require.Equal(t, route.Method, a.method, route.Operation)
			name := fmt.Sprintf("%s %s %s", route.Operation, a.path, a.body)
			tried++
			for _, key := range []string{n.sandbox, n.read, n.live} {
				n.compare(name, a, rivals, key)
			}
			n.try(a, rivals, customer).is(403, "access_denied")
			n.try(a, record{"customer": "neighbour", "plan": "team"}, customer).is(403, "access_denied")
			if !a.own && !a.mixed {
				own := n.try(a, rivals, keyOfRival)
				require.NotContains(t, []int{401, 403, 404}, own.status, "%s: %s", name, own.raw)
			}
		}
	}
	require.Greater(t, tried, 20)
}

// compare makes an attempt at a rival's record and at nobody's, and wants the same answer.
func (n *node) compare(name string, a attempt, rivals record, key string) {
	n.t.Helper()
	got, want := n.try(a, rivals, key), n.try(a, nobody(), key)
	blur := func(x answer) string {
		text := strings.ReplaceAll(string(x.raw), x.header.Get("X-Request-Id"), "")
		return changing.ReplaceAllString(text, "…")
	}
	if a.own {
		require.NotContains(n.t, strings.ToLower(string(got.raw)), "rival", name)
		return
	}
	require.Equal(n.t, want.status, got.status, "%s: %s", name, got.raw)
	require.Equal(n.t, blur(want), blur(got), name)
	if key != n.sandbox { // of a read key 403, of the live environment what it lacks
		require.Contains(n.t, []int{200, 403, 404}, got.status, name)
		return
	}
	expected := a.status
	if expected == 0 {
		expected = 404
	}
	require.Equal(n.t, expected, got.status, "%s: %s", name, got.raw)
	require.NotContains(n.t, string(got.raw), `"isAllowed":true`, name)
}

// TestOneConnectionManyKeys: a proxy in front may send the requests of many accounts over one
// connection. Each key speaks for itself, however like the one before it is, and for as long as it
// is valid.
func TestOneConnectionManyKeys(t *testing.T) {
	n := start(t)
	n.customer("acme")
	w := n.wire("HTTP/1.1 ")
	ask := func(key string) string {
		return string(w.roundTrip(n.prepareAs(key, "GET", "entitlements/acme/tokens", "")))
	}
	mistyped := []byte(n.sandbox)
	mistyped[len(mistyped)-1] ^= 1
	for range 2 {
		require.Contains(t, ask(n.sandbox), `"isAllowed":true`)
		require.Contains(t, ask(string(mistyped)), "HTTP/1.1 401 ")
		require.Contains(t, ask(n.sandbox[:len(n.sandbox)-1]), "HTTP/1.1 401 ")
		require.Contains(t, ask(n.sandbox+"0"), "HTTP/1.1 401 ")
		require.Contains(t, ask(n.sandbox), `"isAllowed":true`)
		require.Contains(t, ask(n.live), `"code":"customer_unknown"`)
	}
	hash := sha256.Sum256([]byte(n.sandbox))
	n.Do(t, billing.KindRevokeKey, &billing.RevokeKey{Env: n.env, ID: [16]byte(hash[:16])})
	require.Contains(t, ask(n.sandbox), "HTTP/1.1 401 ")
}
