package payment_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/paymenttest"
	"tollgate/server/provider/payment"
)

const stripeSecret = "whsec_test_secret"

func newStripe(t *testing.T, hostPort string) payment.CardProvider {
	t.Helper()
	provider, err := payment.NewStripe(newFetch(t, hostPort), payment.StripeConfig{
		BaseURL: "http://" + hostPort, SecretKey: "sk_test_123", WebhookSecret: stripeSecret,
	})
	require.NoError(t, err)
	return provider
}

// stripeSignature signs as webhook.GenerateTestSignedPayload of stripe-go v82.5.1 does. The race
// detector would make that library a minute of compiling, for these lines.
func stripeSignature(at time.Time, secret string, body []byte) (header string) {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
	return fmt.Sprintf("t=%d,v1=%x", at.Unix(), mac.Sum(nil))
}

func stripeSigned(at time.Time, body []byte) signed {
	header := stripeSignature(at, stripeSecret, body)
	return signed{http.Header{"Stripe-Signature": {header}}, body}
}

// TestSignaturesAreStripes: the headers are what stripe-go v82.5.1 made of the same.
func TestSignaturesAreStripes(t *testing.T) {
	for _, c := range []struct {
		at                   int64
		secret, body, header string
	}{
		{
			1495999758, "whsec_test_secret", `{"id":"evt_1"}`,
			"t=1495999758,v1=f05bc093381139e543197930a3fac2f1651b6d3d52655c85be19084adc39721f",
		},
		{
			1, "whsec_test_secret", "",
			"t=1,v1=72a0d5db585ba2c43502db342967281f0d98f88ad9a739d64b64b0e90ec5b49c",
		},
		{
			1790000000, "whsec_ä", "{\n  \"name\": \"Zoë\"\n}\n",
			"t=1790000000,v1=a0c233d1607ce3a90d72a9514887f374ea76a013ceddbcc4c5924a4399e0523f",
		},
	} {
		require.Equal(t, c.header, stripeSignature(time.Unix(c.at, 0), c.secret, []byte(c.body)))
	}
}

// stripeEvent is an event of Stripe's documented form around a session.
func stripeEvent(kind string, session map[string]any) []byte {
	body, err := json.Marshal(map[string]any{
		"id": "evt_1", "object": "event", "api_version": "2026-08-26.dahlia", "type": kind,
		"created": noon.Unix(), "livemode": false, "pending_webhooks": 1,
		"data": map[string]any{"object": session},
	})
	if err != nil {
		panic(err)
	}
	return body
}

func paidSession(r payment.CheckoutRequest, id string) map[string]any {
	return map[string]any{
		"id": id, "object": "checkout.session", "status": "complete", "payment_status": "paid",
		"amount_total": r.Amount.Minor, "currency": strings.ToLower(r.Amount.Currency),
		"client_reference_id": r.InvoiceID, "payment_intent": "pi_1",
		"metadata": map[string]string{"tollgate_invoice": r.InvoiceID},
	}
}

func stripeSubject(t *testing.T) subject {
	return subject{
		provider: newStripe(t, paymenttest.StripeMock(t)), card: "cus_1/pm_1",
		paid: func(_ *testing.T, r payment.CheckoutRequest, c payment.Checkout) signed {
			return stripeSigned(noon,
				stripeEvent("checkout.session.completed", paidSession(r, c.ID)))
		},
	}
}

// scripted is a Stripe with scripted answers that stripe-mock never gives.
func scripted(t *testing.T, answer http.HandlerFunc) payment.CardProvider {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return newStripe(t, server.Listener.Addr().String())
}

func TestStripeRequests(t *testing.T) {
	var got *http.Request
	var form url.Values
	provider := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			form, err = url.ParseQuery(string(body))
		}
		if err != nil {
			t.Error(err)
		}
		got = r
		say(t, w, `{"id":"cs_1","url":"https://checkout.stripe.com/c/1",
			"status":"open","expires_at":1772452800,"unknown":[1,{"a":null}]}`)
	})
	made, err := provider.CreateCheckout(t.Context(), request())
	require.NoError(t, err)
	require.Equal(t, payment.Checkout{
		ID: "cs_1", URL: "https://checkout.stripe.com/c/1", ExpiresAt: noon.Add(24 * time.Hour),
	}, made)
	require.Equal(t, "POST /v1/checkout/sessions", got.Method+" "+got.URL.String())
	require.Equal(t, "Bearer sk_test_123", got.Header.Get("Authorization"))
	require.Equal(t, "checkout-1", got.Header.Get("Idempotency-Key"))
	require.Equal(t, "2026-08-26.dahlia", got.Header.Get("Stripe-Version"))
	require.Equal(t, "123456", form.Get("line_items[0][price_data][unit_amount]"))
	require.Equal(t, "false", form.Get("adaptive_pricing[enabled]"))
	require.Equal(t, "usd", form.Get("line_items[0][price_data][currency]"))
	require.Equal(t, request().InvoiceID, form.Get("metadata[tollgate_invoice]"))
	require.Equal(t, request().SuccessURL, form.Get("success_url"))

	_, err = provider.Checkout(t.Context(), "cs_1/../../x?y")
	require.Error(t, err)
	require.Equal(t, "/v1/checkout/sessions/cs_1%2F..%2F..%2Fx%3Fy?expand[]=payment_intent",
		got.URL.String())
}

