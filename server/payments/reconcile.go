package payments

import (
	"context"
	"errors"
	"sync"
	"time"

	"tollgate/engine/billing"
	"tollgate/server/leader"
	"tollgate/server/provider/payment"
	"tollgate/server/vault"
)

// Checkouts are polled from when their webhook is late until they are over or their money can no
// longer be on its way. A pass polls up to pollBatch of them, of up to pollParallel environments
// concurrently.
const (
	pollEvery    = time.Minute
	pollAfter    = 5 * time.Minute
	pollUntil    = billing.CheckoutPatienceMS * time.Millisecond
	pollBatch    = 200
	pollParallel = 4
	// pollSilence is how long a request may go unanswered before the environment's others are left
	// for a later pass.
	pollSilence = 2 * time.Second
	// A checkout that is not over is asked for again after a twelfth of its age, within these: 80
	// questions in the first three days, four a day from then on.
	pollShare          = 12
	pollOften, pollMax = time.Minute, 6 * time.Hour
)

// again is when a checkout of an age is asked for again, from now on.
func again(age time.Duration) time.Duration { return min(max(age/pollShare, pollOften), pollMax) }

// Run reconciles every minute while this node leads, until ctx ends.
func (d *Service) Run(ctx context.Context, leads func() (term uint64, ok bool)) {
	loop := leader.Loop[struct{}, struct{}]{
		Leads: leads, Every: pollEvery,
		Due: func(_ func(struct{}) bool, offer func(_, _ struct{})) { offer(struct{}{}, struct{}{}) },
		Do: func(ctx context.Context, _, _ struct{}, _ int) (time.Duration, bool) {
			d.Reconcile(ctx)
			return pollEvery / 2, false // the next pass begins with the next minute
		},
	}
	loop.Run(ctx)
}

