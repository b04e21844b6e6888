package payment

import (
	"context"
	"encoding/base64"
	"strings"

	"tollgate/server/ascii"
)

// savedCardMark begins the names of cards that the sandbox's page has saved: behind it is the
// choice of the form.
const savedCardMark = "card_sandbox_"

// paymentID names the payment of a checkout or of a charge: it is a function of what was paid, so
// the same again is the same payment.
func (s *Sandbox) paymentID(of string) string {
	id := sum(s.eventKey, "payment", of)[:16]
	return "pay_sandbox_" + base64.RawURLEncoding.EncodeToString(id)
}

// Charge answers what the saved card was chosen to do. It moves no money and keeps nothing.
func (s *Sandbox) Charge(ctx context.Context, r ChargeRequest) (Charge, error) {
	if err := ctx.Err(); err != nil {
		return Charge{}, err
	}
	if err := r.validate(sandboxName); err != nil {
		return Charge{}, err
	}
	switch card, _ := strings.CutPrefix(r.Card, savedCardMark); card {
	case cardSuccess:
		return Charge{State: StatePaid, PaymentID: s.paymentID("charge " + r.IdempotencyKey)}, nil
	case cardLaterDecline:
		return Charge{State: StateFailed, Code: "card_declined"}, nil
	case cardLaterAuthenticate:
		return Charge{State: StateFailed, Code: "authentication_required"}, nil
	}
	return Charge{}, failure(ClassRefused, sandboxName, "invalid_card",
		"the card was not saved with this provider")
}

// CloseCheckout answers StateExpired: the page asks for the
// invoice before it shows and before it acts, so nothing has to be closed here.
func (s *Sandbox) CloseCheckout(ctx context.Context, id string) (Status, error) {
	status, err := s.Checkout(ctx, id)
	if err == nil {
		status.State = StateExpired
	}
	return status, err
}

// Refund names a refund; it is a function of the request.
func (s *Sandbox) Refund(ctx context.Context, r RefundRequest) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if !ascii.Visible(r.PaymentID, 255) || !ascii.Visible(r.IdempotencyKey, 255) {
		return "", failure(ClassRefused, sandboxName, "invalid_payment",
			"a refund names a payment and has an idempotency key")
	}
	id := sum(s.eventKey, "refund", r.PaymentID)[:16]
	return "re_sandbox_" + base64.RawURLEncoding.EncodeToString(id), nil
}
