package payment_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/provider/payment"
)

func chargeOf(card string) payment.ChargeRequest {
	return payment.ChargeRequest{
		InvoiceID: "pur_1", Description: "1 hosted run", IdempotencyKey: "pur_1", Card: card,
		Amount: payment.Amount{Minor: 500, Currency: "USD"},
	}
}

// TestSandboxSavesCards: a page that saves the card offers test cards, which later behave as
// chosen; other pages do not offer them.
func TestSandboxSavesCards(t *testing.T) {
	for card, code := range map[string]string{
		"success": "", "later-decline": "card_declined",
		"later-authenticate": "authentication_required",
	} {
		c := newCounter(t)
		r := request()
		token := c.token(t, r)
		if code != "" {
			require.Equal(t, 400, c.sandbox.Act(t.Context(), token, form("card", card)).Status)
		}
		r.SaveCard = true
		token = c.token(t, r)
		require.Contains(t, string(c.sandbox.Page(t.Context(), token).Body), "later-decline")
		require.Equal(t, 303, c.sandbox.Act(t.Context(), token, form("card", card)).Status)
		w := c.webhooks[len(c.webhooks)-1]
		event, err := c.sandbox.ParseWebhook(noon, w.header.Get, w.body)
		require.NoError(t, err)
		require.NotEmpty(t, event.Card)
		charged, err := c.sandbox.Charge(t.Context(), chargeOf(event.Card))
		require.NoError(t, err)
		require.Equal(t, code, charged.Code)
		require.Equal(t, code == "", charged.State == payment.StatePaid)
		require.Equal(t, code == "", charged.PaymentID != "")
	}
}

// say answers as Stripe would.
func say(t *testing.T, w io.Writer, answer string) {
	t.Helper()
	if _, err := io.WriteString(w, answer); err != nil {
		t.Error(err)
	}
}

func TestStripeSavesCards(t *testing.T) {
	var form url.Values
	provider := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		form = r.PostForm
		say(t, w, `{"id":"cs_1","url":"https://checkout.stripe.com/c/1",
			"status":"complete","payment_status":"paid","amount_total":500,"currency":"usd",
			"customer":"cus_1","metadata":{"tollgate_invoice":"pur_1"},
			"payment_intent":{"id":"pi_1","status":"succeeded","payment_method":"pm_1"}}`)
	})
	r := request()
	_, err := provider.CreateCheckout(t.Context(), r)
	require.NoError(t, err)
	require.NotContains(t, form, "customer_creation")
	r.SaveCard = true
	_, err = provider.CreateCheckout(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, "always", form.Get("customer_creation"))
	require.Equal(t, "off_session", form.Get("payment_intent_data[setup_future_usage]"))
	require.Equal(t, "card", form.Get("payment_method_types[0]"))
	status, err := provider.Checkout(t.Context(), "cs_1")
	require.NoError(t, err)
	require.Equal(t, "cus_1/pm_1", status.Card)
	require.Equal(t, "pi_1", status.PaymentID)
}

