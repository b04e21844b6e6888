package admin_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/paymenttest"
	"tollgate/server/client"
)

func TestMain(m *testing.M) { paymenttest.Main(m) }

// pay makes a checkout of an invoice, pays it at Stripe and delivers the webhook.
func (n *node) pay(s *paymenttest.Stripe, key, invoice, event string) answer {
	n.t.Helper()
	session := n.session(key, invoice)
	s.Pay(session)
	now := n.now()
	return n.deliver(s.Event(event, "checkout.session.completed", session, now), "whsec_1", now)
}

// session is the Stripe session of a new checkout.
func (n *node) session(key, invoice string) string {
	n.t.Helper()
	address := n.checkout(key, invoice).is(200, "").data()["url"].(string)
	return address[strings.LastIndexByte(address, '/')+1:]
}

// subscription is ada's, in any state.
func (n *node) subscription(key, id string) map[string]any {
	n.t.Helper()
	return n.send("GET", client.Prefix+"/subscriptions/"+id, "", key, "").is(200, "").data()
}

func (n *node) allowed(key string) bool {
	n.t.Helper()
	return n.send("GET", client.Prefix+"/entitlements/ada/tokens", "", key, "").is(200, "").
		data()["isAllowed"].(bool)
}

// refused is is for answers below /payments, whose errors have the other API's shape.
func (a answer) refused(status int, code string) {
	a.t.Helper()
	require.Equal(a.t, status, a.status, a.raw)
	require.Equal(a.t, code, a.body["error"], a.raw)
}

func result(payment any) string { return payment.(map[string]any)["result"].(string) }

// TestWhatStripeIsAsked: the session is of the invoice's amount, tells us apart by its metadata,
// and leads back to us; a checkout that is repeated with its key is one session.
func TestWhatStripeIsAsked(t *testing.T) {
	n := start(t)
	s, key, invoice := n.useStripe()
	path := client.Prefix + "/billing/invoices/" + invoice + "/payprovider/checkout"
	for range 2 {
		header := map[string][]string{"Idempotency-Key": {"k"}}
		a := n.sendWith(header, "POST", path, "", key, "").is(200, "")
		require.Equal(t, "https://checkout.stripe.com/c/pay/cs_test_1", a.data()["url"])
	}
	require.Equal(t, 1, s.Sessions())
	n.checkout(key, invoice).is(200, "")
	require.Equal(t, 2, s.Sessions(), "without a key each request is a checkout")
	forms := s.Forms()
	require.Equal(t, forms[0], forms[1], "Stripe compares the parameters of a repeated request")
	require.Equal(t, "2000", forms[0].Get("line_items[0][price_data][unit_amount]"))
	require.Equal(t, "usd", forms[0].Get("line_items[0][price_data][currency]"))
	require.Equal(t, invoice, forms[0].Get("metadata[tollgate_invoice]"))
	require.Equal(t, invoice, forms[0].Get("payment_intent_data[metadata][tollgate_invoice]"))
	require.Equal(t, "http://"+n.clients+"/payments/demo/sandbox/return", forms[0].Get("success_url"))
}

// TestWebhooksInAnyOrder: whatever order events of one session come in, repeated and beside a poll,
// the invoice is paid once, and stays paid.
func TestWebhooksInAnyOrder(t *testing.T) {
	const done, paid = "checkout.session.completed", "checkout.session.async_payment_succeeded"
	const failed, expired = "checkout.session.async_payment_failed", "checkout.session.expired"
	for _, order := range [][]string{
		{done, paid, failed, expired},
		{paid, done, expired, failed},
		{failed, expired, paid, done},
		{expired, paid, paid, done, failed, failed},
	} {
		t.Run(strings.Join(order, ","), func(t *testing.T) {
			n := start(t)
			s, key, invoice := n.useStripe()
			session := n.session(key, invoice)
			paidOnce := false
			for _, kind := range order {
				// The object of an event is the session as it was when it happened.
				state := map[string]any{"status": "complete", "payment_status": "unpaid"}
				if kind == paid {
					state["payment_status"], paidOnce = "paid", true
				}
				s.Set(session, state)
				body := s.Event("evt_"+kind, kind, session, n.now())
				for range 2 {
					n.deliver(body, "whsec_1", n.now()).is(200, "")
				}
				require.Equal(t, map[bool]string{false: "DUE", true: "PAID"}[paidOnce], n.invoiceStatus(key))
			}
			s.Pay(session)
			n.later.Store(int64(6 * time.Minute))
			n.till.Reconcile(context.Background())
			require.Len(t, n.payments(invoice), 1)
			require.Equal(t, "applied", result(n.payments(invoice)[0]))
			require.Len(t, n.reports(invoice), 3, "each of the others once")
		})
	}
}

