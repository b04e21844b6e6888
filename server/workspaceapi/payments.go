package workspaceapi

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/provider/payment"
)

// Paths of purchases on the public listener. pagePath is where the built-in provider's payment
// pages are.
const (
	pagePath    = "/pay/workspace/"
	webhookPath = "/pay/workspace-webhook"
)

// ReturnPath and a purchase's id are where its payers come back to. The owner's pages answer there,
// where there are any.
const ReturnPath = "/pay/workspace-return/"

// PurchaseTag is the metadata key by which purchases are known at Stripe.
const PurchaseTag = "tollgate_purchase"

// currency is what runs are sold in.
const currency = "USD"

// providerTimeout bounds one question to a payment provider.
const providerTimeout = 10 * time.Second

// newPayments makes the payment provider; purchases are its invoices.
func newPayments(b *base, c *Config) (*Payments, error) {
	t := &Payments{base: b}
	switch {
	case !c.Payments:
	case c.Cards != nil:
		t.cards = c.Cards
	default:
		h := hmac.New(sha256.New, c.QuoteKey[:])
		h.Write([]byte("tollgate workspace sandbox"))
		var err error
		t.sandbox, err = payment.NewSandbox(payment.SandboxConfig{
			Secret: payment.Secret(h.Sum(nil)), PageURL: b.publicURL + pagePath,
			Receive: t.receive, Invoice: t.payable, Now: b.clock,
		})
		if err != nil {
			return nil, err
		}
		t.cards = t.sandbox
	}
	return t, nil
}

// open reports whether purchases can be paid.
func (t *Payments) open() bool { return t.cards != nil }

// paymentRoutes are the rows of payments, which no caller of the API needs: the webhook of a
// provider on the internet, or the pages of the built-in one, and where payers come back to.
func (t *Payments) paymentRoutes() []server.Route {
	back := server.Row("GET", ReturnPath+"{purchase}", "showPaymentReturn",
		"Where payers come back to", server.AccessOpen, func(x *server.Exchange) *server.Fault {
			return x.PaidPage("The purchase", "succeeded", "")
		})
	if t.sandbox == nil {
		hook := row("POST", webhookPath, "receivePurchaseWebhook", "Reports of the payment provider", 0,
			t.webhook)
		hook.Limit = payment.MaxWebhook
		return []server.Route{back, hook}
	}
	const about = "The sandbox provider's payment page"
	return []server.Route{
		back,
		row("GET", pagePath+"{token}", "showPaymentPage", about, 0, t.page402),
		row("POST", pagePath+"{token}", "actOnPaymentPage", about, 0, t.page402),
	}
}

// paymentName is a purchase as providers know it; it is the idempotency key of its charge.
func paymentName(v *workspace.PurchaseView) string { return idText(markPurchase, v.ID) }

func price(v *workspace.PurchaseView) payment.Amount {
	return payment.Amount{Minor: int64(v.Cents), Currency: currency}
}

func describe(v *workspace.PurchaseView) string {
	if v.Runs == 1 {
		return "1 hosted run"
	}
	return fmt.Sprintf("%d hosted runs", v.Runs)
}

// openCheckout makes the payment page of an approved purchase. Again it is the same page. A page
// that was not noted is not given out.
func (t *Payments) openCheckout(ctx context.Context, v *workspace.PurchaseView) error {
	if v.Status != workspace.PurchaseCheckout || v.URL != "" {
		return nil
	}
	back := t.publicURL + ReturnPath + paymentName(v)
	made, err := t.cards.CreateCheckout(ctx, payment.CheckoutRequest{
		InvoiceID: paymentName(v), Description: describe(v), Amount: price(v),
		SuccessURL: back, CancelURL: back, IdempotencyKey: paymentName(v) + "-page",
		RequestedAt: time.UnixMilli(v.ChangedAt), SaveCard: true,
	})
	if err != nil {
		return err
	}
	return t.note(workspace.KindNoteCheckout, &workspace.NoteCheckout{
		ID: v.ID, Checkout: made.ID, URL: made.URL,
	})
}

// note brings what a provider said into the state.
func (t *Payments) note(kind engine.Kind, c wire.Fielder) error {
	if r := t.propose(0, kind, c); r.Outcome != engine.OutcomeDone {
		return fmt.Errorf("workspace: note what a payment provider said: %s", r.Outcome)
	}
	return nil
}

var errNoPurchase = errors.New("workspace: a payment for no purchase, or of another amount")

// receive takes a provider's webhook: a purchase that was paid is paid once. Declined attempts
// leave the page open for another card. What is not about a purchase of ours changes nothing.
func (t *Payments) receive(ctx context.Context, header func(string) string, body []byte) error {
	event, err := t.cards.ParseWebhook(t.clock(), header, body)
	if err != nil || event.Kind != payment.EventPaid {
		return err
	}
	status := payment.Status{
		ID: event.CheckoutID, State: payment.StatePaid, InvoiceID: event.InvoiceID,
		Amount: event.Amount, PaymentID: event.PaymentID, Card: event.Card,
	}
	if status.Card == "" {
		// The webhook does not say which card was saved; the provider does.
		if status, err = t.cards.Checkout(ctx, event.CheckoutID); err != nil {
			return err
		}
	}
	return t.settle(&status)
}