// TestStripeCharges: what each of Stripe's answers to a charge means.
func TestStripeCharges(t *testing.T) {
	var status int
	var answer, listed string
	var asked []string
	var form url.Values
	var key string
	provider := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		asked = append(asked, r.Method+" "+r.URL.RequestURI())
		if r.Method == "GET" && r.URL.Path == "/v1/payment_intents" {
			if strings.HasPrefix(listed, `{"error"`) {
				w.WriteHeader(400)
			}
			say(t, w, listed)
			return
		}
		form, key = r.PostForm, r.Header.Get("Idempotency-Key")
		if r.Method == "GET" && strings.HasSuffix(r.URL.Path, "/pi_later") {
			say(t, w, `{"id":"pi_later","status":"succeeded"}`)
			return
		}
		w.WriteHeader(status)
		say(t, w, answer)
	})
	for _, row := range []struct {
		status int
		answer string
		want   payment.Charge
		class  payment.Class
	}{
		{200, `{"id":"pi_1","status":"succeeded"}`, payment.Charge{State: payment.StatePaid, PaymentID: "pi_1"}, ""},
		{200, `{"id":"pi_later","status":"processing"}`, payment.Charge{State: payment.StatePaid, PaymentID: "pi_later"}, ""},
		{200, `{"id":"pi_1","status":"requires_action"}`, payment.Charge{State: payment.StateFailed, Code: "requires_action"}, ""},
		{402, `{"error":{"type":"card_error","code":"card_declined"}}`, payment.Charge{State: payment.StateFailed, Code: "card_declined"}, ""},
		{402, `{"error":{"code":"authentication_required"}}`, payment.Charge{State: payment.StateFailed, Code: "authentication_required"}, ""},
		{400, `{"error":{"code":"resource_missing"}}`, payment.Charge{State: payment.StateFailed, Code: "resource_missing"}, ""},
		{404, `{"error":{"code":"resource_missing"}}`, payment.Charge{State: payment.StateFailed, Code: "resource_missing"}, ""},
		{400, `{"error":{"type":"card_error","code":"expired_card"}}`, payment.Charge{State: payment.StateFailed, Code: "expired_card"}, ""},
		{200, `{"id":"pi_1","status":"strange"}`, payment.Charge{}, payment.ClassUnavailable},
		{200, `{"id":"","status":"succeeded"}`, payment.Charge{}, payment.ClassUnavailable},
		{200, `not json`, payment.Charge{}, payment.ClassUnavailable},
		{500, `{}`, payment.Charge{}, payment.ClassUnavailable},
		{409, `{}`, payment.Charge{}, payment.ClassUnavailable},
		{401, `{}`, payment.Charge{}, payment.ClassCredentials},
	} {
		status, answer, listed = row.status, row.answer, `{"data":[]}`
		got, err := provider.Charge(t.Context(), chargeOf("cus_1/pm_1"))
		var no *payment.Error
		if row.class != "" {
			require.True(t, errors.As(err, &no), row.answer)
			require.Equal(t, row.class, no.Class, row.answer)
			continue
		}
		require.NoError(t, err, row.answer)
		require.Equal(t, row.want, got)
	}
	require.Equal(t, "POST /v1/payment_intents", asked[0])
	require.Equal(t, "pur_1", key)
	for name, value := range map[string]string{
		"amount": "500", "currency": "usd", "customer": "cus_1", "payment_method": "pm_1",
		"off_session": "true", "confirm": "true", "metadata[tollgate_invoice]": "pur_1",
	} {
		require.Equal(t, value, form.Get(name), name)
	}
}

// TestStripeRefusalsThatAreNoDecline: a refusal other than the card's proves nothing about the
// request before it, whose answer may be lost: that is looked up.
func TestStripeRefusalsThatAreNoDecline(t *testing.T) {
	var refusal, listed string
	looked := 0
	provider := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		answer := refusal
		if r.Method == "GET" {
			looked++
			answer = listed
		}
		if strings.HasPrefix(answer, `{"error"`) {
			w.WriteHeader(400)
		}
		say(t, w, answer)
	})
	const (
		missing = "parameter_missing"
		reused  = `{"error":{"type":"idempotency_error","message":"Keys for idempotent …"}}`
		invalid = `{"error":{"type":"invalid_request_error","code":"parameter_missing"}}`
		card    = `{"error":{"type":"card_error","code":"card_declined"}}`
		none    = `{"data":[]}`
		paid    = `{"data":[{"id":"pi_1","status":"succeeded","metadata":{"tollgate_invoice":"pur_1"}}]}`
		failed  = `{"data":[{"id":"pi_1","status":"canceled","metadata":{"tollgate_invoice":"pur_1"}}]}`
	)
	found := payment.Charge{State: payment.StatePaid, PaymentID: "pi_1"}
	for _, row := range []struct {
		refusal, listed string
		want            payment.Charge
		class           payment.Class
		looks           int
	}{
		{reused, paid, found, "", 1},
		{reused, none, payment.Charge{State: payment.StateOpen}, "", 1},
		{reused, failed, payment.Charge{State: payment.StateFailed, Code: "canceled"}, "", 1},
		{reused, invalid, payment.Charge{}, payment.ClassUnavailable, 1},
		{invalid, paid, found, "", 1},
		{invalid, none, payment.Charge{State: payment.StateFailed, Code: missing}, "", 1},
		{invalid, invalid, payment.Charge{}, payment.ClassUnavailable, 1},
		{card, paid, payment.Charge{State: payment.StateFailed, Code: "card_declined"}, "", 0},
	} {
		refusal, listed, looked = row.refusal, row.listed, 0
		got, err := provider.Charge(t.Context(), chargeOf("cus_1/pm_1"))
		require.Equal(t, row.looks, looked, "%v", row)
		if row.class == "" {
			require.NoError(t, err, "%v", row)
			require.Equal(t, row.want, got)
			continue
		}
		var no *payment.Error
		require.ErrorAs(t, err, &no, "%v", row)
		require.Equal(t, row.class, no.Class)
	}
}

