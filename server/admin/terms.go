package admin

import (
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
)

// termsRoutes are the rows about when invoices fall due.
func (a *API) termsRoutes() []server.Route {
	terms := server.Object(
		server.Must("paymentTermDays", server.IntSchema(0, billing.MaxPaymentTermDays)))
	return []server.Route{
		{
			Method: "PUT", Path: environment + "/payment-terms", Operation: "setPaymentTerms",
			Summary: "Say how many days after their issue invoices fall due, from now on",
			Access:  server.AccessOperator, Handle: a.putTerms, Params: environmentParams,
			Body: terms, Responses: done("Set"),
		},
		{
			Method: "GET", Path: environment + "/payment-terms", Operation: "showPaymentTerms",
			Summary: "How many days after their issue invoices fall due",
			Access:  server.AccessOperator, Handle: a.getTerms, Params: environmentParams,
			Responses: answers(terms),
		},
	}
}

// putTerms is PUT …/payment-terms.
func (a *API) putTerms(x *server.Exchange) {
	var days uint32
	var w walk
	fault := body(x, &w, map[string]reader{"paymentTermDays": w.whole(&days)}, "paymentTermDays")
	if fault == nil && days > billing.MaxPaymentTermDays {
		w.problem("paymentTermDays", "must be from 0 to %d", billing.MaxPaymentTermDays)
		fault = w.fault()
	}
	if fault != nil {
		x.Refuse(*fault)
		return
	}
	a.carryOut(x, billing.KindSetPaymentTerms, func(env uint32) wire.Fielder {
		return &billing.SetPaymentTerms{Env: env, Days: days, Actor: actor}
	})
}

// getTerms is GET …/payment-terms.
func (a *API) getTerms(x *server.Exchange) {
	a.environment(x, func(env uint32) *server.Fault {
		data := x.Begin()
		data.Open('{')
		data.Uint("paymentTermDays", uint64(a.machine.PaymentTermDays(env)))
		data.Close('}')
		x.End(200)
		return nil
	})
}
