package admin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/client"
)

const unknownID = "018f0000-0000-7000-8000-000000000001"

// use records a usage event of ada's tokens, at the sandbox's present time.
func (n *node) use(key, event, more string) answer {
	n.t.Helper()
	return n.send("POST", client.Prefix+"/events", fmt.Sprintf(`{"eventIdempotencyKey":%q,`+
		`"eventName":"tokens","customerReferenceId":"ada","occurredAt":%q%s}`, event,
		n.clock().Format(time.RFC3339Nano), more), key, "application/json")
}

func (n *node) post(key, path, body string) answer {
	n.t.Helper()
	return n.send("POST", client.Prefix+path, body, key, "application/json")
}

func item(invoice map[string]any, i int) map[string]any {
	return invoice["items"].([]any)[i].(map[string]any)
}

func TestInvoicesAreShownWithCostsAndExplained(t *testing.T) {
	n := start(t)
	key := n.furnish()
	n.subscribe(key)
	n.use(key, "k1", `,"usageUnits":50000`).is(201, "")
	n.use(key, "k2", `,"usageUnits":100000,"costAmount":2.5`).is(201, "")
	n.advance(32).is(200, "")
	id := n.invoices(key)[1].(map[string]any)["id"].(string)

	a := n.call("GET", sandbox+"invoices/"+id, "").is(200, "")
	require.Equal(t, "tokens", item(a.data(), 0)["featureKey"])
	require.Equal(t, 150000.0, item(a.data(), 0)["quantity"])
	require.Equal(t, 2.55, item(a.data(), 0)["costAmount"], "50,000 × 0.000001 + 2.5")
	require.Equal(t, 0.0, item(a.data(), 1)["costAmount"])
	require.NotContains(t, n.send("GET", client.Prefix+"/billing/invoices/ada", "", key, "").raw,
		"costAmount")

	a = n.call("GET", sandbox+"invoices/"+id+"/explain", "").is(200, "")
	require.Equal(t, true, a.data()["equal"])
	recomputed := a.data()["recomputed"].([]any)[0].(map[string]any)
	require.Equal(t, 2.0, recomputed["eventsCounted"])
	require.Equal(t, item(a.data()["invoice"].(map[string]any), 0)["amount"], recomputed["amount"])
	require.Less(t, a.data()["firstLogIndex"], a.data()["lastLogIndex"])

	list := n.call("GET", sandbox+"invoices?customer=ada", "").is(200, "").list()
	require.Len(t, list, 3)
	pending := list[2].(map[string]any)
	require.Equal(t, "PENDING", pending["status"])
	a = n.call("GET", sandbox+"invoices/verify", "").is(200, "")
	require.Empty(t, a.data()["differences"])
	require.Equal(t, 2.0, a.data()["invoices"])

	n.call("GET", sandbox+"invoices/"+pending["id"].(string), "").is(200, "")
	n.call("GET", sandbox+"invoices/"+pending["id"].(string)+"/explain", "").
		is(400, "invoice_pending")
	for _, bad := range []string{"", "/explain"} {
		n.call("GET", sandbox+"invoices/abc"+bad, "").is(400, "validation_failed")
		n.call("GET", sandbox+"invoices/"+unknownID+bad, "").is(404, "invoice_not_found")
		n.call("GET", "accounts/demo/environments/live/invoices/"+id+bad, "").
			is(404, "invoice_not_found")
	}
	n.call("GET", sandbox+"invoices", "").is(400, "validation_failed")
	n.call("GET", sandbox+"invoices?customer=nobody", "").is(404, "customer_not_found")
}

