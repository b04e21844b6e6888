package admin_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/paymenttest"
	"tollgate/engine/billing"
	"tollgate/server/client"
	"tollgate/server/payments"
)

const webhookPath = payments.Prefix + "/demo/sandbox/webhook"

// subscribe makes a customer's subscription and returns its invoice.
func (n *node) subscribe(key string) (invoice map[string]any) {
	n.t.Helper()
	a := n.send("POST", client.Prefix+"/subscriptions",
		`{"planId":"team","customerReferenceId":"ada"}`, key, "application/json").is(201, "")
	return a.data()["invoice"].(map[string]any)
}

func (n *node) checkout(key, invoice string) answer {
	n.t.Helper()
	return n.send("POST", client.Prefix+"/billing/invoices/"+invoice+"/payprovider/checkout", "", key, "")
}

func (n *node) invoiceStatus(key string) (status string) {
	n.t.Helper()
	list := n.send("GET", client.Prefix+"/billing/invoices/ada", "", key, "").is(200, "").list()
	return list[0].(map[string]any)["status"].(string)
}

// payments lists the payments of an invoice, reports the rest of what its provider said.
func (n *node) payments(invoice string) []any { return n.told(invoice, false) }
func (n *node) reports(invoice string) []any  { return n.told(invoice, true) }

func (n *node) told(invoice string, ignored bool) []any {
	n.t.Helper()
	list := []any{}
	for _, p := range n.call("GET", sandbox+"invoices/"+invoice+"/payments", "").is(200, "").list() {
		if (p.(map[string]any)["result"] == "ignored") == ignored {
			list = append(list, p)
		}
	}
	return list
}

func TestPaymentSettings(t *testing.T) {
	n := start(t)
	n.furnish()
	require.Equal(t, "none", n.call("GET", sandbox+"payment-provider", "").is(200, "").
		data()["provider"])
	for _, bad := range []string{
		`{"provider":"paypal"}`, `{"provider":"sandbox","secretKey":"x"}`, `{"provider":"stripe"}`,
		`{"provider":"stripe","secretKey":"sk","webhookSecret":"wh","baseUrl":"http://10.0.0.1:1"}`,
		`{"provider":"stripe","secretKey":"` + strings.Repeat("x", 256) + `","webhookSecret":"wh"}`,
		`{"provider":7}`,
	} {
		n.call("PUT", sandbox+"payment-provider", bad).is(400, "validation_failed")
	}
	n.call("PUT", "accounts/demo/environments/live/payment-provider", `{"provider":"sandbox"}`).
		is(400, "provider_refused")
	n.call("PUT", sandbox+"payment-provider",
		`{"provider":"stripe","secretKey":"sk_test_hidden","webhookSecret":"whsec_hidden"}`).is(200, "")
	a := n.call("GET", sandbox+"payment-provider", "").is(200, "")
	require.Equal(t, "stripe", a.data()["provider"])
	require.Equal(t, true, a.data()["secretsSet"])
	require.Equal(t, webhookPath, a.data()["webhookPath"])
	require.NotContains(t, a.raw, "hidden")
	require.NotContains(t, n.call("GET", "audit", "").raw, "hidden")
	env, _ := n.Machine.Environment("demo", 1)
	settings := n.Machine.PaymentSettings(env)
	require.NotContains(t, string(settings.SecretKey)+string(settings.WebhookSecret), "hidden")
}

