package workspace

import (
	"cmp"

	"tollgate/engine"
	"tollgate/engine/machine"
	"tollgate/engine/wire"
)

// NoteCheckout keeps where the payment page of an approved purchase is, or that it is closed.
type NoteCheckout struct {
	ID       [16]byte `wire:"1"`
	Checkout string   `wire:"2"`
	URL      string   `wire:"3"`
	// Closed reports whether the provider takes no payment on the page any more.
	Closed bool `wire:"4"`
}

func (c *NoteCheckout) apply(x *money, t *machine.Turn, row uint32) engine.Outcome {
	if !c.Closed && x.purchases.Read(row).Status != PurchaseCheckout {
		return engine.OutcomePurchaseClosed
	}
	x.purchaseWrite(row, func(p *purchase) {
		if p.PageOpen = !c.Closed; !c.Closed {
			p.Checkout, p.URL = c.Checkout, c.URL
		}
	})
	t.Fold(uint64(row))
	return engine.OutcomeDone
}

// PaymentResult is what a payment provider reports.
type PaymentResult uint8

// The results.
const (
	PaymentPaid     PaymentResult = 1
	PaymentDeclined PaymentResult = 2 // or to be authenticated: a person is needed
	PaymentFailed   PaymentResult = 3
)

// NotePayment brings what a provider reports into a purchase, once: a repeated report changes
// nothing, and money that comes for a purchase that has ended is noted to be given back.
type NotePayment struct {
	ID     [16]byte      `wire:"1"`
	Result PaymentResult `wire:"2"`
	// Card is how the provider names the card that was saved; empty leaves it.
	Card string `wire:"3"`
	// Payment is the provider's id of the payment, by which it is sent back.
	Payment string `wire:"4"`
}

func (c *NotePayment) bounds(w *wire.Codec) {
	if w.Decoding() && (c.Result < PaymentPaid || c.Result > PaymentFailed) {
		w.Fail("a payment that came to %d", c.Result)
	}
}

func (c *NotePayment) apply(x *money, t *machine.Turn, row uint32) engine.Outcome {
	p := x.purchases.Read(row)
	switch {
	case c.Result == PaymentPaid && p.owed(c.Payment):
		// Said before: it is on its way back, and pays nothing that waits again.
	case p.Status == PurchaseProcessing,
		p.Status == PurchaseCheckout && c.Result != PaymentDeclined:
		x.paid(t, row, c)
	case p.Status == PurchaseCheckout:
		// A card that was declined on the page, or a late word about the saved one: another may
		// pay.
	case c.Result == PaymentPaid && p.Status != PurchaseSucceeded && !p.Refund:
		p = x.purchaseWrite(row, func(p *purchase) {
			p.Refund, p.ChangedAt, p.Payment, p.PageOpen = true, t.Stamp, c.Payment, false
		})
		w := x.workspaces.Write(p.Workspace)
		w.Ledger.RefundCents += uint64(p.Cents)
		t.Fold(uint64(row))
	}
	return engine.OutcomeDone
}

// paid carries out a report about a purchase that waits for one.
func (x *money) paid(t *machine.Turn, row uint32, c *NotePayment) {
	number := x.purchases.Read(row).Workspace
	w := *x.workspaces.Read(number)
	w.Ledger.roll(t.Stamp)
	l := &w.Ledger
	switch {
	case c.Result == PaymentPaid:
		p := x.change(t, row, &w, PurchaseSucceeded, 0)
		x.purchaseWrite(row, (*purchase).setAside)
		p.Payment = c.Payment
		p.PaidMonth = cmp.Or(p.PaidMonth, l.Month)
		if p.PaidMonth == l.Month {
			l.SpentCents += p.Cents
		}
		l.PaidCents += uint64(p.Cents)
		l.RunsBought, l.RunsLeft = l.RunsBought+p.Runs, l.RunsLeft+p.Runs
		if made, _ := x.replay(p.Key, p.Body); made != p.ID { // where there is no room: replayPaid
			x.keepRequest(t, p.Key, p.Body, madePurchase, row)
		}
		if c.Card != "" {
			l.Card = c.Card
		}
		x.notify(t, &w, notice{kind: NoticePurchase, purchase: p})
	case c.Result == PaymentDeclined && x.purchases.Read(row).Status == PurchaseProcessing:
		p := x.change(t, row, &w, PurchaseApproval, t.Stamp+ApprovalMS)
		p.Reason, p.PaidMonth = ReasonDeclined, 0
	default:
		p := x.change(t, row, &w, PurchaseFailed, 0)
		x.notify(t, &w, notice{kind: NoticePurchase, purchase: p})
	}
	*x.workspaces.Write(number) = w
}

// SetBilling pauses purchases or sets the monthly cap. A key or an agent session may only pause,
// and lower a cap that its owner has approved: else OutcomePersonRequired.
type SetBilling struct {
	Workspace uint32 `wire:"1"`
	HasPaused bool   `wire:"2"`
	Paused    bool   `wire:"3"`
	HasCap    bool   `wire:"4"`
	CapCents  uint32 `wire:"5"`
	Person    bool   `wire:"6"`
}

func (c *SetBilling) apply(x *money, t *machine.Turn, row uint32) engine.Outcome {
	w := *x.workspaces.Read(row)
	l := &w.Ledger
	unpauses := c.HasPaused && !c.Paused
	raises := c.HasCap && (!l.CapApproved || c.CapCents >= l.CapCents)
	switch {
	case c.HasCap && c.CapCents > x.policy.MaxCapCents:
		return engine.OutcomeCreditsInvalid
	case !c.Person && (unpauses || raises):
		return engine.OutcomePersonRequired
	}
	if c.HasPaused {
		l.Paused = c.Paused
	}
	if c.HasCap {
		l.CapCents, l.CapApproved = c.CapCents, true
	}
	*x.workspaces.Write(c.Workspace) = w
	t.Fold(uint64(l.CapCents))
	return engine.OutcomeDone
}