// Reconcile asks providers for the state of checkouts that no webhook has closed. It continues
// where the previous pass ended, so that each has its turn, older ones less often. A payment found
// here and by webhook counts once, by its checkout.
func (d *Service) Reconcile(ctx context.Context) {
	var order []uint32
	queues := map[uint32][]polledCheckout{}
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

// polledCheckout is a checkout with its number and the settings to ask with.
type polledCheckout struct {
	billing.Checkout
	number   uint64
	settings []billing.PaymentSettings
}

// waitingCheckout is an open checkout that was polled: when it is polled next, in log time, and the
// settings used, since others may know more about it.
type waitingCheckout struct {
	until    int64
	revision uint32
}

// wait leaves a checkout alone for as long as its age wants.
func (d *Service) wait(c *polledCheckout, now time.Time) {
	until := now.Add(again(now.Sub(time.UnixMilli(c.RequestedAt)))).UnixMilli()
	d.polling.Lock()
	defer d.polling.Unlock()
	d.next[c.number] = waitingCheckout{until, d.machine.PaymentSettings(c.Env).Revision}
}

// batch takes the next checkouts whose time has come in turn, oldest first, and after the newest
// the oldest again. Those that no settings could ask for wait until there are some.
func (d *Service) batch() []polledCheckout {
	now := d.now()
	open := d.machine.OpenCheckouts(billing.ProviderStripe,
		now.Add(-pollUntil).UnixMilli(), now.Add(-pollAfter).UnixMilli())
	d.polling.Lock()
	defer d.polling.Unlock()
	var early, late []polledCheckout // before the cursor, and from it on
	waiting := map[uint64]waitingCheckout{}
	for n, c := range open {
		w, asked := d.next[n]
		if asked = asked && w.revision == d.machine.PaymentSettings(c.Env).Revision; asked {
			waiting[n] = w
		}
		side := &late
		if n < d.polled {
			side = &early
		}
		if asked && w.until > now.UnixMilli() || len(*side) == pollBatch {
			continue
		}
		if settings := d.knowing(c.Env, c.Provider, c.Revision); len(settings) > 0 {
			*side = append(*side, polledCheckout{c, n, settings})
		}
	}
	d.next = waiting // finished ones are forgotten
	batch := append(late, early...)
	batch = batch[:min(len(batch), pollBatch)]
	if len(batch) > 0 {
		d.polled = batch[len(batch)-1].number + 1
	}
	return batch
}

// knowing returns the settings that may know what was asked for with a revision of a provider's:
// its own, while they are kept, and those in force where they are of the same provider, for its
// account may have new keys.
func (d *Service) knowing(
	env uint32, provider string, revision uint32,
) (with []billing.PaymentSettings) {
	current := d.machine.PaymentSettings(env)
	for _, s := range d.settings(env) {
		if s.Revision == revision {
			with = append(with, s)
		}
	}
	if current.Provider == provider && current.Revision != revision {
		with = append(with, current)
	}
	return with
}

// reconcileAll asks for checkouts of one environment, one after the other. Where the provider keeps
// silent the rest has to wait: its time is that of other environments too.
func (d *Service) reconcileAll(ctx context.Context, checkouts []polledCheckout) {
	for i := range checkouts {
		if ctx.Err() != nil {
			return
		}
		c, begun := &checkouts[i], d.config.Now()
		if err := d.reconcile(ctx, c); err != nil {
			d.config.Log.Warn("a checkout could not be reconciled", "provider", c.Provider, "error", err)
			if d.config.Now().Sub(begun) >= pollSilence {
				return
			}
		}
	}
}

// ask polls a checkout with its settings, and where they are no longer accepted, or do not know it,
// with the next. lost means that the settings it was made with do not know it.
func (d *Service) ask(ctx context.Context, at Place, c *polledCheckout) (
	status payment.Status, lost bool, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	for i := range c.settings {
		var provider payment.Provider
		if provider, err = d.providerOf(at, &c.settings[i]); err != nil {
			continue
		}
		status, err = provider.Checkout(ctx, c.ProviderID)
		var no *payment.Error
		if !errors.As(err, &no) {
			return status, false, err
		}
		switch no.Class {
		case payment.ClassNotFound:
			lost = lost || c.settings[i].Revision == c.Revision
		case payment.ClassCredentials:
		default:
			return status, false, err
		}
	}
	return status, lost, err
}

func (d *Service) reconcile(ctx context.Context, c *polledCheckout) error {
	at, ok := d.PlaceOf(c.Env)
	if !ok {
		return errNone
	}
	now := d.now()
	status, lost, err := d.ask(ctx, at, c)
	switch {
	case lost && now.Sub(time.UnixMilli(c.RequestedAt)) >= payment.CheckoutLife:
		status.State = payment.StateExpired
	case lost:
		status.State = payment.StateOpen // it may learn of it late
	case err != nil:
		var no *payment.Error
		if errors.As(err, &no) && no.Class != payment.ClassUnavailable ||
			errors.Is(err, vault.ErrSealed) {
			d.wait(c, now) // the next minute will be no better
		}
		return err
	}
	command := billing.RecordPayment{
		Env: c.Env, Provider: c.Provider, EventID: "poll:" + c.ProviderID,
		CheckoutID: c.ProviderID, InvoiceID: c.InvoiceID,
	}
	switch status.State {
	case payment.StateOpen, payment.StateProcessing:
		d.wait(c, now)
		return nil
	case payment.StateFailed:
		command.Other = "poll.failed" // for people to see why the invoice is not paid
		if err := d.commit(at, &command); err != nil {
			return err
		}
	case payment.StatePaid:
		invoice, ok := d.machine.Invoice(c.Env, c.InvoiceID)
		amount, currency, fits := amountOf(&status, &invoice)
		if !ok || !fits {
			return errors.New("payments: a poll reports an amount that cannot be")
		}
		command.Amount, command.Currency = amount, currency
		if err := d.commit(at, &command); err != nil {
			return err
		}
	}
	d.propose(billing.KindNoteCheckout, &billing.NoteCheckout{ID: c.ID, Closed: true})
	return nil
}

// PlaceOf finds an environment's names by its number.
func (d *Service) PlaceOf(env uint32) (Place, bool) {
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
