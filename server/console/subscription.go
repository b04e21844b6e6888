package console

import (
	"net/url"
	"slices"
	"strconv"

	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/bill"
	"tollgate/server/console/page"
)

// details are those that a subscription has.
func details(all api.SubscriptionDetails) []api.Detail {
	return slices.DeleteFunc(api.Details(all), func(d api.Detail) bool { return d.Value == "" })
}

// askSubscribe shows the cost of a subscription, and whether there is one already. As in askChange,
// plans are read before the price: published in between, the answer is refused.
func askSubscribe(v *visit) {
	id, key := string(v.x.Param(2)), v.fields.Get("plan")
	q := question{
		Title: "Subscribe " + id + " to " + key + "?", Asked: true,
		Button: "Subscribe to " + key, Back: v.customerURL(id),
	}
	if p, known := planAsked(v); known {
		q.Title, q.Button = "Subscribe "+id+" to "+p.Name+"?", "Subscribe to "+p.Name
		q.Facts = []fact{{"Customer", id}, {"Plan", p.Name}, {"Price", bill.PerInterval(&p)}}
		for _, d := range api.Details(api.SubscriptionDetails{}) {
			if value := v.fields.Get(d.Name); value != "" {
				q.Facts = append(q.Facts, fact{d.Label, value})
			}
		}
	}
	var fault *server.Fault
	q.Invoices, fault = v.preview(url.Values{"customer": {id}, "plan": {key}})
	var now []api.Subscription
	if fault == nil {
		now, fault = dataOf[[]api.Subscription](v, v.client(server.Call{
			Operation: "listCustomerSubscriptions", Path: []string{id},
		}))
	}
	if fault != nil {
		refuse(v, fault, showCustomer)
		return
	}
	for _, s := range now {
		if s.Plan.Key == key {
			q.Notes = append(q.Notes, "The customer already has an active subscription to this plan. "+
				"A second one is billed besides it.")
			break
		}
	}
	v.ask(q)
}

func subscribe(v *visit) {
	if fault := republished(v); fault != nil {
		v.customerForm(server.Reply{Fault: fault}, "subscribe")
		return
	}
	fields := map[string]any{
		"planId": v.fields.Get("plan"), "customerReferenceId": string(v.x.Param(2)),
	}
	for _, d := range api.Details(api.SubscriptionDetails{}) {
		if fields[d.Name] = v.fields.Get(d.Name); d.Number {
			fields[d.Name] = literal(v.fields.Get(d.Name))
		}
	}
	v.customerForm(v.client(server.Call{
		Operation: "createSubscription", OnceKey: page.OnceKey(v.fields), Body: body(fields),
	}), "subscribe")
}

// drops notes that a scheduled change of plan ends without having taken effect.
func (q *question) drops(c *api.ScheduledChange) {
	if c != nil {
		q.Notes = append(q.Notes, "The change to "+c.ToPlan.Name+" that is scheduled for "+
			page.Day(c.EffectiveAt)+" is dropped.")
	}
}

// offers are the plans that a form offers to a customer with these subscriptions: in the currency
// of those that have not ended, where there are some.
func offers(plans []api.Plan, subscriptions []api.Subscription) []api.Plan {
	currencies := map[string]bool{}
	for i := range subscriptions {
		if subscriptions[i].Status() != "ended" {
			currencies[subscriptions[i].Plan.Currency] = true
		}
	}
	if len(currencies) == 0 {
		return plans
	}
	return slices.DeleteFunc(slices.Clone(plans), func(p api.Plan) bool {
		return !currencies[p.Currency]
	})
}

// askCancel shows the invoice of a cancellation, and when it takes effect.
func askCancel(v *visit) {
	id, mode := v.fields.Get("subscription"), v.fields.Get("mode")
	s, fault := v.subscriptionAsked()
	q := aboutSubscription(v, "Cancel the subscription to", &s)
	q.Danger, q.Asked = true, true
	if fault == nil {
		q.Invoices, fault = v.preview(url.Values{"subscription": {id}, "cancelMode": {mode}})
	}
	if fault != nil {
		refuse(v, fault, showCustomer)
		return
	}
	if mode == "IMMEDIATE" {
		q.Button = "Cancel now"
		q.Notes = []string{"The subscription ends at once, permanently. Unbilled usage is " +
			"invoiced, and nothing is refunded."}
	} else {
		q.Button = "Cancel at the period's end"
		q.Facts = append(q.Facts, fact{"Ends", page.When(s.CurrentPeriodEnd)})
		q.Notes = []string{"Usage until then is billed. The cancellation can be reverted until then."}
	}
	q.drops(s.ScheduledChange)
	v.ask(q)
}

func cancelSubscription(v *visit) {
	v.customerForm(v.client(server.Call{
		Operation: "cancelSubscription", Path: []string{v.fields.Get("subscription")},
		OnceKey: page.OnceKey(v.fields), Query: url.Values{"cancelMode": {v.fields.Get("mode")}},
	}), "cancel")
}

