// Package payment collects invoices through a payment provider's hosted page. Card data never
// touches this server. See DESIGN.md for a provider's contract and its two implementations.
package payment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"time"

	"tollgate/engine/decimal"
	"tollgate/server/ascii"
)

// Provider is a payment provider with the keys of one account's environment. Methods are safe for
// concurrent use. The contract suite in the tests holds for each.
type Provider interface {
	// Name is the value of the account's setting: "sandbox", "stripe".
	Name() string
	// CreateCheckout makes a hosted page for an invoice. Repeating the same request is safe and
	// answers the same checkout; a new one needs a new IdempotencyKey. Errors are *Error or the
	// context's.
	CreateCheckout(ctx context.Context, r CheckoutRequest) (Checkout, error)
	// Checkout asks what became of a checkout, for reconciliation where no webhook came. Errors
	// are *Error or the context's.
	Checkout(ctx context.Context, id string) (Status, error)
	// ParseWebhook verifies a webhook and returns its event. It may come repeatedly, late and in
	// any order: Event.ID and the state of the invoice are the caller's protection. header returns
	// a request header, empty where absent. Errors are ErrSignature, ErrTimestamp or ErrPayload.
	ParseWebhook(now time.Time, header func(name string) string, body []byte) (Event, error)
}

// Amount is money in the smallest unit of an ISO 4217 currency, as engine/decimal counts it: USD
// 1234 is 12.34 dollars, JPY 1234 is 1,234 yen, KWD 1234 is 1.234 dinars.
type Amount struct {
	Minor    int64
	Currency string
}

// String is the amount in the currency's main unit: "12.34 USD".
func (a Amount) String() string {
	places, _ := decimal.MinorUnits(a.Currency)
	text := fmt.Sprintf("%0*d", places+1, a.Minor)
	if places > 0 {
		text = text[:len(text)-places] + "." + text[len(text)-places:]
	}
	return text + " " + a.Currency
}

// CheckoutLife is how long a hosted page can be paid.
const CheckoutLife = 24 * time.Hour

// CheckoutRequest asks for a hosted page.
type CheckoutRequest struct {
	// InvoiceID is 1 to 128 visible ASCII characters; events and polls carry it back.
	InvoiceID string
	// Description is what the payer reads, 1 to 200 bytes: "Invoice 2026-000012".
	Description string
	// Amount is positive.
	Amount Amount
	// SuccessURL and CancelURL are where the page leads afterwards: http or https, at most 2,048
	// bytes, no userinfo.
	SuccessURL, CancelURL string
	// IdempotencyKey is 1 to 255 visible ASCII characters.
	IdempotencyKey string
	// SaveCard keeps the card for later charges without its owner; see CardProvider.
	SaveCard bool
	// RequestedAt is the log's time of the request, and is part of it: a repetition carries the
	// same.
	RequestedAt time.Time
}

// Checkout is a hosted page that was made.
type Checkout struct {
	// ID is the provider's, at most 255 visible ASCII characters.
	ID  string
	URL string
	// ExpiresAt is when the page can no longer be paid.
	ExpiresAt time.Time
}

// State is what became of a checkout.
type State string

// The states. They are stored and never renamed.
const (
	// StateOpen: the page waits for the payer.
	StateOpen State = "open"
	// StateProcessing: the payer is done, the money is on its way (bank debits).
	StateProcessing State = "processing"
	// StatePaid is final.
	StatePaid State = "paid"
	// StateFailed: the money did not come. A new checkout is needed.
	StateFailed State = "failed"
	// StateExpired: not paid in time.
	StateExpired State = "expired"
)

// Status is the answer to a poll. InvoiceID and Amount are zero where the provider does not name
// them.
type Status struct {
	ID        string
	State     State
	InvoiceID string
	Amount    Amount
	// PaymentID is the provider's id of the payment of a checkout that is paid, and Card the card
	// that was saved with it, 1 to 255 visible ASCII characters.
	PaymentID, Card string
}

// EventKind is what a webhook reports.
type EventKind string

// The kinds. They are stored and never renamed.
const (
	EventPaid       EventKind = "paid"
	EventProcessing EventKind = "processing"
	EventFailed     EventKind = "failed"
	EventExpired    EventKind = "expired"
	// EventOther is genuine and changes nothing (a refund, a dispute, a session of the account's
	// own); answer 200 so that it is not repeated. Only ID, Type and OccurredAt are set, and
	// InvoiceID where it names one of ours.
	EventOther EventKind = "other"
)