// TestWebhooksThatAreNotStripes: a wrong signature, an old or a future one, another mode, another
// environment's: refused with a name, and nothing changes.
func TestWebhooksThatAreNotStripes(t *testing.T) {
	n := start(t)
	s, key, invoice := n.useStripe()
	session := n.session(key, invoice)
	s.Pay(session)
	now := n.now()
	body := s.Event("evt_1", "checkout.session.completed", session, now)
	good := paymenttest.Signature("whsec_1", body, now)
	send := func(path, signature string, body []byte) answer {
		header := map[string][]string{"Stripe-Signature": {signature}}
		return n.sendWith(header, "POST", path, string(body), "", "application/json")
	}
	send(webhookPath, "", body).refused(401, "invalid_signature")
	send(webhookPath, paymenttest.Signature("whsec_2", body, now), body).refused(401, "invalid_signature")
	send(webhookPath, good, bytes.Replace(body, []byte("2000"), []byte("2001"), 1)).
		refused(401, "invalid_signature")
	for _, at := range []time.Time{now.Add(-301 * time.Second), now.Add(310 * time.Second)} {
		send(webhookPath, paymenttest.Signature("whsec_1", body, at), body).refused(400, "stale_timestamp")
	}
	live := bytes.ReplaceAll(body, []byte(`"livemode":false`), []byte(`"livemode":true`))
	send(webhookPath, paymenttest.Signature("whsec_1", live, now), live).refused(400, "invalid_payload")
	send(webhookPath, paymenttest.Signature("whsec_1", []byte("{"), now), []byte("{")).
		refused(400, "invalid_payload")

	// Another account with secrets of its own, and one that knows ours: neither has the invoice.
	n.call("POST", "accounts", `{"name":"other"}`).is(201, "")
	other := strings.Replace(webhookPath, "demo", "other", 1)
	send(other, good, body).refused(404, "no_payment_provider")
	set := func(secret string) {
		n.call("PUT", "accounts/other/environments/sandbox/payment-provider",
			`{"provider":"stripe","secretKey":"sk_test_1","webhookSecret":"`+secret+`",`+
				`"baseUrl":"http://`+n.stripe.Addr().String()+`"}`).is(200, "")
	}
	set("whsec_other")
	send(other, good, body).refused(401, "invalid_signature")
	set("whsec_1")
	send(other, good, body).refused(404, "invoice_not_found")
	send(strings.Replace(webhookPath, "sandbox", "live", 1), good, body).refused(404, "no_payment_provider")
	require.Equal(t, "DUE", n.invoiceStatus(key))
	require.Empty(t, n.told(invoice, false))
	require.Empty(t, n.told(invoice, true))

	send(webhookPath, good, body).is(200, "")
	// The very request once more, as someone who recorded it would send it.
	send(webhookPath, good, body).is(200, "")
	require.Len(t, n.payments(invoice), 1)
	n.later.Store(int64(10 * time.Minute))
	send(webhookPath, good, body).refused(400, "stale_timestamp")
}

