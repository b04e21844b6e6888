package portal

import (
	"net/url"
	"slices"

	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/spend"
)

// maxHolds is how many open reservations the page lists, the newest.
const maxHolds = 20

// shownBudget is the customer's own budget.
type shownBudget struct {
	api.Budget
	Limits []spend.Limit
}

// holds are the customer's open reservations, with the subscriptions that they may have them of.
func (v *visit) holds(subscriptions []api.Subscription) (h spend.Holds, ok bool) {
	list, more, ok := spend.Open(maxHolds, func(
		limit, cursor string,
	) ([]api.Reservation, string, bool) {
		query := spend.OpenQuery(limit, cursor)
		query.Set("customerReferenceId", v.customer.ExternalID)
		some, ok := dataOf[api.ReservationPage](v, v.call(server.Call{
			Operation: "listReservations", Query: query,
		}))
		return some.Reservations, some.NextCursor, ok
	})
	h.More = more
	for i := range list {
		hold := spend.Hold{Reservation: list[i]}
		if !v.stale && releasable(&list[i], subscriptions) {
			hold.Release = v.base + "/reservations/" + hold.ID + "/release"
			h.Release = true
		}
		h.Holds = append(h.Holds, hold)
	}
	return h, ok
}

// budgets are the customer's own: one, or none.
func (v *visit) budgets() (shown []shownBudget, ok bool) {
	list, ok := dataOf[api.BudgetPage](v, v.call(server.Call{
		Operation: "listBudgets",
		Query:     url.Values{"customerReferenceId": {v.customer.ExternalID}},
	}))
	for i := range list.Budgets {
		b := &list.Budgets[i]
		// What calls cost the merchant is not the customer's to see.
		b.Limits = slices.DeleteFunc(b.Limits, func(l api.BudgetLimit) bool { return l.Of == "cost" })
		if b.Status != "ARCHIVED" && len(b.Limits) > 0 {
			shown = append(shown, shownBudget{*b, spend.LimitsOf(b)})
		}
	}
	return shown, ok
}

// releasable reports whether the plans of all that a reservation holds let its customer give it up.
// It is not offered without that: what a call uses after its release cannot be settled.
func releasable(r *api.Reservation, subscriptions []api.Subscription) bool {
	return !slices.ContainsFunc(r.Items, func(item api.ReservationItem) bool {
		return !slices.ContainsFunc(subscriptions, func(s api.Subscription) bool {
			return s.ID == item.SubscriptionID && allows(&s.Plan).Release
		})
	})
}

// faultHoldOver answers about a reservation that has expired or was settled.
var faultHoldOver = server.NewFault(409, "reservation_over", "This reservation has ended").With(
	"The reservation has expired, or its call has ended, and holds nothing any more. Nothing was changed.")

// ownHold finds the reservation that the path names among the customer's, which they may release;
// another's is not found. One that they have released already is it, too.
func (v *visit) ownHold() (r api.Reservation, ok bool) {
	reply := v.call(server.Call{
		Operation: "getReservation", Path: []string{string(v.x.Param(1))},
	})
	if reply.Fault != nil && reply.Fault.Status < 500 {
		reply.Fault = server.FaultNotFound
	}
	if r, ok = dataOf[api.Reservation](v, reply); !ok {
		return r, false
	}
	if r.CustomerReferenceID != v.customer.ExternalID {
		v.x.Refuse(server.FaultNotFound)
		return r, false
	}
	list, ok := v.subscriptions()
	if !ok {
		return r, false
	}
	if r.State != "open" && r.State != "released" {
		v.finish(server.Reply{Fault: faultHoldOver}, "")
		return r, false
	}
	if !releasable(&r, list) {
		v.x.Refuse(faultNotOffered)
		return r, false
	}
	return r, true
}

func askRelease(v *visit) {
	r, ok := v.ownHold()
	if !ok {
		return
	}
	q := question{
		Note:   "What it holds is released immediately. Do this only for a call that has ended.",
		Button: "Release the reservation", Danger: true, Back: v.base,
		Action: v.base + "/reservations/" + r.ID + "/release",
	}
	for _, f := range spend.Facts(&r) {
		q.Facts = append(q.Facts, fact{f[0], f[1]})
	}
	v.show("confirm", "Release this reservation?", q)
}

func releaseHold(v *visit) {
	r, ok := v.ownHold()
	if !ok {
		return
	}
	v.finish(v.call(server.Call{Operation: "releaseReservation", Path: []string{r.ID}}), "released")
}
