package client

import (
	"strconv"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/billingview"
	"tollgate/server/form"
)

// lifecycleRoutes are the rows about what happens to a subscription after its creation.
func (a *subscriptions) lifecycleRoutes() []server.Route {
	const (
		cancellation = "/subscriptions/cancellation/{subscriptionId}"
		subscription = "/subscriptions/{subscriptionId}"
	)
	return []server.Route{
		row("POST", cancellation, "cancelSubscription", "Cancel now, or at the period's end",
			server.AccessFull, byID(a.cancelSubscription), server.Asks(server.RequestKey,
				server.InQuery("cancelMode", server.EnumSchema("IMMEDIATE", "END_OF_PERIOD"),
					"END_OF_PERIOD when absent")), done),
		row("DELETE", cancellation+"/scheduled", "revertScheduledCancellation",
			"Revert a scheduled cancellation", server.AccessFull, byID(a.revertCancellation), done),
		row("POST", subscription+"/plan-change", "changeSubscriptionPlan",
			"Upgrade at once, or downgrade at the period's end", server.AccessFull, byID(a.changePlan),
			server.Asks(server.RequestKey), server.Takes(server.RefTo("PlanChangeRequest")), done),
		row("DELETE", subscription+"/plan-change/scheduled", "cancelScheduledPlanChange",
			"Cancel a scheduled plan change", server.AccessFull, byID(a.cancelPlanChange), done),
		row("GET", subscription+"/plan-changes", "listPlanChanges",
			"A subscription's plan changes, oldest first", server.AccessRead, byID(a.listPlanChanges),
			reads, answers(server.ArrayOf(server.RefTo("ScheduledChange")))),
		row("GET", subscription+"/upcoming-invoice", "getUpcomingInvoice",
			"The current period's invoice so far, with the id that it keeps",
			server.AccessRead, byID(a.upcomingInvoice), reads, answers(server.RefTo("Invoice"))),
	}
}

var cancelModes = map[string]billing.CancelMode{
	"END_OF_PERIOD": billing.CancelAtPeriodEnd, "IMMEDIATE": billing.CancelImmediate,
}

func (a *subscriptions) cancelSubscription(x *server.Exchange, id [16]byte) *server.Fault {
	mode, known := billing.CancelAtPeriodEnd, true
	if x.Ctx.QueryArgs().Has("cancelMode") {
		mode, known = cancelModes[query(x.Ctx, "cancelMode")]
	}
	if !known {
		return form.NotAllowed("IMMEDIATE", "END_OF_PERIOD").Fault("cancelMode")
	}
	p := principal(x)
	if p.Scope == billing.ScopeCustomer && mode == billing.CancelAtPeriodEnd {
		mode = billing.CancelByCustomer
	}
	return a.carryOutOnce(x, billing.KindCancelSubscription, &billing.CancelSubscription{
		Env: p.Env, ID: id, Mode: mode,
	})
}

func (a *subscriptions) revertCancellation(x *server.Exchange, id [16]byte) *server.Fault {
	p := principal(x)
	command := billing.RevertCancellation{
		Env: p.Env, ID: id, ByCustomer: p.Scope == billing.ScopeCustomer,
	}
	result := a.propose(x, billing.KindRevertCancellation, wire.Encode(nil, &command))
	switch result.Outcome {
	case engine.OutcomeDone:
		return x.Succeed(200)
	case engine.OutcomeRevertSuspended:
		return suspended(result.Value)
	}
	return server.FaultOf(result.Outcome)
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

func (a *subscriptions) changePlan(x *server.Exchange, id [16]byte) *server.Fault {
	c := billing.ChangePlan{Env: principal(x).Env, ID: id, ChangeID: newID()}
	if fault := form.Read(x.Body, &c, readPlanChangeRequest); fault != nil {
		return fault
	}
	return a.carryOutOnce(x, billing.KindChangePlan, &c)
}

func (a *subscriptions) cancelPlanChange(x *server.Exchange, id [16]byte) *server.Fault {
	return a.carryOut(x, billing.KindCancelPlanChange, &billing.CancelPlanChange{
		Env: principal(x).Env, ID: id,
	})
}

func (a *subscriptions) listPlanChanges(x *server.Exchange, id [16]byte) *server.Fault {
	return a.read(x, func() *server.Fault {
		changes, found := a.machine.PlanChanges(principal(x).Env, id)
		if !found {
			return server.FaultOf(engine.OutcomeSubscriptionUnknown)
		}
		return server.List(x, changes, writeScheduledChange)
	})
}

func (a *subscriptions) upcomingInvoice(x *server.Exchange, id [16]byte) *server.Fault {
	return a.read(x, func() *server.Fault {
		invoice, found := a.machine.Upcoming(principal(x).Env, id)
		if !found {
			return server.FaultOf(engine.OutcomeSubscriptionUnknown)
		}
		return server.One(x, 200, &invoice, billingview.WriteInvoice)
	})
}