// TestPaymentsThatDoNotFit: money that came for nothing is kept for people to see, and the invoice
// stays what it is.
func TestPaymentsThatDoNotFit(t *testing.T) {
	t.Run("paid twice", func(t *testing.T) {
		n := start(t)
		s, key, invoice := n.useStripe()
		first, second := n.session(key, invoice), n.session(key, invoice)
		for i, session := range []string{first, second} {
			s.Pay(session)
			event := s.Event(fmt.Sprint("evt_", i), "checkout.session.completed", session, n.now())
			n.deliver(event, "whsec_1", n.now()).is(200, "")
		}
		require.Equal(t, "PAID", n.invoiceStatus(key))
		require.Equal(t, "applied", result(n.payments(invoice)[0]))
		require.Equal(t, "overpaid", result(n.payments(invoice)[1]))
		require.Empty(t, n.checkout(key, invoice).is(200, "").data()["url"], "nothing is left to pay")
	})
	t.Run("marked paid meanwhile", func(t *testing.T) {
		n := start(t)
		s, key, invoice := n.useStripe()
		session := n.session(key, invoice)
		n.post(key, "/billing/invoices/"+invoice+"/mark-paid", "").is(200, "")
		s.Pay(session)
		n.deliver(s.Event("evt_1", "checkout.session.completed", session, n.now()), "whsec_1", n.now()).
			is(200, "")
		require.Equal(t, "overpaid", result(n.payments(invoice)[0]))
	})
	t.Run("voided meanwhile", func(t *testing.T) {
		n := start(t)
		s, key, invoice := n.useStripe()
		session := n.session(key, invoice)
		n.call("POST", sandbox+"invoices/"+invoice+"/void", "").is(200, "")
		hook := hooksPath + "/" + n.call("POST", hooksPath, `{"url":"https://books.example/hook"}`).
			is(201, "").data()["id"].(string) + "/deliveries"
		n.checkout(key, invoice).is(400, "invoice_void")
		n.post(key, "/billing/invoices/"+invoice+"/mark-paid", "").is(400, "invoice_void")
		s.Pay(session)
		n.deliver(s.Event("evt_1", "checkout.session.completed", session, n.now()), "whsec_1", n.now()).
			is(200, "")
		require.Equal(t, "VOID", n.invoiceStatus(key))
		require.Equal(t, "unexpected", result(n.payments(invoice)[0]))
		told := n.call("GET", hook, "").is(200, "").data()["deliveries"].([]any)
		require.Len(t, told, 1)
		message := n.call("GET", hook+"/"+told[0].(map[string]any)["id"].(string), "").is(200, "")
		payload := message.data()["payload"].(map[string]any)
		require.Equal(t, "invoice.overpaid", payload["type"])
		require.Equal(t, "VOID", payload["data"].(map[string]any)["status"])
		require.Equal(t, map[string]any{
			"provider": "stripe", "eventId": "evt_1", "amount": 20.0, "currency": "USD",
			"result": "unexpected",
		}, payload["data"].(map[string]any)["payment"])
	})
	t.Run("another amount", func(t *testing.T) {
		n := start(t)
		s, key, invoice := n.useStripe()
		for i, change := range []map[string]any{
			{"amount_total": 1999}, {"amount_total": 2001}, {"currency": "eur"},
		} {
			session := n.session(key, invoice)
			s.Pay(session)
			s.Set(session, change)
			event := s.Event(fmt.Sprint("evt_", i), "checkout.session.completed", session, n.now())
			n.deliver(event, "whsec_1", n.now()).is(200, "")
			require.Equal(t, "mismatch", result(n.payments(invoice)[i]))
			require.Equal(t, "DUE", n.invoiceStatus(key))
		}
		n.pay(s, key, invoice, "evt_good").is(200, "")
		require.Equal(t, "PAID", n.invoiceStatus(key))
	})
	t.Run("pending", func(t *testing.T) {
		n := start(t)
		_, key, _ := n.useStripe()
		id := n.invoices(key)[0].(map[string]any)["subscriptionId"].(string)
		pending := n.send("GET", client.Prefix+"/subscriptions/"+id+"/upcoming-invoice", "", key, "").
			is(200, "")
		n.checkout(key, pending.data()["id"].(string)).is(400, "invoice_pending")
	})
}

