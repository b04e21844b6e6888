package clustertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/paymenttest"
	"tollgate/cmd/tollgate/config"
	api "tollgate/sdk/go"
)

const (
	sandboxPath   = "/api/v1/admin/accounts/demo/environments/sandbox/"
	webhookSecret = "whsec_of_the_test"
)

// startCollecting runs a cluster that may reach stripe-mock on loopback and collects through it.
func startCollecting(t *testing.T) *development {
	t.Helper()
	mock := paymenttest.StripeMock(t)
	d := startCluster(t)
	require.Zero(t, d.stop())
	d.configure(func(_ string, settings *config.Config) {
		settings.Outbound = config.Outbound{
			AllowNetworks: []string{"127.0.0.0/8"}, AllowHosts: []string{mock},
		}
	})
	d.start()
	for _, node := range d.Nodes {
		d.ready(node.ID)
	}
	_, err := d.admin("node1").Call(t.Context(), "PUT", sandboxPath+"payment-provider", map[string]string{
		"provider": "stripe", "secretKey": "sk_test_123", "webhookSecret": webhookSecret,
		"baseUrl": "http://" + mock,
	}, nil)
	require.NoError(t, err)
	return d
}

// admin speaks to one node's operations listener.
func (d *development) admin(id string) *api.Client {
	d.t.Helper()
	client, err := api.New([]string{d.node(id).Ops}, d.AdminKey, 4)
	require.NoError(d.t, err)
	d.t.Cleanup(client.Close)
	return client
}

// bill makes a customer with a subscription and returns its invoice's id and amount in cents.
func (d *development) bill(customer string) (invoice string, cents int64) {
	d.t.Helper()
	client := d.client("node1", d.SandboxKey)
	var plans []struct {
		Key         string  `json:"key"`
		PriceAmount float64 `json:"priceAmount"`
	}
	_, err := client.Call(d.t.Context(), "GET", "/api/v1/client/plans", nil, &plans)
	require.NoError(d.t, err)
	require.NotEmpty(d.t, plans)
	_, err = client.Call(d.t.Context(), "POST", "/api/v1/client/customers", map[string]string{
		"externalClientCustomerId": customer, "firstName": "A", "lastName": "B", "email": "a@b",
	}, nil)
	require.NoError(d.t, err)
	var made struct {
		Invoice struct {
			ID     string  `json:"id"`
			Amount float64 `json:"amount"`
		} `json:"invoice"`
	}
	_, err = client.Call(d.t.Context(), "POST", "/api/v1/client/subscriptions", map[string]string{
		"customerReferenceId": customer, "planId": plans[0].Key,
	}, &made)
	require.NoError(d.t, err)
	return made.Invoice.ID, int64(made.Invoice.Amount*100 + 0.5)
}

// deliver posts a webhook to one node and returns the status.
func (d *development) deliver(id string, body []byte, signature string) int {
	d.t.Helper()
	request, err := http.NewRequest("POST", "http://"+d.node(id).HTTP+"/payments/demo/sandbox/webhook",
		bytes.NewReader(body))
	require.NoError(d.t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Stripe-Signature", signature)
	client := http.Client{Timeout: 15 * time.Second}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		return 0
	}
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(d.t, err)
	require.NoError(d.t, response.Body.Close())
	return response.StatusCode
}

// paidSession is a session that was paid, as Stripe's events carry it.
func paidSession(id, invoice string, cents int64) map[string]any {
	return map[string]any{
		"id": id, "object": "checkout.session", "status": "complete", "payment_status": "paid",
		"amount_total": cents, "currency": "usd", "livemode": false,
		"metadata": map[string]string{"tollgate_invoice": invoice},
	}
}

