package workspace

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	state "tollgate/engine/workspace"
	"tollgate/server/provider/payment"
)

// How payment providers are asked about purchases.
const (
	// cashierEvery is how often the state is asked what is left to do, pollEvery how often open
	// payment pages are polled, pollAfter how old a page is before its webhook is late.
	cashierEvery = 100 * time.Millisecond
	pollEvery    = time.Minute
	pollAfter    = 5 * time.Minute
	// cashierSlots is how many questions are under way at a time; of each errand so many purchases
	// are looked at in one round, and so many pages polled in one pass.
	cashierSlots = 8
	errandBatch  = 64
	pollBatch    = 200
	// A provider that gave no answer is asked again after a second, then two, up to a minute.
	firstPause, longestPause = time.Second, time.Minute
	// keyLife is how long a provider is trusted to remember an idempotency key (Stripe: 24 hours).
	// A charge of unknown fate that is older is only looked for.
	keyLife = 23 * time.Hour
)

// cashier does at payment providers what the state says is left to do, on the node that leads. What
// it remembers is only when to ask again: a new leader asks at once, and each question is safe to
// repeat.
type cashier struct {
	till  *Till
	slots chan struct{}
	busy  sync.WaitGroup

	mu    sync.Mutex
	tries map[[16]byte]try
	// polled is the number of the purchase that the pass before ended with, and pollAt when the
	// next pass begins.
	polled uint32
	pollAt time.Time
}

// try is a question that is under way, or had no answer.
type try struct {
	running  bool
	attempts int
	next     time.Time
}

// CollectPayments charges saved cards, makes and closes payment pages, finds payments that no
// webhook reported, and sends money back, while leads says so and until ctx ends.
func (t *Till) CollectPayments(ctx context.Context, leads func() bool) {
	if !t.open() {
		return
	}
	c := &cashier{till: t, slots: make(chan struct{}, cashierSlots), tries: map[[16]byte]try{}}
	tick := time.NewTicker(cashierEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			c.busy.Wait()
			return
		case <-tick.C:
		}
		if leads() {
			c.round(ctx)
		}
	}
}

// errandOrder is what is done first where much is to be done.
var errandOrder = [...]state.Errand{
	state.ErrandCharge, state.ErrandPage, state.ErrandEnd, state.ErrandRefund, state.ErrandClose,
}

// round begins what can begin now.
func (c *cashier) round(ctx context.Context) {
	now, waiting := c.till.clock(), map[[16]byte]bool{}
	for _, kind := range errandOrder {
		for after := uint32(0); ; {
			views := c.till.machine.Errands(kind, after, errandBatch)
			for i := range views {
				waiting[views[i].ID] = true
				c.begin(ctx, now, kind, &views[i])
			}
			if len(views) < errandBatch {
				break
			}
			after = views[len(views)-1].Number
		}
	}
	c.poll(ctx, now, waiting)
	c.forget(waiting)
}

// forget drops what is remembered of purchases that have no errand any more.
func (c *cashier) forget(waiting map[[16]byte]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, t := range c.tries {
		if !waiting[id] && !t.running {
			delete(c.tries, id)
		}
	}
}

// poll begins a pass over open payment pages, a minute after the one before; it goes on where that
// one ended.
func (c *cashier) poll(ctx context.Context, now time.Time, waiting map[[16]byte]bool) {
	if now.Before(c.pollAt) {
		return
	}
	c.pollAt = now.Add(pollEvery)
	views := c.till.machine.Errands(state.ErrandPoll, c.polled, pollBatch)
	c.polled = 0
	if len(views) == pollBatch {
		c.polled = views[len(views)-1].Number
	}
	for i := range views {
		if now.Sub(time.UnixMilli(views[i].ChangedAt)) >= pollAfter {
			waiting[views[i].ID] = true
			c.begin(ctx, now, state.ErrandPoll, &views[i])
		}
	}
}

// begin starts an errand, unless it is under way, was tried a moment ago, or there is no room.
func (c *cashier) begin(ctx context.Context, now time.Time, kind state.Errand,
	v *state.PurchaseView,
) {
	c.mu.Lock()
	t := c.tries[v.ID]
	c.mu.Unlock()
	if t.running || now.Before(t.next) || ctx.Err() != nil {
		return
	}
	select {
	case c.slots <- struct{}{}:
	default:
		return
	}
	c.remember(v.ID, try{running: true, attempts: t.attempts})
	purchase := *v
	c.busy.Go(func() {
		defer func() { <-c.slots }()
		asked, cancel := context.WithTimeout(ctx, providerTimeout)
		defer cancel()
		err := c.carryOut(asked, kind, &purchase, t.attempts)
		if err == nil {
			// What was noted may reach this node's memory a moment later.
			c.remember(purchase.ID, try{next: c.till.clock().Add(firstPause)})
			return
		}
		pause := min(firstPause<<min(t.attempts, 6), longestPause)
		c.remember(purchase.ID, try{
			attempts: t.attempts + 1, next: c.till.clock().Add(pause),
		})
		c.till.log.Warn("a payment provider is asked again", "purchase", paymentName(&purchase),
			"in", pause, "error", err)
	})
}

func (c *cashier) remember(id [16]byte, t try) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tries[id] = t
}

