package admin

import (
	"unicode/utf8"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/payments"
)

// paymentRoutes are the rows about payment providers and what they reported.
func (a *providers) paymentRoutes() []server.Route {
	provider := server.Must("provider", server.EnumSchema("none", "sandbox", "stripe"))
	previous := server.ArrayOf(server.Object(
		provider, server.May("baseUrl", text(1, 0)),
		server.Must("replacedAt", server.TimeSchema), server.Must("trustedUntil", server.TimeSchema),
	))
	return []server.Route{
		{
			Method: "PUT", Path: environment + "/payment-provider", Operation: "setPaymentProvider",
			Summary: "Choose who collects invoices; secrets are never shown again",
			Access:  server.AccessOperator, Handle: a.putProvider, Params: environmentParams,
			Body: server.Object(
				provider, server.May("baseUrl", text(0, longestSecret)),
				server.May("secretKey", text(0, longestSecret)),
				server.May("webhookSecret", text(0, longestSecret)),
				server.May("forgetPrevious", server.BoolSchema),
			),
			Responses: answers(server.Object(server.Must("previous", previous))),
		},
		{
			Method: "GET", Path: environment + "/payment-provider", Operation: "showPaymentProvider",
			Summary: "Who collects invoices", Access: server.AccessOperator, Handle: a.getProvider,
			Params: environmentParams,
			Responses: answers(server.Object(
				provider, server.May("baseUrl", text(1, 0)),
				server.Must("secretsSet", server.BoolSchema), server.Must("webhookPath", text(1, 0)),
				server.Must("previous", previous),
			)),
		},
		{
			Method: "GET", Path: environment + "/invoices/{invoice}/payments",
			Operation: "listPayments", Summary: "What providers reported about an invoice",
			Access: server.AccessOperator, Handle: a.listPayments,
			Params:    environmentAnd(path("invoice", server.UUIDSchema, "")),
			Responses: answers(server.ArrayOf(server.RefTo("Payment"))),
		},
	}
}

// longestSecret bounds a provider's key in bytes.
const longestSecret = 255

// putProvider is PUT …/payment-provider. Secrets are sealed before they enter the log.
func (a *providers) putProvider(x *server.Exchange) {
	var s payments.Settings
	var w walk
	fault := body(x, &w, map[string]reader{
		"provider": w.text(&s.Provider), "baseUrl": w.text(&s.BaseURL),
		"secretKey": w.text(&s.SecretKey), "webhookSecret": w.text(&s.WebhookSecret),
		"forgetPrevious": w.flag(&s.ForgetPrevious),
	})
	for name, value := range map[string]string{
		"baseUrl": s.BaseURL, "secretKey": s.SecretKey, "webhookSecret": s.WebhookSecret,
	} {
		if fault == nil && (len(value) > longestSecret || !utf8.ValidString(value)) {
			w.problem(name, server.FieldTooLong, "must have at most %d bytes", longestSecret)
		}
	}
	if fault == nil {
		fault = w.fault()
	}
	if fault == nil && a.payments == nil {
		fault = server.FaultOf(engine.OutcomeNoProvider)
	}
	if fault != nil {
		x.Refuse(fault)
		return
	}
	var command billing.SetPaymentProvider
	found := false
	a.environment(x, func(env uint32) *server.Fault {
		at, _ := a.payments.PlaceOf(env)
		var err error
		if command, err = a.payments.Prepare(at, s); err != nil {
			return server.FieldsFault([]server.FieldError{{
				Field: "provider", Code: server.FieldNotAllowed, Message: err.Error(),
			}})
		}
		found = true
		return nil
	})
	if !found {
		return
	}
	command.Actor = x.By()
	if !a.done(x, billing.KindSetPaymentProvider, &command) {
		return
	}
	a.environment(x, func(env uint32) *server.Fault {
		data := x.Begin()
		data.Open('{')
		a.writePrevious(data, env)
		data.Close('}')
		x.End(200)
		return nil
	})
}

// writePrevious writes the settings that were replaced and are still trusted.
func (a *providers) writePrevious(data *server.JSON, env uint32) {
	data.Array("previous")
	for _, p := range a.payments.Previous(env) {
		data.Open('{')
		data.Text("provider", p.Provider)
		data.TextIf("baseUrl", p.BaseURL)
		data.Time("replacedAt", p.ReplacedAt)
		data.Time("trustedUntil", p.TrustedUntil())
		data.Close('}')
	}
	data.Close(']')
}

// getProvider is GET …/payment-provider: everything but the secrets, and which settings before
// still hear of their checkouts.
func (a *providers) getProvider(x *server.Exchange) {
	a.environment(x, func(env uint32) *server.Fault {
		settings := a.machine.PaymentSettings(env)
		data := x.Begin()
		data.Open('{')
		data.Text("provider", settings.Provider)
		data.TextIf("baseUrl", settings.BaseURL)
		data.Bool("secretsSet", len(settings.SecretKey) > 0)
		data.Text("webhookPath", payments.Base(string(x.Param(0)),
			environments[string(x.Param(1))])+"/webhook")
		a.writePrevious(data, env)
		data.Close('}')
		x.End(200)
		return nil
	})
}

// listPayments is GET …/invoices/{invoice}/payments.
func (a *providers) listPayments(x *server.Exchange) {
	id, ok := pathUUID(x, 2, "the invoice's id")
	if !ok {
		return
	}
	a.environment(x, func(env uint32) *server.Fault {
		if _, found := a.machine.Invoice(env, id); !found {
			return server.FaultOf(engine.OutcomeInvoiceUnknown)
		}
		list(x, a.machine.Payments(env, id), writePayment)
		return nil
	})
}