// TestWhatIsNoPaymentIsKept: a refund, a dispute, a type that nobody knows yet: answered 200,
// listed where it names an invoice of ours, and nothing else changes.
func TestWhatIsNoPaymentIsKept(t *testing.T) {
	n := start(t)
	s, key, invoice := n.useStripe()
	n.pay(s, key, invoice, "evt_paid").is(200, "")
	tag := map[string]any{"tollgate_invoice": invoice}
	deliver := func(id, kind string, object any) {
		t.Helper()
		body := paymenttest.Event(t, id, kind, object, n.now())
		for range 2 {
			n.deliver(body, "whsec_1", n.now()).is(200, "")
		}
	}
	deliver("evt_1", "charge.refunded", map[string]any{"id": "ch_1", "metadata": tag})
	deliver("evt_2", "charge.dispute.created", map[string]any{"id": "dp_1", "metadata": tag})
	deliver("evt_3", "brand.new."+strings.Repeat("x", 200), map[string]any{"metadata": tag})
	deliver("evt_4", "charge.refunded", map[string]any{"id": "ch_2", "metadata": map[string]any{}})
	deliver("evt_5", "customer.created", map[string]any{"id": "cus_1"})
	deliver("evt_6", "charge.refunded", map[string]any{"metadata": map[string]any{
		"tollgate_invoice": unknownID,
	}})
	deliver("evt_7", "charge.refunded", map[string]any{"metadata": 7})
	deliver("evt_8", "charge.refunded", map[string]any{"metadata": map[string]any{
		"tollgate_invoice": []any{1},
	}})
	live := paymenttest.Event(t, "evt_live", "charge.refunded", map[string]any{"metadata": tag}, n.now())
	live = bytes.ReplaceAll(live, []byte(`"livemode":false`), []byte(`"livemode":true`))
	n.deliver(live, "whsec_1", n.now()).is(200, "") // of Stripe's other mode: not about this invoice
	reports := n.reports(invoice)
	require.Len(t, reports, 3)
	for i, want := range []string{"charge.refunded", "charge.dispute.created", "brand.new."} {
		require.True(t, strings.HasPrefix(reports[i].(map[string]any)["type"].(string), want))
		require.LessOrEqual(t, len(reports[i].(map[string]any)["type"].(string)), 64)
	}
	require.Equal(t, "PAID", n.invoiceStatus(key))
	require.Len(t, n.payments(invoice), 1)
	n.Refuse(10)
	body := paymenttest.Event(t, "evt_9", "charge.refunded", map[string]any{"metadata": tag}, n.now())
	n.deliver(body, "whsec_1", n.now()).refused(503, "unavailable")
	n.Refuse(0)
	// Never more than a hundred of them.
	for i := range 110 {
		deliver(fmt.Sprint("evt_many_", i), "charge.updated", map[string]any{"metadata": tag})
	}
	require.Len(t, n.reports(invoice), 100)
	n.deliver(s.Event("evt_again", "checkout.session.completed", stripeSession, n.now()), "whsec_1",
		n.now()).is(200, "")
	require.Len(t, n.payments(invoice), 1)
}

