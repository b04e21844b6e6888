package admin

import (
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
)

// termsRoutes are the rows about when invoices are issued and fall due.
func (a *accounts) termsRoutes() []server.Route {
	return []server.Route{
		row("PUT", environment+"/payment-terms", "setPaymentTerms",
			"Say how many minutes after their period's end invoices are issued, and how many days after "+
				"that they fall due, from now on; what is left out stays", a.putTerms,
			server.Takes(server.Object(
				server.May("paymentTermDays", server.IntSchema(0, billing.MaxPaymentTermDays)),
				server.May("settleMinutes", server.IntSchema(0, billing.MaxSettleMinutes)))),
			nothing("Set")),
		row("GET", environment+"/payment-terms", "showPaymentTerms", "How many minutes after their "+
			"period's end invoices are issued, and how many days after that they fall due",
			a.within(a.getTerms), answers(server.AnswerSchema[termsAnswer]())),
	}
}

// putTerms is PUT …/payment-terms.
func (a *accounts) putTerms(x *server.Exchange) *server.Fault {
	const daysName, settleName = "paymentTermDays", "settleMinutes"
	var w walk
	c := billing.SetPaymentTerms{KeepDays: true, Actor: x.By()}
	fault := body(x, &w, map[string]reader{
		daysName: func(t *tree, place string) {
			w.whole(&c.Days)(t, place)
			c.KeepDays = false
		},
		settleName: func(t *tree, place string) {
			w.whole(&c.SettleMinutes)(t, place)
			c.SetSettle = true
		},
	})
	if fault == nil {
		if c.KeepDays && !c.SetSettle {
			w.problem(daysName, server.FieldRequired, "or %s is required", settleName)
		}
		if c.Days > billing.MaxPaymentTermDays {
			w.problem(daysName, server.FieldOutOfRange, "must be from 0 to %d", billing.MaxPaymentTermDays)
		}
		if c.SettleMinutes > billing.MaxSettleMinutes {
			w.problem(settleName, server.FieldOutOfRange, "must be from 0 to %d", billing.MaxSettleMinutes)
		}
		fault = w.fault()
	}
	if fault != nil {
		return fault
	}
	return a.carryOut(x, billing.KindSetPaymentTerms, func(env uint32) wire.Fielder {
		c.Env = env
		return &c
	})
}

// termsAnswer is when invoices are issued and fall due.
//
//schema:answer admin PaymentTerms
type termsAnswer struct {
	Days          uint32 `json:"paymentTermDays" rule:"max=365"`
	SettleMinutes uint32 `json:"settleMinutes" rule:"max=10080"`
}

// getTerms is GET …/payment-terms.
func (a *accounts) getTerms(x *server.Exchange, env uint32) *server.Fault {
	days, minutes := a.machine.PaymentTerms(env)
	return server.One(x, 200, &termsAnswer{days, minutes}, writePaymentTerms)
}
