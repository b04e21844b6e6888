package payments

import (
	"errors"
	"fmt"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/provider/payment"
)

// Receive verifies a provider's webhook and records what it reports. It returns nil once that is
// committed, or when there is nothing to record. Errors are a *Refusal.
func (d *Service) Receive(at Place, header func(string) string, body []byte) error {
	name, event, err := d.verify(at, header, body)
	switch {
	case errors.Is(err, errNone):
		return &Refusal{Status: 404, Code: "no_payment_provider"}
	case errors.Is(err, errUnusable):
		return &Refusal{Status: 503, Code: "unavailable"}
	case errors.Is(err, payment.ErrSignature):
		return &Refusal{Status: 401, Code: "invalid_signature"}
	case errors.Is(err, payment.ErrTimestamp):
		return &Refusal{Status: 400, Code: "stale_timestamp"}
	case err != nil:
		return &Refusal{Status: 400, Code: "invalid_payload"}
	}
	if event.Kind != payment.EventPaid {
		return d.report(at, name, &event)
	}
	return d.record(at, name, &event)
}

// errUnusable means that settings are there and cannot be used; it is logged where it happens.
var errUnusable = errors.New("payments: the payment settings cannot be used")

// verify finds the settings whose secret a webhook is signed with, the ones in force first:
// replaced ones still receive webhooks of the checkouts made with them.
func (d *Service) verify(at Place, header func(string) string, body []byte) (
	name string, event payment.Event, err error,
) {
	err = errNone
	unusable := false
	for _, settings := range d.settings(at.Env) {
		provider, problem := d.providerOf(at, &settings)
		if problem != nil {
			d.config.Log.Error("a payment provider cannot be used", "account", at.Account,
				"error", problem)
			unusable = true
			continue
		}
		event, err = provider.ParseWebhook(d.now(), header, body)
		if !errors.Is(err, payment.ErrSignature) {
			return provider.Name(), event, err
		}
	}
	if unusable {
		err = errUnusable // it may be theirs: let it come again
	}
	return "", payment.Event{}, err
}

// report records an event that is not a payment if it names an invoice of ours: people want to know
// of a decline or a refund, and the invoice stays unchanged.
func (d *Service) report(at Place, provider string, event *payment.Event) error {
	d.config.Log.Info("a webhook changes nothing", "account", at.Account, "provider", provider,
		"type", event.Type, "event", event.ID)
	invoice, ours := server.ParseUUID(event.InvoiceID)
	if !ours {
		return nil
	}
	amount, fits := exact(event.Amount)
	if !fits {
		amount = decimal.Decimal{}
	}
	err := d.commit(at, &billing.RecordPayment{
		Env: at.Env, Provider: provider, EventID: event.ID, CheckoutID: event.CheckoutID,
		InvoiceID: invoice, Amount: amount, Currency: event.Amount.Currency, Other: event.Type,
	})
	var refusal *Refusal
	if errors.As(err, &refusal) && refusal.Status == 404 {
		return nil // repeating it would not make the invoice ours
	}
	return err
}

// record brings a payment into the log.
func (d *Service) record(at Place, provider string, event *payment.Event) error {
	invoice, known := server.ParseUUID(event.InvoiceID)
	amount, fits := exact(event.Amount)
	if !known || !fits || len(event.ID) > 255 || len(event.CheckoutID) > 255 {
		return &Refusal{Status: 400, Code: "invalid_payload"}
	}
	return d.commit(at, &billing.RecordPayment{
		Env: at.Env, Provider: provider, EventID: event.ID, CheckoutID: event.CheckoutID,
		InvoiceID: invoice, Amount: amount, Currency: event.Amount.Currency,
	})
}

func (d *Service) commit(at Place, c *billing.RecordPayment) error {
	result := d.propose(billing.KindRecordPayment, c)
	invoice := string(server.AppendUUID(nil, c.InvoiceID))
	switch result.Outcome {
	case engine.OutcomeDone:
	case engine.OutcomeInvoiceUnknown:
		d.config.Log.Error("a payment names an unknown invoice", "account", at.Account,
			"provider", c.Provider, "event", c.EventID)
		return &Refusal{Status: 404, Code: "invoice_not_found"}
	default:
		return &Refusal{Status: 503, Code: "unavailable"}
	}
	var reply billing.PaymentReply
	if err := wire.Decode(result.Value, &reply); err != nil {
		return fmt.Errorf("payments: reply to a payment: %w", err)
	}
	if reply.Result != billing.PaymentApplied && reply.Result != billing.PaymentIgnored &&
		!reply.Repeated {
		d.config.Log.Warn("a payment did not fit its invoice and was kept", "account", at.Account,
			"invoice", invoice, "result", reply.Result.String(), "event", c.EventID)
	}
	return nil
}

// Refusal is the reason why a webhook was not accepted; a provider retries it unless it got a 2xx.
type Refusal struct {
	Status int
	Code   string
}

func (r *Refusal) Error() string { return "payments: webhook refused: " + r.Code }

// amountOf is the paid amount of a poll: the invoice's own amount where the provider does not name
// one.
func amountOf(s *payment.Status, invoice *billing.InvoiceView) (decimal.Decimal, string, bool) {
	if s.Amount == (payment.Amount{}) {
		return invoice.Amount, invoice.Currency, true
	}
	amount, ok := exact(s.Amount)
	return amount, s.Amount.Currency, ok
}