// TestSandboxPayment pays an invoice on the hosted page, as a person would.
func TestSandboxPayment(t *testing.T) {
	n := start(t)
	key := n.furnish()
	invoice := n.subscribe(key)["id"].(string)
	n.checkout(key, invoice).is(400, "no_payment_provider")
	n.call("PUT", sandbox+"payment-provider", `{"provider":"sandbox"}`).is(200, "")
	n.checkout(key, "018f0000-0000-7000-8000-000000000001").is(404, "invoice_not_found")
	address := n.checkout(key, invoice).is(200, "").data()["url"].(string)
	require.NotEqual(t, address, n.checkout(key, invoice).data()["url"], "a request is a checkout")

	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	t.Cleanup(browser.CloseIdleConnections)
	page, err := browser.Get(address)
	require.NoError(t, err)
	text := read(t, page)
	require.Equal(t, 200, page.StatusCode)
	require.Contains(t, page.Header.Get("Content-Security-Policy"), "style-src", "of its own")
	require.Contains(t, text, "20.00 USD")
	attempt := regexp.MustCompile(`name="attempt" value="([^"]+)"`).FindStringSubmatch(text)[1]
	post := func(fields url.Values) (int, string) {
		fields.Set("attempt", attempt)
		response, err := browser.PostForm(address, fields)
		require.NoError(t, err)
		return response.StatusCode, read(t, response)
	}
	status, _ := post(url.Values{"card": {"decline"}})
	require.Equal(t, 402, status)
	require.Equal(t, "DUE", n.invoiceStatus(key))
	status, _ = post(url.Values{"card": {"authenticate"}})
	require.Equal(t, 200, status)
	require.Equal(t, "DUE", n.invoiceStatus(key))
	n.Refuse(12) // nobody knows whether it was committed
	status, text = post(url.Values{"verify": {"confirm"}})
	require.Equal(t, 503, status, text)
	n.Refuse(0)
	for range 3 {
		status, _ = post(url.Values{"verify": {"confirm"}})
		require.Contains(t, []int{303, 200}, status)
		require.Equal(t, "PAID", n.invoiceStatus(key))
	}
	require.Len(t, n.payments(invoice), 1, "however often the button is pressed")
	page, err = browser.Get(address)
	require.NoError(t, err)
	require.Contains(t, read(t, page), "Paid")
	require.Empty(t, n.checkout(key, invoice).is(200, "").data()["url"])
	page, err = browser.Get(address + "x")
	require.NoError(t, err)
	require.Equal(t, 404, page.StatusCode)
	read(t, page)
	n.send("GET", payments.Prefix+"/demo/sandbox/return", "", "", "").is(200, "")
	n.send("GET", payments.Prefix+"/nobody/sandbox/return/x", "", "", "").is(404, "")
}

func TestCheckoutsRepeatByKey(t *testing.T) {
	n := start(t)
	key := n.furnish()
	n.call("PUT", sandbox+"payment-provider", `{"provider":"sandbox"}`).is(200, "")
	invoice := n.subscribe(key)["id"].(string)
	send := func() string {
		request, err := http.NewRequest("POST", "http://"+n.clients+client.Prefix+
			"/billing/invoices/"+invoice+"/payprovider/checkout", nil)
		require.NoError(t, err)
		request.Header.Set("X-API-Key", key)
		request.Header.Set("Idempotency-Key", "k")
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.Equal(t, 200, response.StatusCode)
		return read(t, response)
	}
	first := send()
	require.Equal(t, first, send())
	// Setting the same provider again leaves its pages good.
	n.call("PUT", sandbox+"payment-provider", `{"provider":"sandbox"}`).is(200, "")
	require.Equal(t, first, send())
}

// TestARepeatedCheckoutOfAPaidInvoiceIsTheFirstAnswer: an empty url is an answer like any other,
// and uses up its key.
func TestARepeatedCheckoutOfAPaidInvoiceIsTheFirstAnswer(t *testing.T) {
	n := start(t)
	key := n.furnish()
	invoice := n.subscribe(key)["id"].(string)
	at := client.Prefix + "/billing/invoices/" + invoice
	n.send("POST", at+"/mark-paid", "", key, "").is(200, "")
	header := http.Header{"Idempotency-Key": {"k"}}
	again := func() answer {
		a := n.sendWith(header, "POST", at+"/payprovider/checkout", "", key, "").is(200, "")
		require.Empty(t, a.data()["url"])
		return a
	}
	require.Empty(t, again().header.Get("Idempotency-Replayed"))
	require.Equal(t, "true", again().header.Get("Idempotency-Replayed"))
	n.sendWith(header, "POST", at+"/mark-paid", "", key, "").is(409, "idempotency_key_reused")
	// Where the answer could not be kept, the repeat finds no page either.
	n.RefuseKind.Store(uint32(billing.KindKeepAnswer))
	n.RefuseNext.Store(1)
	header = http.Header{"Idempotency-Key": {"k2"}}
	n.sendWith(header, "POST", at+"/payprovider/checkout", "", key, "").is(503, "")
	require.Equal(t, "true", again().header.Get("Idempotency-Replayed"))
}

func read(t *testing.T, response *http.Response) string {
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return string(text)
}

// stripeSession is the newest session, which webhook reports about.
const stripeSession = "cs_test_1"