// TestStripeLooks: a charge that is only looked for is found by our id, and never made.
func TestStripeLooks(t *testing.T) {
	answer := ""
	provider := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "GET" || r.URL.Query().Get("customer") != "cus_1" {
			t.Error(r.Method, r.URL)
		}
		say(t, w, answer)
	})
	r := chargeOf("cus_1/pm_1")
	r.OnlyLook = true
	other := `{"id":"pi_0","status":"succeeded","metadata":{"tollgate_invoice":"pur_0"}}`
	for text, want := range map[string]payment.State{
		`{"data":[]}`: payment.StateOpen, `{"data":[` + other + `]}`: payment.StateOpen,
		`{"data":[` + other + `,{"id":"pi_1","status":"succeeded","metadata":{"tollgate_invoice":"pur_1"}}]}`: payment.StatePaid,
		`{"data":[{"id":"pi_1","status":"requires_payment_method","metadata":{"tollgate_invoice":"pur_1"}}]}`: payment.StateFailed,
	} {
		answer = text
		got, err := provider.Charge(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, want, got.State, text)
	}
}

// TestStripeLooksBehindTheNewest: later charges of the merchant's other programs do not hide ours;
// if ours may be beyond the last page, the look-up is an error.
func TestStripeLooksBehindTheNewest(t *testing.T) {
	pages, looked := 0, []url.Values{}
	provider := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		looked = append(looked, r.URL.Query())
		if len(looked) < pages {
			say(t, w, fmt.Sprintf(`{"has_more":true,"data":[{"id":"pi_x%d","status":"succeeded"}]}`,
				len(looked)))
			return
		}
		say(t, w, `{"data":[{"id":"pi_1","status":"succeeded","metadata":{"tollgate_invoice":"pur_1"}}]}`)
	})
	r := chargeOf("cus_1/pm_1")
	r.OnlyLook, r.AskedAt, pages = true, time.Unix(1_700_003_600, 0), 3
	got, err := provider.Charge(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, payment.Charge{State: payment.StatePaid, PaymentID: "pi_1"}, got)
	require.Equal(t, []string{"", "pi_x1", "pi_x2"}, []string{
		looked[0].Get("starting_after"), looked[1].Get("starting_after"), looked[2].Get("starting_after"),
	})
	for _, query := range looked {
		require.Equal(t, "1700000000", query.Get("created[gte]"))
	}
	pages, looked = 1000, nil
	_, err = provider.Charge(t.Context(), r)
	var no *payment.Error
	require.ErrorAs(t, err, &no)
	require.Equal(t, payment.ClassUnavailable, no.Class)
}

// TestStripeClosesAndRefunds: a page that cannot be closed is asked for; money goes back once.
func TestStripeClosesAndRefunds(t *testing.T) {
	var expire, session, refund string
	provider := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		answer := session
		switch {
		case strings.HasSuffix(r.URL.Path, "/expire"):
			answer = expire
		case r.URL.Path == "/v1/refunds":
			answer = refund
		}
		if strings.HasPrefix(answer, `{"error"`) {
			w.WriteHeader(400)
		}
		say(t, w, answer)
	})
	expire = `{"id":"cs_1","status":"expired"}`
	closed, err := provider.CloseCheckout(t.Context(), "cs_1")
	require.NoError(t, err)
	require.Equal(t, payment.StateExpired, closed.State)
	expire = `{"error":{"message":"Only Checkout Sessions with a status in [open] can be expired."}}`
	session = `{"id":"cs_1","status":"complete","payment_status":"paid","amount_total":500,"currency":"usd"}`
	closed, err = provider.CloseCheckout(t.Context(), "cs_1")
	require.NoError(t, err)
	require.Equal(t, payment.StatePaid, closed.State)
	_, err = provider.CloseCheckout(t.Context(), "cs 1")
	require.Error(t, err)

	refund = `{"id":"re_1","status":"pending"}`
	r := payment.RefundRequest{PaymentID: "pi_1", IdempotencyKey: "pur_1-refund"}
	id, err := provider.Refund(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, "re_1", id)
	refund = `{"error":{"code":"charge_already_refunded"}}`
	_, err = provider.Refund(t.Context(), r)
	require.NoError(t, err)
	for _, refund = range []string{`{"id":"re_1","status":"failed"}`, `{"error":{"code":"x"}}`, `{}`} {
		_, err = provider.Refund(t.Context(), r)
		require.Error(t, err, refund)
	}
}
