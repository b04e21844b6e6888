package console

import (
	"cmp"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"time"

	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
)

type entitlement struct {
	FeatureKey string `json:"featureKey"`
	IsAllowed  bool   `json:"isAllowed"`
	Why        string `json:"description"`
	Usage      struct {
		Used  number `json:"used"`
		Limit number `json:"limit"`
	} `json:"usage"`
}

// Status is the decision in one word.
func (e entitlement) Status() string {
	if e.IsAllowed {
		return "allowed"
	}
	return "blocked"
}

// usageMeter draws a feature's usage against its limit; one without a limit is nothing to draw.
func usageMeter(e entitlement) template.HTML {
	used, err := strconv.ParseFloat(string(e.Usage.Used), 64)
	limit, err2 := strconv.ParseFloat(string(e.Usage.Limit), 64)
	if err != nil || err2 != nil {
		return ""
	}
	return page.Meter(used, limit, e.FeatureKey+": "+page.Amount(e.Usage.Used)+" of "+
		page.Amount(e.Usage.Limit)+" used")
}

// showUsage is the part of the customer's page that renews itself.
func showUsage(v *visit) {
	list := need[[]entitlement](v, v.client, server.Call{
		Operation: "listEntitlements", Path: []string{string(v.x.Param(2))},
	})
	v.fragment("customer", "usage", list)
}

func recordUsage(v *visit) {
	reply := v.client(server.Call{
		Operation: "ingestEvent", Body: body(map[string]any{
			"eventIdempotencyKey": page.OnceKey(v.fields),
			"customerReferenceId": string(v.x.Param(2)), "featureKey": v.fields.Get("feature"),
			"eventName": v.fields.Get("feature"), "usageUnits": literal(v.fields.Get("units")),
			"occurredAt": string(server.AppendTime(nil, v.console.config.Machine.EnvironmentNow(
				v.env, v.console.config.Now().UnixMilli()))),
		}),
	})
	if reply.Fault != nil && reply.Fault.Code == "duplicate_key" {
		reply.Fault = nil // the same form, sent twice
	}
	v.customerForm(reply, "usage")
}

// shownEvent is an event as pages list it.
type shownEvent struct {
	api.Event
	// Unmatched reports whether its name is that of no feature, so that it is not billed.
	Unmatched bool
}

// What is the feature of an event, or the name that it came with.
func (e shownEvent) What() string { return cmp.Or(e.FeatureKey, e.EventName) }

// unmatched are the names of this environment's events that match no feature.
func (v *visit) unmatched() (names []api.UnmatchedName) {
	type list struct {
		Names []api.UnmatchedName `json:"names"`
	}
	return need[list](v, v.admin, v.adminCall("listUnmatchedNames")).Names
}

// shown tells which of some events match no feature.
func (v *visit) shown(list []api.Event) (events []shownEvent) {
	names := map[string]bool{}
	for _, n := range v.unmatched() {
		names[n.Name] = true
	}
	for _, e := range list {
		s := shownEvent{Event: e}
		s.Unmatched = e.Kind == "usage" && (e.FeatureKey == "" || names[e.FeatureKey])
		events = append(events, s)
	}
	return events
}

// eventList is a page of events.
type eventList struct {
	Events     []api.Event `json:"events"`
	NextCursor string      `json:"nextCursor"`
}

// windows are how far back newest looks for events, one after the other: the API lists the oldest
// first.
var windows = []time.Duration{time.Minute, time.Hour, day, 31 * day, 366 * day}

const (
	day = 24 * time.Hour
	// fullPage is how many events are read of a window at most.
	fullPage = "1000"
)

// newestEvents are a customer's newest events, at most so many.
func (v *visit) newestEvents(customer string, most int) []shownEvent {
	now := time.UnixMilli(v.console.config.Machine.EnvironmentNow(
		v.env, v.console.config.Now().UnixMilli()))
	var found []api.Event
	for _, window := range windows {
		list := need[eventList](v, v.client, server.Call{
			Operation: "listCustomerEvents", Path: []string{customer}, Query: url.Values{
				"limit": {fullPage}, "from": {written(now.Add(-window))},
			},
		})
		if list.NextCursor != "" && len(found) > 0 { // the newest are not in this page
			break
		}
		if found = list.Events; len(found) >= most || v.fault != nil {
			break
		}
	}
	slices.Reverse(found)
	return v.shown(found[:min(most, len(found))])
}

type eventsData struct {
	Base, Kind string
	Customer   string
	// Key is the event that alone is shown; empty shows all.
	Key string
	// Now is for the example of a first event.
	Now    string
	Events []shownEvent
	Pager  pager
}

// oneEvent shows the event of a key, which occurred at the instant that the page's address names,
// with its corrections.
func (v *visit) oneEvent(call *server.Call, data *eventsData) {
	at, err := time.Parse(time.RFC3339, v.query("at"))
	if err == nil {
		call.Query.Set("limit", fullPage)
		call.Query.Set("from", written(at))
		call.Query.Set("to", written(at.Add(time.Millisecond)))
		list := need[eventList](v, v.client, *call)
		data.Events = v.shown(slices.DeleteFunc(list.Events, func(e api.Event) bool {
			return e.EventIdempotencyKey != data.Key
		}))
	}
	p := v.environmentPage("events", "Customers", "Usage event",
		"The event with this key, and its corrections.", *data)
	v.show(v.below(p, data.Customer, data.Base))
}

// showEvents lists a customer's usage events, or its checks.
func showEvents(v *visit) {
	id := string(v.x.Param(2))
	data := eventsData{
		Customer: id, Kind: v.query("kind"),
		Now: v.console.config.Now().UTC().Format(time.RFC3339),
	}
	data.Base = v.customerURL(id)
	call := server.Call{
		Operation: "listCustomerEvents", Path: []string{id}, Query: url.Values{},
	}
	keep := url.Values{}
	if data.Kind != "" {
		call.Query.Set("kind", data.Kind)
		keep.Set("kind", data.Kind)
	}
	if data.Key = v.query("key"); data.Key != "" {
		v.oneEvent(&call, &data)
		return
	}
	list := need[eventList](v, v.client, v.paged(call, "50"))
	data.Events = v.shown(list.Events)
	data.Pager = v.pages(data.Base+"/events", list.NextCursor, keep)
	p := v.environmentPage("events", "Customers", "Usage events",
		"Events recorded for "+id+", and the answers to its checks.", data)
	v.show(v.below(p, id, data.Base))
}
