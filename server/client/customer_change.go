package client

import (
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/form"
)

// customerRoutes are the rows about a customer that go beyond the document.
func (a *customers) customerRoutes() []server.Route {
	const customer = "/customers/{externalClientCustomerId}"
	return []server.Route{
		row("PATCH", customer, "updateCustomer", "Change the fields of a customer that the body names",
			server.AccessFull, byName(a.updateCustomer), server.Takes(server.RefTo("CustomerChange")), done),
		row("DELETE", customer, "archiveCustomer", "Archive a customer, for good",
			server.AccessFull, byName(a.archiveCustomer), done),
		row("GET", customer+"/subscriptions", "listCustomerSubscriptions", "A customer's subscriptions",
			server.AccessRead, byName(a.listSubscriptions), reads,
			server.Asks(server.InQuery("status", server.EnumSchema("active", "all"), "active when absent")),
			answers(server.ArrayOf(server.RefTo("Subscription")))),
		row("GET", "/entitlements/{customerReferenceId}", "listEntitlements",
			"Every feature of a customer's subscriptions that are not cancelled", server.AccessRead,
			byName(a.listEntitlements), reads, answers(server.ArrayOf(server.RefTo("ListedEntitlement")))),
	}
}

func (a *customers) updateCustomer(x *server.Exchange, id string) *server.Fault {
	c := billing.UpdateCustomer{Env: principal(x).Env, ExternalID: id}
	if fault := form.Read(x.Body, &c, readCustomerChange); fault != nil {
		return fault
	}
	return a.carryOut(x, billing.KindUpdateCustomer, &c)
}

func (a *customers) archiveCustomer(x *server.Exchange, id string) *server.Fault {
	return a.carryOut(x, billing.KindArchiveCustomer, &billing.ArchiveCustomer{
		Env: principal(x).Env, ExternalID: id, Actor: x.By(),
	})
}

func (a *customers) listEntitlements(x *server.Exchange, id string) *server.Fault {
	return a.read(x, func() *server.Fault {
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
		data.TextIf("description", inFull(d).description)
		data.TextIf("budget", d.Refused.Budget)
	}
	data.Object("usage")
	data.Decimal("used", d.Used)
	decimalIf(data, "limit", d.Limit, d.HasLimit)
	decimalIf(data, "remaining", d.Remaining, d.HasLimit)
	data.Decimal("held", d.Held)
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
		server.May("description", text(1, 0)), server.May("budget", text(1, maxID)),
		server.Must("usage", server.Object(
			server.Must("used", server.NumberSchema),
			server.May("limit", server.NumberSchema),
			server.May("remaining", server.NumberSchema),
			server.Must("held", server.NumberSchema),
		)),
	)
}
