package client

import (
	"tollgate/server"
)

// routes is the route table of the client API: one row per operation. Everything that is said
// about an operation anywhere is said here.
func (a *API) routes() []server.Route {
	document := row("GET", "/openapi.json", "describe", "This document", server.AccessOpen, a.describe)
	document.Responses = []server.Response{{
		Status: 200, About: "OpenAPI", Data: server.FreeObject(), Bare: true,
	}}
	return []server.Route{
		row("POST", "/customers", "createCustomer", "Create a customer", server.AccessFull,
			a.customers.createCustomer, server.Asks(server.RequestKey),
			server.Takes(server.RefTo("CustomerRequest")), server.Gives(201, "Created; see Location", nil)),
		row("GET", "/customers/{externalClientCustomerId}", "getCustomer",
			"A customer with its active subscriptions", server.AccessCustomer,
			byName(a.customers.getCustomer), reads, answers(server.RefTo("Customer"))),
		row("GET", "/customers/{externalClientCustomerId}/events", "listCustomerEvents",
			"Usage and audit events, by when they occurred", server.AccessCustomer, byName(a.listEvents), reads,
			server.Asks(append(eventParams(), server.InQuery("order", server.EnumSchema("asc", "desc"),
				"desc: newest first; asc when absent"))...), answers(eventPage())),
		row("GET", "/events", "listEvents",
			"Usage and audit events of all customers, the most recently recorded first", server.AccessRead,
			a.listAllEvents, reads, server.Asks(append(eventParams(), server.InQuery("until", text(1, 64),
				"newestCursor of before: only what was recorded since"))...),
			answers(eventPage(server.May("newestCursor", text(1, 64))))),
		row("POST", "/subscriptions", "createSubscription", "Subscribe a customer to a plan",
			server.AccessFull, a.subscriptions.createSubscription, server.Asks(server.RequestKey),
			server.Takes(server.RefTo("SubscriptionRequest")),
			server.Gives(201, "Created, with its initial invoice", server.Object(
				server.Must("subscription", server.RefTo("Subscription")),
				server.Must("invoice", server.RefTo("Invoice")),
				server.Must("metadata", server.FreeObject())))),
		row("GET", "/subscriptions/{subscriptionId}", "getSubscription",
			"A subscription in any state", server.AccessRead, byID(a.subscriptions.getSubscription), reads,
			answers(server.RefTo("Subscription"))),
		row("GET", "/plans", "listPlans", "The active plans with their features and pricing",
			server.AccessRead, a.subscriptions.listPlans, reads,
			answers(server.ArrayOf(server.RefTo("Plan")))),
		row("GET", "/entitlements/{customerReferenceId}/{feature-key}", "checkEntitlement",
			"May this customer use this feature?", server.AccessCustomer, a.checkEntitlement, reads,
			server.Asks(server.InQuery("budget", text(1, maxID),
				"that the usage would count at; the customer's own when absent")),
			answers(server.RefTo("Entitlement"))),
		row("POST", "/entitlements", "evaluateEntitlement",
			"The same decision, or with track a simulation of usage", server.AccessCustomer,
			a.evaluateEntitlement, reads, server.Takes(server.RefTo("EntitlementRequest")),
			answers(server.RefTo("Entitlement"))),
		row("POST", "/entitlements/batch", "evaluateEntitlements",
			"Up to 1,000 decisions, in the order of the requests",
			server.AccessCustomer, a.evaluateBatch, reads,
			func(r *server.Route) { r.Limit = checkBatchBytes },
			server.Takes(server.ArrayOf(server.RefTo("EntitlementRequest"))),
			answers(server.ArrayOf(server.RefTo("Entitlement")))),
		row("POST", "/events", "ingestEvent", "Record a usage event, once per key", server.AccessFull,
			a.ingestEvent, server.Takes(server.RefTo("EventRequest")),
			func(r *server.Route) {
				r.Media = []string{"application/json", mediaCloudEvent}
				r.Bodies = map[string]*server.Schema{mediaCloudEvent: server.RefTo("CloudEvent")}
			},
			server.Asks(server.Param{
				In: "header", Name: "X-Idempotency-Key", Schema: text(1, maxKey),
				About: "overrides eventIdempotencyKey",
			}),
			server.Gives(201, "Recorded", nil),
			server.Gives(200, "Recorded; the feature's limit is reached or exceeded", server.Object(
				server.Must("usageLimitExceeded", server.BoolSchema),
				server.Must("message", text(1, 0))))),
		row("POST", "/events/batch", "ingestEventBatch", "Record up to 10,000 usage events",
			server.AccessFull, a.ingestBatch, server.Takes(server.ArrayOf(server.RefTo("EventRequest"))),
			func(r *server.Route) {
				r.Limit = batchBytes
				r.Media = []string{"application/json", mediaLines, mediaLinesToo, mediaCloudEvents}
				r.Bodies = map[string]*server.Schema{
					mediaCloudEvents: server.ArrayOf(server.RefTo("CloudEvent")),
					mediaLines:       text(0, 0), mediaLinesToo: text(0, 0),
				}
			}, answers(server.RefTo("BatchResult"))),
		document,
	}
}

