package workspace

import (
	"tollgate/engine"
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

func (c *NoteCheckout) apply(t *turn) engine.Outcome {
	row := t.purchaseOf(c.ID)
	if row == 0 {
		return engine.OutcomeRecordUnknown
	}
	if !c.Closed && t.purchases.Read(row).Status != PurchaseCheckout {
		return engine.OutcomePurchaseClosed
	}
	t.purchaseWrite(row, func(p *purchase) {
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

func (c *NotePayment) apply(t *turn) engine.Outcome {
	row := t.purchaseOf(c.ID)
	if row == 0 {
		return engine.OutcomeRecordUnknown
	}
	p := t.purchases.Read(row)
	switch {
	case c.Result == PaymentPaid && p.owed(c.Payment):
		// Said before: it is on its way back, and pays nothing that waits again.
	case p.Status == PurchaseProcessing,
		p.Status == PurchaseCheckout && c.Result != PaymentDeclined:
		t.paid(row, c)
	case p.Status == PurchaseCheckout:
		// A card that was declined on the page, or a late word about the saved one: another may
		// pay.
	case c.Result == PaymentPaid && p.Status != PurchaseSucceeded && !p.Refund:
		p = t.purchaseWrite(row, func(p *purchase) {
			p.Refund, p.ChangedAt, p.Payment, p.PageOpen = true, t.Stamp, c.Payment, false
		})
		w := t.workspaces.Write(p.Workspace)
		w.Ledger.RefundCents += uint64(p.Cents)
		t.Fold(uint64(row))
	}
	return engine.OutcomeDone
}

// paid carries out a report about a purchase that waits for one.
func (t *turn) paid(row uint32, c *NotePayment) {
	number := t.purchases.Read(row).Workspace
	w := *t.workspaces.Read(number)
	w.Ledger.roll(t.Stamp)
	l := &w.Ledger
	switch {
	case c.Result == PaymentPaid:
		p := t.change(row, &w, PurchaseSucceeded, 0)
		t.purchaseWrite(row, (*purchase).setAside)
		p.Payment = c.Payment
		if p.PaidMonth == 0 {
			p.PaidMonth = l.Month
		}
		if p.PaidMonth == l.Month {
			l.SpentCents += p.Cents
		}
		l.PaidCents += uint64(p.Cents)
		l.RunsBought, l.RunsLeft = l.RunsBought+p.Runs, l.RunsLeft+p.Runs
		if made, _ := t.replay(p.Key, p.Body); made != p.ID { // where there is no room: replayPaid
			t.keepRequest(p.Key, p.Body, madePurchase, row)
		}
		if c.Card != "" {
			l.Card = c.Card
		}
		t.notify(&w, notice{kind: NoticePurchase, purchase: p})
	case c.Result == PaymentDeclined && t.purchases.Read(row).Status == PurchaseProcessing:
		p := t.change(row, &w, PurchaseApproval, t.Stamp+ApprovalMS)
		p.Reason, p.PaidMonth = ReasonDeclined, 0
	default:
		p := t.change(row, &w, PurchaseFailed, 0)
		t.notify(&w, notice{kind: NoticePurchase, purchase: p})
	}
	*t.workspaces.Write(number) = w
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

func (c *SetBilling) apply(t *turn) engine.Outcome {
	w, ok := t.workspace(c.Workspace)
	if !ok {
		return engine.OutcomeRecordUnknown
	}
	l := &w.Ledger
	unpauses := c.HasPaused && !c.Paused
	raises := c.HasCap && (!l.CapApproved || c.CapCents >= l.CapCents)
	switch {
	case c.HasCap && c.CapCents > t.policy.MaxCapCents:
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
	*t.workspaces.Write(c.Workspace) = w
	t.Fold(uint64(l.CapCents))
	return engine.OutcomeDone
}
