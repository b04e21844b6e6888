package client

import (
	"tollgate/server"
)

// routes is the route table of the client API: one row per operation. Everything that is said
// about an operation anywhere is said here.
func (a *API) routes() []server.Route {
	return []server.Route{
		{
			Method: "POST", Path: Prefix + "/customers", Operation: "createCustomer",
			Summary: "Create a customer", Access: server.AccessFull, Handle: a.customers.createCustomer,
			Body:      server.RefTo("CustomerRequest"),
			Params:    []server.Param{server.RequestKey},
			Responses: []server.Response{{Status: 201, About: "Created; see Location"}},
		},
		{
			Method: "GET", Path: Prefix + "/customers/{externalClientCustomerId}",
			Operation: "getCustomer", Summary: "A customer with its active subscriptions",
			Access: server.AccessCustomer, Handle: a.customers.getCustomer,
			Params:    []server.Param{customerParam, consistencyHeader},
			Responses: answers(server.RefTo("Customer")),
		},
		{
			Method: "GET", Path: Prefix + "/customers/{externalClientCustomerId}/events",
			Operation: "listCustomerEvents", Summary: "Usage and audit events, oldest first",
			Access: server.AccessCustomer, Handle: a.listEvents,
			Params: []server.Param{
				customerParam, consistencyHeader,
				inQuery("from", server.TimeSchema, "earliest occurredAt"),
				inQuery("to", server.TimeSchema, "occurredAt before this"),
				inQuery("kind", server.EnumSchema("usage", "audit", "void", "amend"), "all when absent"),
				inQuery("limit", server.IntSchema(1, maxEvents), "100 when absent"),
				inQuery("cursor", text(1, 64), "nextCursor of the page before"),
			},
			Responses: answers(server.Object(
				server.Must("events", server.ArrayOf(server.RefTo("Event"))),
				server.May("nextCursor", text(1, 64)),
			)),
		},
		{
			Method: "POST", Path: Prefix + "/subscriptions", Operation: "createSubscription",
			Summary: "Subscribe a customer to a plan", Access: server.AccessFull,
			Handle: a.subscriptions.createSubscription, Body: server.RefTo("SubscriptionRequest"),
			Params: []server.Param{server.RequestKey},
			Responses: []server.Response{{
				Status: 201, About: "Created, with its initial invoice", Data: server.Object(
					server.Must("subscription", server.RefTo("Subscription")),
					server.Must("invoice", server.RefTo("Invoice")),
					server.Must("metadata", server.FreeObject()),
				),
			}},
		},
		{
			Method: "GET", Path: Prefix + "/subscriptions/{subscriptionId}",
			Operation: "getSubscription", Summary: "A subscription in any state",
			Access: server.AccessRead, Handle: a.subscriptions.getSubscription,
			Params:    []server.Param{path("subscriptionId", server.UUIDSchema, ""), consistencyHeader},
			Responses: answers(server.RefTo("Subscription")),
		},
		{
			Method: "GET", Path: Prefix + "/plans", Operation: "listPlans",
			Summary: "The active plans with their features and pricing", Access: server.AccessRead,
			Handle: a.subscriptions.listPlans, Params: []server.Param{consistencyHeader},
			Responses: answers(server.ArrayOf(server.RefTo("Plan"))),
		},
		{
			Method: "GET", Path: Prefix + "/entitlements/{customerReferenceId}/{feature-key}",
			Operation: "checkEntitlement", Summary: "May this customer use this feature?",
			Access: server.AccessCustomer, Handle: a.checkEntitlement,
			Params: []server.Param{
				path("customerReferenceId", text(1, maxID), ""),
				path("feature-key", text(1, maxID), ""), consistencyHeader,
			},
			Responses: answers(server.RefTo("Entitlement")),
		},
		{
			Method: "POST", Path: Prefix + "/entitlements", Operation: "evaluateEntitlement",
			Summary: "The same decision, or with track a simulation of usage",
			Access:  server.AccessCustomer, Handle: a.evaluateEntitlement,
			Params:    []server.Param{consistencyHeader},
			Body:      server.RefTo("EntitlementRequest"),
			Responses: answers(server.RefTo("Entitlement")),
		},
		{
			Method: "POST", Path: Prefix + "/events", Operation: "ingestEvent",
			Summary: "Record a usage event, once per key", Access: server.AccessFull,
			Handle: a.ingestEvent, Body: server.RefTo("EventRequest"),
			Media:  []string{"application/json", mediaCloudEvent},
			Bodies: map[string]*server.Schema{mediaCloudEvent: server.RefTo("CloudEvent")},
			Params: []server.Param{{
				In: "header", Name: "X-Idempotency-Key", Schema: text(1, maxKey),
				About: "overrides eventIdempotencyKey",
			}},
			Responses: []server.Response{
				{Status: 201, About: "Recorded"},
				{
					Status: 200, About: "Recorded; the feature's limit is reached or exceeded",
					Data: server.Object(
						server.Must("usageLimitExceeded", server.BoolSchema),
						server.Must("message", text(1, 0)),
					),
				},
			},
		},
		{
			Method: "POST", Path: Prefix + "/events/batch", Operation: "ingestEventBatch",
			Summary: "Record up to 10,000 usage events", Access: server.AccessFull,
			Handle: a.ingestBatch, Limit: batchBytes,
			Media: []string{
				"application/json", mediaLines, mediaLinesToo, mediaCloudEvents,
			},
			Body: server.ArrayOf(server.RefTo("EventRequest")),
			Bodies: map[string]*server.Schema{
				mediaCloudEvents: server.ArrayOf(server.RefTo("CloudEvent")),
				mediaLines:       text(0, 0), mediaLinesToo: text(0, 0),
			},
			Responses: answers(server.RefTo("BatchResult")),
		},
		{
			Method: "GET", Path: Prefix + "/openapi.json", Operation: "describe",
			Summary: "This document", Access: server.AccessOpen, Handle: a.describe,
			Responses: []server.Response{{
				Status: 200, About: "OpenAPI", Data: server.FreeObject(), Bare: true,
			}},
		},
	}
}

// describe is GET /openapi.json.
func (a *API) describe(x *server.Exchange) { x.Bare(200, "application/json", a.document) }

func text(least, most int) *server.Schema { return server.TextSchema(least, most) }

func path(name string, s *server.Schema, about string) server.Param {
	return server.Param{In: "path", Name: name, Required: true, Schema: s, About: about}
}

func inQuery(name string, s *server.Schema, about string) server.Param {
	return server.Param{In: "query", Name: name, Schema: s, About: about}
}

var customerParam = path(
	"externalClientCustomerId", text(1, maxID), "the caller's own identifier",
)

var consistencyHeader = server.ConsistencyParam()

func answers(data *server.Schema) []server.Response {
	return []server.Response{{Status: 200, About: "OK", Data: data}}
}
