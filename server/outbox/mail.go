package outbox

import (
	"context"
	"errors"
	"strings"
	"time"

	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/billingview"
	"tollgate/server/provider/mail"
	"tollgate/server/provider/webhook"
)

// mailScheme begins the URL of an endpoint that is a mail address.
const mailScheme = "mailto:"

// checkMail reports whether mails may be sent to an endpoint's address.
func (o *Outbox) checkMail(address string) error {
	switch {
	case o.config.Mail == nil:
		return errors.New("url: this node sends no mails")
	case !mail.Valid(address):
		return errors.New("url: mailto: and one plain address")
	}
	return nil
}

// mail makes one attempt to send a message as a mail. What may have arrived is not sent again; an
// address that its server refuses for good is gone.
func (o *Outbox) mail(
	ctx context.Context, address string, d *billing.DueDelivery,
) (attempt, *webhook.Result) {
	if o.config.Mail == nil {
		const reason = "the node that leads sends no mails"
		return attempt{outcome: billing.AttemptRetry, reason: reason},
			&webhook.Result{Outcome: webhook.Retry, Reason: reason}
	}
	begun := time.Now()
	sent := o.config.Mail.Send(ctx, letter(address, d))
	result := webhook.Result{Status: sent.Status, Reason: sent.Reason, Took: time.Since(begun)}
	switch sent.Outcome {
	case mail.Delivered, mail.Unknown:
		result.Outcome = webhook.Delivered
	case mail.Refused:
		result.Outcome = webhook.Gone
	default:
		result.Outcome = webhook.Retry
	}
	return attempt{
		outcome: outcomes[result.Outcome], status: result.Status, reason: result.Reason,
		took: result.Took,
	}, &result
}

// letter is a message as a mail: what happened, to whom, and the fields of the webhook's body.
func letter(address string, d *billing.DueDelivery) *mail.Message {
	m := &d.Delivery.Message
	var body server.JSON
	billingview.WriteWebhook(&body, m)
	lines := []string{
		"Event: " + m.Type.String(), "Customer: " + m.Customer,
		"At: " + time.UnixMilli(m.At).UTC().Format(time.RFC3339), "",
		strings.ReplaceAll(string(body), `,"`, ",\n\""), "",
		"You get this mail because this address is a webhook endpoint of the environment. Its operator " +
			"removes it there.", "",
	}
	return &mail.Message{
		ID: billing.MessageName(d.Delivery.ID), To: address,
		Subject: m.Type.String() + ": " + m.Customer, Text: strings.Join(lines, "\n"),
		At: time.UnixMilli(d.Delivery.CreatedAt),
	}
}
