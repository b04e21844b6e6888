package payment

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate/server/ascii"
)

const (
	stripeTolerance = 5 * time.Minute
	// Bounds of the signature header; Stripe sends one or two signatures.
	maxStripeHeader     = 4096
	maxStripeSignatures = 16
)

// ParseWebhook verifies Stripe-Signature (https://docs.stripe.com/webhooks#verify-manually):
// HMAC-SHA256 over "t.body", any of several v1, other schemes ignored.
func (s *stripe) ParseWebhook(
	now time.Time, header func(string) string, body []byte,
) (Event, error) {
	if len(body) > MaxWebhook {
		return Event{}, ErrPayload
	}
	timestamp, signatures, ok := parseStripeSignature(header("Stripe-Signature"))
	if !ok {
		return Event{}, ErrSignature
	}
	mac := hmac.New(sha256.New, []byte(s.config.WebhookSecret))
	mac.Write([]byte(timestamp))
	mac.Write([]byte{'.'})
	mac.Write(body)
	want := mac.Sum(nil)
	matched := false
	for _, signature := range signatures {
		if hmac.Equal(signature, want) {
			matched = true
		}
	}
	if !matched {
		return Event{}, ErrSignature
	}
	// Only after the signature: before it, anyone may have written the timestamp.
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return Event{}, ErrTimestamp
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > stripeTolerance || age < -stripeTolerance {
		return Event{}, ErrTimestamp
	}
	return s.readEvent(body)
}

// parseStripeSignature reads "t=1492774577,v1=5257…,v0=…": one t, 1 to 16 v1 in hexadecimal.
func parseStripeSignature(header string) (timestamp string, signatures [][]byte, ok bool) {
	if len(header) > maxStripeHeader {
		return "", nil, false
	}
	for part := range strings.SplitSeq(header, ",") {
		name, value, found := strings.Cut(strings.TrimSpace(part), "=")
		if !found {
			return "", nil, false
		}
		switch name {
		case "t":
			if timestamp != "" || !digits(value) {
				return "", nil, false
			}
			timestamp = value
		case "v1":
			signature, err := hex.DecodeString(value)
			if err != nil || len(signature) != sha256.Size {
				continue
			}
			signatures = append(signatures, signature)
		}
	}
	ok = timestamp != "" && len(signatures) > 0 && len(signatures) <= maxStripeSignatures
	return timestamp, signatures, ok
}

func digits(text string) bool {
	return text != "" && len(text) <= 12 && strings.Trim(text, "0123456789") == ""
}

// stripeKinds are the events that a checkout can end in.
var stripeKinds = map[string]EventKind{
	"checkout.session.completed":               EventPaid,
	"checkout.session.async_payment_succeeded": EventPaid,
	"checkout.session.async_payment_failed":    EventFailed,
	"checkout.session.expired":                 EventExpired,
}

// invoiceNamed is the invoice that an object of any type carries in its metadata, as payment
// intents and charges of our sessions do; empty where it carries none.
func (s *stripe) invoiceNamed(object jsontext.Value) string {
	var tagged struct {
		Metadata map[string]jsontext.Value `json:"metadata"`
	}
	var id string
	if json.Unmarshal(object, &tagged) != nil ||
		json.Unmarshal(tagged.Metadata[s.config.Tag], &id) != nil || !ascii.Visible(id, 128) {
		return "" // of a shape that is not ours to judge
	}
	return id
}

func (s *stripe) readEvent(body []byte) (Event, error) {
	var envelope struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Created  int64  `json:"created"`
		Livemode bool   `json:"livemode"`
		Data     struct {
			Object jsontext.Value `json:"object"`
		} `json:"data"`
	}
	err := json.Unmarshal(body, &envelope)
	if err != nil || !ascii.Visible(envelope.ID, 255) || !ascii.Visible(envelope.Type, 255) ||
		envelope.Created <= 0 || envelope.Created > 1<<36 {
		return Event{}, ErrPayload
	}
	event := Event{
		ID: envelope.ID, Kind: EventOther, OccurredAt: time.Unix(envelope.Created, 0).UTC(),
		Type: envelope.Type[:min(len(envelope.Type), 64)],
	}
	kind, ours := stripeKinds[envelope.Type]
	if !ours {
		if envelope.Livemode == s.config.Live {
			event.InvoiceID = s.invoiceNamed(envelope.Data.Object)
		}
		return event, nil
	}
	var object session
	if err := json.Unmarshal(envelope.Data.Object, &object); err != nil {
		return Event{}, ErrPayload
	}
	invoice := object.Metadata[s.config.Tag]
	if invoice == "" {
		// A session that the account made by other means.
		return event, nil
	}
	amount, exact := object.amount()
	if envelope.Livemode != s.config.Live || !exact || !ascii.Visible(object.ID, 255) ||
		!ascii.Visible(invoice, 128) {
		return Event{}, ErrPayload
	}
	if kind == EventPaid && amount.Currency == "" {
		return Event{}, ErrPayload
	}
	if kind == EventPaid && !object.paid() {
		// Completed by the payer; the money is announced by a later event.
		kind = EventProcessing
	}
	event.Kind, event.CheckoutID, event.InvoiceID, event.Amount = kind, object.ID, invoice, amount
	if kind == EventPaid {
		event.PaymentID, event.Card = object.payment()
	}
	return event, nil
}
