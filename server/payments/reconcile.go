package payments

import (
	"context"
	"errors"
	"time"

	"tollgate/engine/billing"
	"tollgate/server/provider/payment"
)

// Which checkouts are polled: those old enough for their webhook to be late, and young enough to be
// payable, with an hour to spare. At most pollBatch in one pass.
const (
	pollAfter = 5 * time.Minute
	pollUntil = payment.CheckoutLife + time.Hour
	pollBatch = 50
)

// Reconcile asks providers what became of checkouts that no webhook has closed: the leader calls
// it every minute. A payment found here and by webhook counts once, by its checkout.
func (d *Desk) Reconcile(ctx context.Context) {
	now := d.now()
	for _, c := range d.machine.OpenCheckouts(billing.ProviderStripe,
		now.Add(-pollUntil).UnixMilli(), now.Add(-pollAfter).UnixMilli(), pollBatch) {
		if ctx.Err() != nil {
			return
		}
		if err := d.reconcile(ctx, &c); err != nil {
			d.config.Log.Warn("a checkout could not be reconciled", "provider", c.Provider, "error", err)
		}
	}
}

func (d *Desk) reconcile(ctx context.Context, c *billing.Checkout) error {
	at, ok := d.PlaceOf(c.Env)
	if !ok {
		return errNone
	}
	provider, err := d.provider(at)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	status, err := provider.Checkout(ctx, c.ProviderID)
	var no *payment.Error
	if errors.As(err, &no) && no.Class == payment.ClassNotFound {
		status, err = payment.Status{State: payment.StateFailed}, nil
	}
	if err != nil {
		return err
	}
	switch status.State {
	case payment.StateOpen, payment.StateProcessing:
		return nil
	case payment.StatePaid:
		invoice, ok := d.machine.Invoice(c.Env, c.InvoiceID)
		amount, currency, fits := amountOf(&status, &invoice)
		if !ok || !fits {
			return errors.New("payments: a poll reports an amount that cannot be")
		}
		if err := d.commit(at, &billing.RecordPayment{
			Env: c.Env, Provider: provider.Name(), EventID: "poll:" + c.ProviderID,
			CheckoutID: c.ProviderID, InvoiceID: c.InvoiceID, Amount: amount, Currency: currency,
		}); err != nil {
			return err
		}
	}
	d.propose(billing.KindNoteCheckout, &billing.NoteCheckout{ID: c.ID, Closed: true})
	return nil
}

// PlaceOf finds an environment's names by its number.
func (d *Desk) PlaceOf(env uint32) (Place, bool) {
	accounts := d.machine.Accounts()
	if env == 0 || uint64(env) > 2*uint64(len(accounts)) {
		return Place{}, false
	}
	at := Place{Env: env, Account: accounts[(env-1)/2].Name, Kind: billing.EnvironmentSandbox}
	if env%2 == 0 {
		at.Kind = billing.EnvironmentLive
	}
	return at, true
}
