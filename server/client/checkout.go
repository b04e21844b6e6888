package client

import (
	"context"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/billinglog"
	"tollgate/server/payments"
)

// paymentRoutes are the rows about collecting invoices.
func (a *invoices) paymentRoutes() []server.Route {
	return []server.Route{
		{
			Method: "POST", Path: Prefix + "/billing/invoices/{invoiceId}/payprovider/checkout",
			Operation: "createCheckoutSession",
			Summary:   "The address of a hosted page that takes the invoice's payment",
			Access:    server.AccessFull, Handle: a.createCheckout,
			Params: []server.Param{path("invoiceId", server.UUIDSchema, ""), server.RequestKey},
			Responses: []server.Response{{
				Status: 200, About: "url is empty when the invoice is paid already",
				Data: server.Object(server.Must("url", text(0, 0))),
			}},
		},
	}
}

// createCheckout is POST /billing/invoices/{invoiceId}/payprovider/checkout. The checkout is noted
// in the log before the provider is asked, so that whoever repeats the request asks the provider
// the same question.
func (a *invoices) createCheckout(x *server.Exchange) {
	id, ok := pathUUID(x, 0, "invoiceId")
	if !ok {
		return
	}
	c := billing.OpenCheckout{Env: principal(x).Env, ID: newID(), InvoiceID: id}
	result, first, fault := a.once(x, billing.KindOpenCheckout, wire.Encode(nil, &c))
	if fault != nil {
		x.Refuse(fault)
		return
	}
	if billinglog.Replay(x, &first) {
		return
	}
	if first.Repeated {
		c.ID = first.First
	}
	if o := result.Outcome; o != engine.OutcomeDone && o != engine.OutcomeInvoicePaid {
		x.Refuse(server.FaultOf(o))
		return
	}
	url := ""
	switch {
	case result.Outcome == engine.OutcomeInvoicePaid, keyed(x) && first.First == [16]byte{}: // paid
	case a.payments == nil:
		x.Refuse(server.FaultOf(engine.OutcomeNoProvider))
		return
	default:
		p := principal(x)
		at := payments.Place{Env: p.Env, Account: p.Account, Kind: p.Environment}
		if url, fault = a.payments.Checkout(context.Background(), at, c.ID); fault != nil {
			x.Refuse(fault)
			return
		}
	}
	data := x.Begin()
	data.Open('{')
	data.Text("url", url)
	data.Close('}')
	x.End(200)
	a.keep(x, 0)
}
