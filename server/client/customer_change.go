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
		all := make([]listedEntitlement, len(list))
		for i := range list {
			all[i] = entitlementOf(&list[i])
		}
		return server.List(x, all, writeEntitlement)
	})
}

// listedEntitlement is a feature of a customer's plans, with what the next check would say.
//
//schema:answer client Entitlement
type listedEntitlement struct {
	ID             [16]byte `json:"entitlementId"`
	SubscriptionID [16]byte `json:"subscriptionId"`
	FeatureKey     string   `json:"featureKey" rule:"min=1,max=128"`
	IsAllowed      bool     `json:"isAllowed"`
	Code           string   `json:"code" rule:"min=1"`
	Description    string   `json:"description,omitzero" rule:"min=1"`
	// Budget is the key of the budget that denies it, if one does.
	Budget string  `json:"budget,omitzero" rule:"min=1,max=128"`
	Usage  counter `json:"usage"`
}

func entitlementOf(e *billing.EntitlementView) listedEntitlement {
	d := &e.Decision
	v := listedEntitlement{
		ID: e.ID, SubscriptionID: e.SubscriptionID, FeatureKey: e.FeatureKey,
		IsAllowed: d.Allowed(), Code: textOf(d.Reason).code, Usage: counterOf(d),
	}
	if !v.IsAllowed {
		v.Description, v.Budget = inFull(d).description, d.Refused.Budget
	}
	return v
}
