package admin

import (
	"unicode/utf8"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
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
	result := a.propose(x, billing.KindSetPaymentProvider, wire.Encode(nil, &command))
	if result.Outcome != engine.OutcomeDone {
		x.Refuse(server.FaultOf(result.Outcome))
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
		data := x.Begin()
		data.Open('[')
		for _, p := range a.machine.Payments(env, id) {
			data.Open('{')
			data.Text("provider", p.Provider)
			data.Text("eventId", p.EventID)
			data.TextIf("checkoutId", p.CheckoutID)
			if p.Currency != "" { // a report that is not a payment may have none
				data.Decimal("amount", p.Amount)
				data.Text("currency", p.Currency)
			}
			data.Time("recordedAt", p.At)
			data.Text("result", p.Result.String())
			data.TextIf("type", p.Other)
			data.Close('}')
		}
		data.Close(']')
		x.End(200)
		return nil
	})
}

func paymentSchema() *server.Schema {
	return server.Object(
		server.Must("provider", text(1, 0)),
		server.Must("eventId", text(1, 0)),
		server.May("checkoutId", text(1, 0)),
		server.May("amount", server.NumberSchema),
		server.May("currency", text(3, 3)),
		server.Must("recordedAt", server.TimeSchema),
		server.Must("result",
			server.EnumSchema("applied", "overpaid", "mismatch", "unexpected", "ignored")),
		server.May("type", text(1, 64)),
	)
}
