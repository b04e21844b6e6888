package console

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"time"

	"tollgate/engine/billing"
	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
)

const (
	// shownActivities is how many activities a customer's page lists; it reads as many of each kind.
	shownActivities = 20
	// activityChanges is how many of the cluster's newest changes are looked at for a customer's.
	activityChanges = 2000
	// activityDeliveries is how many of the newest messages to webhook endpoints are looked at.
	activityDeliveries = 20_000
)

// activity is something that happened to a customer, at an instant of the environment's clock.
type activity struct {
	At        time.Time
	Kind      string
	Text, URL string
	Off       bool // an event that was voided
}

// activityList is what happened to a customer, the newest first.
type activityList struct {
	List []activity
	// Changes and Webhooks say which of them are not among it, and why.
	Changes, Webhooks string
	LogURL            string
}

// activitiesOf joins a customer's events, invoices, webhooks and changes, which are all newest
// first.
func activitiesOf(v *visit, id string, events []shownEvent, invoices []invoice) (a activityList) {
	for i := range events {
		a.List = append(a.List, events[i].activity())
	}
	for i := range invoices[:min(len(invoices), shownActivities)] {
		a.List = append(a.List, billed(v, &invoices[i])...)
	}
	a.LogURL = v.base() + "/log?" + url.Values{"customer": {id}}.Encode()
	changes, fault := dataOf[api.AdminChangePage](v, v.admin(server.Call{
		Operation: "listChanges", Query: url.Values{
			"account": {v.account}, "environment": {v.environment}, "customer": {id},
			"limit": {strconv.Itoa(shownActivities)}, "scan": {strconv.Itoa(activityChanges)},
		},
	}))
	switch {
	case fault != nil:
		a.Changes = "Changes are not among them: " + fault.Message
	case changes.NextCursor != "" && len(changes.Changes) < shownActivities:
		a.Changes = "Of changes, only the newest " + page.Amount(activityChanges) +
			" of the cluster were looked at: older ones are not among them."
	}
	now := v.console.config.Now()
	ahead := time.UnixMilli(v.console.config.Machine.EnvironmentNow(v.env, now.UnixMilli())).Sub(now)
	told := make([]shownChange, len(changes.Changes))
	for i, c := range changes.Changes { // sentences say how long after the change's own time
		told[i] = v.shownChange(c)
	}
	for i, c := range onClock(changes.Changes, ahead) {
		a.List = append(a.List, activity{
			At: c.At, Kind: "change", Text: told[i].Sentence, URL: told[i].URL,
		})
	}
	a.deliveries(v, id)
	slices.SortStableFunc(a.List, func(a, b activity) int {
		return cmp.Compare(b.At.UnixMilli(), a.At.UnixMilli())
	})
	a.List = a.List[:min(len(a.List), shownActivities)]
	return a
}

// deliveries adds the messages about a customer, of each endpoint.
func (a *activityList) deliveries(v *visit, id string) {
	endpoints, fault := dataOf[[]api.WebhookEndpoint](v, v.admin(v.adminCall("listWebhookEndpoints")))
	for _, e := range endpoints {
		if fault != nil {
			break
		}
		call := v.adminCall("listWebhookDeliveries", e.ID)
		call.Query = url.Values{
			"customer": {id}, "limit": {strconv.Itoa(shownActivities)},
			"scan": {strconv.Itoa(activityDeliveries / len(endpoints))},
		}
		var some api.WebhookDeliveryPage
		some, fault = dataOf[api.WebhookDeliveryPage](v, v.admin(call))
		if some.NextCursor != "" && len(some.Deliveries) < shownActivities {
			a.Webhooks = "Of webhooks, only the newest were looked at: older ones are not among them."
		}
		for i := range some.Deliveries {
			a.List = append(a.List, delivered(v, &e, &some.Deliveries[i]))
		}
	}
	if fault != nil {
		a.Webhooks = "Webhooks are not among them: " + fault.Message
	}
}

// delivered is a message to a webhook endpoint as something that happened.
func delivered(v *visit, e *api.WebhookEndpoint, d *api.WebhookDelivery) activity {
	text := d.Type + " to " + e.URL + ": "
	switch d.Status {
	case "pending":
		text += "waits to be sent"
	case "failed":
		text += "failed"
	default:
		text += "delivered"
	}
	return activity{
		At: d.OccurredAt, Kind: "webhook", Text: text,
		URL: v.webhookURL(e.ID) + "/deliveries/" + url.PathEscape(d.ID),
	}
}

// onClock puts changes, which are newest first and have the cluster's time, on the environment's
// clock, which is ahead of it: by how much, each move of the clock says.
func onClock(list []api.AdminChange, ahead time.Duration) []api.AdminChange {
	for i := range list {
		c := &list[i]
		before, err := time.Parse(time.RFC3339, c.Before["clock"])
		moved := c.Action == "clock.advanced" && err == nil
		at := c.At
		c.At = at.Add(ahead)
		if moved {
			ahead = before.Sub(at)
		}
	}
	return list
}

// activity is the event as something that happened.
func (e shownEvent) activity() activity {
	a := activity{At: e.OccurredAt, Kind: e.Kind, URL: e.URL, Off: !e.VoidedAt.IsZero()}
	switch {
	case e.Kind == billing.EventAudit.String():
		a.Kind, a.Text = "check", "Check of "+e.What()+": "+page.Words(e.Reason)
	case e.Kind != billing.EventUsage.String():
		a.Text = "Correction of " + e.EventIdempotencyKey + ": " + e.Kind
	default:
		a.Text = page.Amount(e.UsageUnits) + " of " + e.What()
		if e.Unbilled {
			a.Text += ", not billed"
		}
		if a.Off {
			a.Text += ", voided"
		}
	}
	return a
}

// billed is what became of an issued invoice.
func billed(v *visit, i *invoice) (list []activity) {
	add := func(at time.Time, what string) {
		list = append(list, activity{
			At: at, Kind: "invoice", Text: i.Title() + " " + what,
			URL: v.base() + "/invoices/" + url.PathEscape(i.ID),
		})
	}
	add(i.CreatedAt, "was issued: "+page.Money(i.Amount, i.Currency))
	until := i.DueDate
	if !until.After(i.CreatedAt) {
		until = until.AddDate(0, 0, 1) // due at once: a card pays it seconds later
	}
	late := i.Status == pastDue || i.Status == "PAID" && i.PaidAt.After(until)
	if late && !i.DueDate.IsZero() {
		add(i.DueDate, "fell due and was not paid")
	}
	if i.Status == "PAID" {
		add(i.PaidAt, "was paid")
	}
	return list
}
