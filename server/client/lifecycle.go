package client

import (
	"strconv"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/form"
)

// lifecycleRoutes are the rows about what happens to a subscription after its creation.
func (a *subscriptions) lifecycleRoutes() []server.Route {
	done := []server.Response{{Status: 200, About: "Done"}}
	subscription := path("subscriptionId", server.UUIDSchema, "")
	return []server.Route{
		{
			Method: "POST", Path: Prefix + "/subscriptions/cancellation/{subscriptionId}",
			Operation: "cancelSubscription", Summary: "Cancel now, or at the period's end",
			Access: server.AccessFull, Handle: a.cancelSubscription,
			Params: []server.Param{
				subscription, server.RequestKey,
				inQuery("cancelMode", server.EnumSchema("IMMEDIATE", "END_OF_PERIOD"),
					"END_OF_PERIOD when absent"),
			},
			Responses: done,
		},
		{
			Method: "DELETE", Path: Prefix + "/subscriptions/cancellation/{subscriptionId}/scheduled",
			Operation: "revertScheduledCancellation", Summary: "Take a scheduled cancellation back",
			Access: server.AccessFull, Handle: a.revertCancellation,
			Params: []server.Param{subscription}, Responses: done,
		},
		{
			Method: "POST", Path: Prefix + "/subscriptions/{subscriptionId}/plan-change",
			Operation: "changeSubscriptionPlan",
			Summary:   "Upgrade at once, or downgrade at the period's end",
			Access:    server.AccessFull, Handle: a.changePlan,
			Params: []server.Param{subscription, server.RequestKey},
			Body:   server.RefTo("PlanChangeRequest"), Responses: done,
		},
		{
			Method: "DELETE", Path: Prefix + "/subscriptions/{subscriptionId}/plan-change/scheduled",
			Operation: "cancelScheduledPlanChange", Summary: "Stay on the present plan",
			Access: server.AccessFull, Handle: a.cancelPlanChange,
			Params: []server.Param{subscription}, Responses: done,
		},
		{
			Method: "GET", Path: Prefix + "/subscriptions/{subscriptionId}/plan-changes",
			Operation: "listPlanChanges", Summary: "A subscription's plan changes, oldest first",
			Access: server.AccessRead, Handle: a.listPlanChanges,
			Params:    []server.Param{subscription, consistencyHeader},
			Responses: answers(server.ArrayOf(server.RefTo("ScheduledChange"))),
		},
		{
			Method: "GET", Path: Prefix + "/subscriptions/{subscriptionId}/upcoming-invoice",
			Operation: "getUpcomingInvoice",
			Summary:   "What the present period has come to, with the id that the invoice keeps",
			Access:    server.AccessRead, Handle: a.upcomingInvoice,
			Params:    []server.Param{subscription, consistencyHeader},
			Responses: answers(server.RefTo("Invoice")),
		},
	}
}

var cancelModes = map[string]billing.CancelMode{
	"END_OF_PERIOD": billing.CancelAtPeriodEnd, "IMMEDIATE": billing.CancelImmediate,
}

// cancelSubscription is POST /subscriptions/cancellation/{subscriptionId}.
func (a *subscriptions) cancelSubscription(x *server.Exchange) {
	id, ok := pathUUID(x, 0, "subscriptionId")
	if !ok {
		return
	}
	mode, known := billing.CancelAtPeriodEnd, true
	if x.Ctx.QueryArgs().Has("cancelMode") {
		mode, known = cancelModes[query(x.Ctx, "cancelMode")]
	}
	if !known {
		x.Refuse(form.NotAllowed("IMMEDIATE", "END_OF_PERIOD").Fault("cancelMode"))
		return
	}
	a.carryOutOnce(x, billing.KindCancelSubscription, &billing.CancelSubscription{
		Env: principal(x).Env, ID: id, Mode: mode,
	})
}

// revertCancellation is DELETE /subscriptions/cancellation/{subscriptionId}/scheduled.
func (a *subscriptions) revertCancellation(x *server.Exchange) {
	id, ok := pathUUID(x, 0, "subscriptionId")
	if !ok {
		return
	}
	command := billing.RevertCancellation{Env: principal(x).Env, ID: id}
	result := a.propose(x, billing.KindRevertCancellation, wire.Encode(nil, &command))
	switch result.Outcome {
	case engine.OutcomeDone:
		x.Succeed(200)
	case engine.OutcomeRevertSuspended:
		x.Refuse(suspended(result.Value))
	default:
		x.Refuse(server.FaultOf(result.Outcome))
	}
}

// suspended is the fault of a revert that a payment has to come before; it names the invoice.
func suspended(reply []byte) *server.Fault {
	fault := server.FaultOf(engine.OutcomeRevertSuspended)
	var r billing.RevertReply
	if wire.Decode(reply, &r) != nil || r.Invoice == ([16]byte{}) {
		return fault
	}
	id := string(server.AppendUUID(nil, r.Invoice))
	return fault.With("Nothing was changed. Pay invoice " + id + " (number " +
		strconv.FormatUint(r.Number, 10) + ", " + r.Amount.String() + " " + r.Currency +
		"): the payment makes the subscription active. Then revert the cancellation.")
}

// changePlan is POST /subscriptions/{subscriptionId}/plan-change.
func (a *subscriptions) changePlan(x *server.Exchange) {
	id, ok := pathUUID(x, 0, "subscriptionId")
	if !ok {
		return
	}
	c := billing.ChangePlan{Env: principal(x).Env, ID: id, ChangeID: newID()}
	fault := form.Read(x.Body, &c, readPlanChangeRequest)
	if fault != nil {
		x.Refuse(fault)
		return
	}
	a.carryOutOnce(x, billing.KindChangePlan, &c)
}

// cancelPlanChange is DELETE /subscriptions/{subscriptionId}/plan-change/scheduled.
func (a *subscriptions) cancelPlanChange(x *server.Exchange) {
	if id, ok := pathUUID(x, 0, "subscriptionId"); ok {
		a.carryOut(x, billing.KindCancelPlanChange, &billing.CancelPlanChange{
			Env: principal(x).Env, ID: id,
		})
	}
}

// listPlanChanges is GET /subscriptions/{subscriptionId}/plan-changes.
func (a *subscriptions) listPlanChanges(x *server.Exchange) {
	id, ok := pathUUID(x, 0, "subscriptionId")
	if !ok {
		return
	}
	a.read(x, func() *server.Fault {
		changes, found := a.machine.PlanChanges(principal(x).Env, id)
		if !found {
			return server.FaultOf(engine.OutcomeSubscriptionUnknown)
		}
		return server.List(x, changes, writeScheduledChange)
	})
}

// upcomingInvoice is GET /subscriptions/{subscriptionId}/upcoming-invoice.
func (a *subscriptions) upcomingInvoice(x *server.Exchange) {
	id, ok := pathUUID(x, 0, "subscriptionId")
	if !ok {
		return
	}
	a.read(x, func() *server.Fault {
		invoice, found := a.machine.Upcoming(principal(x).Env, id)
		if !found {
			return server.FaultOf(engine.OutcomeSubscriptionUnknown)
		}
		return server.One(x, 200, &invoice, writeInvoice)
	})
}