// eventParams select events.
func eventParams() []server.Param {
	return []server.Param{
		server.InQuery("from", server.TimeSchema, "earliest occurredAt"),
		server.InQuery("to", server.TimeSchema, "occurredAt before this"),
		server.InQuery("kind", server.EnumSchema("usage", "audit", "void", "amend"), "all when absent"),
		server.InQuery("feature", text(1, maxID), "key of a feature"),
		server.InQuery("denied", server.EnumSchema("true"), "denied checks alone"),
		server.InQuery("unbilled", server.EnumSchema("true"), "usage events that nothing bills alone"),
		server.InQuery("limit", server.IntSchema(1, maxEvents), "100 when absent"),
		server.InQuery("cursor", text(1, 64), "nextCursor of the page before"),
	}
}

// eventPage is a page of events.
func eventPage(more ...server.Property) *server.Schema {
	return server.Object(append([]server.Property{
		server.Must("events", server.ArrayOf(server.RefTo("Event"))),
		server.May("nextCursor", text(1, 64)),
	}, more...)...)
}

// row makes a route below Prefix.
func row(method, path, operation, summary string, access server.Access,
	handle func(*server.Exchange) *server.Fault, more ...func(*server.Route),
) server.Route {
	return server.Row(method, Prefix+path, operation, summary, access, handle, more...)
}

func (a *API) describe(x *server.Exchange) *server.Fault {
	return a.document.Answer(x)
}

func text(minimum, maximum int) *server.Schema { return server.TextSchema(minimum, maximum) }

// pathParams are the parameters in the paths of this API.
var pathParams = map[string]server.Param{
	"externalClientCustomerId": {Schema: text(1, maxID), About: "the caller's own identifier"},
	"customerReferenceId":      {Schema: text(1, maxID)},
	"feature-key":              {Schema: text(1, maxID)},
	"eventIdempotencyKey":      {Schema: text(1, maxKey), About: "the key that it was recorded under"},
	"subscriptionId":           {Schema: server.UUIDSchema},
	"invoiceId":                {Schema: server.UUIDSchema},
	"reservationId":            {Schema: server.UUIDSchema},
	"poolId":                   {Schema: server.UUIDSchema, About: "from the customer's creditPools"},
	"budget":                   {Schema: text(1, maxID), About: "the caller's own key of the budget"},
}

// reads states the header by which a read may be stale.
func reads(r *server.Route) { r.Params = append(r.Params, server.ConsistencyParam()) }

// done states a success without data.
func done(r *server.Route) { server.Gives(200, "Done", nil)(r) }

func answers(data *server.Schema) func(*server.Route) { return server.Gives(200, "OK", data) }
