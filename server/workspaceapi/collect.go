package workspaceapi

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"tollgate/engine/workspace"
	"tollgate/server/leader"
	"tollgate/server/provider/payment"
)

// How payment providers are asked about purchases.
const (
	// paymentsEvery is how often the state is asked what is left to do, pollEvery how often open
	// payment pages are polled, pollAfter how old a page is before its webhook is late.
	paymentsEvery = 100 * time.Millisecond
	pollEvery     = time.Minute
	pollAfter     = 5 * time.Minute
	// paymentSlots is how many questions are under way at a time, taskBatch how many tasks are read
	// at a time, pollBatch how many pages are polled in one pass.
	paymentSlots = 8
	taskBatch    = 64
	pollBatch    = 200
	// A provider that gave no answer is asked again after a second, then two, up to a minute.
	firstPause, maxPause = time.Second, time.Minute
	// keyLife is how long a provider is trusted to remember an idempotency key (Stripe: 24 hours).
	// A charge of unknown fate that is older is only looked for.
	keyLife = 23 * time.Hour
)

// collector does at payment providers what the state says is left to do, on the node that leads.
// What it remembers is only when to ask again: a new leader asks at once, and each question is safe
// to repeat.
type collector struct {
	*Payments
	// polled is the number of the purchase that the pass before ended with, and pollAt when the
	// next pass begins.
	polled uint32
	pollAt time.Time
}

// paymentTask is something to do at a provider for a purchase.
type paymentTask struct {
	kind workspace.PaymentTask
	of   *workspace.PurchaseView
}

// CollectPayments charges saved cards, makes and closes payment pages, finds payments that no
// webhook reported, and sends money back, while this node leads and until ctx ends.
func (t *Payments) CollectPayments(ctx context.Context, leads func() (uint64, bool)) {
	if !t.open() {
		return
	}
	c, slots := &collector{Payments: t}, leader.Slots(paymentSlots)
	loop := leader.Loop[[16]byte, paymentTask]{
		Leads: leads, Every: paymentsEvery, Now: t.clock, Due: c.due, Do: c.do,
		Take: func(paymentTask) (func(), bool) { return slots.Take() },
	}
	loop.Run(ctx)
}

// taskOrder is what is done first where much is to be done.
var taskOrder = [...]workspace.PaymentTask{
	workspace.TaskCharge, workspace.TaskPage, workspace.TaskEnd, workspace.TaskRefund,
	workspace.TaskClose,
}

// due offers what is to be done: tasks, and once a minute a pass over open payment pages, which
// goes on where the one before ended.
func (c *collector) due(_ func([16]byte) bool, offer func([16]byte, paymentTask)) {
	for _, kind := range taskOrder {
		views := c.machine.PaymentTasks(kind, 0, taskBatch)
		for len(views) > 0 {
			for i := range views {
				offer(views[i].ID, paymentTask{kind, &views[i]})
			}
			views = c.machine.PaymentTasks(kind, views[len(views)-1].Number, taskBatch)
		}
	}
	now := c.clock()
	if now.Before(c.pollAt) {
		return
	}
	c.pollAt = now.Add(pollEvery)
	views := c.machine.PaymentTasks(workspace.TaskPoll, c.polled, pollBatch)
	c.polled = 0
	if len(views) == pollBatch {
		c.polled = views[len(views)-1].Number
	}
	for i := range views {
		if now.Sub(time.UnixMilli(views[i].ChangedAt)) >= pollAfter {
			offer(views[i].ID, paymentTask{workspace.TaskPoll, &views[i]})
		}
	}
}

// do carries a task out; one that failed is tried again.
func (c *collector) do(ctx context.Context, _ [16]byte, task paymentTask, failures int,
) (rest time.Duration, failed bool) {
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	err := c.carryOut(ctx, task, failures)
	if err == nil {
		return firstPause, false // what was noted may reach this node's memory a moment later
	}
	rest = min(firstPause<<min(failures, 6), maxPause)
	c.log.Warn("a payment provider is asked again", "purchase", paymentName(task.of), "in", rest,
		"error", err)
	return rest, true
}

func (t *Payments) carryOut(ctx context.Context, task paymentTask, failures int) error {
	switch v := task.of; task.kind {
	case workspace.TaskCharge:
		return t.charge(ctx, v, failures)
	case workspace.TaskPage:
		err := t.openCheckout(ctx, v)
		if code, no := refusedFor(err, failures); no {
			t.log.Error("no payment page is made: its provider refuses it", "purchase",
				paymentName(v), "code", code)
			return t.book(&workspace.NotePayment{ID: v.ID, Result: workspace.PaymentFailed})
		}
		return err
	case workspace.TaskRefund:
		return t.sendBack(ctx, v, failures)
	case workspace.TaskClose:
		paid, err := t.closePage(ctx, v)
		if err != nil || paid {
			return err
		}
		return t.note(workspace.KindNoteCheckout, &workspace.NoteCheckout{ID: v.ID, Closed: true})
	case workspace.TaskEnd:
		// It was closed for a cancellation that was interrupted, or by somebody at the provider.
		return t.note(workspace.KindCancelPurchase, &workspace.CancelPurchase{
			Workspace: v.Workspace, ID: v.ID, Person: true,
		})
	case workspace.TaskPoll:
		return t.pollPage(ctx, v)
	}
	return nil
}

