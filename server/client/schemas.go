package client

import (
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/billingview"
	"tollgate/server/link"
	"tollgate/server/search"
)

// description is what the OpenAPI document says in addition to the routes.
func description() server.Description {
	d := server.Description{
		Title: "Client Billing API", Version: "1.0.0", Key: "KEY",
		About: "Product access, usage metering and invoicing. Errors have success false and an error " +
			"with message, code and, where it helps, detail; fields that are null are left out. " +
			server.EarlyAbout + server.CompressionAbout,
		Schemas: map[string]*server.Schema{
			"CustomerRequest":     server.RequestSchema[customerRequest](),
			"SubscriptionRequest": server.RequestSchema[billing.CreateSubscription](),
			"EntitlementRequest": server.Object(
				server.Must("customerReferenceId", text(1, maxID)),
				server.Must("featureKey", text(1, maxID)),
				server.May("budget", text(1, maxID)),
				server.May("track", server.Object(
					server.May("eventName", text(0, maxName)),
					server.May("usageUnits", server.NumberSchema),
					server.May("meta", server.FreeObject()),
				)),
				server.May("context", server.Object(
					server.May("idempotencyKey", text(0, maxID)),
					server.May("flowId", text(0, maxID)),
				)),
			),
			"CustomerChange":    server.RequestSchema[billing.UpdateCustomer](),
			"PlanChangeRequest": server.RequestSchema[billing.ChangePlan](),
			"ScheduledChange":   server.AnswerSchema[billing.PlanChangeView](),
			"CreditPool":        server.AnswerSchema[billing.PoolView](),
			"TopUp":             server.AnswerSchema[billing.TopUpView](),
			"TopUpRequest":      server.RequestSchema[billingview.TopUpRequest](),
			"ListedEntitlement": server.AnswerSchema[listedEntitlement](),

			"EventRequest":      server.RequestSchema[billing.RecordUsage](),
			"CloudEvent":        cloudEventSchema(),
			"EventVoid":         server.RequestSchema[billing.VoidUsage](),
			"EventAmendment":    server.RequestSchema[billing.AmendUsage](),
			"CorrectionPreview": server.AnswerSchema[billing.CorrectionPreview](),
			"Customer":          server.AnswerSchema[customerAnswer](),
			"NestedCustomer":    server.AnswerSchema[billing.CustomerCore](),
			"Subscription":      server.AnswerSchema[billing.SubscriptionView](),
			"Plan": server.AnswerSchema[billing.PlanView](
				server.Must("features", server.ArrayOf(server.AnswerSchema[billing.PlanFeatureView](
					server.Must("pricing", billingview.PricingSchema())))),
			),
			"PortalLinkRequest": server.RequestSchema[portalLinkRequest](),
			"PortalLink":        server.AnswerSchema[link.Made](),
			"SearchAnswer":      server.AnswerSchema[search.Found](),
			"UsageReport":       server.AnswerSchema[billing.UsageReport](),
			"Invoice":           billingview.InvoiceSchema(),
			"Entitlement":       server.AnswerSchema[decision](),
			"Event":             server.AnswerSchema[eventAnswer](),
			"BatchResult":       server.AnswerSchema[batchResult](),
		},
	}
	reservationSchemas(d.Schemas)
	budgetSchemas(d.Schemas)
	return d
}
