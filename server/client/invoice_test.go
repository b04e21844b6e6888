package client_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// invoiced lists invoices by a query, as ids in their order.
func (n *node) invoiced(query string) (ids []string, next string) {
	n.t.Helper()
	a := n.call("GET", "billing/invoices/acme"+query, "").is(200, "")
	for _, item := range a.data().([]any) {
		ids = append(ids, item.(map[string]any)["id"].(string))
	}
	next, _ = a.body["nextCursor"].(string)
	return ids, next
}

// TestInvoicesArePagedAndFiltered: only who asks for pages gets them; data stays the list.
func TestInvoicesArePagedAndFiltered(t *testing.T) {
	n := start(t)
	n.customer("acme")
	for range 4 {
		n.call("POST", "subscriptions", `{"planId":"team","customerReferenceId":"acme"}`).is(201, "")
	}
	all, next := n.invoiced("")
	require.Len(t, all, 5)
	require.Empty(t, next)
	var paged []string
	for query := "?limit=2"; ; query = "?limit=2&cursor=" + next {
		var ids []string
		ids, next = n.invoiced(query)
		require.LessOrEqual(t, len(ids), 2)
		if paged = append(paged, ids...); next == "" {
			break
		}
	}
	require.Equal(t, all, paged)
	_, next = n.invoiced("?limit=5")
	require.Empty(t, next, "there are no more")
	_, page := n.invoiced("?limit=2")

	n.call("POST", "billing/invoices/"+all[1]+"/mark-paid", "").is(200, "")
	paid, _ := n.invoiced("?status=PAID")
	require.Equal(t, all[1:2], paid)
	due, _ := n.invoiced("?status=DUE")
	require.Len(t, due, 4)
	accruing, _ := n.invoiced("?status=PENDING&limit=3")
	require.Len(t, accruing, 3)
	for _, to := range []string{"2020-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1969-01-01T00:00:00Z"} {
		none, _ := n.invoiced("?to=" + to)
		require.Empty(t, none, to)
	}
	since, _ := n.invoiced("?from=2020-01-01T00:00:00%2B02:00")
	require.Equal(t, all, since)

	for query, fields := range map[string]map[string]string{
		"limit=%2B5": {"limit": "out_of_range"},
		"limit=05":   {"limit": "out_of_range"},
		"status=due&limit=0&from=x&include=all": {
			"status": "not_allowed", "limit": "out_of_range", "from": "invalid_format",
			"include": "not_allowed",
		},
		"cursor=x":                                 {"cursor": "invalid_format"},
		"cursor=AAAAAAAAAAAAAAAAAAAAAQ":            {"cursor": "invalid_format"},
		"cursor=" + page + "%0A":                   {"cursor": "invalid_format"},
		"cursor=" + page[:5] + "%0D%0A" + page[5:]: {"cursor": "invalid_format"},
	} {
		a := n.call("GET", "billing/invoices/acme?"+query, "").is(400, "validation_failed")
		require.Equal(t, fields, a.fields(), query)
	}
}

// TestAnInvoiceIsReadByItsID: of this customer, in every status, with lines whose kind is named.
func TestAnInvoiceIsReadByItsID(t *testing.T) {
	n := start(t)
	subscription := n.customer("acme")
	n.customer("other")
	id := n.invoice("acme")
	a := n.call("GET", "billing/invoices/acme/"+id, "").is(200, "")
	require.Equal(t, n.call("GET", "billing/invoices/acme", "").data().([]any)[0], a.data())
	require.Equal(t, "base", a.data("items").([]any)[0].(map[string]any)["kind"])
	pending := n.call("GET", "subscriptions/"+subscription+"/upcoming-invoice", "").data("id")
	a = n.call("GET", fmt.Sprintf("billing/invoices/acme/%s", pending), "").is(200, "")
	require.Equal(t, "PENDING", a.data("status"))

	n.call("GET", "billing/invoices/other/"+id, "").is(404, "invoice_not_found")
	n.call("GET", "billing/invoices/nobody/"+id, "").is(404, "customer_not_found")
	n.call("GET", "billing/invoices/acme/x", "").is(400, "validation_failed")
	own, others := n.customerKey("acme"), n.customerKey("other")
	n.send("GET", "billing/invoices/acme/"+id, "", own, nil).is(200, "")
	n.send("GET", "billing/invoices/acme/"+id, "", others, nil).is(403, "access_denied")
}