// pollPage finds a payment that no webhook reported, and a page that was closed before its time.
func (t *Payments) pollPage(ctx context.Context, v *workspace.PurchaseView) error {
	status, err := t.cards.Checkout(ctx, v.Checkout)
	if err != nil {
		return err
	}
	over := status.State == payment.StateExpired || status.State == payment.StateFailed
	if over && t.now() < v.ExpiresAt {
		return t.note(workspace.KindNoteCheckout, &workspace.NoteCheckout{ID: v.ID, Closed: true})
	}
	return t.settle(&status)
}

// pageGoneMS is when no payment page of a purchase can be open, in milliseconds since it was made.
const pageGoneMS = workspace.ApprovalMS + 2*workspace.CheckoutMS

// closePage makes a payment page take no payment; one that its payer was faster on is booked. Who
// calls notes that it is closed, together with what follows from that.
func (t *Payments) closePage(ctx context.Context, v *workspace.PurchaseView) (
	paid bool, err error,
) {
	status, err := t.cards.CloseCheckout(ctx, v.Checkout)
	var no *payment.Error
	switch age := t.now() - v.CreatedAt; {
	case errors.As(err, &no) && no.Class == payment.ClassNotFound && age > pageGoneMS:
		// Another provider's page, from before the settings changed: it cannot be paid any more.
	case err != nil:
		return false, err
	case status.State == payment.StatePaid:
		return true, t.settle(&status)
	case status.State != payment.StateExpired:
		return false, errors.New("workspace: the payment page is neither closed nor paid")
	}
	return false, nil
}

// charge charges the saved card. A charge of unknown fate is looked for between failures, and when
// the provider may have forgotten its key, it is only looked for, so that it is not paid twice.
func (t *Payments) charge(ctx context.Context, v *workspace.PurchaseView, failures int) error {
	old := t.clock().Sub(time.UnixMilli(v.ChangedAt)) >= keyLife
	r := payment.ChargeRequest{
		InvoiceID: paymentName(v), Description: describe(v), IdempotencyKey: paymentName(v),
		Card: v.Card, Amount: price(v), AskedAt: time.UnixMilli(v.CreatedAt),
		OnlyLook: old || failures%2 == 1,
	}
	made, err := t.cards.Charge(ctx, r)
	var no *payment.Error
	switch {
	case errors.As(err, &no) && (old || !r.OnlyLook) &&
		(no.Class == payment.ClassRefused || no.Class == payment.ClassNotFound):
		made = payment.Charge{State: payment.StateFailed, Code: no.Code}
	case err != nil:
		return err
	}
	result := workspace.NotePayment{ID: v.ID, Result: workspace.PaymentDeclined}
	switch {
	case made.State == payment.StatePaid:
		result.Result, result.Payment = workspace.PaymentPaid, made.PaymentID
	case made.State == payment.StateOpen && !old:
		return errors.New("workspace: the provider knows of no such charge yet")
	default:
		t.log.Info("a saved card was not charged", "purchase", paymentName(v),
			"code", made.Code)
	}
	return t.book(&result)
}

// refusals is how often a provider refuses in a row what it is not expected to, before it is not
// asked any more: the pauses between are some minutes in all.
const refusals = 10

// refusedFor reports whether an error is a provider's definite no, and the last one that is taken.
func refusedFor(err error, failures int) (code string, no bool) {
	var said *payment.Error
	if !errors.As(err, &said) || failures+1 < refusals ||
		said.Class != payment.ClassRefused && said.Class != payment.ClassNotFound {
		return "", false
	}
	return cut(said.Code, workspace.MaxRefused), true
}

// sendBack sends the first payment back that is due. One that the provider goes on refusing waits
// for an operator, who sees it.
func (t *Payments) sendBack(ctx context.Context, v *workspace.PurchaseView, failures int) error {
	at := slices.IndexFunc(v.Returns, func(r workspace.Return) bool { return r.Due() })
	if at < 0 {
		return nil
	}
	// The purchase's own payment has the name that it always had; a list never changes its order.
	key := paymentName(v) + "-refund"
	if due := &v.Returns[at]; due.Payment != v.Payment {
		key += "-" + strconv.Itoa(at)
	}
	note := workspace.NoteRefund{ID: v.ID, Payment: v.Returns[at].Payment}
	refund, err := t.cards.Refund(ctx, payment.RefundRequest{
		PaymentID: note.Payment, IdempotencyKey: key,
	})
	if code, no := refusedFor(err, failures); no {
		t.log.Error("a payment is not sent back: its provider refuses to; an operator is to look",
			"purchase", paymentName(v), "payment", note.Payment, "code", code)
		note.Refused = cmp.Or(code, "refused")
		return t.note(workspace.KindNoteRefund, &note)
	}
	if err != nil {
		return err
	}
	note.Refund = refund
	return t.note(workspace.KindNoteRefund, &note)
}
