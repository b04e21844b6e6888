package admin

import (
	"encoding/hex"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/billinglog"
	"tollgate/server/billingview"
	"tollgate/server/form"
)

const (
	maxReservations      = 100
	maxReservationCursor = 32
	maxTTL               = billing.MaxReservationMS / 1000
)

// reservationRoutes are the rows about what reservations hold.
func (a *customers) reservationRoutes() []server.Route {
	const one = environment + "/reservations/{reservation}"
	return []server.Route{
		row("GET", environment+"/customers/{customer}/reservations", "listReservations",
			"A customer's reservations, newest first, closed ones too", a.listReservations,
			server.Asks(server.InQuery("state", server.EnumSchema(billingview.ReservationStates...),
				"all when absent")),
			pages("reservations", "Reservation", maxReservations, "100", maxReservationCursor)),
		row("GET", environment+"/reservations", "listBudgetReservations",
			"The reservations at a budget and below it, newest first, closed ones too",
			a.listBudgetReservations,
			server.Asks(server.InQuery("budget", server.TextSchema(1, maxID), "required"),
				server.InQuery("state", server.EnumSchema(billingview.ReservationStates...),
					"all when absent")),
			pages("reservations", "Reservation", maxReservations, "100", maxReservationCursor)),
		row("GET", one, "showReservation", "A reservation in any state", a.one(a.showReservation),
			answers(server.RefTo("Reservation"))),
		row("POST", one+"/extend", "extendReservation", "Hold more, or for longer",
			of(a.extendReservation), keyed, server.Takes(server.Object(
				server.May("usageUnits", server.NumberSchema),
				server.May("ttlSeconds", server.IntSchema(1, maxTTL)))),
			server.Gives(200, "Extended", server.RefTo("Reservation"))),
		row("POST", one+"/release", "releaseReservation", "Give up what a reservation holds",
			of(a.releaseReservation), server.Gives(200, "Released, or it was before",
				server.RefTo("Reservation"))),
	}
}

// listReservations is GET …/customers/{customer}/reservations.
func (a *customers) listReservations(x *server.Exchange) *server.Fault {
	customer, fault := pathCustomer(x)
	if fault != nil {
		return fault
	}
	return a.reservations(x, &billing.ReservationQuery{Customer: customer})
}

// listBudgetReservations is GET …/reservations.
func (a *customers) listBudgetReservations(x *server.Exchange) *server.Fault {
	budget, ok := form.CheckText(x.Ctx.QueryArgs().Peek("budget"), 1, maxID)
	if !ok {
		return server.FieldsFault([]server.FieldError{budget.Of("budget")})
	}
	return a.reservations(x, &billing.ReservationQuery{
		Budget: string(x.Ctx.QueryArgs().Peek("budget")),
	})
}

// reservations answers with a page of a query.
func (a *customers) reservations(x *server.Exchange, q *billing.ReservationQuery) *server.Fault {
	var w walk
	q.Limit = pageSize(x, &w, maxReservations, maxReservations)
	query := x.Ctx.QueryArgs()
	if state := string(query.Peek("state")); state != "" {
		var ok bool
		if q.States, ok = billingview.ReservationState(state); !ok {
			w.note(form.NotAllowed(billingview.ReservationStates...).Of("state"))
		}
	}
	if cursor := query.Peek("cursor"); len(cursor) > 0 {
		n, err := hex.Decode(q.After[:], cursor[:min(len(cursor), maxReservationCursor)])
		w.when(err != nil || n != len(q.After) || len(cursor) > maxReservationCursor, "cursor",
			server.FieldFormat, "must be nextCursor of the page before")
	}
	if fault := w.fault(); fault != nil {
		return fault
	}
	return a.environment(x, func(env uint32) *server.Fault {
		q.Env, q.Now = env, a.machine.Clock(a.nowMS())
		list, next, outcome := a.machine.Reservations(q)
		switch outcome {
		case engine.OutcomeDone:
		case engine.OutcomeReservationUnknown:
			return server.FieldFault("cursor", server.FieldFormat,
				"must be nextCursor of a page of reservations that are kept")
		default:
			return server.FaultOf(outcome)
		}
		cursor := ""
		if next != ([16]byte{}) {
			cursor = hex.EncodeToString(next[:])
		}
		return server.Page(x, "reservations", list, billingview.WriteReservation, cursor)
	})
}

func (a *customers) showReservation(x *server.Exchange, env uint32, id [16]byte) *server.Fault {
	v, found := a.machine.Reservation(env, id, a.machine.Clock(a.nowMS()))
	if !found {
		return server.FaultOf(engine.OutcomeReservationUnknown)
	}
	return server.One(x, 200, &v, billingview.WriteReservation)
}

// extendReservation is POST …/reservations/{reservation}/extend.
func (a *customers) extendReservation(x *server.Exchange, id [16]byte) *server.Fault {
	var w walk
	c := billing.ExtendReservation{ID: id}
	fault := body(x, &w, map[string]reader{
		"usageUnits": w.positive(&c.Units),
		"ttlSeconds": func(t *tree, place string) {
			seconds, ok := t.integer()
			w.when(!ok || seconds < 1 || seconds > maxTTL, place, server.FieldOutOfRange,
				"must be a whole number from 1 to %d", int64(maxTTL))
			c.TTLMS = seconds * 1000
		},
	})
	if fault == nil {
		w.when(len(w.problems) == 0 && c.Units.IsZero() && c.TTLMS == 0, "usageUnits",
			server.FieldRequired, "or ttlSeconds is required")
		fault = w.fault()
	}
	if fault == nil {
		c.Env, fault = a.locate(x)
	}
	if fault != nil {
		return fault
	}
	r, _, fault := billinglog.Once(x, a.onceCommand(x, c.Env, billing.KindExtendReservation,
		wire.Encode(nil, &c)))
	switch {
	case fault != nil:
		return fault
	case r.Outcome != engine.OutcomeDone:
		return billingview.ReservationFault(
			billingview.BudgetFault(server.FaultOf(r.Outcome), r), r, withoutAccess)
	}
	return a.read(x, func() *server.Fault { return a.showReservation(x, c.Env, id) })
}

// withoutAccess says why a customer has no access to a feature.
func withoutAccess(why billing.Reason) string {
	return "A check of the feature is denied: " + why.String() + "."
}

// releaseReservation is POST …/reservations/{reservation}/release.
func (a *customers) releaseReservation(x *server.Exchange, id [16]byte) *server.Fault {
	env, fault := a.locate(x)
	if fault != nil {
		return fault
	}
	c := billing.ReleaseReservation{Env: env, ID: id, Actor: x.By()}
	r := a.propose(x, billing.KindReleaseReservation, wire.Encode(nil, &c))
	if r.Outcome != engine.OutcomeDone {
		return server.FaultOf(r.Outcome)
	}
	var v billing.ReservationView
	if wire.Decode(r.Value, &v) != nil {
		return server.FaultInternal
	}
	return server.One(x, 200, &v, billingview.WriteReservation)
}
