package console

import (
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"time"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
	"tollgate/server/console/spend"
)

// maxHoldMinutes is the longest time that a form reserves for.
const maxHoldMinutes = billing.MaxReservationMS / 60_000

// reserve asks what a customer's reservation would hold, which is that of a dry run, and makes it
// once that is confirmed. The form's key is the reservation's: sent twice, it holds once.
func reserve(v *visit) {
	minutes, err := strconv.Atoi(v.typed("hold"))
	if err != nil || minutes < 1 || minutes > maxHoldMinutes {
		v.wrong("hold", "Enter a whole number from 1 to "+page.Amount(strconv.Itoa(maxHoldMinutes)))
		showCustomer(v)
		return
	}
	fields := map[string]any{
		"reservationKey": page.OnceKey(v.fields), "customerReferenceId": string(v.x.Param(2)),
		"featureKey": v.typed("feature"), "usageUnits": literal(v.fields.Get("usageUnits")),
		"ttlSeconds": literal(strconv.Itoa(60 * minutes)), "budget": v.typed("budget"),
		"onExpiry": v.typed("expiry"),
	}
	sure := v.sure()
	if !sure {
		fields["reservationKey"], fields["dryRun"] = page.MintOnce(), true
	}
	made, fault := dataOf[api.Reservation](v, v.client(server.Call{
		Operation: "reserve", Body: body(fields),
	}))
	switch {
	case fault != nil:
		refuse(v, fault, showCustomer)
	case sure:
		v.finish(nil, nil, holdURL(v, made.ID), "reserved")
	default:
		askReserve(v, &made)
	}
}

// askReserve shows what a reservation will hold, what that costs if all of it is used, and what is
// left then.
func askReserve(v *visit, r *api.Reservation) {
	q := question{
		Title: "Reserve this for " + r.CustomerReferenceID + "?", Button: "Reserve",
		Back:  v.customerURL(r.CustomerReferenceID),
		Facts: []fact{{"Customer", r.CustomerReferenceID}},
		Notes: []string{"The hold counts at once against limits, credits and budgets. It costs nothing " +
			"until it is settled."},
	}
	for _, f := range spend.Facts(r) {
		q.Facts = append(q.Facts, fact{f[0], f[1]})
	}
	then := "what is held is released"
	if r.SettlesOnExpiry {
		then = "what is held is billed"
	}
	q.Facts = append(q.Facts, fact{"If it expires", then})
	for i := range r.Items {
		item := &r.Items[i]
		price := priceOf(v, r.CustomerReferenceID, item.FeatureKey, string(item.HeldUnits), false)
		if price != "" {
			q.Facts = append(q.Facts, fact{"Costs if all of it is used", price})
		}
		if item.Limit != "" {
			q.Facts = append(q.Facts, fact{
				"Left of the limit then",
				page.Amount(item.Remaining) + " of " + page.Amount(item.Limit),
			})
		}
		if item.CreditsRemaining != "" {
			q.Facts = append(q.Facts, fact{"Credits left then", page.Amount(item.CreditsRemaining)})
		}
	}
	if b := &r.BudgetLimit; b.Budget != "" {
		limit := spend.LimitOf(api.BudgetLimit{
			Of: b.Of, FeatureKey: b.FeatureKey, Currency: b.Currency, Limit: b.Limit, Window: b.Window,
		})
		limit.Remaining = b.Remaining
		if held := heldAt(v, b.Budget, &limit); held != "" {
			q.Facts = append(q.Facts, fact{
				"Held at the budget " + b.Budget, limit.Amount(json.Number(held)) +
					", which these units hold until they are settled",
			})
		}
		q.Facts = append(q.Facts, fact{
			"Left of the budget " + b.Budget + " then",
			limit.Amount(b.Remaining) + " of " + limit.Amount(b.Limit) + " (" + limit.What + ")",
		})
	}
	v.ask(q)
}