// Event is a verified webhook.
type Event struct {
	// ID is the provider's and the same in every repetition.
	ID   string
	Kind EventKind
	// Type is the provider's own word, 1 to 64 visible ASCII characters.
	Type       string
	CheckoutID string
	InvoiceID  string
	Amount     Amount
	// PaymentID and Card are as in Status, where the webhook has them.
	PaymentID, Card string
	// OccurredAt is by the provider's clock, in whole seconds or finer.
	OccurredAt time.Time
}

// Why a webhook is not accepted.
var (
	// ErrSignature: not signed with the configured secret.
	ErrSignature = errors.New("payment: the webhook's signature does not match")
	// ErrTimestamp: signed more than five minutes ago or ahead.
	ErrTimestamp = errors.New("payment: the webhook's timestamp is outside five minutes")
	// ErrPayload: genuine, but not what the provider's documents promise.
	ErrPayload = errors.New("payment: the webhook's payload is not understood")
)

// MaxWebhook bounds a webhook's body in bytes.
const MaxWebhook = 256 << 10

// Class is how to handle an Error.
type Class string

// The classes.
const (
	// ClassRefused: the same request will be refused again. Nothing was charged.
	ClassRefused Class = "refused"
	// ClassCredentials: the account's key is wrong or may not do this.
	ClassCredentials Class = "credentials"
	// ClassNotFound: the provider knows no such checkout.
	ClassNotFound Class = "not_found"
	// ClassUnavailable: whether it happened is unknown; repeat the same request later.
	ClassUnavailable Class = "unavailable"
)

// Error is a provider's no. It holds no secret and no path of a URL.
type Error struct {
	Class    Class
	Provider string
	// Code is the provider's own, or ours where the request was not sent.
	Code string
	// Message is for the account's people, at most 300 bytes.
	Message string
	// RetryAfter is what the provider asked for; 0 is nothing.
	RetryAfter time.Duration
	// kind is the provider's own sort of error, and status that of its answer, if known.
	kind   string
	status int
}

func failure(class Class, provider, code, message string) *Error {
	return &Error{Class: class, Provider: provider, Code: code, Message: message}
}

func (e *Error) Error() string {
	return fmt.Sprintf("payment: %s: %s (%s): %s", e.Provider, e.Class, e.Code, e.Message)
}

// Secret is a key or a signing secret that no verb and no logger shows.
type Secret string

// Format hides the secret from every verb.
func (Secret) Format(f fmt.State, _ rune) {
	fmt.Fprint(f, "[secret]")
}

// LogValue hides the secret.
func (Secret) LogValue() slog.Value { return slog.StringValue("[secret]") }

// MarshalText refuses: a secret is stored on purpose or not at all.
func (Secret) MarshalText() ([]byte, error) {
	return nil, errors.New("payment: a secret is not marshalled by accident")
}

// demand is the common part of requests for money.
type demand struct {
	provider, invoice, key, description string
	amount                              Amount
}

func (d *demand) refuse(code, message string) error {
	return &Error{Class: ClassRefused, Provider: d.provider, Code: code, Message: message}
}

// validate refuses what no provider should be asked.
func (d *demand) validate() error {
	_, known := decimal.MinorUnits(d.amount.Currency)
	switch {
	case !ascii.Visible(d.invoice, 128):
		return d.refuse("invalid_invoice", "an invoice id is 1 to 128 visible ASCII characters")
	case !ascii.Visible(d.key, 255):
		return d.refuse("invalid_key", "an idempotency key is 1 to 255 visible ASCII characters")
	case d.description == "" || len(d.description) > 200:
		return d.refuse("invalid_description", "a description is 1 to 200 bytes")
	case !known:
		return d.refuse("invalid_currency",
			strconv.Quote(d.amount.Currency)+" is not an ISO 4217 currency")
	case d.amount.Minor <= 0:
		return d.refuse("invalid_amount", "only a positive amount can be paid")
	}
	return nil
}

func (r *CheckoutRequest) validate(provider string) error {
	d := demand{provider, r.InvoiceID, r.IdempotencyKey, r.Description, r.Amount}
	if err := d.validate(); err != nil {
		return err
	}
	switch {
	case r.RequestedAt.IsZero():
		return d.refuse("invalid_time", "the request has no time")
	case !returnURL(r.SuccessURL) || !returnURL(r.CancelURL):
		return d.refuse("invalid_url", "success and cancel addresses are absolute http or https URLs")
	}
	return nil
}

func returnURL(text string) bool {
	if len(text) > 2048 {
		return false
	}
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" &&
		u.User == nil
}
