package client

import (
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/form"
)

// customerRoutes are the rows about a customer that go beyond the document.
func (a *customers) customerRoutes() []server.Route {
	done := []server.Response{{Status: 200, About: "Done"}}
	return []server.Route{
		{
			Method: "PATCH", Path: Prefix + "/customers/{externalClientCustomerId}",
			Operation: "updateCustomer", Summary: "Change what the body names of a customer",
			Access: server.AccessFull, Handle: a.updateCustomer,
			Params: []server.Param{customerParam}, Body: server.RefTo("CustomerChange"), Responses: done,
		},
		{
			Method: "DELETE", Path: Prefix + "/customers/{externalClientCustomerId}",
			Operation: "archiveCustomer", Summary: "Take a customer out of use, for good",
			Access: server.AccessFull, Handle: a.archiveCustomer,
			Params: []server.Param{customerParam}, Responses: done,
		},
		{
			Method: "GET", Path: Prefix + "/customers/{externalClientCustomerId}/subscriptions",
			Operation: "listCustomerSubscriptions", Summary: "A customer's subscriptions",
			Access: server.AccessRead, Handle: a.listSubscriptions,
			Params: []server.Param{
				customerParam, consistencyHeader,
				inQuery("status", server.EnumSchema("active", "all"), "active when absent"),
			},
			Responses: answers(server.ArrayOf(server.RefTo("Subscription"))),
		},
		{
			Method: "GET", Path: Prefix + "/entitlements/{customerReferenceId}",
			Operation: "listEntitlements",
			Summary:   "Every feature of a customer's subscriptions that are not cancelled",
			Access:    server.AccessRead, Handle: a.listEntitlements,
			Params: []server.Param{
				path("customerReferenceId", text(1, maxID), ""), consistencyHeader,
			},
			Responses: answers(server.ArrayOf(server.RefTo("ListedEntitlement"))),
		},
	}
}

// updateCustomer is PATCH /customers/{externalClientCustomerId}.
func (a *customers) updateCustomer(x *server.Exchange) {
	id, ok := pathID(x, 0, "externalClientCustomerId")
	if !ok {
		return
	}
	c := billing.UpdateCustomer{Env: principal(x).Env, ExternalID: id}
	fault := form.Read(x.Body, &c, readCustomerChange)
	if fault != nil {
		x.Refuse(fault)
		return
	}
	a.carryOut(x, billing.KindUpdateCustomer, &c)
}

// archiveCustomer is DELETE /customers/{externalClientCustomerId}.
func (a *customers) archiveCustomer(x *server.Exchange) {
	id, ok := pathID(x, 0, "externalClientCustomerId")
	if !ok {
		return
	}
	a.carryOut(x, billing.KindArchiveCustomer, &billing.ArchiveCustomer{
		Env: principal(x).Env, ExternalID: id, Actor: x.By(),
	})
}

// listEntitlements is GET /entitlements/{customerReferenceId}.
func (a *customers) listEntitlements(x *server.Exchange) {
	id, ok := pathID(x, 0, "customerReferenceId")
	if !ok {
		return
	}
	a.read(x, func() *server.Fault {
		now := a.machine.Clock(a.nowMS())
		list, found := a.machine.Entitlements(principal(x).Env, id, now)
		if !found {
			return server.FaultOf(engine.OutcomeCustomerUnknown)
		}
		return server.List(x, list, writeEntitlement)
	})
}

func writeEntitlement(data *server.JSON, e *billing.EntitlementView) {
	d := &e.Decision
	data.Open('{')
	data.UUID("entitlementId", e.ID)
	data.UUID("subscriptionId", e.SubscriptionID)
	data.Text("featureKey", e.FeatureKey)
	data.Bool("isAllowed", d.Allowed())
	data.Text("code", textOf(d.Reason).code)
	if !d.Allowed() {
		data.TextIf("description", textOf(d.Reason).description)
	}
	data.Object("usage")
	data.Decimal("used", d.Used)
	decimalIf(data, "limit", d.Limit, d.HasLimit)
	decimalIf(data, "remaining", d.Remaining, d.HasLimit)
	data.Close('}')
	data.Close('}')
}

func listedEntitlementSchema() *server.Schema {
	return server.Object(
		server.Must("entitlementId", server.UUIDSchema),
		server.Must("subscriptionId", server.UUIDSchema),
		server.Must("featureKey", text(1, maxID)),
		server.Must("isAllowed", server.BoolSchema),
		server.Must("code", text(1, 0)),
		server.May("description", text(1, 0)),
		server.Must("usage", server.Object(
			server.Must("used", server.NumberSchema),
			server.May("limit", server.NumberSchema),
			server.May("remaining", server.NumberSchema),
		)),
	)
}
