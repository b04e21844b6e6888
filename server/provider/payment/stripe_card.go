package payment

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate/server/ascii"
	"tollgate/server/provider/fetch"
)

// intent is what we read of Stripe's Payment Intent object.
type intent struct {
	ID            string            `json:"id"`
	Status        string            `json:"status"`
	PaymentMethod string            `json:"payment_method"`
	Metadata      map[string]string `json:"metadata"`
}

// payment is the payment of a session that is paid, and the card that was saved with it where the
// answer has both of its parts: the customer and the payment method.
func (s *session) payment() (id, card string) {
	if json.Unmarshal(s.PaymentIntent, &id) == nil {
		return checked(id), ""
	}
	var i intent
	if json.Unmarshal(s.PaymentIntent, &i) != nil {
		return "", ""
	}
	if s.Customer != "" && i.PaymentMethod != "" {
		card = checked(s.Customer + "/" + i.PaymentMethod)
	}
	return checked(i.ID), card
}

// checked is a name of Stripe's, or nothing where it is not of the documented form.
func checked(name string) string {
	if !ascii.Visible(name, 255) {
		return ""
	}
	return name
}

// Charge makes a Payment Intent that is confirmed at once, off session.
func (s *stripe) Charge(ctx context.Context, r ChargeRequest) (Charge, error) {
	if err := r.validate(stripeName); err != nil {
		return Charge{}, err
	}
	amount, exact := stripeAmount(r.Amount)
	customer, method, ok := strings.Cut(r.Card, "/")
	if !exact || !ok || !strings.HasPrefix(customer, "cus_") {
		return Charge{}, failure(ClassRefused, stripeName, "invalid_card",
			"the card was not saved with this provider, or cannot be charged "+r.Amount.String())
	}
	if r.OnlyLook {
		return s.look(ctx, customer, &r)
	}
	var made intent
	err := s.post(ctx, "/v1/payment_intents", r.IdempotencyKey, url.Values{
		"amount": {strconv.FormatInt(amount, 10)}, "currency": {strings.ToLower(r.Amount.Currency)},
		"customer": {customer}, "payment_method": {method}, "payment_method_types[0]": {"card"},
		"off_session": {"true"}, "confirm": {"true"}, "description": {r.Description},
		"metadata[" + s.config.Tag + "]": {r.InvoiceID},
	}, &made)
	var no *Error
	if errors.As(err, &no) && (no.Class == ClassRefused || no.Class == ClassNotFound) {
		return s.refused(ctx, no, customer, &r)
	}
	if err == nil && made.Status == "processing" {
		// A repeated request gets the first answer.
		err = s.ask(ctx, &fetch.Request{
			URL: s.config.BaseURL + "/v1/payment_intents/" + url.PathEscape(made.ID),
		}, &made)
	}
	if err != nil {
		return Charge{}, err
	}
	return made.charge()
}

// Stripe's types of errors (https://docs.stripe.com/api/errors): a card that declined, and a key
// that was used for a request with other parameters.
const (
	typeCard        = "card_error"
	typeIdempotency = "idempotency_error"
)

// refused is the result of a charge that Stripe refuses. Only the card's own refusal is about the
// charge. Any other is about this request, and an earlier one, whose answer may be lost, may have
// charged: it is looked up. A key that was used with other parameters proves an earlier one, so
// without a trace the state is StateOpen and not StateFailed.
func (s *stripe) refused(
	ctx context.Context, no *Error, customer string, r *ChargeRequest,
) (Charge, error) {
	if no.status == http.StatusPaymentRequired || no.kind == typeCard {
		return Charge{State: StateFailed, Code: no.Code}, nil
	}
	found, err := s.look(ctx, customer, r)
	var other *Error
	switch {
	case errors.As(err, &other):
		// A refused lookup proves nothing about the charge.
		unsure := *other
		unsure.Class = ClassUnavailable
		return Charge{}, &unsure
	case err != nil || found.State != StateOpen || no.kind == typeIdempotency:
		return found, err
	}
	return Charge{State: StateFailed, Code: no.Code}, nil
}

