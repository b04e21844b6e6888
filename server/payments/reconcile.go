package payments

import (
	"context"
	"errors"
	"sync"
	"time"

	"tollgate/engine/billing"
	"tollgate/server/provider/payment"
)

// Which checkouts are polled: those old enough for their webhook to be late, and young enough to be
// payable, with an hour to spare. A pass asks for at most pollBatch of them, of at most
// pollParallel environments at once.
const (
	pollAfter    = 5 * time.Minute
	pollUntil    = payment.CheckoutLife + time.Hour
	pollBatch    = 200
	pollParallel = 4
	// pollSilence is how long a question without an answer may take before its environment's others
	// are left for a later pass.
	pollSilence = 2 * time.Second
)

// Reconcile asks providers what became of checkouts that no webhook has closed: the leader calls
// it every minute. It goes on where the pass before has ended, so that each is asked for in turn.
// A payment found here and by webhook counts once, by its checkout.
func (d *Desk) Reconcile(ctx context.Context) {
	var order []uint32
	queues := map[uint32][]billing.Checkout{}
	for _, c := range d.batch() {
		if queues[c.Env] == nil {
			order = append(order, c.Env)
		}
		queues[c.Env] = append(queues[c.Env], c)
	}
	slots := make(chan struct{}, pollParallel)
	var running sync.WaitGroup
	for _, env := range order {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			d.reconcileAll(ctx, queues[env])
		})
	}
	running.Wait()
}

// batch takes the next checkouts in turn, oldest first, and after the newest the oldest again.
// Those of a provider that is not the one now configured wait until it is.
func (d *Desk) batch() []billing.Checkout {
	now := d.now()
	open := d.machine.OpenCheckouts(billing.ProviderStripe,
		now.Add(-pollUntil).UnixMilli(), now.Add(-pollAfter).UnixMilli())
	d.polling.Lock()
	defer d.polling.Unlock()
	var found []billing.Checkout
	start := d.polled
	for _, wrapped := range []bool{false, true} {
		for n, c := range open {
			if (n < start) != wrapped || d.machine.PaymentSettings(c.Env).Provider != c.Provider {
				continue
			}
			found, d.polled = append(found, c), n+1
			if len(found) == pollBatch {
				return found
			}
		}
	}
	return found
}

// reconcileAll asks for checkouts of one environment, one after the other. Where the provider keeps
// silent the rest has to wait: its time is that of other environments too.
func (d *Desk) reconcileAll(ctx context.Context, checkouts []billing.Checkout) {
	for i := range checkouts {
		if ctx.Err() != nil {
			return
		}
		c, begun := &checkouts[i], time.Now()
		if err := d.reconcile(ctx, c); err != nil {
			d.config.Log.Warn("a checkout could not be reconciled", "provider", c.Provider, "error", err)
			if time.Since(begun) >= pollSilence {
				return
			}
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
	if provider.Name() != c.Provider {
		return nil // changed in this moment
	}
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	status, err := provider.Checkout(ctx, c.ProviderID)
	var no *payment.Error
	if errors.As(err, &no) && no.Class == payment.ClassNotFound {
		// While it can be paid, it may be that these are not the keys that it was made with.
		if d.now().Before(time.UnixMilli(c.RequestedAt).Add(payment.CheckoutLife)) {
			return nil
		}
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
