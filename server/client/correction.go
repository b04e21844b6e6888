package client

import (
	"strings"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/server"
	"tollgate/server/billingview"
	"tollgate/server/form"
)

// correctionRoutes are the rows about correcting usage events.
func (a *API) correctionRoutes() []server.Route {
	const event = "/events/{eventIdempotencyKey}"
	return []server.Route{
		row("POST", event+"/void", "voidEvent", "Void a usage event; its key stays used",
			server.AccessFull, a.voidEvent, server.Asks(server.RequestKey),
			server.MayTake(server.RefTo("EventVoid")),
			server.Gives(200, "Voided, or it was before", nil)),
		row("POST", event+"/amend", "amendEvent", "Change the quantity of a usage event",
			server.AccessFull, a.amendEvent, server.Asks(server.RequestKey),
			server.Takes(server.RefTo("EventAmendment")), server.Gives(200, "Amended", nil)),
		row("GET", event+"/correction-preview", "previewCorrection",
			"What voiding or amending an event would do to money", server.AccessRead,
			a.previewCorrection, reads,
			server.Asks(server.InQuery("usageUnits", text(1, maxUnits),
				"of an amendment, a number; a void when absent")),
			answers(server.RefTo("CorrectionPreview"))),
	}
}

func (a *API) voidEvent(x *server.Exchange) (fault *server.Fault) {
	p := principal(x)
	c := billing.VoidUsage{Env: p.Env, KeyBudget: p.Budget, Bindings: p.Bindings}
	if len(x.Body) > 0 {
		fault = form.Read(x.Body, &c, readEventVoid)
	}
	if fault == nil {
		fault = a.original(x, &c.Key, &c.Original)
	}
	if fault != nil {
		return fault
	}
	return a.carryOutOnce(x, billing.KindVoidUsage, &c)
}

func (a *API) amendEvent(x *server.Exchange) *server.Fault {
	p := principal(x)
	c := billing.AmendUsage{Env: p.Env, ID: newID(), KeyBudget: p.Budget, Bindings: p.Bindings}
	fault := form.Read(x.Body, &c, readEventAmendment)
	if fault == nil {
		fault = a.original(x, &c.Key, &c.Original)
	}
	if fault != nil {
		return fault
	}
	r, _, fault := a.once(x, billing.KindAmendUsage, &c)
	if fault != nil {
		return fault
	}
	switch o := r.Outcome; o {
	case engine.OutcomeDone:
		return x.Succeed(200)
	case engine.OutcomeHardLimit:
		return server.FaultOf(o).Saying("The amended event would exceed the feature's hard limit").
			With("Nothing was changed: the event keeps its quantity.")
	default:
		return billingview.BudgetFault(server.FaultOf(o), r)
	}
}

// maxUnits is the length of a number in a query.
const maxUnits = 40

// previewCorrection is GET …/correction-preview.
func (a *API) previewCorrection(x *server.Exchange) *server.Fault {
	var units *decimal.Decimal
	if text := query(x.Ctx, "usageUnits"); text != "" {
		n, err := decimal.Parse(text)
		switch {
		case err != nil:
			return form.Inexact.Fault("usageUnits")
		case n.Sign() < 0:
			return form.Negative.Fault("usageUnits")
		}
		units = &n
	}
	var key [16]byte
	var ref billing.UsageRef
	if fault := a.original(x, &key, &ref); fault != nil {
		return fault
	}
	env := principal(x).Env
	p, outcome := a.machine.PreviewCorrection(env, key, &ref, units, a.machine.Clock(a.nowMS()))
	if outcome != engine.OutcomeDone {
		return server.FaultOf(outcome)
	}
	return server.One(x, 200, &p, writeCorrectionPreview)
}

// original finds the usage event that the path names in the journal of a node that has applied what
// the caller could have seen.
func (a *API) original(
	x *server.Exchange, key *[16]byte, ref *billing.UsageRef,
) *server.Fault {
	if wrong, ok := form.CheckText(x.Param(0), 1, maxKey); !ok {
		return wrong.Fault("eventIdempotencyKey")
	}
	if a.events == nil {
		return faultJournal
	}
	*key = billing.UsageKey(principal(x).Env, x.Param(0))
	return a.read(x, func() *server.Fault {
		original, found, others, err := a.machine.FindCounted(
			a.events, a.keys, principal(x).Env, key)
		switch {
		case err != nil:
			a.log.Error("a usage event cannot be looked up", "error", err,
				"request_id", string(x.RequestID()))
			return faultJournal
		case len(others) > 0:
			return server.FaultOf(engine.OutcomeUsageUnknown).With("This key was given in a settlement " +
				"after expiry, which amended these events instead of recording one: " +
				strings.Join(others, ", ") + ". Void or amend those.")
		case !found:
			return server.FaultOf(engine.OutcomeUsageUnknown)
		}
		*ref = original
		return nil
	})
}
