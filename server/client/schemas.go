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
			"ListedEntitlement": listedEntitlementSchema(),

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
			"Entitlement":       entitlementSchema(),
			"Event":             server.AnswerSchema[eventAnswer](),
			"BatchResult": server.Object(
				server.Must("accepted", server.IntegerSchema),
				server.Must("duplicates", server.IntegerSchema),
				server.Must("rejected", server.IntegerSchema),
				server.Must("results", server.ArrayOf(server.Object(
					server.Must("index", server.IntegerSchema),
					server.Must("status", server.IntegerSchema),
					server.May("message", text(1, 0)),
					server.May("code", text(1, 0)),
					server.May("usageLimitExceeded", server.BoolSchema),
					server.May("shortage", server.RefTo("Shortage")),
					server.May("budget", server.RefTo("BudgetRefusal")),
				))),
			),
		},
	}
	reservationSchemas(d.Schemas)
	budgetSchemas(d.Schemas)
	return d
}

func entitlementSchema() *server.Schema {
	return server.Object(
		server.Must("referenceCustomerId", text(1, maxID)),
		server.Must("featureKey", text(1, maxID)),
		server.Must("isAllowed", server.BoolSchema),
		server.Must("meta", server.Object(server.Must("reason", server.Object(
			server.May("description", text(1, 0)),
			server.Must("code", text(1, 0)),
			server.Must("rule", text(1, 0)),
			server.May("subscriptionId", server.UUIDSchema),
			server.May("limit", server.NumberSchema),
			server.May("used", server.NumberSchema),
			server.May("held", server.NumberSchema),
			server.Must("logIndex", server.IntegerSchema),
			server.May("budget", server.RefTo("BudgetRefusal")),
		)))),
		server.May("flowId", text(0, maxID)),
		server.May("usage", server.Object(
			server.Must("used", server.NumberSchema),
			server.May("limit", server.NumberSchema),
			server.May("remaining", server.NumberSchema),
			server.Must("held", server.NumberSchema),
		)),
		server.May("simulation", server.Object(
			server.Must("requestedUsage", server.NumberSchema),
			server.Must("projectedUsage", server.NumberSchema),
			server.May("projectedRemaining", server.NumberSchema),
			server.Must("wouldExceedLimit", server.BoolSchema),
			server.May("projectedCost", server.NumberSchema),
		)),
	)
}