// deliver posts a body to the demo's webhook as Stripe would.
func (n *node) deliver(body []byte, secret string, at time.Time) answer {
	n.t.Helper()
	header := http.Header{"Stripe-Signature": {paymenttest.Signature(secret, body, at)}}
	return n.sendWith(header, "POST", webhookPath, string(body), "", "application/json")
}

// webhook delivers a signed event of the first session.
func (n *node) webhook(s *paymenttest.Stripe, id, secret string, at time.Time) answer {
	n.t.Helper()
	return n.deliver(s.Event(id, "checkout.session.completed", stripeSession, at), secret, at)
}

func (n *node) useStripe() (s *paymenttest.Stripe, key, invoice string) {
	s = paymenttest.ServeStripe(n.t, n.stripe, "sk_test_1")
	key = n.furnish()
	n.call("PUT", sandbox+"payment-provider", `{"provider":"stripe","secretKey":"sk_test_1",`+
		`"webhookSecret":"whsec_1","baseUrl":"http://`+n.stripe.Addr().String()+`"}`).is(200, "")
	invoice = n.subscribe(key)["id"].(string)
	return s, key, invoice
}

func TestStripeWebhooks(t *testing.T) {
	n := start(t)
	s, key, invoice := n.useStripe()
	url := n.checkout(key, invoice).is(200, "").data()["url"]
	require.Equal(t, "https://checkout.stripe.com/c/pay/cs_test_1", url)
	s.Pay(stripeSession)
	now := time.Now()
	require.Contains(t, n.webhook(s, "evt_1", "whsec_2", now).is(401, "").raw, "invalid_signature")
	require.Contains(t, n.webhook(s, "evt_1", "whsec_1", now.Add(-10*time.Minute)).is(400, "").raw,
		"stale_timestamp")
	require.Equal(t, "DUE", n.invoiceStatus(key))
	n.Refuse(10)
	n.webhook(s, "evt_1", "whsec_1", now).is(503, "")
	n.Refuse(0)
	for range 3 {
		n.webhook(s, "evt_1", "whsec_1", now).is(200, "")
	}
	require.Equal(t, "PAID", n.invoiceStatus(key))
	n.webhook(s, "evt_2", "whsec_1", now).is(200, "") // another event of the same session
	require.Len(t, n.payments(invoice), 1)
	require.Equal(t, "applied", n.payments(invoice)[0].(map[string]any)["result"])
	n.send("POST", payments.Prefix+"/nobody/live/webhook", "{}", "", "application/json").is(404, "")
	n.call("PUT", sandbox+"payment-provider", `{"provider":"none","forgetPrevious":true}`).
		is(200, "")
	n.webhook(s, "evt_1", "whsec_1", now).is(404, "")
}

// TestReconciliation: a payment whose webhook never came is found by polling, and a webhook that
// comes after all counts nothing.
func TestReconciliation(t *testing.T) {
	n := start(t)
	s, key, invoice := n.useStripe()
	n.checkout(key, invoice).is(200, "")
	s.Pay(stripeSession)
	n.till.Reconcile(context.Background())
	require.Equal(t, "DUE", n.invoiceStatus(key), "too young to be polled")
	n.later.Store(int64(6 * time.Minute))
	n.till.Reconcile(context.Background())
	require.Equal(t, "PAID", n.invoiceStatus(key))
	n.webhook(s, "evt_1", "whsec_1", time.Now().Add(6*time.Minute)).is(200, "")
	require.Len(t, n.payments(invoice), 1)
	env, _ := n.Machine.Environment("demo", 1)
	require.NotZero(t, env)
	require.Zero(t, n.polled(), "closed")
}

func TestProviderThatCannotBeReached(t *testing.T) {
	n := start(t)
	s, key, invoice := n.useStripe()
	s.Down(true)
	a := n.checkout(key, invoice).is(503, "payment_provider_unavailable")
	require.NotEmpty(t, a.header.Get("Retry-After"))
	s.Down(false)
	n.call("PUT", sandbox+"payment-provider", `{"provider":"stripe","secretKey":"sk_test_2",`+
		`"webhookSecret":"whsec_1","baseUrl":"http://`+n.stripe.Addr().String()+`"}`).is(200, "")
	n.checkout(key, invoice).is(400, "payment_provider_credentials")
}
