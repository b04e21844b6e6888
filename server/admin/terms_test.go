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
		`{"paymentTermDays":null}`, `{"days":7}`,
	} {
		n.call("PUT", path, bad).is(400, "validation_failed")
	}
	require.Equal(t, 30.0, days(path))
	n.call("GET", "accounts/nobody/environments/live/payment-terms", "").is(404, "account_not_found")
}
