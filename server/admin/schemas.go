package admin

import (
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/billingview"
	"tollgate/server/search"
)

// maxID is the length of a caller's own identifiers in characters.
const maxID = 128

func text(minimum, maximum int) *server.Schema { return server.TextSchema(minimum, maximum) }

func must(p server.Param) server.Param {
	p.Required = true
	return p
}

// byHand are the properties of a catalog that tags do not describe; an answer always has those of
// them that have a default.
func byHand(answered bool) []server.Property {
	return []server.Property{
		{
			Name: "plans.creditAllocations.priority", Required: answered,
			Schema: server.IntSchema(-maxPriority, maxPriority),
		},
		server.Must("plans.features.pricing.tiers.upTo", &server.Schema{
			OneOf: []*server.Schema{server.NumberSchema, text(1, 0)},
		}),
	}
}

// description is what the OpenAPI document says in addition to the routes.
func description() server.Description {
	return server.Description{
		Title: "Tollgate Admin API", Version: "1.0.0", Key: "TOLLGATE_ADMIN_KEY",
		About: "What operators do: accounts, keys, catalogs, credits, invoices, payment settings, " +
			"the sandbox's clock. It needs the admin key, and every change is recorded. " +
			server.EarlyAbout + server.CompressionAbout,
		Schemas: map[string]*server.Schema{
			"Budget":          server.AnswerSchema[billing.BudgetView](),
			"Catalog":         server.AnswerSchema[billing.CatalogDocument](byHand(true)...),
			"CatalogDocument": server.DocumentSchema[billing.CatalogDocument](byHand(false)...),
			"Change":          changeSchema(),
			"Customer":        server.AnswerSchema[listedCustomer](),
			"Clock":           server.AnswerSchema[clockAnswer](),
			"CreditPool":      server.AnswerSchema[billing.PoolView](),
			"Explanation": server.AnswerSchema[billing.Explanation](
				server.May("recomputed.tiers", billingview.TiersSchema()),
				server.Must("recomputed.costAmount", server.NumberSchema),
				server.Must("recomputed.eventsCounted", server.IntegerSchema)),
			"Grant":           server.AnswerSchema[billing.GrantView](),
			"Invoice":         billingview.InvoiceSchema(server.May("items.costAmount", server.NumberSchema)),
			"SearchAnswer":    server.AnswerSchema[search.Found](),
			"CustomerUsage":   server.AnswerSchema[billing.CustomerUsage](),
			"CustomerDenials": server.AnswerSchema[billing.CustomerDenials](),
			"UsageTotals":     server.AnswerSchema[billing.Totals](),
			"MarginRow":       server.AnswerSchema[billing.MarginRow](),
			"Payment":         server.AnswerSchema[billing.Payment](),
			"Subscriber":      server.AnswerSchema[billing.SubscriberView](),
			"PoolRequest": server.DocumentSchema[billing.CreatePool](
				server.May("priority", server.IntSchema(-maxPriority, maxPriority))),
			"LowBalanceRequest": server.DocumentSchema[billing.SetLowBalance](),
			"TopUp":             server.AnswerSchema[billing.TopUpView](),
			"TopUpRequest":      server.DocumentSchema[billingview.TopUpRequest](),
			"Reservation":       server.AnswerSchema[billing.ReservationView](),
			"ReservationItem":   server.AnswerSchema[billing.ReservationItemView](),
			"Transaction":       server.AnswerSchema[billing.TransactionView](),
			"Verification":      verificationSchema(),
			"WebhookDelivery": server.AnswerSchema[deliveryAnswer](
				server.Must("type", server.EnumSchema(
					append(billing.WebhookEventNames(), billing.WebhookTest.String())...))),
			"WebhookEndpoint": server.AnswerSchema[endpointAnswer](),
		},
	}
}