func TestVerificationGoesPageByPage(t *testing.T) {
	n := start(t)
	key := n.furnish()
	for _, id := range []string{"bob", "cyd"} {
		n.post(key, "/customers", `{"externalClientCustomerId":"`+id+
			`","firstName":"B","lastName":"C","email":"b@c"}`).is(201, "")
		n.post(key, "/subscriptions", `{"planId":"team","customerReferenceId":"`+id+`"}`).is(201, "")
	}
	customers, invoices, pages := 0.0, 0.0, 0
	for path := sandbox + "invoices/verify?limit=2"; path != ""; pages++ {
		a := n.call("GET", path, "").is(200, "").data()
		customers, invoices = customers+a["customers"].(float64), invoices+a["invoices"].(float64)
		path = ""
		if next, more := a["nextCursor"].(string); more {
			path = sandbox + "invoices/verify?limit=2&cursor=" + next
		}
	}
	require.Equal(t, []float64{3, 2, 2}, []float64{customers, invoices, float64(pages)})
	metrics := n.send("GET", "/metrics", "", "", "").raw
	require.Contains(t, metrics, "\ntollgate_verified_invoices_total 2\n")
	require.Contains(t, metrics, "\ntollgate_verification_differences_total 0\n")
	a := n.call("GET", sandbox+"invoices/verify?customer=bob", "").is(200, "").data()
	require.Equal(t, 1.0, a["invoices"])
	n.call("GET", sandbox+"invoices/verify?limit=0&cursor=x", "").is(400, "validation_failed")
	for _, beyond := range []string{"4294967295", "4294967296", "18446744073709551615"} {
		a := n.call("GET", sandbox+"invoices/verify?cursor="+beyond, "").is(200, "").data()
		require.Equal(t, 0.0, a["customers"], "nobody comes behind row %s", beyond)
	}
	n.call("GET", sandbox+"invoices/verify?customer=nobody", "").is(404, "customer_not_found")
}

func TestVoidingInvoices(t *testing.T) {
	n := start(t)
	key := n.furnish()
	n.subscribe(key)
	id := n.invoices(key)[0].(map[string]any)["id"].(string)
	pending := n.call("GET", sandbox+"invoices?customer=ada", "").list()[1].(map[string]any)
	void := func(id string) answer { return n.call("POST", sandbox+"invoices/"+id+"/void", "") }
	void("abc").is(400, "validation_failed")
	void(unknownID).is(404, "invoice_not_found")
	void(pending["id"].(string)).is(400, "invoice_pending")
	n.call("POST", sandbox+"invoices/"+id+"/void", `{"x":1}`).is(400, "validation_failed")
	void(id).is(200, "")
	void(id).is(200, "")
	require.Equal(t, "VOID", n.invoices(key)[0].(map[string]any)["status"])
	n.post(key, "/billing/invoices/"+id+"/mark-paid", "").is(400, "invoice_void")
	newest := n.call("GET", "audit?limit=1", "").data()["changes"].([]any)[0].(map[string]any)
	require.Equal(t, []any{"invoice.voided", id}, []any{newest["action"], newest["subject"]})

	n.subscribe(key)
	id = n.invoices(key)[1].(map[string]any)["id"].(string)
	n.post(key, "/billing/invoices/"+id+"/mark-paid", "").is(200, "")
	void(id).is(400, "invoice_paid")
	n.call("GET", sandbox+"invoices/"+id+"/explain", "").is(200, "")
}

func TestUsageIsCorrectedAndBilledAsCorrected(t *testing.T) {
	n := start(t)
	key := n.furnish()
	n.subscribe(key)
	n.use(key, "k1", `,"usageUnits":50000`).is(201, "")
	n.use(key, "k2", `,"usageUnits":60000`).is(201, "")
	n.post(key, "/events/k1/void", "").is(200, "")
	n.post(key, "/events/k2/amend", `{"usageUnits":40000,"reason":"counted twice"}`).is(200, "")
	n.advance(32).is(200, "")
	invoice := n.invoices(key)[1].(map[string]any)
	require.Equal(t, 40000.0, item(invoice, 0)["quantity"])
	a := n.call("GET", sandbox+"invoices/"+invoice["id"].(string), "").is(200, "")
	require.Equal(t, 0.04, item(a.data(), 0)["costAmount"], "40,000 × 0.000001; the void costs nothing")
	require.Equal(t, 409, n.use(key, "k1", "").status)
	a = n.call("GET", sandbox+"invoices/verify", "").is(200, "")
	require.Empty(t, a.data()["differences"])
}

// TestSearchInvoices: an environment's invoices, newest first, by status and page by page.
func TestSearchInvoices(t *testing.T) {
	n := start(t)
	key := n.furnish()
	for range 3 {
		n.subscribe(key)
	}
	numbers := func(query string) (all []any) {
		t.Helper()
		for path := sandbox + "invoices/search?" + query; ; {
			page := n.call("GET", path, "").is(200, "").data()
			for _, v := range page["invoices"].([]any) {
				all = append(all, v.(map[string]any)["number"])
			}
			next, more := page["nextCursor"].(string)
			if !more {
				return all
			}
			path = sandbox + "invoices/search?" + query + "&cursor=" + next
		}
	}
	require.Equal(t, []any{3.0, 2.0, 1.0}, numbers("limit=1000"))
	require.Equal(t, []any{3.0, 2.0, 1.0}, numbers("limit=1"))
	n.advance(8).is(200, "")
	require.Equal(t, []any{3.0, 2.0, 1.0}, numbers("status=PAST_DUE"))
	require.Empty(t, numbers("status=PAID"))
	for _, bad := range []string{
		"status=PENDING", "status=late", "limit=0", "cursor=x", "limit=1001",
	} {
		n.call("GET", sandbox+"invoices/search?"+bad, "").is(400, "validation_failed")
	}
	n.call("GET", "accounts/demo/environments/live/invoices/search", "").is(200, "")
	n.call("GET", "accounts/nobody/environments/live/invoices/search", "").is(404, "account_not_found")
}

