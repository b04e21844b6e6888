package payments

import (
	"context"
	"errors"
	"time"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/leader"
	"tollgate/server/provider/payment"
)

// Automatic purchases of credits.
const (
	topUpEvery = time.Second
	// A provider that gave no answer is asked again after a second, then two, up to a minute.
	topUpFirst, topUpMost = time.Second, time.Minute
	// topUpSlots is how many are paid at a time.
	topUpSlots = 16
	// topUpKeyLife is how long a provider is trusted to remember an idempotency key (Stripe: 24
	// hours). A charge of unknown fate that is older is only looked for.
	topUpKeyLife = 23 * time.Hour
	// topUpTag marks charges at Stripe, so that they are not taken for payments of invoices.
	topUpTag     = "tollgate_topup"
	maxTopUpText = 255
)

// RunTopUps pays the automatic purchases of credits while this node leads, until ctx ends.
func (d *Service) RunTopUps(ctx context.Context, leads func() (term uint64, ok bool)) {
	flying := 0
	loop := leader.Loop[[16]byte, *billing.AskedTopUp]{
		Leads: leads, Every: topUpEvery, OfTerm: true,
		Due: func(_ func([16]byte) bool, offer func([16]byte, *billing.AskedTopUp)) {
			asked := d.machine.AskedTopUps()
			for i := range asked {
				offer(asked[i].ID, &asked[i])
			}
		},
		Take: func(*billing.AskedTopUp) (func(), bool) {
			if flying == topUpSlots {
				return nil, false
			}
			flying++
			return func() { flying-- }, true
		},
		Do: func(ctx context.Context, _ [16]byte, o *billing.AskedTopUp, failures int) (
			time.Duration, bool,
		) {
			if err := d.topUp(ctx, o, failures); err != nil {
				d.config.Log.Warn("a top-up could not be paid yet", "pool", o.PoolName, "error", err)
				return min(topUpFirst<<min(failures, 6), topUpMost), true
			}
			return topUpFirst, false
		},
	}
	loop.Run(ctx)
}

// topUp pays a purchase, and records what became of it. A charge of unknown fate is looked for
// between failures, and when the provider may have forgotten its key, it is only looked for, so
// that it is not paid twice. An error leaves it on its way: no second one begins meanwhile.
func (d *Service) topUp(ctx context.Context, o *billing.AskedTopUp, failures int) error {
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	minor, ok := minor(o.Price, o.Currency)
	if !ok {
		return d.toppedUp(o, false, "", "amount_not_exact")
	}
	name := "topup_" + string(server.AppendUUID(nil, o.ID))
	old := d.now().Sub(time.UnixMilli(o.Stamp)) >= topUpKeyLife
	r := payment.ChargeRequest{
		InvoiceID: name, Description: "Top-up of credits", IdempotencyKey: name, Card: o.Method,
		Amount: payment.Amount{Minor: minor, Currency: o.Currency}, AskedAt: time.UnixMilli(o.Stamp),
		OnlyLook: old || failures%2 == 1,
	}
	made, err := d.charge(ctx, o, &r)
	var no *payment.Error
	switch {
	case errors.As(err, &no) && !r.OnlyLook && // a refused lookup proves nothing about the charge
		(no.Class == payment.ClassRefused || no.Class == payment.ClassNotFound):
		made = payment.Charge{State: payment.StateFailed, Code: no.Code}
	case err != nil:
		return err
	case made.State == payment.StateOpen && !old:
		return errors.New("payments: the provider knows of no such charge yet")
	}
	return d.toppedUp(o, made.State == payment.StatePaid, made.PaymentID, made.Code)
}

// toppedUp records what became of a purchase.
func (d *Service) toppedUp(o *billing.AskedTopUp, paid bool, id, code string) error {
	result := d.propose(billing.KindRecordTopUp, &billing.RecordTopUp{
		Env: o.Env, Pool: o.Pool, ID: o.ID, Paid: paid, Payment: id[:min(len(id), maxTopUpText)],
		Code: code[:min(len(code), maxTopUpText)],
	})
	if result.Outcome != engine.OutcomeDone {
		return errors.New("payments: a top-up's payment was not recorded: " + result.Outcome.String())
	}
	return nil
}

// charge asks the provider with the settings that know the purchase, and where their key is no
// longer accepted, with the next.
func (d *Service) charge(
	ctx context.Context, o *billing.AskedTopUp, r *payment.ChargeRequest,
) (made payment.Charge, err error) {
	at, ok := d.PlaceOf(o.Env)
	if !ok {
		return made, errNone
	}
	err = errNone
	for _, with := range d.knowing(o.Env, o.Provider, o.Revision) {
		var cards payment.CardProvider
		if cards, err = d.cardsOf(at, &with); err != nil {
			continue
		}
		made, err = cards.Charge(ctx, *r)
		var no *payment.Error
		if !errors.As(err, &no) || no.Class != payment.ClassCredentials {
			break
		}
	}
	return made, err
}

// cardsOf makes the provider of settings, whose charges are marked as top-ups.
func (d *Service) cardsOf(
	at Place, with *billing.PaymentSettings,
) (payment.CardProvider, error) {
	key, err := d.vault.Open(at.Env, "secretKey", with.SecretKey)
	if err != nil {
		return nil, err
	}
	made, err := d.build(at, with, key, topUpTag)
	if err != nil {
		return nil, err
	}
	cards, ok := made.(payment.CardProvider)
	if !ok {
		return nil, errors.New("payments: the provider charges no saved cards: " + with.Provider)
	}
	return cards, nil
}
