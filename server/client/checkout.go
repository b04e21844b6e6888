package client

import (
	"context"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/billinglog"
	"tollgate/server/payments"
)

// paymentRoutes are the rows about collecting invoices.
func (a *invoices) paymentRoutes() []server.Route {
	return []server.Route{
		row("POST", "/billing/invoices/{invoiceId}/payprovider/checkout", "createCheckoutSession",
			"The address of a hosted page that takes the invoice's payment", server.AccessFull,
			byID(a.createCheckout), server.Asks(server.RequestKey),
			server.Gives(200, "url is empty when the invoice is paid already",
				server.Object(server.Must("url", text(0, 0))))),
	}
}

// createCheckout is POST /billing/invoices/{invoiceId}/payprovider/checkout. The checkout is noted
// in the log before the provider is asked, so that whoever repeats the request asks the provider
// the same question.
func (a *invoices) createCheckout(x *server.Exchange, id [16]byte) *server.Fault {
	c := billing.OpenCheckout{Env: principal(x).Env, ID: newID(), InvoiceID: id}
	result, first, fault := a.once(x, billing.KindOpenCheckout, &c)
	if fault != nil || billinglog.Replay(x, &first) {
		return fault
	}
	if first.Repeated {
		c.ID = first.First
	}
	url := ""
	switch paid := keyed(x) && first.First == [16]byte{}; {
	case result.Outcome == engine.OutcomeInvoicePaid:
	case result.Outcome != engine.OutcomeDone:
		return server.FaultOf(result.Outcome)
	case paid:
	case a.payments == nil:
		return server.FaultOf(engine.OutcomeNoProvider)
	default:
		p := principal(x)
		at := payments.Place{Env: p.Env, Account: p.Account, Kind: p.Environment}
		if url, fault = a.payments.Checkout(context.Background(), at, c.ID); fault != nil {
			return fault
		}
	}
	x.Object(200, func(data *server.JSON) { data.Text("url", url) })
	return a.keep(x, 0)
}
