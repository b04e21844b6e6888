package client

import (
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
	"tollgate/server"
)

// longestReason is the length of a correction's reason in characters.
const longestReason = 500

// correctionRoutes are the rows about correcting usage events.
func (a *API) correctionRoutes() []server.Route {
	key := path("eventIdempotencyKey", text(1, longestKey), "the key that it was recorded under")
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
	c := billing.VoidUsage{Env: x.Principal.Env}
	var fault *server.Fault
	if len(x.Body) > 0 {
		fault = object(x.Body, map[string]func(*form) bool{
			"reason": reasonField(&c.Reason),
		}, func(*form) {})
	}
	if fault != nil {
		x.Refuse(*fault)
		return
	}
	if a.original(x, &c.Key, &c.Original) {
		a.carryOut(x, billing.KindVoidUsage, &c)
	}
}

// amendEvent is POST /events/{eventIdempotencyKey}/amend.
func (a *API) amendEvent(x *server.Exchange) {
	c := billing.AmendUsage{Env: x.Principal.Env, ID: newID()}
	given := false
	fault := object(x.Body, map[string]func(*form) bool{
		"reason":     reasonField(&c.Reason),
		"usageUnits": func(f *form) bool { return amendedUnits(f, &c.Units, &given) },
	}, func(f *form) { f.requireUnits(given) })
	if fault != nil {
		x.Refuse(*fault)
		return
	}
	if !a.original(x, &c.Key, &c.Original) {
		return
	}
	result := a.propose(x, billing.KindAmendUsage, wire.Encode(nil, &c))
	if result.Outcome != engine.OutcomeDone {
		refusal := server.FaultOf(result.Outcome)
		if result.Outcome == engine.OutcomeHardLimit {
			refusal.Message = "The amended event would exceed the feature's hard limit"
			refusal.Detail = "Nothing was changed: the event keeps its quantity."
		}
		x.Refuse(refusal)
		return
	}
	x.Succeed(200)
}

func reasonField(dst *string) func(*form) bool {
	return func(f *form) bool {
		var value []byte
		_, ok := f.text("reason", 0, longestReason, &value)
		*dst = string(value)
		return ok
	}
}

func amendedUnits(f *form, dst *decimal.Decimal, given *bool) (ok bool) {
	before := len(f.problems)
	*given, ok = f.number("usageUnits", dst)
	if *given && dst.Sign() < 0 {
		f.problem("usageUnits", server.FieldOutOfRange, "must not be negative")
	}
	*given = *given || len(f.problems) > before
	return ok
}

func (f *form) requireUnits(given bool) {
	if !given {
		f.problem("usageUnits", server.FieldRequired, "is required")
	}
}

// original finds the usage event that the path names in the journal of a node that has applied what
// the caller could have seen. What cannot be found is answered.
func (a *API) original(x *server.Exchange, key *[16]byte, ref *billing.UsageRef) bool {
	if code, reason := textProblem(x.Param(0), 1, longestKey); reason != "" {
		x.Refuse(*server.FieldFault("eventIdempotencyKey", code, reason))
		return false
	}
	if a.config.Events == nil {
		x.Refuse(faultJournal)
		return false
	}
	*key = billing.UsageKey(x.Principal.Env, x.Param(0))
	fault := a.look(x, func() *server.Fault {
		original, found, err := a.machine.FindUsage(a.config.Events, a.config.Keys,
			x.Principal.Env, *key)
		if err != nil {
			a.config.Log.Error("a usage event cannot be looked up", "error", err,
				"request_id", string(x.RequestID()))
			return &faultJournal
		}
		if !found {
			return notFound(engine.OutcomeUsageUnknown)
		}
		*ref = original
		return nil
	})
	if fault != nil {
		x.Refuse(*fault)
	}
	return fault == nil
}

func eventVoidSchema() *server.Schema {
	return server.Object(server.May("reason", text(0, longestReason)))
}

func eventAmendmentSchema() *server.Schema {
	return server.Object(
		server.Must("usageUnits", server.NumberSchema),
		server.May("reason", text(0, longestReason)),
	)
}