func TestStripeCurrencies(t *testing.T) {
	var unit string
	provider := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		unit = r.PostFormValue("line_items[0][price_data][unit_amount]")
		say(t, w, `{"id":"cs_1","url":"https://checkout.stripe.com/c/1"}`)
	})
	for _, test := range []struct {
		amount payment.Amount
		want   string
	}{
		{payment.Amount{Minor: 1, Currency: "USD"}, "1"},
		{payment.Amount{Minor: 500, Currency: "JPY"}, "500"},
		{payment.Amount{Minor: 5, Currency: "ISK"}, "500"},
		{payment.Amount{Minor: 5120, Currency: "KWD"}, "5120"},
		{payment.Amount{Minor: 5124, Currency: "KWD"}, ""},
		{payment.Amount{Minor: 500, Currency: "MGA"}, "5"},
		{payment.Amount{Minor: 501, Currency: "MGA"}, ""},
		{payment.Amount{Minor: 5, Currency: "UGX"}, ""},
		{payment.Amount{Minor: 5000, Currency: "IQD"}, ""},
		{payment.Amount{Minor: 5000, Currency: "CLF"}, ""},
		{payment.Amount{Minor: 1<<53 + 1, Currency: "USD"}, ""},
	} {
		r := request()
		r.Amount = test.amount
		unit = ""
		_, err := provider.CreateCheckout(t.Context(), r)
		require.Equal(t, test.want, unit, r.Amount)
		if test.want == "" {
			var refused *payment.Error
			require.ErrorAs(t, err, &refused)
			require.Equal(t, "amount_not_exact", refused.Code)
			continue
		}
		require.NoError(t, err)
		session := paidSession(r, "cs_1")
		session["amount_total"] = json.RawMessage(test.want)
		w := stripeSigned(noon, stripeEvent("checkout.session.completed", session))
		event, err := provider.ParseWebhook(noon, w.header.Get, w.body)
		require.NoError(t, err)
		require.Equal(t, test.amount, event.Amount, "there and back")
	}
}

func TestStripeErrors(t *testing.T) {
	var status int
	var body, retryAfter string
	provider := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", retryAfter)
		w.WriteHeader(status)
		say(t, w, body)
	})
	say := func(code string) string {
		return fmt.Sprintf(`{"error":{"type":"t","code":%q,"message":"says sk_test_1234"}}`, code)
	}
	for _, test := range []struct {
		status int
		body   string
		class  payment.Class
		code   string
	}{
		{400, say("amount_too_small"), payment.ClassRefused, "amount_too_small"},
		{400, `{"error":{"type":"idempotency_error"}}`, payment.ClassRefused, "idempotency_error"},
		{401, say("api_key_expired"), payment.ClassCredentials, "api_key_expired"},
		{403, say(""), payment.ClassCredentials, "t"},
		{402, say("card_declined"), payment.ClassRefused, "card_declined"},
		{404, say("resource_missing"), payment.ClassNotFound, "resource_missing"},
		{409, say("idempotency_key_in_use"), payment.ClassUnavailable, "idempotency_key_in_use"},
		{429, say("rate_limit"), payment.ClassUnavailable, "rate_limit"},
		{500, "<html>", payment.ClassUnavailable, "status_500"},
		{503, "", payment.ClassUnavailable, "status_503"},
		{302, "", payment.ClassUnavailable, "status_302"},
		{200, "<html>", payment.ClassUnavailable, "unreadable_answer"},
		{200, "{}", payment.ClassUnavailable, "unreadable_answer"},
		{200, `{"id":"cs_1","url":"javascript:1"}`, payment.ClassUnavailable, "unreadable_answer"},
		{200, `{"id":"cs_1","id":"cs_2"}`, payment.ClassUnavailable, "unreadable_answer"},
		{200, strings.Repeat(" ", 3<<20), payment.ClassUnavailable, "body"},
	} {
		status, body, retryAfter = test.status, test.body, "7"
		_, err := provider.CreateCheckout(t.Context(), request())
		var refused *payment.Error
		require.ErrorAs(t, err, &refused, test.body)
		require.Equal(t, test.class, refused.Class, "%d", test.status)
		require.Equal(t, test.code, refused.Code)
		if test.class == payment.ClassCredentials {
			require.NotContains(t, err.Error(), "sk_test")
		}
		if test.class == payment.ClassUnavailable && test.status != 200 {
			require.Equal(t, 7*time.Second, refused.RetryAfter)
		}
	}
}

