package client_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/servertest"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/rollup"
	"tollgate/server"
	"tollgate/server/client"
	"tollgate/server/link"
	"tollgate/server/payments"
	"tollgate/server/provider/fetch"
)

// asProvider excuses what a payment provider answers.
const asProvider = "it takes a provider that says no: server/payments has each"

// malformed asks for what no operation takes.
func malformed(n *node) {
	const body = `{"externalClientCustomerId":"new"`
	n.call("POST", "customers", body).is(400, "malformed_json")
	n.call("POST", "customers", body+strings.Repeat(" ", server.DefaultBodyLimit)).
		is(413, "body_too_large")
	for name, value := range map[string]string{"Content-Type": "text/plain", "Content-Encoding": "gzip"} {
		a := n.send("POST", "customers", body+"}", n.sandbox, map[string]string{name: value})
		if name == "Content-Type" {
			a.is(415, "unsupported_media_type")
			continue
		}
		a.is(400, "malformed_encoding")
	}
}

// stillCounting is a Source that has not read the journal yet.
type stillCounting struct{ rollup.Source }

func (stillCounting) Sum(rollup.Query, func(rollup.Cell) error) error { return rollup.ErrCounting }

// unable asks a node that lacks what some operations need.
func unable(t *testing.T, begin time.Time) {
	n := start(t, func(c *client.Config) {
		c.Events, c.Counts = nil, stillCounting{}
		c.RateLimit = server.RateLimit{Requests: 6, Window: time.Hour}
		c.Now = func() time.Time { return begin }
		c.Proposer.(*servertest.Cluster).Stamp.Store(begin.UnixMilli())
	})
	n.customer("acme")
	n.call("GET", "events", "").is(503, "journal_unavailable")
	n.call("GET", "usage?customer=acme", "").is(503, "still_counting")
	n.call("POST", "customers/acme/portal-links", "{}").is(503, "portal_unavailable")
	n.call("GET", "plans", "").is(200, "")
	n.call("GET", "plans", "").is(429, "rate_limited")
}

