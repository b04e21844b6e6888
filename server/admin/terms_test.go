package admin_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// dueAfter is how many days after its issue an invoice of ada's falls due.
func (n *node) dueAfter(key string, i int) int {
	n.t.Helper()
	instant := func(name string) time.Time {
		at, err := time.Parse(time.RFC3339, n.invoices(key)[i].(map[string]any)[name].(string))
		require.NoError(n.t, err)
		return at
	}
	return int(instant("dueDate").Sub(instant("createdAt")).Hours() / 24)
}

func TestPaymentTerms(t *testing.T) {
	n := start(t)
	key := n.furnish()
	const path = sandbox + "payment-terms"
	days := func(path string) any { return n.call("GET", path, "").is(200, "").data()["paymentTermDays"] }
	require.Equal(t, 7.0, days(path))
	n.subscribe(key)
	n.call("PUT", path, `{"paymentTermDays":30}`).is(200, "")
	require.Equal(t, 30.0, days(path))
	require.Equal(t, 7.0, days("accounts/demo/environments/live/payment-terms"))
	n.advance(32).is(200, "")
	require.Equal(t, 7, n.dueAfter(key, 0), "what was issued keeps its due date")
	require.Equal(t, 30, n.dueAfter(key, 1))
	require.Contains(t, n.call("GET", "audit", "").raw, "payment-terms.set")
	for _, bad := range []string{
		`{}`, `{"paymentTermDays":-1}`, `{"paymentTermDays":366}`, `{"paymentTermDays":1.5}`,
		`{"paymentTermDays":null}`, `{"days":7}`, `{"settleMinutes":-1}`, `{"settleMinutes":10081}`,
		`{"settleMinutes":0.5}`, `{"settleMinutes":true}`, `{"paymentTermDays":1,"settleMinutes":"x"}`,
	} {
		n.call("PUT", path, bad).is(400, "validation_failed")
	}
	require.Equal(t, 30.0, days(path))
	n.call("GET", "accounts/nobody/environments/live/payment-terms", "").is(404, "account_not_found")
}

// TestSettleMinutes: the invoice of a period is issued so long after its end, and has what came
// late until then; before, it is listed as PENDING, with the id that it keeps.
func TestSettleMinutes(t *testing.T) {
	n := start(t)
	key := n.furnish()
	const path = sandbox + "payment-terms"
	n.call("PUT", path, `{"settleMinutes":1440}`).is(200, "")
	terms := n.call("GET", path, "").is(200, "").data()
	require.Equal(t, map[string]any{"paymentTermDays": 7.0, "settleMinutes": 1440.0}, terms)
	n.subscribe(key)
	pending := func() (all []map[string]any) {
		for _, v := range n.call("GET", sandbox+"invoices?customer=ada", "").is(200, "").list() {
			if v := v.(map[string]any); v["status"] == "PENDING" {
				all = append(all, v)
			}
		}
		return all
	}
	id := pending()[0]["id"]
	end, err := time.Parse(time.RFC3339, pending()[0]["periodEnd"].(string))
	require.NoError(t, err)
	n.advanceTo(end.Add(time.Hour)).is(200, "")
	require.Len(t, n.invoices(key), 1, "the period has ended, and its invoice waits")
	n.post(key, "/events", `{"eventIdempotencyKey":"late","eventName":"tokens",`+
		`"customerReferenceId":"ada","usageUnits":100000,"occurredAt":"`+
		end.Add(-time.Hour).Format(time.RFC3339)+`"}`).is(201, "")
	require.Len(t, pending(), 2)
	require.Equal(t, id, pending()[0]["id"])
	waits := id.(string)
	n.call("GET", sandbox+"invoices/"+waits, "").is(200, "")
	n.call("GET", sandbox+"invoices/"+waits+"/explain", "").is(400, "invoice_pending")
	n.call("POST", sandbox+"invoices/"+waits+"/void", "").is(400, "invoice_pending")
	n.post(key, "/billing/invoices/"+waits+"/mark-paid", "").is(400, "invoice_pending")

	n.advanceTo(end.Add(24*time.Hour)).is(200, "")
	all := n.invoices(key)
	require.Len(t, all, 2)
	issued := all[1].(map[string]any)
	require.Equal(t, id, issued["id"])
	require.Equal(t, 100000.0, item(issued, 0)["quantity"])
	require.Equal(t, end.Add(24*time.Hour).Format("2006-01-02T15:04:05.000Z"), issued["createdAt"])
	require.Equal(t, 7, n.dueAfter(key, 1))
	a := n.call("GET", sandbox+"invoices/"+waits+"/explain", "").is(200, "")
	require.Equal(t, true, a.data()["equal"])
}