// A payment through Stripe's own stand-in, on three node processes: sessions are made by any node,
// a webhook is taken by any node, repeated, forged, late, replayed to the survivors of a killed
// leader and to the node that was killed; the invoice is paid once.
func TestPaymentsThroughACluster(t *testing.T) {
	t.Parallel()
	d := startCollecting(t)
	invoice, cents := d.bill("payer")
	checkout := "/api/v1/client/billing/invoices/" + invoice + "/payprovider/checkout"
	for _, node := range d.Nodes {
		var made struct {
			URL string `json:"url"`
		}
		_, err := d.client(node.ID, d.SandboxKey).Call(t.Context(), "POST", checkout, nil, &made)
		require.NoError(t, err)
		require.Regexp(t, "^https://", made.URL, "made by stripe-mock, for %s", node.ID)
	}

	now := time.Now()
	body := paymenttest.Event(t, "evt_1", "checkout.session.completed",
		paidSession("cs_1", invoice, cents), now)
	good := paymenttest.Signature(webhookSecret, body, now)
	for _, node := range d.Nodes {
		require.Equal(t, 401, d.deliver(node.ID, body, paymenttest.Signature("another", body, now)))
		require.Equal(t, 400, d.deliver(node.ID, body,
			paymenttest.Signature(webhookSecret, body, now.Add(-6*time.Minute))))
	}
	require.Equal(t, "DUE", d.invoiceStatus("node1", "payer"))

	// Both orders: what happened later, first.
	expired := paymenttest.Event(t, "evt_0", "checkout.session.expired",
		map[string]any{
			"id": "cs_0", "status": "expired", "payment_status": "unpaid",
			"metadata": map[string]string{"tollgate_invoice": invoice},
		}, now)
	followers := d.followers()
	require.Equal(t, 200, d.deliver(followers[0], body, good))
	require.Equal(t, 200, d.deliver(followers[1], expired,
		paymenttest.Signature(webhookSecret, expired, now)))
	for _, node := range d.Nodes {
		require.Equal(t, 200, d.deliver(node.ID, body, good), "a repetition, on %s", node.ID)
		require.Equal(t, "PAID", d.invoiceStatus(node.ID, "payer"))
	}

	leader := d.leader()
	d.signal(leader, 9)
	survivor := d.leader(leader)
	require.Eventually(t, func() bool { return d.deliver(survivor, body, good) == 200 },
		patience, 50*time.Millisecond)
	d.restart(leader)
	d.ready(leader)
	require.Equal(t, 200, d.deliver(leader, body, good))
	var reported []struct {
		EventID string `json:"eventId"`
		Result  string `json:"result"`
	}
	_, err := d.admin(leader).Call(t.Context(), "GET", sandboxPath+"invoices/"+invoice+"/payments",
		nil, &reported)
	require.NoError(t, err)
	require.Equal(t, `[{evt_1 applied} {evt_0 ignored}]`, fmt.Sprint(reported))

	// An already paid invoice has no page.
	var made struct {
		URL *string `json:"url"`
	}
	_, err = d.client(survivor, d.SandboxKey).Call(t.Context(), "POST", checkout, nil, &made)
	require.NoError(t, err)
	require.NotNil(t, made.URL)
	require.Empty(t, *made.URL)
	for _, node := range d.Nodes {
		text, err := os.ReadFile(d.folder.NodeLog(node.ID))
		require.NoError(t, err)
		require.NotContains(t, string(text), webhookSecret)
		require.NotContains(t, string(text), "sk_test_123")
	}
}

// invoiceStatus is the status of a customer's first invoice, as a node says.
func (d *development) invoiceStatus(id, customer string) string {
	d.t.Helper()
	var list []json.RawMessage
	_, err := d.client(id, d.SandboxKey).Call(d.t.Context(), "GET",
		"/api/v1/client/billing/invoices/"+customer, nil, &list)
	require.NoError(d.t, err)
	require.NotEmpty(d.t, list)
	var first struct {
		Status string `json:"status"`
	}
	require.NoError(d.t, json.Unmarshal(list[0], &first))
	return first.Status
}
