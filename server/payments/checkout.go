package payments

import (
	"context"
	"errors"
	"strconv"
	"time"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/provider/payment"
)

// Checkout makes the hosted page of a checkout that OpenCheckout has noted, and returns its
// address. Asking again is the same request to the provider, and answers the same page.
func (d *Service) Checkout(ctx context.Context, at Place, id [16]byte) (string, *server.Fault) {
	if d.fresh() != nil {
		return "", unavailable()
	}
	noted, ok := d.machine.Checkout(at.Env, id)
	if !ok {
		return "", server.FaultOf(engine.OutcomeCheckoutUnknown)
	}
	invoice, ok := d.machine.Invoice(at.Env, noted.InvoiceID)
	if !ok {
		return "", server.FaultOf(engine.OutcomeInvoiceUnknown)
	}
	settings, ok := d.settingsFor(&noted)
	if !ok {
		return "", server.FaultOf(engine.OutcomeNoProvider)
	}
	provider, err := d.providerOf(at, &settings)
	if err != nil {
		d.config.Log.Error("a payment provider cannot be used", "account", at.Account, "error", err)
		return "", faultCredentials.Saying("The account's payment settings cannot be used")
	}
	amount, ok := minor(invoice.Amount, invoice.Currency)
	if !ok {
		return "", server.FaultOf(engine.OutcomeOverflow)
	}
	back := d.config.PublicURL + Base(at.Account, at.Kind) + "/return"
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	made, err := provider.CreateCheckout(ctx, payment.CheckoutRequest{
		InvoiceID:   string(server.AppendUUID(nil, noted.InvoiceID)),
		Description: "Invoice " + strconv.FormatUint(invoice.Number, 10),
		Amount:      payment.Amount{Minor: amount, Currency: invoice.Currency},
		SuccessURL:  back, CancelURL: back,
		IdempotencyKey: string(server.AppendUUID(nil, id)),
		RequestedAt:    time.UnixMilli(noted.RequestedAt).UTC(),
	})
	if err != nil {
		return "", d.faultOf(at, err)
	}
	// A page of settings that were set since does not replace the one that is polled.
	if noted.ProviderID == "" && !d.name(&billing.NoteCheckout{
		ID: id, ProviderID: made.ID, Provider: settings.Provider, Revision: settings.Revision,
	}) {
		d.config.Log.Warn("a checkout's page was made and not noted; it is not given out",
			"account", at.Account, "checkout", made.ID)
		return "", unavailable()
	}
	return made.URL, nil
}

// reopenLeft is how long a page that is given out again can still be paid.
const reopenLeft = time.Hour

// Reopen returns the address of the newest page of an invoice, where it can still be paid, else an
// empty one: it is for those who cannot repeat a request under its key, and would have a new page
// made each time.
func (d *Service) Reopen(ctx context.Context, at Place, invoice [16]byte) (string, *server.Fault) {
	noted, ok := d.machine.LatestCheckout(at.Env, invoice)
	if !ok || noted.Closed || noted.ProviderID == "" ||
		noted.Revision != d.machine.PaymentSettings(at.Env).Revision ||
		d.now().Sub(time.UnixMilli(noted.RequestedAt)) > payment.CheckoutLife-reopenLeft {
		return "", nil
	}
	return d.Checkout(ctx, at, noted.ID)
}

// nameAttempts is how often the name of a page is proposed, and namePause the first pause between,
// which doubles.
const (
	nameAttempts = 4
	namePause    = 50 * time.Millisecond
)

// name notes the provider's id of a checkout. Only noted checkouts are polled, and a page that is
// not must not be paid: if its webhook failed too, the payment would be lost.
func (d *Service) name(c *billing.NoteCheckout) bool {
	pause := namePause
	for attempt := 1; ; attempt++ {
		outcome := d.propose(billing.KindNoteCheckout, c).Outcome
		if outcome == engine.OutcomeDone {
			return true
		}
		if attempt == nameAttempts || outcome == engine.OutcomeCheckoutUnknown {
			return false
		}
		time.Sleep(pause)
		pause *= 2
	}
}

// settingsFor are those that a checkout's page is made with: its own where it has a page, so that a
// repeated request answers the same one, else those in force. false: there are none.
func (d *Service) settingsFor(noted *billing.Checkout) (billing.PaymentSettings, bool) {
	current := d.machine.PaymentSettings(noted.Env)
	if noted.ProviderID != "" {
		for _, s := range d.settings(noted.Env) {
			if s.Revision == noted.Revision {
				return s, true
			}
		}
	}
	return current, current.Provider != billing.ProviderNone
}

func unavailable() *server.Fault {
	return server.FaultConsistency.With("Nothing was charged. Repeat the request.")
}

// What a provider's no is answered with.
var (
	faultCredentials = server.NewFault(400, "payment_provider_credentials",
		"The payment provider refuses the account's credentials").With("Nothing was charged.")
	faultRefused = server.NewFault(400, "payment_provider_refused",
		"The payment provider refuses this checkout").With("Nothing was charged.")
	faultUnreached = server.NewFault(503, "payment_provider_unavailable",
		"The payment provider cannot be reached").With(
		"Nothing was charged. Repeat the request with the same key.").Retry(1)
)

// Faults are those of a checkout that its provider does not make.
func Faults() []*server.Fault {
	return []*server.Fault{faultCredentials, faultRefused, faultUnreached}
}

// faultOf is the answer to a provider's no.
func (d *Service) faultOf(at Place, err error) *server.Fault {
	var no *payment.Error
	if !errors.As(err, &no) {
		no = &payment.Error{Class: payment.ClassUnavailable}
	}
	d.config.Log.Warn("a checkout was not made", "account", at.Account, "class", no.Class,
		"provider", no.Provider, "code", no.Code)
	switch no.Class {
	case payment.ClassCredentials:
		return faultCredentials
	case payment.ClassRefused, payment.ClassNotFound:
		return faultRefused.With("Nothing was charged. " + no.Message)
	}
	// A day is the most that a provider may ask for.
	return faultUnreached.Retry(max(1, min(int(no.RetryAfter/time.Second), 86_400)))
}
