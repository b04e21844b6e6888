package workspace

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/valyala/fasthttp"

	"tollgate/engine"
	state "tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/provider/payment"
)

// pagePath is where the built-in provider's payment pages are.
const pagePath = "/pay/workspace/"

// openDesk makes the built-in sandbox provider; purchases are its invoices.
func (a *API) openDesk() error {
	h := hmac.New(sha256.New, a.config.QuoteKey[:])
	h.Write([]byte("tollgate workspace sandbox"))
	var err error
	a.sandbox, err = payment.NewSandbox(payment.SandboxConfig{
		Secret: payment.Secret(h.Sum(nil)), PageURL: a.config.PublicURL + pagePath,
		Receive: a.receive, Invoice: a.payable, Now: a.config.Now,
	})
	return err
}

func (a *API) deskRoutes() []server.Route {
	page := server.Route{
		Path: pagePath + "{token}", Access: server.AccessOpen, Handle: a.page402, Limit: bodyLimit,
		Summary: "The sandbox provider's payment page",
	}
	show, act := page, page
	show.Method, show.Operation = "GET", "showPaymentPage"
	act.Method, act.Operation = "POST", "actOnPaymentPage"
	return []server.Route{show, act}
}

// openCheckout makes the payment page of an approved purchase. Again it is the same page.
func (a *API) openCheckout(v *state.PurchaseView) error {
	if v.Status != state.PurchaseCheckout || v.URL != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.config.WriteTimeout)
	defer cancel()
	name := idText(markPurchase, v.ID)
	made, err := a.sandbox.CreateCheckout(ctx, payment.CheckoutRequest{
		InvoiceID: name, Description: fmt.Sprintf("%d hosted runs", v.Runs),
		Amount:     payment.Amount{Minor: int64(v.Cents), Currency: "USD"},
		SuccessURL: a.config.PublicURL + "/v1/routes", CancelURL: a.config.PublicURL + "/v1/routes",
		IdempotencyKey: name, RequestedAt: time.UnixMilli(v.ChangedAt),
	})
	if err != nil {
		return err
	}
	r := a.propose(state.KindNoteCheckout, &state.NoteCheckout{
		ID: v.ID, Checkout: made.ID, URL: made.URL,
	})
	if r.Outcome != engine.OutcomeDone {
		return fmt.Errorf("note a checkout: %s", r.Outcome)
	}
	return nil
}

// receive takes the provider's webhook: a purchase that was paid is paid once. Declined attempts
// leave the page open for another card.
func (a *API) receive(_ context.Context, header func(string) string, body []byte) error {
	event, err := a.sandbox.ParseWebhook(a.config.Now(), header, body)
	if err != nil {
		return err
	}
	if event.Kind != payment.EventPaid {
		return nil
	}
	id, ok := parseID(markPurchase, event.InvoiceID)
	if !ok {
		return errors.New("workspace: a payment for no purchase")
	}
	r := a.propose(state.KindNotePayment, &state.NotePayment{ID: id, Result: state.PaymentPaid})
	if r.Outcome != engine.OutcomeDone {
		return fmt.Errorf("workspace: note a payment: %s", r.Outcome)
	}
	return nil
}

// payable says whether a purchase takes a payment.
func (a *API) payable(_ context.Context, invoice string) (payment.InvoiceState, error) {
	if !a.fresh() {
		return payment.InvoiceClosed, errors.New("workspace: no quorum")
	}
	id, _ := parseID(markPurchase, invoice)
	v, _ := a.machine.Purchase(0, id)
	switch v.Status {
	case state.PurchaseCheckout:
		return payment.InvoiceOpen, nil
	case state.PurchaseSucceeded:
		return payment.InvoicePaid, nil
	}
	return payment.InvoiceClosed, nil
}

// page402 shows the sandbox's page, or carries out its form.
func (a *API) page402(x *server.Exchange) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*a.config.WriteTimeout)
	defer cancel()
	answer := a.sandbox.Page
	var made payment.Answer
	if x.Route.Method == "GET" {
		made = answer(ctx, string(x.Param(0)))
	} else {
		form, err := url.ParseQuery(string(x.Body))
		if err != nil {
			a.refuse(x, no("invalid_json"))
			return
		}
		made = a.sandbox.Act(ctx, string(x.Param(0)), form)
	}
	x.Bare(made.Status, "text/html; charset=utf-8", made.Body)
	for name, value := range made.Header {
		if name != fasthttp.HeaderContentLength {
			x.Ctx.Response.Header.Set(name, value)
		}
	}
}