// heldAt is what a reservation that is not yet made would hold of a limit of prices or costs: what
// is left of it now, less what is left then.
func heldAt(v *visit, budget string, then *spend.Limit) string {
	now, fault := dataOf[api.Budget](v, v.admin(v.adminCall("showBudget", budget)))
	if then.Of == "units" || fault != nil {
		return ""
	}
	limits := slices.DeleteFunc(now.Limits, func(l api.BudgetLimit) bool {
		return l.Of != then.Of || l.FeatureKey != then.FeatureKey || l.Currency != then.Currency ||
			l.Window != then.Window
	})
	if len(limits) != 1 { // the same limit in two time zones: which one is not told
		return ""
	}
	left, err := decimal.Parse(string(limits[0].Remaining))
	less, err2 := decimal.Parse(string(then.Remaining))
	held, ok := left.Sub(less)
	if err != nil || err2 != nil || !ok || held.Sign() <= 0 {
		return ""
	}
	return held.String()
}

// priceOf is what units of a feature add to a customer's bill if they are used now; empty where it
// has no price. The engine's check pays with the credits that nothing holds: of units that are held
// those that their reservation holds pay, too, of which it tells no number.
func priceOf(v *visit, customer, feature, units string, held bool) string {
	amount, err := decimal.Parse(units)
	if err != nil || amount.Sign() <= 0 {
		return ""
	}
	m, now := v.console.config.Machine, v.console.config.Now().UnixMilli()
	var d billing.Decision
	m.Check(&billing.CheckQuery{
		Env: v.env, Customer: []byte(customer), Feature: []byte(feature), Now: m.Clock(now),
		Track: true, Units: amount,
	}, &d)
	s, known := m.Subscription(v.env, d.SubscriptionID)
	if !known || !d.HasCost {
		return ""
	}
	price := page.Money(d.ProjectedCost.String(), s.Plan.Currency)
	if held && burnsCredits(&s.Plan, feature) {
		price += ", less what the credits pay that it holds"
	}
	return price
}

// burnsCredits reports whether usage of a feature burns credits before it costs money.
func burnsCredits(plan *billing.PlanView, feature string) bool {
	return slices.ContainsFunc(plan.Features, func(f billing.PlanFeatureView) bool {
		return f.Key == feature && f.Pricing.Credits.Pool != ""
	})
}

// settleHold asks about what was used of a reservation in all, and settles that once it is
// confirmed: for good, or, while it is open, as a part. The numbers are running totals: sent twice,
// they count once.
func settleHold(v *visit) {
	held := need[api.Reservation](v, v.admin, v.adminCall("showReservation", string(v.x.Param(2))))
	if v.fails() {
		return
	}
	if !v.sure() && held.State != holdOpen {
		v.fields.Set("final", "yes")
	}
	final := v.fields.Get("final") == "yes"
	var items []map[string]any
	var facts []fact
	adds, settled := false, true
	for i := range held.Items {
		item := &held.Items[i]
		s := settlement{visit: v, held: &held, item: item}
		if problem := s.read(v.typed(unitsOf(item))); problem != "" {
			v.wrong(unitsOf(item), problem)
			showHold(v)
			return
		}
		items = append(items, map[string]any{
			"featureKey": item.FeatureKey, "usageUnits": literal(s.total.String()),
		})
		facts = append(facts, s.facts()...)
		adds = adds || s.more.Sign() > 0
		settled = settled && s.more.Sign() == 0
	}
	// Sent twice, a part is what was settled before; what adds nothing else settles nothing.
	if !final && !adds && !(v.sure() && settled) {
		item := &held.Items[0]
		v.wrong(unitsOf(item), "Enter more than the "+page.Amount(item.SettledUnits)+" settled before")
		showHold(v)
		return
	}
	if !v.sure() {
		askSettle(v, &held, facts, final)
		return
	}
	reply := v.client(server.Call{
		Operation: "settleReservation", Path: []string{held.ID}, OnceKey: page.OnceKey(v.fields),
		Body: body(map[string]any{"items": items, "final": final}),
	})
	done := "settled"
	if !final {
		done = "settled-part"
	}
	v.finish(reply.Fault, showHold, holdURL(v, held.ID), done)
}

