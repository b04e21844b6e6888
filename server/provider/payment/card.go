package payment

import (
	"context"
	"time"

	"tollgate/server/ascii"
)

// CardProvider is a provider that keeps the card of a checkout, charges it later without its owner,
// and sends money back. Each call that moves money is safe to repeat with the same request.
type CardProvider interface {
	Provider
	// Charge charges a saved card while its owner is away. Errors are *Error or the context's;
	// after ClassUnavailable it is not known whether it was charged: the same request again.
	Charge(ctx context.Context, r ChargeRequest) (Charge, error)
	// CloseCheckout closes a page for payments, and returns the state of the checkout: StateExpired
	// for one that is closed, StatePaid for one whose payer was faster.
	CloseCheckout(ctx context.Context, id string) (Status, error)
	// Refund sends a whole payment back and returns the provider's id of the refund. A payment that
	// was sent back already is a success.
	Refund(ctx context.Context, r RefundRequest) (string, error)
}

// ChargeRequest asks for a charge of a saved card.
type ChargeRequest struct {
	// InvoiceID, Description and IdempotencyKey are as in CheckoutRequest.
	InvoiceID, Description, IdempotencyKey string
	// Card is the card of a paid checkout, of the same provider.
	Card string
	// Amount is positive.
	Amount Amount
	// AskedAt is when the charge was decided, by our clock: it is not looked for among those that are
	// older by an hour. Zero: among all.
	AskedAt time.Time
	// OnlyLook asks what became of a charge that was asked for so long ago that the provider may
	// have forgotten the IdempotencyKey: nothing is charged.
	OnlyLook bool
}

// Charge is what became of a charge.
type Charge struct {
	// State is StatePaid, or StateFailed where the card was declined, asks for its owner's
	// authentication, or was never charged.
	State State
	// PaymentID is the provider's, of a charge that was paid.
	PaymentID string
	// Code is the provider's word for why not.
	Code string
}

// RefundRequest asks for a payment to be sent back.
type RefundRequest struct{ PaymentID, IdempotencyKey string }

func (r *ChargeRequest) validate(provider string) error {
	d := demand{provider, r.InvoiceID, r.IdempotencyKey, r.Description, r.Amount}
	if err := d.validate(); err != nil {
		return err
	}
	if !ascii.Visible(r.Card, 255) {
		return d.refuse("invalid_card", "the card was not saved with this provider")
	}
	return nil
}
