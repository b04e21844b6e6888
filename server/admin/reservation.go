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
	"tollgate/server/scan"
)

const (
	maxReservations      = 100
	maxReservationCursor = 32
	maxTTL               = billing.MaxReservationMS / 1000
	maxEventKey          = 255
)

// reservationRoutes are the rows about what reservations hold.
func (a *customers) reservationRoutes() []server.Route {
	const one = environment + "/reservations/{reservation}"
	return []server.Route{
		row("GET", environment+"/customers/{customer}/reservations", "listReservations",
			"A customer's reservations, newest first, closed ones too", a.listReservations,
			server.Asks(server.InQuery("state", server.EnumSchema(billingview.ReservationStates...),
				"all when absent"),
				server.InQuery("budget", server.TextSchema(1, maxID), "those at it, or below it")),
			pages("reservations", "Reservation", maxReservations, "100", maxReservationCursor)),
		row("GET", environment+"/reservations", "listBudgetReservations",
			"The reservations of all customers, newest first, closed ones too",
			a.listBudgetReservations,
			server.Asks(server.InQuery("budget", server.TextSchema(1, maxID),
				"those at it, or below it; it or state is required"),
				server.InQuery("state", server.EnumSchema(billingview.ReservationStates...),
					"all when absent")),
			pages("reservations", "Reservation", maxReservations, "100", maxReservationCursor)),
		row("GET", one, "showReservation", "A reservation in any state", a.one(a.showReservation),
			answers(server.RefTo("Reservation"))),
		row("POST", one+"/settle", "settleReservation",
			"Record what was used and, unless final is false, release the rest",
			of(a.settleReservation), server.Takes(settlementSchema()),
			server.Gives(200, "Settled, or it was before", server.RefTo("Reservation"))),
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
	return a.reservations(x, &billing.ReservationQuery{
		Customer: customer, Budget: string(x.Ctx.QueryArgs().Peek("budget")),
	})
}

// listBudgetReservations is GET …/reservations.
func (a *customers) listBudgetReservations(x *server.Exchange) *server.Fault {
	query := x.Ctx.QueryArgs()
	budget, ok := form.CheckText(query.Peek("budget"), 1, maxID)
	if !ok && (query.Has("budget") || !query.Has("state")) {
		return server.FieldsFault([]server.FieldError{budget.Of("budget")})
	}
	return a.reservations(x, &billing.ReservationQuery{
		Budget: string(query.Peek("budget")),
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
		w.wrong(err != nil || n != len(q.After) || len(cursor) > maxReservationCursor, "cursor",
			form.NotCursor)
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
			return form.PassedCursor.Fault("cursor")
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
			w.wrong(!ok || seconds < 1 || seconds > maxTTL, place, form.Outside[int64](1, maxTTL))
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
		return reservationFault(r)
	}
	return a.read(x, func() *server.Fault { return a.showReservation(x, c.Env, id) })
}

// reservationFault is the fault of a command about a reservation that was refused.
func reservationFault(r engine.Result) *server.Fault {
	return billingview.ReservationFault(
		billingview.BudgetFault(server.FaultOf(r.Outcome), r), r, withoutAccess)
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
	return answerReservation(x, r)
}

// answerReservation answers with the reservation that a command has left.
func answerReservation(x *server.Exchange, r engine.Result) *server.Fault {
	var v billing.ReservationView
	if wire.Decode(r.Value, &v) != nil {
		return server.FaultInternal
	}
	return server.One(x, 200, &v, billingview.WriteReservation)
}

// settledItem describes the fields of an item that is settled.
func settledItem(more ...server.Property) *server.Schema {
	return server.Object(append([]server.Property{
		server.May("featureKey", server.TextSchema(1, maxID)),
		server.May("featureId", server.UUIDSchema),
		server.May("usageUnits", server.NumberSchema),
		server.May("costAmount", server.NumberSchema),
	}, more...)...)
}

func settlementSchema() *server.Schema {
	return settledItem(
		server.May("items", server.ArrayOf(settledItem())),
		server.May("final", server.BoolSchema),
		server.May("eventIdempotencyKey", server.TextSchema(1, maxEventKey)),
		server.May("occurredAt", server.TimeSchema),
		server.May("meta", server.FreeObject()))
}

// settledFields read the fields of an item; number is set where it has units.
func (w *walk) settledFields(i *billing.SettleItem, number *bool) map[string]reader {
	return map[string]reader{
		"featureKey": w.plain(&i.FeatureKey, 1, maxID),
		"featureId": func(t *tree, place string) {
			var ok bool
			i.FeatureID, ok = server.ParseUUID([]byte(t.text))
			w.wrong(!ok || t.kind != scan.KindString, place, form.NotUUID)
		},
		"usageUnits": func(t *tree, place string) {
			*number = true
			w.amount(&i.Units)(t, place)
		},
		"costAmount": func(t *tree, place string) {
			i.HasCost = true
			w.amount(&i.Cost)(t, place)
		},
	}
}

// readSettlement reads what was used of a reservation in all: of items, or of the only one.
func readSettlement(x *server.Exchange, c *billing.SettleReservation) *server.Fault {
	var w walk
	var only billing.SettleItem
	var named, number bool
	final := true
	fields := w.settledFields(&only, &number)
	fields["items"] = func(t *tree, place string) {
		named = true
		w.array(func(t *tree, place string) {
			var i billing.SettleItem
			var number bool
			w.object(t, place, w.settledFields(&i, &number))
			w.wrong(t.kind == scan.KindObject && !number, place+".usageUnits", form.Required)
			c.Items = append(c.Items, i)
		})(t, place)
		w.wrong(t.kind == scan.KindArray && len(t.items) == 0, place, form.Empty)
		w.when(len(t.items) > billing.MaxReservationItems, place, server.FieldTooLong,
			"%s", form.TooMany(billing.MaxReservationItems).Text)
	}
	fields["final"] = w.flag(&final)
	fields["eventIdempotencyKey"] = w.plain(&c.EventKey, 1, maxEventKey)
	fields["occurredAt"] = w.instant(&c.OccurredAt)
	fields["meta"] = w.metadata(&c.Meta)
	if fault := body(x, &w, fields); fault != nil {
		return fault
	}
	atTop := number || only != billing.SettleItem{}
	w.when(named && atTop, "items", server.FieldConflict,
		"and the fields of a single item are not taken together")
	w.when(!named && !number, "usageUnits", server.FieldRequired, "or items is required")
	if !named {
		c.Items = append(c.Items, only)
	}
	c.Partial = !final
	return w.fault()
}

// settleReservation is POST …/reservations/{reservation}/settle.
func (a *customers) settleReservation(x *server.Exchange, id [16]byte) *server.Fault {
	c := &billing.SettleReservation{ID: id}
	fault := readSettlement(x, c)
	if fault == nil {
		c.Env, fault = a.locate(x)
	}
	if fault != nil {
		return fault
	}
	settler := billinglog.Settler{
		Machine: a.machine, Events: a.events, Keys: a.keys, Log: a.log, NoJournal: faultJournal,
	}
	r, fault := settler.Settle(x, billinglog.Settlement{
		SettleReservation: c, Propose: a.proposing(x),
		Read: func(look func() *server.Fault) *server.Fault { return a.read(x, look) },
	})
	switch {
	case fault != nil:
		return fault
	case r.Outcome != engine.OutcomeDone:
		return reservationFault(r)
	}
	return answerReservation(x, r)
}