// unitsOf is the field with the units of an item.
func unitsOf(item *api.ReservationItem) string { return "units." + item.FeatureKey }

// settlement is what becomes of an item of a reservation that is settled at so many units in all.
type settlement struct {
	visit *visit
	held  *api.Reservation
	item  *api.ReservationItem
	// before and granted are the item's, more is what the total adds to what was settled before.
	total, before, granted, more decimal.Decimal
}

// read reads the total, and returns what is wrong with it. A total below what was settled before
// only amends what expiry has billed: else nothing would be recorded.
func (s *settlement) read(typed string) (problem string) {
	total, err := decimal.Parse(typed)
	before, errBefore := decimal.Parse(string(s.item.SettledUnits))
	granted, errGranted := decimal.Parse(string(s.item.GrantedUnits))
	more, ok := total.Sub(before)
	switch {
	case errors.Is(err, decimal.ErrPlaces):
		return "Enter a number with up to " + strconv.Itoa(decimal.Scale) + " decimal places"
	case err != nil || total.Sign() < 0 || errBefore != nil || errGranted != nil || !ok:
		return "Enter a number, such as 1200"
	case more.Sign() < 0 && s.held.State != holdBilled && !s.visit.sure():
		return "Enter at least the " + page.Amount(s.item.SettledUnits) + " settled before"
	}
	s.total, s.before, s.granted, s.more = total, before, granted, more
	return ""
}

func (s *settlement) facts() []fact {
	facts := []fact{{"Used of " + s.item.FeatureKey + ", in all", page.Amount(s.total.String())}}
	if s.before.Sign() > 0 {
		name := "Settled before"
		if s.held.State == holdBilled {
			name = "Billed when it expired"
		}
		facts = append(facts, fact{name, page.Amount(s.item.SettledUnits)})
	}
	price := priceOf(s.visit, s.held.CustomerReferenceID, s.item.FeatureKey, s.more.String(),
		s.held.State == holdOpen)
	if price != "" {
		facts = append(facts, fact{"Maximum added to the bill", price})
	}
	if over, ok := s.total.Sub(s.granted); ok && over.Sign() > 0 {
		then := ": recorded as overrun where it does not fit"
		if s.held.RefusesOverrun {
			then = ": all of it is refused if this does not fit"
		}
		facts = append(facts, fact{"More than was reserved", page.Amount(over.String()) + then})
	}
	return facts
}

func askSettle(v *visit, held *api.Reservation, facts []fact, final bool) {
	q := question{
		Title: "Settle a part of this reservation?", Button: "Settle this part",
		Facts: append([]fact{
			{"Reservation", held.ReservationKey}, {"Customer", held.CustomerReferenceID},
		}, facts...),
		Notes: []string{"The rest stays held until it is settled, released, or expires."},
		Back:  holdURL(v, held.ID),
	}
	const closed = "The program that made the reservation cannot settle it any more."
	if final {
		q.Title, q.Button = "Settle and close this reservation?", "Settle the reservation"
	}
	switch {
	case held.State == holdBilled:
		q.Notes = []string{"Its usage was billed when it expired: that usage event is amended to " +
			"these units.", closed}
	case held.State == holdExpired:
		q.Notes = []string{"The reservation has expired, and holds nothing: what was used is recorded " +
			"as any usage is, and may be refused.", closed}
	case final:
		q.Notes = []string{"What was used becomes a usage event, which invoices have. The rest is " +
			"released immediately.", closed}
	}
	v.ask(q)
}

// ownBudgets are the budgets that are a customer's own: one, or none.
func (v *visit) ownBudgets(customer string) (nodes []*budgetNode) {
	call := v.adminCall("listBudgets")
	call.Query = url.Values{"customer": {customer}}
	found := need[api.BudgetPage](v, v.admin, call)
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
			Notes: []string{"What it holds is released immediately. The program that made it cannot " +
				"settle it any more: what the call uses is not billed, unless the program records it as an event."},
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
