package console

import (
	"maps"
	"net/url"
	"slices"

	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
	"tollgate/server/console/spend"
)

const reservationPath = "/accounts/{account}/{environment}/reservations/{reservation}"

func (s *Console) holdRows() []row {
	return []row{
		look(reservationPath, "reservation", showHold),
		look(customerPath+"/reservations", "customer's reservations", showHolds),
		look("/accounts/{account}/{environment}/reservations", "all reservations", showHolds),
		asked(form(customerPath+"/reservations", "reserve", reserve)),
		asked(form(reservationPath+"/settle", "settle reservation", settleHold)),
		asked(form(reservationPath+"/release", "release reservation", releaseHold)),
		asked(form(reservationPath+"/extend", "extend reservation", extendHold)),
	}
}

// shownHolds is how many open reservations a customer's page has.
const shownHolds = 10

// holds are a customer's open reservations, newest first.
func (v *visit) holds(customer string) (h spend.Holds) {
	found, more, _ := spend.Open(shownHolds, func(
		limit, cursor string,
	) ([]api.Reservation, string, bool) {
		call := v.adminCall("listReservations", customer)
		call.Query = spend.OpenQuery(limit, cursor)
		some := need[api.ReservationPage](v, v.admin, call)
		return some.Reservations, some.NextCursor, v.fault == nil
	})
	h.Release, h.Budgets, h.More = v.manage, true, more
	for i := range found {
		h.Holds = append(h.Holds, holdOf(v, &found[i]))
	}
	return h
}

// holdURL is a reservation's page.
func holdURL(v *visit, id string) string { return v.base() + "/reservations/" + id }

// holdOf is a reservation with the ways to what may be done with it.
func holdOf(v *visit, r *api.Reservation) spend.Hold {
	h := spend.Hold{Reservation: *r, URL: holdURL(v, r.ID)}
	if v.manage && r.State == holdOpen {
		h.Release, h.Extend = h.URL+"/release"+questionPath, h.URL+"/extend"+questionPath
	}
	return h
}

// States of reservations: those that are settled in ways of their own.
const (
	holdOpen    = "open"
	holdExpired = "expired" // settled by an ordinary usage event
	holdBilled  = "billed"  // billed when it expired: that event is amended
)

// holdChips are the states by which reservations are listed.
var holdChips = []struct{ name, state string }{
	{"All", ""},
	{"Open", holdOpen},
	{"Settled", "settled"},
	{"Released", "released"},
	{"Expired", holdExpired},
	{"Billed at expiry", holdBilled},
}

type holdsData struct {
	visit            *visit
	Chips            []page.Link
	Reservations     []api.Reservation
	Customer, Budget string // whose they are; empty where of all
	Filtered         bool
	CSV              string
	Pager            page.Pager
}

// URL is a reservation's page, CustomerURL a customer's.
func (d holdsData) URL(id string) string         { return holdURL(d.visit, id) }
func (d holdsData) CustomerURL(id string) string { return d.visit.customerURL(id) }

// holdCall asks for the reservations of the customer whose path it is, or of all customers, newest
// first: in a state, and at or below a budget. Those of all without either are the open ones. keep
// are the address's parameters.
func holdCall(v *visit) (call server.Call, keep url.Values) {
	customer := pathCustomer(v)
	if call = v.adminCall("listBudgetReservations"); customer != "" {
		call = v.adminCall("listReservations", customer)
	}
	keep = url.Values{}
	for _, name := range []string{"state", "budget"} {
		if value := v.query(name); value != "" {
			keep.Set(name, value)
		}
	}
	if customer == "" && len(keep) == 0 {
		keep.Set("state", holdOpen)
	}
	call.Query = maps.Clone(keep)
	return call, keep
}

// showHolds is a list of reservations.
func showHolds(v *visit) {
	customer, base := pathCustomer(v), v.base()
	if customer != "" {
		base = v.customerURL(customer)
	}
	base += "/reservations"
	call, keep := holdCall(v)
	list := need[api.ReservationPage](v, v.admin, v.paged(call, "50"))
	data := holdsData{
		visit: v, Reservations: list.Reservations, Customer: customer, Budget: keep.Get("budget"),
		Filtered: len(keep) > 0, CSV: base + ".csv?" + keep.Encode(),
		Pager: v.pages(base, list.NextCursor, keep).Of(len(list.Reservations), "reservation"),
	}
	for _, c := range holdChips {
		if c.state == "" && customer == "" && data.Budget == "" {
			continue // the row asks for a state or a budget
		}
		chip := page.Link{Text: c.name, URL: base, Here: keep.Get("state") == c.state}
		if query := withParam(keep, "state", c.state); len(query) > 0 {
			chip.URL += "?" + query.Encode()
		}
		data.Chips = append(data.Chips, chip)
	}
	if customer == "" {
		p := v.environmentPage("reservations", "Budgets", "Reservations", "", data)
		v.show(v.below(p, "Budgets", v.base()+"/budgets"))
		return
	}
	p := v.environmentPage("reservations", "Customers", "Reservations", "", data)
	v.show(v.below(p, customer, v.customerURL(customer)))
}

type holdData struct {
	spend.Hold
	// Settle is where what was used is sent; empty where nothing can be settled here.
	Settle, Customer, BudgetURL string
}

// Expired reports whether the reservation lived to its end.
func (d holdData) Expired() bool {
	return d.State == holdExpired || d.State == holdBilled || d.AfterExpiry
}

// showHold is a reservation, in any state.
func showHold(v *visit) {
	held := need[api.Reservation](v, v.admin, v.adminCall("showReservation", string(v.x.Param(2))))
	if v.fails() {
		return
	}
	data := holdData{Hold: holdOf(v, &held), Customer: v.customerURL(held.CustomerReferenceID)}
	if v.manage && slices.Contains([]string{holdOpen, holdExpired, holdBilled}, held.State) {
		data.Settle = data.URL + "/settle"
	}
	if held.Budget != "" {
		data.BudgetURL = v.base() + "/budgets/" + url.PathEscape(held.Budget)
	}
	p := v.environmentPage("reservation", "Customers", held.ReservationKey,
		"A reservation: what it holds, and what of it was used.", data)
	v.show(v.below(p, held.CustomerReferenceID, data.Customer))
}