func TestStripePolls(t *testing.T) {
	var answer string
	provider := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("expand[]") != "payment_intent" {
			t.Error("the payment intent was not asked for")
		}
		say(t, w, `{"id":"cs_1","metadata":{"tollgate_invoice":"inv_1"},
			"amount_total":1200,"currency":"usd",`+answer+`}`)
	})
	const unpaid = `"status":"complete","payment_status":"unpaid","payment_intent":`
	for text, want := range map[string]payment.State{
		`"status":"open","payment_status":"unpaid","payment_intent":null`:     payment.StateOpen,
		`"status":"expired","payment_status":"unpaid"`:                        payment.StateExpired,
		`"status":"complete","payment_status":"paid","payment_intent":"pi_1"`: payment.StatePaid,
		unpaid + `"pi_1"`:                               payment.StateProcessing,
		unpaid + `{"status":"processing"}`:              payment.StateProcessing,
		unpaid + `{"status":"requires_payment_method"}`: payment.StateFailed,
		unpaid + `{"status":"canceled"}`:                payment.StateFailed,
		unpaid + `{"status":1}`:                         "",
		`"status":"strange"`:                            "",
	} {
		answer = text
		got, err := provider.Checkout(t.Context(), "cs_1")
		if want == "" {
			var refused *payment.Error
			require.ErrorAs(t, err, &refused)
			require.Equal(t, payment.ClassUnavailable, refused.Class)
			continue
		}
		require.NoError(t, err, text)
		expected := payment.Status{
			ID: "cs_1", State: want, InvoiceID: "inv_1",
			Amount: payment.Amount{Minor: 1200, Currency: "USD"},
		}
		if want == payment.StatePaid {
			expected.PaymentID = "pi_1"
		}
		require.Equal(t, expected, got)
	}
	_, err := provider.Checkout(t.Context(), "cs_2")
	require.Error(t, err, "the answer is about another session")
}

func TestStripeEvents(t *testing.T) {
	provider := newStripe(t, "127.0.0.1:1")
	parse := func(body []byte) (payment.Event, error) {
		w := stripeSigned(noon, body)
		return provider.ParseWebhook(noon, w.header.Get, w.body)
	}
	change := func(name string, value any) map[string]any {
		session := paidSession(request(), "cs_1")
		session[name] = value
		return session
	}
	paid, unpaid := paidSession(request(), "cs_1"), change("payment_status", "unpaid")
	free := change("payment_status", "no_payment_required")
	for _, test := range []struct {
		kind    string
		session map[string]any
		want    payment.EventKind
	}{
		{"checkout.session.completed", paid, payment.EventPaid},
		{"checkout.session.completed", unpaid, payment.EventProcessing},
		{"checkout.session.completed", free, payment.EventPaid},
		{"checkout.session.async_payment_succeeded", paid, payment.EventPaid},
		{"checkout.session.async_payment_failed", unpaid, payment.EventFailed},
		{"checkout.session.expired", unpaid, payment.EventExpired},
		{"checkout.session.completed", change("metadata", map[string]string{}), payment.EventOther},
		{"checkout.session.completed", change("metadata", nil), payment.EventOther},
		{"invoice.paid", map[string]any{"metadata": 1}, payment.EventOther},
		{"checkout.session.completed", change("id", ""), ""},
		{"checkout.session.completed", change("amount_total", "12"), ""},
		{"checkout.session.completed", change("amount_total", -1), ""},
		{"checkout.session.completed", change("currency", nil), ""},
		{"checkout.session.completed", change("currency", "xxx"), ""},
		{"checkout.session.completed", nil, payment.EventOther},
		{"", nil, ""},
	} {
		event, err := parse(stripeEvent(test.kind, test.session))
		if test.want == "" {
			require.ErrorIs(t, err, payment.ErrPayload, test.kind)
			continue
		}
		require.NoError(t, err, test.kind)
		require.Equal(t, test.want, event.Kind, test.kind)
		require.Equal(t, noon, event.OccurredAt)
	}
	live := strings.Replace(string(stripeEvent("checkout.session.completed",
		paidSession(request(), "cs_1"))), `"livemode":false`, `"livemode":true`, 1)
	for _, body := range []string{live, "", "[]", "null", `{"id":"evt_1","id":"evt_2"}`} {
		_, err := parse([]byte(body))
		require.ErrorIs(t, err, payment.ErrPayload, body)
	}
}