// TestAPaymentEndsWhatTheDebtBegan: in each state that an unpaid invoice leads to, a payment makes
// it PAID and its subscription active. (Due after 7 days, suspended 7 days later.)
func TestAPaymentEndsWhatTheDebtBegan(t *testing.T) {
	for name, row := range map[string]struct {
		days    int
		status  string
		allowed bool
	}{
		"due":           {0, "DUE", true},
		"past due":      {7, "PAST_DUE", true},
		"in grace":      {13, "PAST_DUE", true},
		"suspended":     {14, "PAST_DUE", false},
		"next period":   {33, "PAST_DUE", false},
		"two unpaid":    {50, "PAST_DUE", false},
		"long after it": {400, "PAST_DUE", false},
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t)
			s, key, invoice := n.useStripe()
			id := n.invoices(key)[0].(map[string]any)["subscriptionId"].(string)
			if row.days > 0 {
				n.advance(row.days).is(200, "")
			}
			require.Equal(t, row.status, n.invoiceStatus(key))
			require.Equal(t, row.allowed, n.allowed(key))
			require.Equal(t, row.allowed, n.subscription(key, id)["isActive"])
			metadata := n.subscription(key, id)["metadata"].(map[string]any)
			require.Equal(t, row.allowed, metadata["suspendedAt"] == nil)
			if !row.allowed { // when the first invoice's grace of 7 days had passed
				due, err := time.Parse(time.RFC3339, n.invoices(key)[0].(map[string]any)["dueDate"].(string))
				require.NoError(t, err)
				require.Equal(t, due.AddDate(0, 0, 7).Format("2006-01-02T15:04:05.000Z"),
					metadata["suspendedAt"])
			}
			n.pay(s, key, invoice, "evt_1").is(200, "")
			require.Equal(t, "PAID", n.invoiceStatus(key))
			require.Equal(t, true, n.subscription(key, id)["isActive"])
			require.NotContains(t, n.subscription(key, id)["metadata"], "suspendedAt")
			require.True(t, n.allowed(key))
			require.Equal(t, "applied", result(n.payments(invoice)[0]))
			// What else is past due has a fresh grace of 7 days.
			if row.days >= 50 {
				n.advance(6).is(200, "")
				require.True(t, n.allowed(key))
				n.advance(1).is(200, "")
				require.False(t, n.allowed(key))
			}
		})
	}
}

// TestPollsFindWhatWebhooksMissed: a paid session pays its invoice once, one that is over is asked
// for no more, one that is open, or unknown, or whose provider cannot be reached, is asked again.
func TestPollsFindWhatWebhooksMissed(t *testing.T) {
	n := start(t)
	s, key, invoice := n.useStripe()
	sessions := map[string]string{}
	for _, fate := range []string{"open", "expired", "failed", "forgotten", "paid"} {
		sessions[fate] = n.session(key, invoice)
	}
	s.Set(sessions["expired"], map[string]any{"status": "expired"})
	s.Set(sessions["failed"], map[string]any{
		"status": "complete", "payment_intent": map[string]any{"status": "requires_payment_method"},
	})
	s.Forget(sessions["forgotten"])
	s.Pay(sessions["paid"])
	require.Equal(t, 5, n.polled())
	n.till.Reconcile(t.Context())
	require.Equal(t, 5, n.polled(), "all are younger than their webhooks may be late")
	n.later.Store(int64(6 * time.Minute))
	s.Down(true)
	n.till.Reconcile(t.Context())
	require.Equal(t, 5, n.polled(), "nobody knows")
	s.Down(false)
	n.Refuse(12)
	n.till.Reconcile(t.Context())
	require.Equal(t, 5, n.polled(), "a payment that is not committed is looked for again")
	n.Refuse(0)
	for range 3 {
		n.till.Reconcile(t.Context())
		require.Equal(t, 2, n.polled(), "the open one, and the unknown one")
		require.Equal(t, "PAID", n.invoiceStatus(key))
		require.Len(t, n.payments(invoice), 1)
	}
	s.Set(sessions["open"], map[string]any{"status": "complete", "payment_status": "paid"})
	n.later.Store(int64(29 * 24 * time.Hour))
	n.till.Reconcile(t.Context())
	require.Len(t, n.payments(invoice), 1, "too old to be polled")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	n.later.Store(int64(7 * time.Minute))
	n.till.Reconcile(ended)
	require.Len(t, n.payments(invoice), 1, "the node steps down")
	n.till.Reconcile(t.Context())
	require.Equal(t, "overpaid", result(n.payments(invoice)[1]))
	require.Equal(t, 1, n.polled(), "the unknown one")
	n.later.Store(int64(24*time.Hour + time.Minute))
	n.till.Reconcile(t.Context())
	require.Zero(t, n.polled())
}

