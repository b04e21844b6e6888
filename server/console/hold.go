package console

import (
	"net/url"

	api "tollgate/sdk/go"
	"tollgate/server/console/spend"
)

const reservationPath = "/accounts/{account}/{environment}/reservations/{reservation}"

func (s *Console) holdRows() []row {
	return []row{asked(form(reservationPath+"/release", "release reservation", releaseHold))}
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

// releaseHold gives up what a reservation holds.
func releaseHold(v *visit) {
	id := string(v.x.Param(2))
	held := need[api.Reservation](v, v.admin, v.adminCall("showReservation", id))
	if v.fails() {
		return
	}
	back := v.customerURL(held.CustomerReferenceID)
	if !v.sure() {
		q := question{
			Title: "Release this reservation?", Button: "Release the reservation", Danger: true, Back: back,
			Facts: []fact{{"Reservation", held.ReservationKey}, {"Customer", held.CustomerReferenceID}},
			Notes: []string{"What it holds is free at once. The program that made it cannot settle it any " +
				"more: what the call uses is not billed, unless the program records it as an event."},
		}
		for _, f := range spend.Facts(&held) {
			q.Facts = append(q.Facts, fact{f[0], f[1]})
		}
		v.ask(q)
		return
	}
	if reply := v.admin(v.adminCall("releaseReservation", id)); reply.Fault != nil {
		v.x.Refuse(reply.Fault)
		return
	}
	v.finish(nil, nil, back, "released")
}
