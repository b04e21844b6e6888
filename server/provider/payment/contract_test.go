package payment_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/provider/fetch"
	"tollgate/server/provider/payment"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// signed is a genuine webhook of a provider.
type signed struct {
	header http.Header
	body   []byte
}

// subject is a provider under the contract, with its test fixtures.
type subject struct {
	provider payment.CardProvider
	// card is one that was saved, and can be charged.
	card string
	// paid makes a genuine webhook, sent at noon, that a checkout was paid.
	paid func(t *testing.T, r payment.CheckoutRequest, c payment.Checkout) signed
	// repeats: the provider answers a repeated request with the same checkout. stripe-mock keeps
	// nothing and makes ids up.
	repeats bool
}

func request() payment.CheckoutRequest {
	return payment.CheckoutRequest{
		InvoiceID: "0198c1de-0000-7000-8000-000000000001", Description: "Invoice 2026-000012",
		Amount:     payment.Amount{Minor: 123456, Currency: "USD"},
		SuccessURL: "https://shop.example/thanks?a=b&c=d", CancelURL: "https://shop.example/cart",
		IdempotencyKey: "checkout-1", RequestedAt: noon,
	}
}

func newFetch(t *testing.T, hosts ...string) *fetch.Client {
	t.Helper()
	client, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, AllowHosts: hosts,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func TestContract(t *testing.T) {
	for name, subject := range map[string]func(*testing.T) subject{
		"sandbox": sandboxSubject, "stripe": stripeSubject,
	} {
		t.Run(name, func(t *testing.T) {
			s := subject(t)
			require.Equal(t, name, s.provider.Name())
			t.Run("checkout", func(t *testing.T) { contractCheckout(t, s) })
			t.Run("refusals", func(t *testing.T) { contractRefusals(t, s) })
			t.Run("webhook", func(t *testing.T) { contractWebhook(t, s) })
			t.Run("cards", func(t *testing.T) { contractCards(t, s) })
		})
	}
}

func contractCheckout(t *testing.T, s subject) {
	made, err := s.provider.CreateCheckout(t.Context(), request())
	require.NoError(t, err)
	require.NotEmpty(t, made.ID)
	require.Regexp(t, "^https?://", made.URL)
	require.False(t, made.ExpiresAt.IsZero())
	status, err := s.provider.Checkout(t.Context(), made.ID)
	require.NoError(t, err)
	require.Equal(t, made.ID, status.ID)
	require.Equal(t, payment.StateOpen, status.State)
	for _, currency := range []string{"JPY", "KWD", "EUR", "ISK", "MGA"} {
		r := request()
		r.Amount = payment.Amount{Minor: 5000, Currency: currency}
		_, err := s.provider.CreateCheckout(t.Context(), r)
		require.NoError(t, err, currency)
	}
	if !s.repeats {
		return
	}
	again, err := s.provider.CreateCheckout(t.Context(), request())
	require.NoError(t, err)
	require.Equal(t, made, again)
	other := request()
	other.IdempotencyKey = "checkout-2"
	second, err := s.provider.CreateCheckout(t.Context(), other)
	require.NoError(t, err)
	require.NotEqual(t, made.ID, second.ID)
}

func contractRefusals(t *testing.T, s subject) {
	for code, change := range map[string]func(*payment.CheckoutRequest){
		"invalid_invoice":     func(r *payment.CheckoutRequest) { r.InvoiceID = "a b" },
		"invalid_key":         func(r *payment.CheckoutRequest) { r.IdempotencyKey = "k\r\nX: y" },
		"invalid_description": func(r *payment.CheckoutRequest) { r.Description = "" },
		"invalid_currency":    func(r *payment.CheckoutRequest) { r.Amount.Currency = "usd" },
		"invalid_amount":      func(r *payment.CheckoutRequest) { r.Amount.Minor = 0 },
		"invalid_time":        func(r *payment.CheckoutRequest) { r.RequestedAt = time.Time{} },
		"invalid_url":         func(r *payment.CheckoutRequest) { r.CancelURL = "javascript:alert(1)" },
	} {
		r := request()
		change(&r)
		_, err := s.provider.CreateCheckout(t.Context(), r)
		var refused *payment.Error
		require.ErrorAs(t, err, &refused, code)
		require.Equal(t, payment.ClassRefused, refused.Class, code)
		require.Equal(t, code, refused.Code)
	}
	for _, address := range []string{
		"/relative", "https://u@a.example/", "https:///x", strings.Repeat("https://a.example/", 120),
	} {
		r := request()
		r.SuccessURL = address
		_, err := s.provider.CreateCheckout(t.Context(), r)
		require.Error(t, err, address)
	}
	_, err := s.provider.Checkout(t.Context(), "no such\nid")
	var missing *payment.Error
	require.ErrorAs(t, err, &missing)
	require.Equal(t, payment.ClassNotFound, missing.Class)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.provider.CreateCheckout(over, request())
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.provider.Checkout(over, "cs_1")
	require.ErrorIs(t, err, context.Canceled)
}

func contractWebhook(t *testing.T, s subject) {
	r := request()
	made, err := s.provider.CreateCheckout(t.Context(), r)
	require.NoError(t, err)
	w := s.paid(t, r, made)
	event, err := s.provider.ParseWebhook(noon, w.header.Get, w.body)
	require.NoError(t, err)
	require.NotEmpty(t, event.ID)
	require.NotEmpty(t, event.Type)
	require.Equal(t, payment.Event{
		ID: event.ID, Kind: payment.EventPaid, Type: event.Type,
		CheckoutID: made.ID, InvoiceID: r.InvoiceID,
		Amount: r.Amount, OccurredAt: noon, PaymentID: event.PaymentID,
	}, event)
	require.NotEmpty(t, event.PaymentID)
	again, err := s.provider.ParseWebhook(noon.Add(time.Minute), w.header.Get, w.body)
	require.NoError(t, err)
	require.Equal(t, event, again, "a repetition is known by its id")

	refuse := func(want error, now time.Time, header http.Header, body []byte) {
		t.Helper()
		_, err := s.provider.ParseWebhook(now, header.Get, body)
		require.ErrorIs(t, err, want)
	}
	refuse(payment.ErrTimestamp, noon.Add(5*time.Minute+time.Second), w.header, w.body)
	refuse(payment.ErrTimestamp, noon.Add(-5*time.Minute-time.Second), w.header, w.body)
	refuse(payment.ErrSignature, noon, http.Header{}, w.body)
	refuse(payment.ErrSignature, noon, w.header, append([]byte(" "), w.body...))
	refuse(payment.ErrSignature, noon, w.header, nil)
	refuse(payment.ErrPayload, noon, w.header, make([]byte, payment.MaxWebhook+1))
	for name := range w.header {
		missing := w.header.Clone()
		missing.Del(name)
		refuse(payment.ErrSignature, noon, missing, w.body)
		bent := w.header.Clone()
		bent.Set(name, bent.Get(name)+"x")
		refuse(payment.ErrSignature, noon, bent, w.body)
	}
}

// contractCards: a page saves a card and is closed, the card is charged, the money sent back.
func contractCards(t *testing.T, s subject) {
	saving := request()
	saving.SaveCard, saving.IdempotencyKey = true, "checkout-card"
	made, err := s.provider.CreateCheckout(t.Context(), saving)
	require.NoError(t, err)
	closed, err := s.provider.CloseCheckout(t.Context(), made.ID)
	require.NoError(t, err)
	require.Equal(t, payment.StateExpired, closed.State)

	r := payment.ChargeRequest{
		InvoiceID: "pur_1", Description: "2 hosted runs", IdempotencyKey: "pur_1", Card: s.card,
		Amount: payment.Amount{Minor: 1000, Currency: "USD"},
	}
	charged, err := s.provider.Charge(t.Context(), r)
	require.NoError(t, err)
	require.Contains(t, []payment.State{payment.StatePaid, payment.StateFailed}, charged.State)
	if s.repeats {
		require.Equal(t, payment.StatePaid, charged.State)
		again, err := s.provider.Charge(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, charged, again, "a repetition is the same payment")
	}
	refund, err := s.provider.Refund(t.Context(), payment.RefundRequest{
		PaymentID: "pi_1", IdempotencyKey: "pur_1-refund",
	})
	require.NoError(t, err)
	require.NotEmpty(t, refund)
	for code, change := range map[string]func(*payment.ChargeRequest){
		"invalid_invoice":     func(r *payment.ChargeRequest) { r.InvoiceID = "a b" },
		"invalid_key":         func(r *payment.ChargeRequest) { r.IdempotencyKey = "" },
		"invalid_description": func(r *payment.ChargeRequest) { r.Description = "" },
		"invalid_card":        func(r *payment.ChargeRequest) { r.Card = "card_of_another" },
		"invalid_currency":    func(r *payment.ChargeRequest) { r.Amount.Currency = "usd" },
		"invalid_amount":      func(r *payment.ChargeRequest) { r.Amount.Minor = 0 },
	} {
		bad := r
		change(&bad)
		_, err := s.provider.Charge(t.Context(), bad)
		var refused *payment.Error
		require.ErrorAs(t, err, &refused, code)
		require.Equal(t, payment.ClassRefused, refused.Class, code)
		require.Equal(t, code, refused.Code)
	}
}

func TestAmounts(t *testing.T) {
	for text, amount := range map[string]payment.Amount{
		"12.34 USD": {Minor: 1234, Currency: "USD"}, "0.05 USD": {Minor: 5, Currency: "USD"},
		"1234 JPY": {Minor: 1234, Currency: "JPY"}, "1.234 KWD": {Minor: 1234, Currency: "KWD"},
	} {
		require.Equal(t, text, amount.String())
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	var log strings.Builder
	config := payment.StripeConfig{SecretKey: "sk_test_hidden", WebhookSecret: "whsec_hidden"}
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", config.SecretKey, "all", config)
	key := config.SecretKey
	text := log.String() + fmt.Sprintf("%v %+v %#v %s %q %x", config, config, config, key, key, key)
	require.NotContains(t, text, "hidden")
	require.NotContains(t, text, fmt.Sprintf("%x", "hidden"))
	_, err := config.SecretKey.MarshalText()
	require.Error(t, err)
	require.False(t, errors.Is(err, payment.ErrSignature))
}
