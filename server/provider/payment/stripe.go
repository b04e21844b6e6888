package payment

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate/engine/decimal"
	"tollgate/server/ascii"
	"tollgate/server/provider/fetch"
)

const (
	stripeName = "stripe"
	// stripeVersion pins the shape of requests and answers; raising it means reading Stripe's
	// changelog and running the contract suite against a stripe-mock of that version.
	stripeVersion = "2026-08-26.dahlia"
	// stripeInvoice is the metadata key that identifies our sessions.
	stripeInvoice = "tollgate_invoice"
)

// StripeConfig is one account's environment at Stripe.
type StripeConfig struct {
	// BaseURL is Stripe's API, "https://api.stripe.com" when empty. The client must be able to
	// reach it.
	BaseURL string
	// SecretKey is sk_… or rk_…; WebhookSecret is the endpoint's whsec_….
	SecretKey, WebhookSecret Secret
	// Live is the Stripe mode that events must be of.
	Live bool
	// Tag is the metadata key by which sessions and payments are known to be ours;
	// "tollgate_invoice" when empty. Several uses of one Stripe account need one each.
	Tag string
}

type stripe struct {
	client *fetch.Client
	config StripeConfig
}

// NewStripe makes a provider that talks Stripe's Checkout Sessions over its HTTP API.
func NewStripe(client *fetch.Client, c StripeConfig) (CardProvider, error) {
	c.Tag = cmp.Or(c.Tag, stripeInvoice)
	c.BaseURL = cmp.Or(c.BaseURL, "https://api.stripe.com")
	base, err := url.Parse(c.BaseURL)
	if err != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, errors.New("payment: stripe: the base address is not a plain URL")
	}
	if err := client.Check(c.BaseURL); err != nil {
		return nil, err
	}
	if !ascii.Visible(string(c.SecretKey), 255) || !ascii.Visible(string(c.WebhookSecret), 255) {
		return nil, errors.New("payment: stripe: secretKey and webhookSecret are both needed")
	}
	c.BaseURL = strings.TrimRight(c.BaseURL, "/")
	return &stripe{client, c}, nil
}

func (s *stripe) Name() string { return stripeName }

// session is what we read of Stripe's Checkout Session object.
type session struct {
	ID            string            `json:"id"`
	URL           string            `json:"url"`
	Status        string            `json:"status"`
	PaymentStatus string            `json:"payment_status"`
	AmountTotal   int64             `json:"amount_total"`
	Currency      string            `json:"currency"`
	Metadata      map[string]string `json:"metadata"`
	ExpiresAt     int64             `json:"expires_at"`
	Customer      string            `json:"customer"`
	// PaymentIntent is an id, an object where it was asked for, or null.
	PaymentIntent jsontext.Value `json:"payment_intent"`
}

// CreateCheckout sends nothing that depends on the moment of sending: Stripe compares the
// parameters of two requests with one Idempotency-Key.
func (s *stripe) CreateCheckout(ctx context.Context, r CheckoutRequest) (Checkout, error) {
	if err := r.validate(stripeName); err != nil {
		return Checkout{}, err
	}
	amount, ok := stripeAmount(r.Amount)
	if !ok {
		return Checkout{}, failure(ClassRefused, stripeName, "amount_not_exact",
			"Stripe cannot charge exactly "+r.Amount.String())
	}
	currency := strings.ToLower(r.Amount.Currency)
	form := url.Values{
		// The invoice's currency and amount, not what Stripe would offer a payer from elsewhere.
		"adaptive_pricing[enabled]":      {"false"},
		"mode":                           {"payment"},
		"client_reference_id":            {r.InvoiceID},
		"metadata[" + s.config.Tag + "]": {r.InvoiceID},
		"payment_intent_data[metadata][" + s.config.Tag + "]": {r.InvoiceID},
		"line_items[0][quantity]":                             {"1"},
		"line_items[0][price_data][currency]":                 {currency},
		"line_items[0][price_data][unit_amount]":              {strconv.FormatInt(amount, 10)},
		"line_items[0][price_data][product_data][name]":       {r.Description},
		"success_url": {r.SuccessURL},
		"cancel_url":  {r.CancelURL},
	}
	if r.SaveCard {
		// A customer of its own for each page: the card is charged as that customer's.
		form.Set("customer_creation", "always")
		form.Set("payment_intent_data[setup_future_usage]", "off_session")
		form.Set("payment_method_types[0]", "card")
	}
	var made session
	err := s.post(ctx, "/v1/checkout/sessions", r.IdempotencyKey, form, &made)
	if err != nil {
		return Checkout{}, err
	}
	if !ascii.Visible(made.ID, 255) || !returnURL(made.URL) {
		return Checkout{}, unreadable()
	}
	return Checkout{ID: made.ID, URL: made.URL, ExpiresAt: time.Unix(made.ExpiresAt, 0).UTC()}, nil
}

func (s *stripe) Checkout(ctx context.Context, id string) (Status, error) {
	if !ascii.Visible(id, 255) {
		return Status{}, failure(ClassNotFound, stripeName, "invalid_id", "not an id")
	}
	var found session
	path := "/v1/checkout/sessions/" + url.PathEscape(id) + "?expand[]=payment_intent"
	err := s.ask(ctx, &fetch.Request{URL: s.config.BaseURL + path}, &found)
	if err != nil {
		return Status{}, err
	}
	state, ok := found.state()
	amount, exact := found.amount()
	if !ok || !exact || found.ID != id {
		return Status{}, unreadable()
	}
	status := Status{ID: id, State: state, InvoiceID: found.Metadata[s.config.Tag], Amount: amount}
	if state == StatePaid {
		status.PaymentID, status.Card = found.payment()
	}
	return status, nil
}