// settle brings a checkout that is paid into its purchase.
func (t *Payments) settle(s *payment.Status) error {
	id, ok := parseID(markPurchase, s.InvoiceID)
	if s.State != payment.StatePaid {
		return nil
	}
	if !t.fresh() {
		return errQuorum
	}
	v, known := t.machine.Purchase(0, id)
	if !ok || !known || s.Amount != price(&v) {
		t.log.Error("a payment fits no purchase and was not booked", "purchase", s.InvoiceID,
			"checkout", s.ID, "amount", s.Amount.String())
		return errNoPurchase
	}
	return t.book(&workspace.NotePayment{
		ID: id, Result: workspace.PaymentPaid, Card: s.Card, Payment: s.PaymentID,
	})
}

// book brings a payment into its purchase. One that another payment has paid before, or whose first
// payment is on its way back, keeps this one to be sent back: no money may come and leave no trace.
// What was booked is looked at afterwards, so that of two reports at once one is seen to be too
// much.
func (t *Payments) book(c *workspace.NotePayment) error {
	if err := t.note(workspace.KindNotePayment, c); err != nil {
		return err
	}
	if c.Result != workspace.PaymentPaid || c.Payment == "" {
		return nil
	}
	if !t.fresh() {
		return errQuorum
	}
	v, _ := t.machine.Purchase(0, c.ID)
	if v.Payment == "" || v.Payment == c.Payment || slices.ContainsFunc(v.Returns,
		func(r workspace.Return) bool { return r.Payment == c.Payment }) {
		return nil
	}
	if err := t.note(workspace.KindNoteSurplus, &workspace.NoteSurplus{
		ID: c.ID, Payment: c.Payment,
	}); err != nil {
		t.log.Error("a second payment of a purchase is not booked", "purchase",
			paymentName(&v), "payment", c.Payment, "error", err)
		return err
	}
	t.log.Warn("a purchase was paid twice, and is paid back once", "purchase",
		paymentName(&v), "payment", c.Payment)
	return nil
}

var errQuorum = errors.New("workspace: no quorum")

// payable reports whether a purchase takes a payment.
func (t *Payments) payable(_ context.Context, invoice string) (payment.InvoiceState, error) {
	if !t.fresh() {
		return payment.InvoiceClosed, errQuorum
	}
	id, _ := parseID(markPurchase, invoice)
	v, _ := t.machine.Purchase(0, id)
	switch v.Status {
	case workspace.PurchaseCheckout:
		return payment.InvoiceOpen, nil
	case workspace.PurchaseSucceeded:
		return payment.InvoicePaid, nil
	}
	return payment.InvoiceClosed, nil
}

// webhook is the provider's report. Only what was committed, or changes nothing, is answered 200:
// anything else comes again.
func (t *Payments) webhook(x *server.Exchange) *server.Fault {
	ctx, cancel := context.WithTimeout(context.Background(), providerTimeout)
	defer cancel()
	header := func(name string) string { return string(x.Ctx.Request.Header.Peek(name)) }
	err := t.receive(ctx, header, x.Body)
	refused := func(status int, code string) *server.Fault {
		return server.NewFault(status, code, "The webhook was not accepted.")
	}
	switch {
	case err == nil:
		return x.BareObject(200, func(j *server.JSON) { j.Bool("received", true) })
	case errors.Is(err, payment.ErrSignature):
		return refused(401, "invalid_signature")
	case errors.Is(err, payment.ErrTimestamp):
		return refused(400, "stale_timestamp")
	case errors.Is(err, payment.ErrPayload):
		return refused(400, "invalid_payload")
	case errors.Is(err, errNoPurchase):
		return refused(404, "not_found")
	}
	t.log.Warn("a payment provider's report could not be taken", "error", err)
	return no("workspace_busy")
}

// page402 shows the sandbox's page, or carries out its form.
func (t *Payments) page402(x *server.Exchange) *server.Fault {
	ctx, cancel := context.WithTimeout(context.Background(), 2*t.writeTimeout)
	defer cancel()
	var made payment.Answer
	if x.Route.Method == "GET" {
		made = t.sandbox.Page(ctx, string(x.Param(0)))
	} else {
		form, err := url.ParseQuery(string(x.Body))
		if err != nil {
			return no("invalid_json")
		}
		made = t.sandbox.Act(ctx, string(x.Param(0)), form)
	}
	x.Bare(made.Status, "text/html; charset=utf-8", made.Body)
	return x.Headers(made.Header)
}