// TestSeller: what is stated is answered, replaced whole, and recorded.
func TestSeller(t *testing.T) {
	n := start(t)
	n.furnish()
	const path = sandbox + "seller"
	require.Empty(t, n.call("GET", path, "").is(200, "").data())
	n.call("PUT", path, `{"name":"Łukasz Žižek, 東京","address":"1 Main St, Oslo","taxId":"NO 1"}`).
		is(200, "")
	require.Equal(t, map[string]any{
		"name": "Łukasz Žižek, 東京", "address": "1 Main St, Oslo", "taxId": "NO 1",
	}, n.call("GET", path, "").is(200, "").data())
	n.call("PUT", path, `{"name":"Demo Ltd"}`).is(200, "")
	require.Equal(t, map[string]any{"name": "Demo Ltd"}, n.call("GET", path, "").is(200, "").data())
	for _, bad := range []string{
		`{"name":1}`, `{"name":"` + strings.Repeat("x", 129) + `"}`, `{"logo":"x"}`, `{"name":"a\nb"}`,
	} {
		n.call("PUT", path, bad).is(400, "validation_failed")
	}
	require.Contains(t, n.call("GET", "audit", "").raw, "seller.set")
	require.Empty(t, n.call("GET", "accounts/demo/environments/live/seller", "").is(200, "").data())
}

// TestTheOldestDebtIsFirst: page by page, also while debts are paid in between, and in no other
// order without saying so.
func TestTheOldestDebtIsFirst(t *testing.T) {
	n := start(t)
	key := n.furnish()
	n.subscribe(key)
	for i := range 4 {
		id := fmt.Sprint("c", i)
		n.post(key, "/customers", `{"externalClientCustomerId":"`+id+`","firstName":"C","lastName":"C",`+
			`"email":"c@c.example"}`).is(201, "")
		n.post(key, "/subscriptions", `{"customerReferenceId":"`+id+`","planId":"team"}`).is(201, "")
		n.advance(1).is(200, "")
	}
	n.advance(20).is(200, "")
	const search = sandbox + "invoices/search?status=PAST_DUE&order=due&limit=2"
	numbers := func(a answer) (all []any) {
		for _, v := range a.data()["invoices"].([]any) {
			all = append(all, v.(map[string]any)["number"])
		}
		return all
	}
	first := n.call("GET", search, "").is(200, "")
	require.Equal(t, "due", first.data()["order"])
	require.Equal(t, []any{1.0, 2.0}, numbers(first))
	second := n.call("GET", search+"&cursor="+first.data()["nextCursor"].(string), "").is(200, "")
	require.Equal(t, []any{3.0, 4.0}, numbers(second))
	third := n.call("GET", search+"&cursor="+second.data()["nextCursor"].(string), "").is(200, "")
	require.Equal(t, []any{5.0}, numbers(third))
	require.NotContains(t, third.data(), "nextCursor")

	newest := n.call("GET", sandbox+"invoices/search?limit=2", "").is(200, "")
	require.Equal(t, "newest", newest.data()["order"])
	require.Equal(t, []any{5.0, 4.0}, numbers(newest))
	for query, says := range map[string]string{
		"order=due":             "order due needs status",
		"order=due&status=PAID": "order due needs status",
		"order=oldest":          "order must be newest or due",
		"cursor=" + first.data()["nextCursor"].(string):                            "cursor is of a listing in the other order",
		"status=PAST_DUE&order=due&cursor=" + newest.data()["nextCursor"].(string): "cursor is of a listing",
		"status=PAST_DUE&order=due&cursor=due.x":                                   "cursor must be nextCursor",
	} {
		a := n.call("GET", sandbox+"invoices/search?"+query, "").is(400, "validation_failed")
		require.Contains(t, a.raw, says, query)
	}
}