// charge is what an intent came to.
func (i *intent) charge() (Charge, error) {
	switch i.Status {
	case "succeeded":
		if !ascii.Visible(i.ID, 255) {
			return Charge{}, unreadable()
		}
		return Charge{State: StatePaid, PaymentID: i.ID}, nil
	case "requires_action", "requires_payment_method", "requires_confirmation", "canceled":
		return Charge{State: StateFailed, Code: i.Status}, nil
	}
	return Charge{}, unreadable()
}

const (
	// lookPages bounds how many pages of 100 intents are looked through: a customer of ours may be
	// one of the merchant's other programs, too.
	lookPages = 50
	// clocksDiffer is by how much our clock may be ahead of Stripe's.
	clocksDiffer = time.Hour
)

// look asks for the newest of a customer's intents that carries our id. StateOpen: there is none.
// Where there are more than it looks through, nothing is known: an error.
func (s *stripe) look(ctx context.Context, customer string, r *ChargeRequest) (Charge, error) {
	query := url.Values{"customer": {customer}, "limit": {"100"}}
	if !r.AskedAt.IsZero() {
		since := r.AskedAt.Add(-clocksDiffer).Unix()
		query.Set("created[gte]", strconv.FormatInt(since, 10))
	}
	for range lookPages {
		var found struct {
			Data []intent `json:"data"`
			More bool     `json:"has_more"`
		}
		err := s.ask(ctx, &fetch.Request{
			Method: http.MethodGet, URL: s.config.BaseURL + "/v1/payment_intents?" + query.Encode(),
		}, &found)
		if err != nil {
			return Charge{}, err
		}
		for i := range found.Data {
			if found.Data[i].Metadata[s.config.Tag] == r.InvoiceID {
				return found.Data[i].charge()
			}
		}
		if !found.More {
			return Charge{State: StateOpen}, nil
		}
		if len(found.Data) == 0 {
			return Charge{}, unreadable()
		}
		query.Set("starting_after", found.Data[len(found.Data)-1].ID)
	}
	return Charge{}, failure(ClassUnavailable, stripeName, "too_many_payments",
		"the customer has more payments than are looked through: nothing was charged, and the payment "+
			"stays pending; look at Stripe whether it is paid, and mark the invoice paid or void it")
}

// CloseCheckout expires a session. Only an open one can be expired: of another, Stripe is asked
// what became of it.
func (s *stripe) CloseCheckout(ctx context.Context, id string) (Status, error) {
	if !ascii.Visible(id, 255) {
		return Status{}, failure(ClassNotFound, stripeName, "invalid_id", "not an id")
	}
	var closed session
	path := "/v1/checkout/sessions/" + url.PathEscape(id) + "/expire"
	err := s.post(ctx, path, "", url.Values{}, &closed)
	var no *Error
	if errors.As(err, &no) && no.Class == ClassRefused {
		return s.Checkout(ctx, id)
	}
	if err != nil {
		return Status{}, err
	}
	return Status{ID: id, State: StateExpired, InvoiceID: closed.Metadata[s.config.Tag]}, nil
}

// Refund sends a Payment Intent's money back.
func (s *stripe) Refund(ctx context.Context, r RefundRequest) (string, error) {
	var made struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	}
	err := s.post(ctx, "/v1/refunds", r.IdempotencyKey, url.Values{
		"payment_intent": {r.PaymentID},
	}, &made)
	var no *Error
	if errors.As(err, &no) && no.Code == "charge_already_refunded" {
		return "refunded before", nil
	}
	if err != nil {
		return "", err
	}
	if !ascii.Visible(made.ID, 255) || made.Status == "failed" || made.Status == "canceled" {
		return "", unreadable()
	}
	return made.ID, nil
}
