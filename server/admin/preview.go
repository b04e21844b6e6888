package admin

import (
	"cmp"
	"math"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/billingview"
)

// scannedSubscribers is how many customers' rows one page of subscribers may look at.
const scannedSubscribers = 100_000

// planRoutes are the rows about who is on a plan.
func (a *catalogs) planRoutes() []server.Route {
	const plan = environment + "/plans/{plan}"
	return []server.Route{
		row("GET", plan+"/versions", "listPlanVersions",
			"A plan's versions, the newest first, with how many subscriptions to each have not ended",
			a.within(a.planVersions),
			answers(server.ArrayOf(server.AnswerSchema[billing.PlanVersionView]()))),
		row("GET", plan+"/subscribers", "listSubscribers",
			"Subscriptions to a plan that have not ended, of the newest customers first", a.subscribers,
			server.Asks(server.InQuery("version", server.IntSchema(1, math.MaxUint32),
				"only those to this version")),
			pages("subscribers", "Subscriber", maxCustomers, "100", 10)),
	}
}

func (a *catalogs) planVersions(x *server.Exchange, env uint32) *server.Fault {
	views, ok := a.machine.PlanVersions(env, string(x.Param(2)))
	if !ok {
		return server.FaultOf(engine.OutcomePlanUnknown)
	}
	return server.List(x, views, writePlanVersion)
}

func (a *catalogs) subscribers(x *server.Exchange) *server.Fault {
	var w walk
	limit, cursor := pageOf(x, &w, defaultCustomers, maxCustomers)
	version := uint64(0)
	if text := w.query(x, "version", 10); text != "" {
		var ok bool
		version, ok = server.WholeNumber(text, 1, math.MaxUint32)
		w.when(!ok, "version", server.FieldFormat, "must be a whole number from 1")
	}
	if fault := w.fault(); fault != nil {
		return fault
	}
	q := billing.SubscriberQuery{
		Plan: string(x.Param(2)), Version: uint32(version), Limit: limit, Scan: scannedSubscribers,
		Before: uint32(min(cmp.Or(cursor, math.MaxUint32), math.MaxUint32)),
	}
	return a.environment(x, func(env uint32) *server.Fault {
		q.Env = env
		list, next, ok := a.machine.SubscribersOf(&q)
		if !ok {
			return server.FaultOf(engine.OutcomePlanUnknown)
		}
		return server.Page(x, "subscribers", list, writeSubscriber, cursorAt(uint64(next)))
	})
}

// previewRoutes is the row by which a page says what a change will cost before it is made.
func (a *catalogs) previewRoutes() []server.Route {
	return []server.Route{
		row("GET", environment+"/preview", "previewInvoices", "The invoices that a subscription, a plan "+
			"change or a cancellation would issue at once. Nothing is changed.", a.preview,
			server.Asks(
				server.InQuery("customer", text(1, maxID), "with plan: a subscription of this customer"),
				server.InQuery("plan", text(1, maxID), "a plan's id or key"),
				server.InQuery("subscription", server.UUIDSchema,
					"with plan and changeType, or cancelMode"),
				server.InQuery("changeType", server.EnumSchema("UPGRADE", "DOWNGRADE"), ""),
				server.InQuery("cancelMode", server.EnumSchema("IMMEDIATE", "END_OF_PERIOD"), "")),
			answers(server.Object(
				server.Must("invoices", server.ArrayOf(server.RefTo("Invoice")))))),
	}
}

var (
	previewChanges = map[string]billing.ChangeType{
		"UPGRADE": billing.ChangeUpgrade, "DOWNGRADE": billing.ChangeDowngrade,
	}
	previewCancels = map[string]billing.CancelMode{
		"IMMEDIATE": billing.CancelImmediate, "END_OF_PERIOD": billing.CancelAtPeriodEnd,
	}
)

func (a *catalogs) preview(x *server.Exchange) *server.Fault {
	args := x.Ctx.QueryArgs()
	query := func(name string) string { return string(args.Peek(name)) }
	customer, plan := query("customer"), query("plan")
	change, changes := previewChanges[query("changeType")]
	mode, cancels := previewCancels[query("cancelMode")]
	id, named := server.ParseUUID(args.Peek("subscription"))
	subscribes := customer != "" && plan != "" && !args.Has("subscription")
	if !subscribes && !(named && customer == "" && (changes && plan != "" && !args.Has("cancelMode") ||
		cancels && plan == "" && !args.Has("changeType"))) {
		return server.FieldFault("customer", server.FieldConflict, "and plan go together; or "+
			"subscription, plan and changeType; or subscription and cancelMode")
	}
	now := a.machine.Clock(a.nowMS())
	return a.environment(x, func(env uint32) *server.Fault {
		var views []billing.InvoiceView
		var outcome engine.Outcome
		switch {
		case subscribes:
			var view billing.InvoiceView
			view, outcome = a.machine.PreviewSubscription(env, customer, plan, now)
			view.ID, view.SubscriptionID = newID(), newID() // it will have others
			views = append(views, view)
		case changes:
			views, outcome = a.machine.PreviewPlanChange(env, id, plan, change, now)
		default:
			views, outcome = a.machine.PreviewCancellation(env, id, mode, now)
		}
		if outcome != engine.OutcomeDone {
			return server.FaultOf(outcome)
		}
		return server.Page(x, "invoices", views, billingview.WriteInvoice, "")
	})
}