// post sends a form; key is the Idempotency-Key, empty if none is needed.
func (s *stripe) post(ctx context.Context, path, key string, form url.Values, v any) error {
	r := &fetch.Request{
		Method: http.MethodPost, URL: s.config.BaseURL + path,
		Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
		Body:   []byte(form.Encode()),
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return s.ask(ctx, r, v)
}

// state maps Stripe's two fields, and the payment intent's where the money came later or not.
func (s *session) state() (State, bool) {
	switch s.Status {
	case "open":
		return StateOpen, true
	case "expired":
		return StateExpired, true
	case "complete":
	default:
		return "", false
	}
	if s.paid() {
		return StatePaid, true
	}
	var intent struct {
		Status string `json:"status"`
	}
	if s.PaymentIntent.Kind() == '{' {
		if err := json.Unmarshal(s.PaymentIntent, &intent); err != nil {
			return "", false
		}
	}
	if intent.Status == "requires_payment_method" || intent.Status == "canceled" {
		return StateFailed, true
	}
	return StateProcessing, true
}

func (s *session) paid() bool {
	return s.PaymentStatus == "paid" || s.PaymentStatus == "no_payment_required"
}

// amount is the session's total in our units; a session may be without one.
func (s *session) amount() (Amount, bool) {
	if s.Currency == "" {
		return Amount{}, true
	}
	return fromStripe(s.AmountTotal, strings.ToUpper(s.Currency))
}

// ask makes one request, decodes the answer into v, and sorts what can go wrong with it.
func (s *stripe) ask(ctx context.Context, r *fetch.Request, v any) error {
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Authorization", "Bearer "+string(s.config.SecretKey))
	r.Header.Set("Stripe-Version", stripeVersion)
	answer, err := s.client.Do(ctx, r)
	if err != nil {
		return unanswered(ctx, err)
	}
	if answer.Status != http.StatusOK {
		return stripeError(answer)
	}
	if err := json.Unmarshal(answer.Body, v); err != nil {
		return unreadable()
	}
	return nil
}

func unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var refusal *fetch.Refusal
	if errors.As(err, &refusal) {
		return failure(ClassUnavailable, stripeName, string(refusal.Rule), cut(refusal.Error()))
	}
	return failure(ClassUnavailable, stripeName, "no_answer", cut(err.Error()))
}

// unreadable is an unusable success: the result is unknown.
func unreadable() error {
	return failure(ClassUnavailable, stripeName, "unreadable_answer",
		"Stripe's answer is not of the documented form")
}

// stripeError sorts by status (https://docs.stripe.com/api/errors): 409 and 429 are to be repeated,
// and so is everything that a gateway may have answered.
func stripeError(answer *fetch.Response) error {
	var body struct {
		Error struct {
			Type    string `json:"type"`
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	// A body that is not JSON comes from an intermediary; then the status decides.
	if err := json.Unmarshal(answer.Body, &body); err != nil {
		body.Error.Message = ""
	}
	e := &Error{
		Class: ClassRefused, Provider: stripeName, Code: body.Error.Code,
		Message: cut(body.Error.Message), kind: body.Error.Type, status: answer.Status,
	}
	e.Code = cmp.Or(e.Code, body.Error.Type, "status_"+strconv.Itoa(answer.Status))
	switch status := answer.Status; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		// Stripe's text repeats parts of the key.
		e.Class, e.Message = ClassCredentials, "Stripe does not accept the secret key for this"
	case status == http.StatusNotFound:
		e.Class = ClassNotFound
	case status == http.StatusConflict, status == http.StatusTooManyRequests, status >= 500,
		status < 400:
		e.Class = ClassUnavailable
		if seconds, err := strconv.ParseUint(answer.Header.Get("Retry-After"), 10, 16); err == nil {
			e.RetryAfter = time.Duration(seconds) * time.Second
		}
	}
	e.Code = cut(e.Code)
	return e
}

func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), 300)], "")
}

// stripePlaces returns Stripe's decimals of a currency, and the multiple of its unit that it
// charges (https://docs.stripe.com/currencies). A currency whose scale there is not known for
// certain is refused: a wrong one charges a hundred times too much.
func stripePlaces(currency string) (places int, step int64, ok bool) {
	switch currency {
	case "BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "VND", "VUV",
		"XAF", "XOF", "XPF":
		return 0, 1, true
	case "ISK":
		// Counted with two decimals that must be zero.
		return 2, 100, true
	case "BHD", "JOD", "KWD", "OMR", "TND":
		// The last digit must be zero.
		return 3, 10, true
	}
	iso, known := decimal.MinorUnits(currency)
	return 2, 1, known && iso == 2
}

// stripeAmount converts exactly or not at all.
func stripeAmount(a Amount) (int64, bool) {
	places, step, ok := stripePlaces(a.Currency)
	if !ok {
		return 0, false
	}
	ours, _ := decimal.MinorUnits(a.Currency)
	amount, ok := rescale(a.Minor, ours, places)
	return amount, ok && amount%step == 0
}

func fromStripe(amount int64, currency string) (Amount, bool) {
	places, _, ok := stripePlaces(currency)
	if !ok {
		return Amount{}, false
	}
	ours, _ := decimal.MinorUnits(currency)
	minor, ok := rescale(amount, places, ours)
	return Amount{minor, currency}, ok && minor >= 0
}

func rescale(n int64, from, to int) (int64, bool) {
	const maximum = int64(1) << 53
	if n > maximum || n < -maximum {
		return 0, false
	}
	for ; from < to; from++ {
		n *= 10
	}
	for ; from > to; from-- {
		if n%10 != 0 {
			return 0, false
		}
		n /= 10
	}
	return n, true
}
