package outbox

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/billingview"
	"tollgate/server/provider/webhook"
)

// attempt is the result of one attempt, as it is recorded.
type attempt struct {
	outcome    billing.AttemptOutcome
	status     int
	reason     string
	answer     string
	took       time.Duration
	retryAfter time.Duration
}

var outcomes = map[webhook.Outcome]billing.AttemptOutcome{
	webhook.Delivered: billing.AttemptDelivered, webhook.Retry: billing.AttemptRetry,
	webhook.Gone: billing.AttemptGone, webhook.Blocked: billing.AttemptBlocked,
}

// deliver makes one attempt and records it. The result is nil when nothing was sent, or when the
// attempt was cancelled.
func (o *Outbox) deliver(ctx context.Context, d *billing.DueDelivery) *webhook.Result {
	a, result, err := o.attempt(ctx, d)
	if err != nil {
		if ctx.Err() == nil {
			o.config.Log.Error("a webhook message cannot be sent", "endpoint",
				uuid(d.Endpoint.ID), "message", billing.MessageName(d.Delivery.ID), "error", err)
		}
		return nil
	}
	if result != nil && result.Detail != "" {
		o.config.Log.Info("a webhook did not arrive", "endpoint", uuid(d.Endpoint.ID),
			"message", billing.MessageName(d.Delivery.ID), "detail", result.Detail)
	}
	o.attempts[a.outcome].Add(1)
	o.record(ctx, d, &a)
	return result
}

// attempt sends a message, unless it is too old to be worth it: by the time of the log, since the
// clock of this node may have been set forward while it leads, and an expired message is lost.
func (o *Outbox) attempt(ctx context.Context, d *billing.DueDelivery) (
	attempt, *webhook.Result, error,
) {
	if o.config.Machine.Stamp()-d.Delivery.QueuedAt >= billing.WebhookRetentionMS {
		return attempt{
			outcome: billing.AttemptExpired, reason: "the message is older than 7 days",
		}, nil, nil
	}
	// Rotating a secret, or deleting the endpoint, applies to all later attempts.
	e, ok := o.config.Machine.WebhookEndpoint(d.Env, d.Endpoint.ID)
	if !ok {
		return attempt{outcome: billing.AttemptBlocked, reason: "the endpoint was deleted"}, nil, nil
	}
	if address, ok := strings.CutPrefix(e.URL, mailScheme); ok {
		a, result := o.mail(ctx, address, d)
		return a, result, ctx.Err()
	}
	secrets, err := o.secrets(d.Env, &e)
	if err != nil {
		return attempt{
			outcome: billing.AttemptBlocked,
			reason:  "the endpoint's secret cannot be read: rotate it",
		}, &webhook.Result{Outcome: webhook.Blocked}, nil
	}
	var body server.JSON
	billingview.WriteWebhook(&body, &d.Delivery.Message)
	result, err := o.sender.Deliver(ctx,
		webhook.Endpoint{URL: e.URL, Secrets: secrets},
		webhook.Message{ID: billing.MessageName(d.Delivery.ID), Body: body})
	if err != nil {
		return attempt{}, nil, err
	}
	return attempt{
		outcome: outcomes[result.Outcome], status: result.Status, reason: result.Reason,
		answer: result.Answer, took: result.Took, retryAfter: result.RetryAfter,
	}, &result, nil
}

// Bounds of recording an attempt.
const (
	recordTimeout = 5 * time.Second
	recordAgain   = time.Second
	maxReason     = 200 // bytes
)

// record proposes an attempt's result. Until that has happened the message is not sent again by
// this node; one that is no longer the leader hands it to the next, once.
func (o *Outbox) record(ctx context.Context, d *billing.DueDelivery, a *attempt) {
	c := billing.RecordDelivery{
		Env: d.Env, Endpoint: d.Endpoint.ID, Row: d.Delivery.Row, Sequence: d.Delivery.Sequence,
		Attempt: d.Delivery.Attempts + 1, Outcome: a.outcome, Status: uint32(a.status),
		Reason: shortened(a.reason), TookMS: uint32(a.took.Milliseconds()), Answer: a.answer,
	}
	if wait, again := o.config.Schedule.Next(int(d.Delivery.Round)+1,
		billing.MessageName(d.Delivery.ID), a.retryAfter); again {
		c.RetryMS = max(1, wait.Milliseconds())
	}
	records := []engine.Record{{Kind: billing.KindRecordDelivery, Payload: wire.Encode(nil, &c)}}
	for {
		var results [1]engine.Result
		o.config.Proposer.Propose(time.Now().Add(recordTimeout), records, results[:])
		switch results[0].Outcome {
		case engine.OutcomeUnavailable, engine.OutcomeOverloaded, engine.OutcomeUnknown,
			engine.OutcomeDiskLow, engine.OutcomeDeferred:
		default:
			return // recorded, or the delivery is gone
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(recordAgain):
		}
	}
}

// shortened is a reason that the log takes.
func shortened(reason string) string {
	reason = strings.ToValidUTF8(reason, "?")
	for len(reason) > maxReason {
		cut := maxReason
		for cut > 0 && reason[cut]&0xc0 == 0x80 {
			cut--
		}
		reason = reason[:cut]
	}
	return reason
}

func uuid(id [16]byte) string { return string(server.AppendUUID(nil, id)) }

// Check reports whether a URL may be an endpoint's, by every rule that needs no network. The error
// repeats neither path nor query.
func (o *Outbox) Check(url string) error {
	if address, ok := strings.CutPrefix(url, mailScheme); ok {
		return o.checkMail(address)
	}
	if err := o.config.Fetch.Check(url); err != nil {
		return fmt.Errorf("url: %w", err)
	}
	return nil
}

// Mint makes an endpoint's secret: sealed for the log, and in the text to show once.
func (o *Outbox) Mint(env uint32, endpoint [16]byte) (sealed []byte, shown string) {
	shown = webhook.MintSecret().Reveal()
	return o.vault.Seal(env, place(endpoint), shown), shown
}

// Open is the text of a secret that Mint sealed.
func (o *Outbox) Open(env uint32, endpoint [16]byte, sealed []byte) (shown string, err error) {
	return o.vault.Open(env, place(endpoint), sealed)
}

// place is what an endpoint's secrets are sealed for.
func place(endpoint [16]byte) string {
	return "webhook endpoint " + hex.EncodeToString(endpoint[:])
}

// secrets opens what an endpoint signs with. One before that does not open is left out.
func (o *Outbox) secrets(env uint32, e *billing.WebhookEndpointView) (webhook.Secrets, error) {
	open := func(sealed []byte) (webhook.Secret, error) {
		text, err := o.Open(env, e.ID, sealed)
		if err != nil {
			return webhook.Secret{}, err
		}
		return webhook.ParseSecret(text)
	}
	current, err := open(e.Secret)
	if err != nil {
		return webhook.Secrets{}, err
	}
	s := webhook.Secrets{Current: current}
	if len(e.Previous) > 0 {
		previous, err := open(e.Previous)
		if err != nil && !errors.Is(err, webhook.ErrSecret) {
			o.config.Log.Warn("a webhook secret that was replaced does not open",
				"endpoint", uuid(e.ID))
		}
		s.Previous, s.PreviousUntil = previous, time.UnixMilli(e.PreviousUntil)
	}
	return s, nil
}
