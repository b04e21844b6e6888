package console

import (
	"net/url"
	"strconv"
	"time"

	api "tollgate/sdk/go"
	"tollgate/server/console/spend"
)

const reservationPath = "/accounts/{account}/{environment}/reservations/{reservation}"

func (s *Console) holdRows() []row {
	return []row{
		asked(form(reservationPath+"/release", "release reservation", releaseHold)),
		asked(form(reservationPath+"/extend", "extend reservation", extendHold)),
	}
}

// holds are a customer's open reservations, newest first.
func (v *visit) holds(customer string) (h spend.Holds) {
	type list struct {
		Reservations []api.Reservation `json:"reservations"`
		NextCursor   string            `json:"nextCursor"`
	}
	found, more, _ := spend.Open(maxShown, func(
		limit, cursor string,
	) ([]api.Reservation, string, bool) {
		call := v.adminCall("listReservations", customer)
		call.Query = spend.OpenQuery(limit, cursor)
		some := need[list](v, v.admin, call)
		return some.Reservations, some.NextCursor, v.fault == nil
	})
	h.Release, h.Budgets, h.More = v.manage, true, more
	for _, r := range found {
		hold := spend.Hold{Reservation: r}
		if v.manage {
			hold.Release = v.base() + "/reservations/" + r.ID + "/release" + questionPath
			hold.Extend = v.base() + "/reservations/" + r.ID + "/extend" + questionPath
		}
		h.Holds = append(h.Holds, hold)
	}
	return h
}

// ownBudgets are the budgets that are a customer's own: one, or none.
func (v *visit) ownBudgets(customer string) (nodes []*budgetNode) {
	call := v.adminCall("listBudgets")
	call.Query = url.Values{"customer": {customer}}
	found := need[budgetList](v, v.admin, call)
	for i := range found.Budgets {
		if b := &found.Budgets[i]; b.Status != "ARCHIVED" {
			nodes = append(nodes, v.node(b))
		}
	}
	return nodes
}

// releaseHold gives up what a reservation holds, and extendHold lets it live for an hour from now.
func releaseHold(v *visit) {
	changeHold(v, "releaseReservation", "released", nil, func(*api.Reservation) question {
		return question{
			Title: "Release this reservation?", Button: "Release the reservation", Danger: true,
			Notes: []string{"What it holds is free at once. The program that made it cannot settle it any " +
				"more: what the call uses is not billed, unless the program records it as an event."},
		}
	})
}

func extendHold(v *visit) {
	const longer = time.Hour
	fields := map[string]any{"ttlSeconds": literal(strconv.Itoa(int(longer.Seconds())))}
	changeHold(v, "extendReservation", "extended", fields, func(held *api.Reservation) question {
		until := time.UnixMilli(v.console.config.Machine.EnvironmentNow(
			v.env, v.console.config.Now().UnixMilli())).Add(longer)
		if until.Before(held.ExpiresAt) {
			until = held.ExpiresAt
		}
		return question{
			Title: "Hold this reservation for an hour from now?", Button: "Extend the reservation",
			Facts: []fact{{"Then expires", spend.Instant(until)}},
			Notes: []string{"What it holds stays held until then, and counts against limits, credits and " +
				"budgets. A reservation lives for no longer in all than the cluster allows."},
		}
	})
}

// changeHold asks about a reservation, and carries an operation out once that is confirmed.
func changeHold(
	v *visit, operation, done string, fields map[string]any, ask func(*api.Reservation) question,
) {
	id := string(v.x.Param(2))
	held := need[api.Reservation](v, v.admin, v.adminCall("showReservation", id))
	if v.fails() {
		return
	}
	back := v.customerURL(held.CustomerReferenceID)
	if !v.sure() {
		q := ask(&held)
		facts := []fact{{"Reservation", held.ReservationKey}, {"Customer", held.CustomerReferenceID}}
		for _, f := range spend.Facts(&held) {
			facts = append(facts, fact{f[0], f[1]})
		}
		q.Facts, q.Back = append(facts, q.Facts...), back
		v.ask(q)
		return
	}
	if reply := v.send(operation, fields, id); reply.Fault != nil {
		v.x.Refuse(reply.Fault)
		return
	}
	v.finish(nil, nil, back, done)
}