func TestStripeSignatures(t *testing.T) {
	provider := newStripe(t, "127.0.0.1:1")
	w := stripeSigned(noon, stripeEvent("invoice.paid", nil))
	good := w.header.Get("Stripe-Signature")
	timestamp, v1, _ := strings.Cut(good, ",")
	wrong := "v1=" + strings.Repeat("00", 32)
	for header, want := range map[string]error{
		good:                                 nil,
		v1 + "," + timestamp:                 nil,
		timestamp + "," + wrong + "," + v1:   nil,
		timestamp + "," + v1 + "," + wrong:   nil,
		timestamp + ",v0=zz," + v1 + ",v9=1": nil,
		timestamp + ",v1=zz," + v1:           nil,
		timestamp + ", " + v1:                nil,
		"":                                   payment.ErrSignature,
		timestamp:                            payment.ErrSignature,
		v1:                                   payment.ErrSignature,
		timestamp + "," + wrong:              payment.ErrSignature,
		timestamp + "," + strings.Replace(v1, "v1", "v0", 1): payment.ErrSignature,
		timestamp + "," + timestamp + "," + v1:               payment.ErrSignature,
		"t=," + v1:                                           payment.ErrSignature,
		"t=-1," + v1:                                         payment.ErrSignature,
		good + ",x":                                          payment.ErrSignature,
		timestamp + strings.Repeat(","+v1, 17):               payment.ErrSignature,
		good + "," + strings.Repeat("a=b,", 2000) + "c=d":    payment.ErrSignature,
	} {
		_, err := provider.ParseWebhook(noon, http.Header{"Stripe-Signature": {header}}.Get, w.body)
		require.ErrorIs(t, err, want, header)
	}
}

func TestStripeSettings(t *testing.T) {
	client := newFetch(t)
	for name, config := range map[string]payment.StripeConfig{
		"no key":     {WebhookSecret: "w"},
		"no secret":  {SecretKey: "k"},
		"bad key":    {SecretKey: "k\r\n", WebhookSecret: "w"},
		"private":    {BaseURL: "http://10.0.0.1", SecretKey: "k", WebhookSecret: "w"},
		"with query": {BaseURL: "https://api.stripe.com/?a=b", SecretKey: "k", WebhookSecret: "w"},
	} {
		_, err := payment.NewStripe(client, config)
		require.Error(t, err, name)
	}
	_, err := payment.NewStripe(client, payment.StripeConfig{SecretKey: "k", WebhookSecret: "w"})
	require.NoError(t, err)
}

func FuzzStripeWebhook(f *testing.F) {
	client := fuzzFetch(f)
	provider, err := payment.NewStripe(client, payment.StripeConfig{
		SecretKey: "sk_test_123", WebhookSecret: stripeSecret,
	})
	require.NoError(f, err)
	body := stripeEvent("checkout.session.completed", paidSession(request(), "cs_1"))
	f.Add("t=1,v1=00", body)
	f.Add("t=,v1=,=", []byte(`{"data":{"object":{"metadata":{"tollgate_invoice":"x"}}}}`))
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		_, err := provider.ParseWebhook(noon, http.Header{"Stripe-Signature": {header}}.Get, body)
		require.Error(t, err, "a signature cannot be guessed")
		w := stripeSigned(noon, body)
		event, err := provider.ParseWebhook(noon, w.header.Get, body)
		if err != nil {
			require.ErrorIs(t, err, payment.ErrPayload)
			return
		}
		require.NotEmpty(t, event.ID)
		if event.Kind != payment.EventOther {
			require.NotEmpty(t, event.InvoiceID)
			require.NotEmpty(t, event.CheckoutID)
			require.GreaterOrEqual(t, event.Amount.Minor, int64(0))
		}
	})
}

func TestMain(m *testing.M) { paymenttest.Main(m) }