// TestACancelledSubscriptionStaysCancelled: paying its last invoice does not bring it back.
func TestACancelledSubscriptionStaysCancelled(t *testing.T) {
	n := start(t)
	s, key, invoice := n.useStripe()
	id := n.invoices(key)[0].(map[string]any)["subscriptionId"].(string)
	n.advance(15).is(200, "")
	n.post(key, "/subscriptions/cancellation/"+id+"?cancelMode=IMMEDIATE", "").is(200, "")
	n.pay(s, key, invoice, "evt_1").is(200, "")
	require.Equal(t, "PAID", n.invoiceStatus(key))
	require.Equal(t, false, n.subscription(key, id)["isActive"])
	require.False(t, n.allowed(key))
}

// TestADeclineChangesNothing: dunning goes on as if nobody had tried, and a later try pays.
func TestADeclineChangesNothing(t *testing.T) {
	n := start(t)
	key := n.furnish()
	n.call("PUT", sandbox+"payment-provider", `{"provider":"sandbox"}`).is(200, "")
	invoice := n.subscribe(key)["id"].(string)
	address := n.checkout(key, invoice).is(200, "").data()["url"].(string)
	b := newBrowser(t)
	for i, days := range []int{0, 7, 7} {
		if days > 0 {
			n.advance(days).is(200, "")
		}
		b.open(address)
		b.press(url.Values{"card": {"decline"}}).is(402)
		b.press(url.Values{"card": {"authenticate"}}).is(200)
		b.press(url.Values{"verify": {"refuse"}}).is(402)
		require.Equal(t, []string{"DUE", "PAST_DUE", "PAST_DUE"}[i], n.invoiceStatus(key))
		require.Equal(t, []bool{true, true, false}[i], n.allowed(key))
		require.Len(t, n.reports(invoice), 2*(i+1))
	}
	require.Empty(t, n.payments(invoice))
	b.open(address)
	b.press(url.Values{"card": {"success"}}).is(303)
	require.Equal(t, "PAID", n.invoiceStatus(key))
	require.True(t, n.allowed(key))
}

// TestCardDataIsNowhere: no form of ours asks for a card, and one that is sent all the same is in
// no log, no state and no journal.
func TestCardDataIsNowhere(t *testing.T) {
	var log lockedBuffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	t.Cleanup(func() { slog.SetDefault(before) })
	n := start(t)
	key := n.furnish()
	n.call("PUT", sandbox+"payment-provider", `{"provider":"sandbox"}`).is(200, "")
	invoice := n.subscribe(key)["id"].(string)
	const pan, code = "5555 5555 5555 4444", "90210"
	path := "/billing/invoices/" + invoice + "/payprovider/checkout"
	n.post(key, path, `{"card":{"number":"`+pan+`","cvc":"`+code+`"}}`).is(400, "validation_failed")
	b := newBrowser(t)
	b.open(n.checkout(key, invoice).is(200, "").data()["url"].(string))
	require.Equal(t, []string{"attempt", "card", "card", "card"}, b.fields())
	for _, card := range []string{pan, "decline", "success"} {
		b.press(url.Values{"card": {card}, "number": {pan}, "cvc": {code}, "exp": {"12/34"}})
		require.NotContains(t, b.page, pan)
	}
	require.Equal(t, "PAID", n.invoiceStatus(key))
	require.NotEmpty(t, log.String())
	state, err := n.Machine.Snapshot()
	require.NoError(t, err)
	defer state.Release()
	var snapshot bytes.Buffer
	_, err = state.WriteTo(&snapshot)
	require.NoError(t, err)
	digits := strings.ReplaceAll(pan, " ", "")
	kept := log.String() + snapshot.String() // which holds the journal's tail
	for _, secret := range []string{pan, url.QueryEscape(pan), digits, code} {
		require.NotContains(t, kept, secret)
	}
	for _, route := range n.api.Table().Routes() {
		require.NotRegexp(t, "(?i)card|cvc|cvv|pan|expir", route.Path)
	}
}
