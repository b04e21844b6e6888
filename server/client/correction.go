package client

import (
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/form"
)

// correctionRoutes are the rows about correcting usage events.
func (a *API) correctionRoutes() []server.Route {
	key := path("eventIdempotencyKey", text(1, maxKey), "the key that it was recorded under")
	return []server.Route{
		{
			Method: "POST", Path: Prefix + "/events/{eventIdempotencyKey}/void",
			Operation: "voidEvent", Summary: "Take a usage event back; its key stays used",
			Access: server.AccessFull, Handle: a.voidEvent, Params: []server.Param{key},
			Body: server.RefTo("EventVoid"), BodyOptional: true,
			Responses: []server.Response{{Status: 200, About: "Voided, or it was before"}},
		},
		{
			Method: "POST", Path: Prefix + "/events/{eventIdempotencyKey}/amend",
			Operation: "amendEvent", Summary: "Give a usage event another quantity",
			Access: server.AccessFull, Handle: a.amendEvent, Params: []server.Param{key},
			Body:      server.RefTo("EventAmendment"),
			Responses: []server.Response{{Status: 200, About: "Amended"}},
		},
	}
}

// voidEvent is POST /events/{eventIdempotencyKey}/void.
func (a *API) voidEvent(x *server.Exchange) {
	c := billing.VoidUsage{Env: principal(x).Env}
	var fault *server.Fault
	if len(x.Body) > 0 {
		fault = form.Read(x.Body, &c, readEventVoid)
	}
	if fault != nil {
		x.Refuse(fault)
		return
	}
	if a.original(x, &c.Key, &c.Original) {
		a.carryOut(x, billing.KindVoidUsage, &c)
	}
}

// amendEvent is POST /events/{eventIdempotencyKey}/amend.
func (a *API) amendEvent(x *server.Exchange) {
	c := billing.AmendUsage{Env: principal(x).Env, ID: newID()}
	fault := form.Read(x.Body, &c, readEventAmendment)
	if fault != nil {
		x.Refuse(fault)
		return
	}
	if !a.original(x, &c.Key, &c.Original) {
		return
	}
	result := a.propose(x, billing.KindAmendUsage, wire.Encode(nil, &c))
	if result.Outcome != engine.OutcomeDone {
		refusal := server.FaultOf(result.Outcome)
		if result.Outcome == engine.OutcomeHardLimit {
			refusal = refusal.Saying("The amended event would exceed the feature's hard limit").
				With("Nothing was changed: the event keeps its quantity.")
		}
		x.Refuse(refusal)
		return
	}
	x.Succeed(200)
}

// original finds the usage event that the path names in the journal of a node that has applied what
// the caller could have seen. What cannot be found is answered.
func (a *API) original(x *server.Exchange, key *[16]byte, ref *billing.UsageRef) bool {
	if wrong, ok := form.CheckText(x.Param(0), 1, maxKey); !ok {
		x.Refuse(wrong.Fault("eventIdempotencyKey"))
		return false
	}
	if a.events == nil {
		x.Refuse(faultJournal)
		return false
	}
	*key = billing.UsageKey(principal(x).Env, x.Param(0))
	fault := a.look(x, func() *server.Fault {
		original, found, err := a.machine.FindUsage(a.events, a.keys,
			principal(x).Env, *key)
		if err != nil {
			a.log.Error("a usage event cannot be looked up", "error", err,
				"request_id", string(x.RequestID()))
			return faultJournal
		}
		if !found {
			return server.FaultOf(engine.OutcomeUsageUnknown)
		}
		*ref = original
		return nil
	})
	if fault != nil {
		x.Refuse(fault)
	}
	return fault == nil
}