// carryOut does one errand; an error is asked again.
func (c *cashier) carryOut(ctx context.Context, kind state.Errand, v *state.PurchaseView,
	attempts int,
) error {
	switch t := c.till; kind {
	case state.ErrandCharge:
		return c.charge(ctx, v, attempts)
	case state.ErrandPage:
		err := t.openCheckout(ctx, v)
		if code, no := refusedFor(err, attempts); no {
			t.log.Error("no payment page is made: its provider refuses it", "purchase",
				paymentName(v), "code", code)
			return t.book(&state.NotePayment{ID: v.ID, Result: state.PaymentFailed})
		}
		return err
	case state.ErrandRefund:
		return t.sendBack(ctx, v, attempts)
	case state.ErrandClose:
		paid, err := t.closePage(ctx, v)
		if err != nil || paid {
			return err
		}
		return t.note(state.KindNoteCheckout, &state.NoteCheckout{ID: v.ID, Closed: true})
	case state.ErrandEnd:
		// It was closed for a cancellation that was interrupted, or by somebody at the provider.
		return t.note(state.KindCancelPurchase, &state.CancelPurchase{
			Workspace: v.Workspace, ID: v.ID, Person: true,
		})
	case state.ErrandPoll:
		return t.pollPage(ctx, v)
	}
	return nil
}

// pollPage finds a payment that no webhook reported, and a page that was closed before its time.
func (t *Till) pollPage(ctx context.Context, v *state.PurchaseView) error {
	status, err := t.cards.Checkout(ctx, v.Checkout)
	if err != nil {
		return err
	}
	over := status.State == payment.StateExpired || status.State == payment.StateFailed
	if over && t.now() < v.ExpiresAt {
		return t.note(state.KindNoteCheckout, &state.NoteCheckout{ID: v.ID, Closed: true})
	}
	return t.settle(&status)
}

// pageGoneMS is when no payment page of a purchase can be open, in milliseconds since it was made.
const pageGoneMS = state.ApprovalMS + 2*state.CheckoutMS

// closePage makes a payment page take no payment; one that its payer was faster on is booked. Who
// calls notes that it is closed, together with what follows from that.
func (t *Till) closePage(ctx context.Context, v *state.PurchaseView) (paid bool, err error) {
	status, err := t.cards.CloseCheckout(ctx, v.Checkout)
	var no *payment.Error
	switch age := t.now() - v.CreatedAt; {
	case errors.As(err, &no) && no.Class == payment.ClassNotFound && age > pageGoneMS:
		// Another provider's page, from before the settings changed: nobody can pay it any more.
	case err != nil:
		return false, err
	case status.State == payment.StatePaid:
		return true, t.settle(&status)
	case status.State != payment.StateExpired:
		return false, errors.New("workspace: the payment page is neither closed nor paid")
	}
	return false, nil
}

// charge charges the saved card. A charge of unknown fate is looked for between attempts, and when
// the provider may have forgotten its key, it is only looked for: nobody pays twice.
func (c *cashier) charge(ctx context.Context, v *state.PurchaseView, attempts int) error {
	old := c.till.clock().Sub(time.UnixMilli(v.ChangedAt)) >= keyLife
	r := payment.ChargeRequest{
		InvoiceID: paymentName(v), Description: describe(v), IdempotencyKey: paymentName(v),
		Card: v.Card, Amount: price(v), OnlyLook: old || attempts%2 == 1,
	}
	made, err := c.till.cards.Charge(ctx, r)
	var no *payment.Error
	switch {
	case errors.As(err, &no) && (old || !r.OnlyLook) &&
		(no.Class == payment.ClassRefused || no.Class == payment.ClassNotFound):
		made = payment.Charge{State: payment.StateFailed, Code: no.Code}
	case err != nil:
		return err
	}
	result := state.NotePayment{ID: v.ID, Result: state.PaymentDeclined}
	switch {
	case made.State == payment.StatePaid:
		result.Result, result.Payment = state.PaymentPaid, made.PaymentID
	case made.State == payment.StateOpen && !old:
		return errors.New("workspace: the provider knows of no such charge yet")
	default:
		c.till.log.Info("a saved card was not charged", "purchase", paymentName(v),
			"code", made.Code)
	}
	return c.till.book(&result)
}

// refusals is how often a provider refuses in a row what it is not expected to, before it is not
// asked any more: the pauses between are some minutes in all.
const refusals = 10

// refusedFor reports whether an error is a provider's definite no, and the last one that is taken.
func refusedFor(err error, attempts int) (code string, no bool) {
	var said *payment.Error
	if !errors.As(err, &said) || attempts+1 < refusals ||
		said.Class != payment.ClassRefused && said.Class != payment.ClassNotFound {
		return "", false
	}
	return cut(said.Code, state.MaxRefused), true
}

// sendBack sends the first payment back that is due. One that the provider goes on refusing waits
// for an operator, who sees it.
func (t *Till) sendBack(ctx context.Context, v *state.PurchaseView, attempts int) error {
	at := slices.IndexFunc(v.Returns, func(r state.Return) bool { return r.Due() })
	if at < 0 {
		return nil
	}
	// The purchase's own payment has the name that it always had; a list never changes its order.
	key := paymentName(v) + "-refund"
	if due := &v.Returns[at]; due.Payment != v.Payment {
		key += "-" + strconv.Itoa(at)
	}
	note := state.NoteRefund{ID: v.ID, Payment: v.Returns[at].Payment}
	refund, err := t.cards.Refund(ctx, payment.RefundRequest{
		PaymentID: note.Payment, IdempotencyKey: key,
	})
	if code, no := refusedFor(err, attempts); no {
		t.log.Error("a payment is not sent back: its provider refuses to; an operator is to look",
			"purchase", paymentName(v), "payment", note.Payment, "code", code)
		note.Refused = cmp.Or(code, "refused")
		return t.note(state.KindNoteRefund, &note)
	}
	if err != nil {
		return err
	}
	note.Refund = refund
	return t.note(state.KindNoteRefund, &note)
}
