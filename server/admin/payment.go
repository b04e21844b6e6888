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
	return []server.Route{
		row("PUT", environment+"/payment-provider", "setPaymentProvider",
			"Choose who collects invoices; secrets are never shown again", a.putProvider,
			server.Takes(server.Object(
				server.Must("provider", server.EnumSchema("none", "sandbox", "stripe")),
				server.May("baseUrl", text(0, maxSecret)), server.May("secretKey", text(0, maxSecret)),
				server.May("webhookSecret", text(0, maxSecret)),
				server.May("forgetPrevious", server.BoolSchema))),
			answers(server.AnswerSchema[trustedProviders]())),
		row("GET", environment+"/payment-provider", "showPaymentProvider", "Who collects invoices",
			a.within(a.getProvider), answers(server.AnswerSchema[providerAnswer]())),
		row("GET", environment+"/invoices/{invoice}/payments", "listPayments",
			"What providers reported about an invoice", a.one(a.listPayments),
			answers(server.ArrayOf(server.RefTo("Payment")))),
	}
}

// maxSecret bounds a provider's key in bytes.
const maxSecret = 255

// putProvider is PUT …/payment-provider. Secrets are sealed before they enter the log.
func (a *providers) putProvider(x *server.Exchange) *server.Fault {
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
		w.when(fault == nil && (len(value) > maxSecret || !utf8.ValidString(value)), name,
			server.FieldTooLong, "must have at most %d bytes", maxSecret)
	}
	if fault == nil {
		fault = w.fault()
	}
	if fault == nil && a.payments == nil {
		fault = server.FaultOf(engine.OutcomeNoProvider)
	}
	if fault != nil {
		return fault
	}
	var command billing.SetPaymentProvider
	fault = a.environment(x, func(env uint32) *server.Fault {
		at, _ := a.payments.PlaceOf(env)
		var err error
		if command, err = a.payments.Prepare(at, s); err != nil {
			return server.FieldsFault([]server.FieldError{{
				Field: "provider", Code: server.FieldNotAllowed, Message: err.Error(),
			}})
		}
		return nil
	})
	if fault != nil {
		return fault
	}
	command.Actor = x.By()
	if fault = a.done(x, billing.KindSetPaymentProvider, &command); fault != nil {
		return fault
	}
	return a.environment(x, func(env uint32) *server.Fault {
		return server.One(x, 200, a.trusted(env), writeTrustedProviders)
	})
}

// trustedProvider is settings that were replaced and are still trusted.
//
//schema:answer admin TrustedProvider
type trustedProvider struct {
	Provider     string `json:"provider" rule:"oneof=none|sandbox|stripe"`
	BaseURL      string `json:"baseUrl,omitzero" rule:"min=1"`
	ReplacedAt   int64  `json:"replacedAt" as:"time"`
	TrustedUntil int64  `json:"trustedUntil" as:"time"`
}

// trustedProviders are all of those.
//
//schema:answer admin TrustedProviders
type trustedProviders struct {
	Previous []trustedProvider `json:"previous"`
}

// providerAnswer is who collects invoices, without secrets.
//
//schema:answer admin PaymentProvider
type providerAnswer struct {
	Provider    string `json:"provider" rule:"oneof=none|sandbox|stripe"`
	BaseURL     string `json:"baseUrl,omitzero" rule:"min=1"`
	SecretsSet  bool   `json:"secretsSet"`
	WebhookPath string `json:"webhookPath" rule:"min=1"`
	trustedProviders
}

func (a *providers) trusted(env uint32) *trustedProviders {
	var made trustedProviders
	for _, p := range a.payments.Previous(env) {
		made.Previous = append(made.Previous,
			trustedProvider{p.Provider, p.BaseURL, p.ReplacedAt, p.TrustedUntil()})
	}
	return &made
}

// getProvider is GET …/payment-provider: everything but the secrets, and which settings before
// still hear of their checkouts.
func (a *providers) getProvider(x *server.Exchange, env uint32) *server.Fault {
	settings := a.machine.PaymentSettings(env)
	return server.One(x, 200, &providerAnswer{
		Provider: settings.Provider, BaseURL: settings.BaseURL,
		SecretsSet: len(settings.SecretKey) > 0, trustedProviders: *a.trusted(env),
		WebhookPath: payments.Base(string(x.Param(0)), environments[string(x.Param(1))]) + "/webhook",
	}, writePaymentProvider)
}

func (a *providers) listPayments(x *server.Exchange, env uint32, id [16]byte) *server.Fault {
	if _, found := a.machine.Invoice(env, id); !found {
		return server.FaultOf(engine.OutcomeInvoiceUnknown)
	}
	return server.List(x, a.machine.Payments(env, id), writePayment)
}