// askChange shows what a change of plan costs, and when it takes effect.
func askChange(v *visit) {
	id, key, kind := v.fields.Get("subscription"), v.fields.Get("plan"), v.fields.Get("type")
	s, fault := v.subscriptionAsked()
	to, _ := planAsked(v)
	q := question{
		Title: "Change to " + to.Name + "?", Asked: true, Button: "Change to " + to.Name,
		Facts: []fact{
			{"Customer", string(v.x.Param(2))},
			{"Now", s.Plan.Name + ", " + bill.PerInterval(&s.Plan)},
			{"Then", to.Name + ", " + bill.PerInterval(&to)},
		},
		Back: v.customerURL(string(v.x.Param(2))),
	}
	if fault == nil {
		q.Invoices, fault = v.preview(url.Values{
			"subscription": {id}, "plan": {key}, "changeType": {kind},
		})
	}
	if fault != nil {
		refuse(v, fault, showCustomer)
		return
	}
	if kind == "UPGRADE" {
		q.Notes = []string{"The new plan applies at once. What is left of the price paid for this " +
			"period is credited, and usage so far counts under the new plan's limits."}
	} else {
		q.Facts = append(q.Facts, fact{"Takes effect", page.When(s.CurrentPeriodEnd)})
		q.Notes = []string{"The present plan stays until its period ends."}
	}
	q.drops(s.ScheduledChange)
	v.ask(q)
}

func changePlan(v *visit) {
	if fault := republished(v); fault != nil {
		v.customerForm(server.Reply{Fault: fault}, "plan")
		return
	}
	v.customerForm(v.client(server.Call{
		Operation: "changeSubscriptionPlan", Path: []string{v.fields.Get("subscription")},
		OnceKey: page.OnceKey(v.fields), Body: body(map[string]any{
			"changeToPlanId": v.fields.Get("plan"), "changeType": v.fields.Get("type"),
		}),
	}), "plan")
}

// versionField is the version of the plan that a question has shown the price of.
const versionField = "version"

// planAsked is the plan that a form names, whose version is noted in the question that shows its
// price; where there is none, it has the key for a name.
func planAsked(v *visit) (p api.Plan, known bool) {
	key := v.fields.Get("plan")
	plans := need[[]api.Plan](v, v.client, server.Call{Operation: "listPlans"})
	at := slices.IndexFunc(plans, func(p api.Plan) bool { return p.Key == key })
	if at < 0 {
		return api.Plan{Name: key}, false
	}
	v.fields.Set(versionField, strconv.Itoa(plans[at].Version))
	return plans[at], true
}

// republished refuses a form whose plan was published anew since its question was shown: it would
// bill another price than the one that was agreed to. Whether the form was carried out before is
// not known here: the answer names the possibility.
func republished(v *visit) *server.Fault {
	plans, fault := dataOf[[]api.Plan](v, v.client(server.Call{Operation: "listPlans"}))
	at := slices.IndexFunc(plans, func(p api.Plan) bool { return p.Key == v.fields.Get("plan") })
	if fault == nil && at >= 0 && strconv.Itoa(plans[at].Version) != v.fields.Get(versionField) {
		return bill.FaultRepriced.With("Nothing was changed now. If this form was sent before, it may " +
			"have been carried out then: look at the customer's subscriptions first.")
	}
	return fault
}

// subscriptionAsked is the subscription that a form names.
func (v *visit) subscriptionAsked() (api.Subscription, *server.Fault) {
	return dataOf[api.Subscription](v, v.client(server.Call{
		Operation: "getSubscription", Path: []string{v.fields.Get("subscription")},
	}))
}

// aboutSubscription is a question about a subscription; its title begins with what is to be done.
func aboutSubscription(v *visit, begin string, s *api.Subscription) question {
	id := string(v.x.Param(2))
	return question{
		Title: begin + " " + s.Plan.Name + "?", Back: v.customerURL(id),
		Facts: []fact{{"Customer", id}, {"Plan", s.Plan.Name}, {"Price", bill.PerInterval(&s.Plan)}},
	}
}

// asksToStay is the question whether a subscription goes on with its plan, which begins with a
// verb; false when it is answered.
func asksToStay(v *visit, verb string) (s api.Subscription, q question, ok bool) {
	s, fault := v.subscriptionAsked()
	if fault != nil {
		refuse(v, fault, showCustomer)
		return s, q, false
	}
	q = aboutSubscription(v, verb, &s)
	q.Button = verb + " " + s.Plan.Name
	return s, q, true
}

// askRevert shows what a subscription goes on to cost once its cancellation is reverted.
func askRevert(v *visit) {
	s, q, ok := asksToStay(v, "Keep")
	if !ok {
		return
	}
	if s.CancelMode == "" {
		q.Notes = []string{"The subscription is not cancelled: nothing will change."}
	} else {
		q.Facts = append(q.Facts, fact{"Was to end", page.When(s.CancelEffectiveAt)})
		q.Notes = []string{"The cancellation is dropped: the subscription renews on " +
			page.Day(s.CurrentPeriodEnd) + ", and is billed as before."}
	}
	v.ask(q)
}

func revertCancellation(v *visit) {
	s, fault := v.subscriptionAsked()
	if fault != nil || s.CancelMode == "" { // the same form, sent twice
		v.customerForm(server.Reply{Fault: fault}, "kept")
		return
	}
	v.customerForm(v.client(server.Call{
		Operation: "revertScheduledCancellation", Path: []string{s.ID},
	}), "kept")
}

// askDropChange shows which plan a subscription stays on once its scheduled change is dropped.
func askDropChange(v *visit) {
	s, q, ok := asksToStay(v, "Stay on")
	if !ok {
		return
	}
	if s.ScheduledChange == nil {
		q.Notes = []string{"No change of plan is scheduled: nothing will change."}
	}
	q.drops(s.ScheduledChange)
	v.ask(q)
}

func dropChange(v *visit) {
	s, fault := v.subscriptionAsked()
	if fault != nil || s.ScheduledChange == nil { // the same form, sent twice
		v.customerForm(server.Reply{Fault: fault}, "stays")
		return
	}
	v.customerForm(v.client(server.Call{
		Operation: "cancelScheduledPlanChange", Path: []string{s.ID},
	}), "stays")
}