// TestExamples asks each operation once, is refused in each way that a reader should know, and
// compares both with the examples of the published document.
func TestExamples(t *testing.T) {
	begin := time.Date(2026, 1, 15, 9, 30, 0, 0, time.UTC)
	var till *payments.Service
	n := start(t, func(c *client.Config) {
		c.Now = func() time.Time { return begin }
		c.Proposer.(*servertest.Cluster).Stamp.Store(begin.UnixMilli())
		guarded, err := fetch.New(fetch.Config{})
		require.NoError(t, err)
		t.Cleanup(guarded.Close)
		c.Payments, err = payments.New(payments.Config{
			Machine: c.Machine, Proposer: c.Proposer, Reader: c.Reader, Fetch: guarded,
			PublicURL: "https://tollgate.example", SealKey: [32]byte{1},
		})
		require.NoError(t, err)
		till = c.Payments
		c.Links = link.New([32]byte{1}, "https://tollgate.example")
	})
	provider, err := till.Prepare(payments.Place{
		Account: "demo", Kind: billing.EnvironmentSandbox, Env: n.env,
	}, payments.Settings{Provider: billing.ProviderSandbox})
	require.NoError(t, err)
	n.Do(t, billing.KindSetPaymentProvider, &provider)
	n.secondPlan()
	recorded := servertest.RecordExamples(t)
	n.call("POST", "customers", `{"externalClientCustomerId":"acme","firstName":"Ada",`+
		`"lastName":"Lovelace","email":"ada@acme.example"}`).is(201, "")
	made := n.send("POST", "subscriptions", `{"customerReferenceId":"acme","planId":"team"}`, n.sandbox,
		map[string]string{"Idempotency-Key": "signup-4711"}).is(201, "")
	subscription, invoice := made.data("subscription", "id").(string), made.data("invoice", "id").(string)
	n.Do(t, billing.KindCreatePool, &billing.CreatePool{
		Env: n.env, ID: [16]byte{7}, Customer: "acme", Name: "Tokens", Denomination: "tokens",
		Currency: "USD",
	})
	n.Do(t, billing.KindGrantCredits, &billing.GrantCredits{
		Env: n.env, ID: [16]byte{8}, Pool: [16]byte{7}, Amount: decimal.FromInt(250),
	})
	tokens := "pools/" + string(server.AppendUUID(nil, [16]byte{7})) + "/top-up"
	at := begin.Format(time.RFC3339)
	event := func(key, feature, units string) string {
		return `{"eventIdempotencyKey":"` + key + `","eventName":"` + feature +
			`","customerReferenceId":"acme","usageUnits":` + units + `,"occurredAt":"` + at + `"}`
	}
	hold := func(key, units string) string {
		return `{"reservationKey":"` + key + `","customerReferenceId":"acme","featureKey":"calls",` +
			`"usageUnits":` + units + `,"ttlSeconds":900}`
	}
	n.call("PUT", "budgets/acme", `{"name":"Acme","customerReferenceId":"acme","limits":[{"of":"price",`+
		`"currency":"USD","limit":40,"window":"day","timeZone":"Europe/London","thresholds":[80,100]}]}`).
		is(200, "")
	held := make([]string, 2)
	for i := range held {
		held[i] = n.call("POST", "reservations", hold("answer-"+strconv.Itoa(i+1), "1")).is(201, "").
			data("id").(string)
	}
	change := `{"changeToPlanId":"scale","changeType":"DOWNGRADE"}`
	servertest.Play(t, []servertest.Exchange{
		{"POST", "customers", `{"externalClientCustomerId":"acme","firstName":"Ada","lastName":"Lovelace",` +
			`"email":"ada@acme.example"}`, 409, "customer_exists"},
		{"PATCH", "customers/acme", `{"phoneNumber":"+44 20 7946 0000"}`, 200, ""},
		{"POST", "subscriptions", `{"customerReferenceId":"acme","planId":"nothing"}`, 404, "plan_not_found"},
		{"POST", "subscriptions", `{"customerReferenceId":"acme","planId":"draft"}`, 400, "plan_inactive"},
		{"POST", "subscriptions", `{"customerReferenceId":"nobody","planId":"team"}`, 404, "customer_not_found"},
		{"GET", "plans", "", 200, ""},
		{"GET", "clock", "", 200, ""},
		{"GET", "entitlements/acme/tokens", "", 200, ""},
		{"POST", "entitlements", `{"customerReferenceId":"acme","featureKey":"tokens",` +
			`"track":{"eventName":"tokens","usageUnits":12}}`, 200, ""},
		{"POST", "entitlements/batch", `[{"customerReferenceId":"acme","featureKey":"tokens"},` +
			`{"customerReferenceId":"acme","featureKey":"other"}]`, 200, ""},
		{"GET", "entitlements/acme", "", 200, ""},
		{"POST", "events", event("request-1", "tokens", "4"), 201, ""},
		{"POST", "events", event("request-1", "tokens", "4"), 409, "duplicate_key"},
		{"POST", "events", event("request-1", "tokens", "5"), 409, "key_reused"},
		{"POST", "events", event("request-2", "tokens", "8"), 200, ""},
		{"POST", "events", event("request-3", "calls", "4"), 402, "limit_exceeded"},
		{
			"POST", "events", strings.Replace(event("request-4", "tokens", "1"), "acme", "nobody", 1),
			404, "customer_not_found",
		},
		{
			"POST", "events", strings.Replace(event("request-5", "tokens", "1"), "2026", "2025", 1),
			400, "occurred_too_early",
		},
		{
			"POST", "events", strings.Replace(event("request-6", "tokens", "1"), "2026", "2027", 1),
			400, "occurred_too_late",
		},
		{"POST", "events/batch", "[" + event("request-7", "tokens", "1") + "," +
			event("request-1", "tokens", "4") + "," + event("request-9", "calls", "4") + "]", 200, ""},
		{"GET", "events/request-2/correction-preview?usageUnits=3", "", 200, ""},
		{"GET", "events/nothing/correction-preview", "", 404, "usage_not_found"},
		{"POST", "events/request-2/amend", `{"usageUnits":3}`, 200, ""},
		{"POST", "events/request-7/void", `{}`, 200, ""},
		{"POST", "events/nothing/amend", `{"usageUnits":3}`, 404, "usage_not_found"},
		{"POST", "events/nothing/void", `{}`, 404, "usage_not_found"},
		{"POST", "events/request-7/amend", `{"usageUnits":2}`, 400, "usage_voided"},
		{"PUT", "budgets/acme:search", `{"name":"Search","parent":"acme","limits":[{"of":"units",` +
			`"featureKey":"tokens","limit":1,"window":"month"}]}`, 200, ""},
		{"PUT", "budgets/acme:chat", `{"name":"Chat","parent":"nothing"}`, 404, "budget_not_found"},
		{"POST", "events", strings.Replace(event("request-8", "tokens", "2"), `"occurredAt"`,
			`"budget":"acme:search","occurredAt"`, 1), 402, "budget_exceeded"},
		{"GET", "budgets/acme", "", 200, ""},
		{"GET", "budgets?parent=acme", "", 200, ""},
		{"GET", "budgets/acme:search/windows", "", 200, ""},
		{"POST", "budgets/acme/move", `{"parent":"acme:search"}`, 409, "budget_conflict"},
		{"POST", "budgets/acme:search/move", `{"parent":"acme"}`, 200, ""},
		{"POST", "budgets/acme:search/freeze", "", 200, ""},
		{"POST", "budgets/acme:search/unfreeze", "", 200, ""},
		{"DELETE", "budgets/acme:search", "", 200, ""},
		{"PUT", "budgets/acme:search", `{"name":"Search"}`, 400, "budget_archived"},
		{"POST", "reservations", hold("answer-3", "2"), 402, "reservation_short"},
		{"POST", "reservations", hold("answer-1", "2"), 409, "reservation_key_reused"},
		{"GET", "reservations?customerReferenceId=acme&state=open", "", 200, ""},
		{"GET", "reservations?budget=acme&state=open", "", 200, ""},
		{"GET", "reservations?budget=nothing", "", 404, "budget_not_found"},
		{"POST", "reservations/" + held[0] + "/extend", `{"usageUnits":2,"ttlSeconds":1800}`, 200, ""},
		{"POST", "reservations/" + held[0] + "/settle", `{"usageUnits":1.5}`, 200, ""},
		{"POST", "reservations/" + held[1] + "/release", "", 200, ""},
		{"GET", "reservations/" + held[0], "", 200, ""},
		{"GET", tokens, "", 404, "top_up_not_found"},
		{"PUT", tokens, `{"below":100,"amount":1000,"price":10,"monthlyCap":50,` +
			`"paymentMethod":"cus_4711/pm_0815"}`, 200, ""},
		{"PUT", tokens, `{"below":100,"amount":1000,"price":10,"monthlyCap":5,` +
			`"paymentMethod":"cus_4711/pm_0815"}`, 400, "validation_failed"},
		{"GET", tokens, "", 200, ""},
		{"DELETE", tokens, "", 200, ""},
		{"GET", "customers/acme/events?kind=usage&order=desc&limit=2", "", 200, ""},
		{"GET", "events?kind=usage&limit=2", "", 200, ""},
		{"GET", "usage?customer=acme&by=day", "", 200, ""},
		{"GET", "search?q=love", "", 200, ""},
		{"POST", "customers/acme/portal-links", `{"expiresInMinutes":60}`, 201, ""},
		{"DELETE", "customers/acme/portal-links", "", 200, ""},
		{"GET", "customers/acme", "", 200, ""},
		{"GET", "customers/acme/subscriptions?status=all", "", 200, ""},
		{"GET", "subscriptions/" + subscription, "", 200, ""},
		{"GET", "subscriptions/" + subscription + "/upcoming-invoice", "", 200, ""},
		{"POST", "subscriptions/" + subscription + "/plan-change", change, 200, ""},
		{"GET", "subscriptions/" + subscription + "/plan-changes", "", 200, ""},
		{"DELETE", "subscriptions/" + subscription + "/plan-change/scheduled", "", 200, ""},
		{"DELETE", "subscriptions/" + subscription + "/plan-change/scheduled", "", 400, "no_change_pending"},
		{
			"POST", "subscriptions/" + subscription + "/plan-change",
			`{"changeToPlanId":"team","changeType":"UPGRADE"}`, 400, "plan_unchanged",
		},
		{
			"POST", "subscriptions/" + subscription + "/plan-change",
			`{"changeToPlanId":"euro","changeType":"UPGRADE"}`, 400, "currency_differs",
		},
		{
			"POST", "subscriptions/" + subscription + "/plan-change",
			`{"changeToPlanId":"nothing","changeType":"UPGRADE"}`, 404, "plan_not_found",
		},
		{"POST", "subscriptions/cancellation/" + subscription + "?cancelMode=END_OF_PERIOD", "", 200, ""},
		{"DELETE", "subscriptions/cancellation/" + subscription + "/scheduled", "", 200, ""},
		{"DELETE", "subscriptions/cancellation/" + subscription + "/scheduled", "", 400, "nothing_to_revert"},
		{"GET", "billing/invoices/acme", "", 200, ""},
		{"GET", "billing/invoices/acme/" + invoice, "", 200, ""},
		{"POST", "billing/invoices/" + invoice + "/payprovider/checkout", "", 200, ""},
		{"POST", "billing/invoices/" + invoice + "/mark-paid", "", 200, ""},
		{"DELETE", "customers/acme", "", 400, "customer_subscribed"},
		{"POST", "subscriptions/cancellation/" + subscription + "?cancelMode=IMMEDIATE", "", 200, ""},
		{
			"POST", "subscriptions/" + subscription + "/plan-change",
			`{"changeToPlanId":"scale","changeType":"UPGRADE"}`, 400, "subscription_ended",
		},
		{"DELETE", "customers/acme", "", 200, ""},
		{"PATCH", "customers/acme", `{"firstName":"Grace"}`, 400, "customer_archived"},
		{"POST", "subscriptions", `{"customerReferenceId":"acme","planId":"team"}`, 400, "customer_archived"},
		{"GET", "openapi.json", "", 200, ""},
	}, func(method, path, body string) (int, []byte) {
		a := n.call(method, path, body)
		return a.status, a.raw
	})
	keys := map[string]string{servertest.ReadKey: n.read, servertest.FullKey: n.sandbox}
	recorded.Refuse(n.document.T, func(method, path, body, key string) {
		n.send(method, path, body, keys[key], nil)
	})
	malformed(n)
	unable(t, begin)
	recorded.Provoke(n.document.T, n.Refuse, func(method, path, body string) {
		n.send(method, path, body, n.sandbox, nil)
	})
	recorded.Compare("examples/operations.json")
	servertest.RequireIllustrated(t, n.document.T)
	servertest.RequireEveryCode(t, n.document.T, map[string]string{
		"internal_error": "a fault of the program, which no request causes",
		"audit_full":     "a spool that is full takes minutes without a quorum; server/audit tests it",
		"audit_uncommitted": "a service that answers committed checks alone; TestAuditCommitted " +
			"has its answer",
		"payment_provider_credentials": asProvider, "payment_provider_refused": asProvider,
		"payment_provider_unavailable": asProvider,
	})
	text, err := n.api.Document()
	require.NoError(t, err)
	servertest.RequireReference(t, n.document, "client", text)
}
