package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"time"

	api "tollgate/sdk/go"
	"tollgate/server"
)

// shownEvent is an event as pages list it.
type shownEvent struct{ api.Event }

// What is the feature of an event, or the name that it came with.
func (e shownEvent) What() string { return cmp.Or(e.FeatureKey, e.EventName) }

// shown are events as pages list them.
func shown(list []api.Event) (events []shownEvent) {
	for _, e := range list {
		events = append(events, shownEvent{e})
	}
	return events
}

const day = 24 * time.Hour

// eventList is a page of events.
type eventList struct {
	Events     []api.Event `json:"events"`
	NextCursor string      `json:"nextCursor"`
}

// newestEvents are a customer's newest events, at most so many.
func (v *visit) newestEvents(customer string, most int) []shownEvent {
	return shown(need[eventList](v, v.client, server.Call{
		Operation: "listCustomerEvents", Path: []string{customer},
		Query: url.Values{"limit": {strconv.Itoa(most)}, "order": {"desc"}},
	}).Events)
}

// choice is a selection of events that a tab leads to.
type choice struct {
	Name, URL string
	Here      bool
	query     url.Values
}

// choices are the selections, by the name that the page's address has.
func choices() []choice {
	return []choice{
		{Name: "All"},
		{Name: "Usage", query: url.Values{"kind": {"usage"}}},
		{Name: "Not billed", query: url.Values{"kind": {"usage"}, "unbilled": {"true"}}},
		{Name: "Checks", query: url.Values{"kind": {"audit"}}},
		{Name: "Denied checks", query: url.Values{"kind": {"audit"}, "denied": {"true"}}},
	}
}

type eventsData struct {
	Base, Customer string
	Choices        []choice
	Features       []string
	// What the form selects; From and To are days.
	Feature, From, To string
	Kept              url.Values // what the form keeps of the address
	// Key is the event that alone is shown; empty shows all.
	Key string
	// Now is for the example of a first event.
	Now    string
	Events []shownEvent
	// Denied reports whether denied checks are among them.
	Denied bool
	// Live is where the newest events are asked for again; empty on other pages of the list.
	Live  string
	Pager pager
}

// Selects reports whether the list leaves events out.
func (d eventsData) Selects() bool { return d.Feature+d.From+d.To != "" || !d.Choices[0].Here }

// JSON is the event as the API answers it.
func (e shownEvent) JSON() string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if encoder.Encode(e.Event) != nil {
		return ""
	}
	return text.String()
}

// Denied reports whether it is a denied check.
func (e shownEvent) Denied() bool { return e.IsAllowed != nil && !*e.IsAllowed }

// events reads what the page's address selects, the newest first.
func (v *visit) events() eventsData {
	id := string(v.x.Param(2))
	data := eventsData{
		Customer: id, Base: v.customerURL(id), Choices: choices(), Feature: v.query("feature"),
		Features: v.console.config.Machine.CatalogFeatures(v.env), From: v.query("from"),
		To: v.query("to"), Now: v.console.config.Now().UTC().Format(time.RFC3339), Kept: url.Values{},
	}
	call := server.Call{
		Operation: "listCustomerEvents", Path: []string{id}, Query: url.Values{"order": {"desc"}},
	}
	for _, name := range []string{"kind", "denied", "unbilled"} {
		if text := v.query(name); text != "" {
			call.Query.Set(name, text)
			data.Kept.Set(name, text)
		}
	}
	address := data.Base + "/events"
	for i := range data.Choices {
		c := &data.Choices[i]
		c.URL, c.Here = address, c.query.Encode() == data.Kept.Encode()
		if len(c.query) > 0 {
			c.URL += "?" + c.query.Encode()
		}
	}
	keep := url.Values{}
	for name, values := range data.Kept {
		keep[name] = values
	}
	for name, text := range map[string]string{
		"feature": data.Feature, "from": data.From, "to": data.To,
	} {
		if text == "" {
			continue
		}
		keep.Set(name, text)
		if at, err := time.Parse(time.DateOnly, text); err == nil && name != "feature" {
			if name == "to" { // the last day
				at = at.AddDate(0, 0, 1)
			}
			text = written(at)
		}
		call.Query.Set(name, text)
	}
	if data.Key = v.query("key"); data.Key != "" {
		v.oneEvent(&call, &data)
		return data
	}
	list, fault := dataOf[eventList](v, v.client(v.paged(call, "50")))
	if fault != nil {
		v.problem(fault)
	}
	data.Events = shown(list.Events)
	data.Denied = slices.ContainsFunc(data.Events, shownEvent.Denied)
	data.Pager = v.pages(address, list.NextCursor, keep)
	if v.query("cursor") == "" && data.To == "" && fault == nil {
		data.Live = address + "/live?" + keep.Encode()
	}
	return data
}

// oneEvent adds the event of a key, which occurred at the instant that the page's address names,
// with its corrections.
func (v *visit) oneEvent(call *server.Call, data *eventsData) {
	at, err := time.Parse(time.RFC3339, v.query("at"))
	if err != nil {
		return
	}
	call.Query = url.Values{
		"limit": {fullPage}, "from": {written(at)}, "to": {written(at.Add(time.Millisecond))},
	}
	list := need[eventList](v, v.client, *call)
	data.Events = shown(slices.DeleteFunc(list.Events, func(e api.Event) bool {
		return e.EventIdempotencyKey != data.Key
	}))
}

// fullPage is how many events are read of an instant at most.
const fullPage = "1000"

// showEvents lists a customer's usage events and checks.
func showEvents(v *visit) {
	data := v.events()
	title, lead := "Events", "Events recorded for "+data.Customer+", and the answers to its checks."
	if data.Key != "" {
		title, lead = "Usage event", "The event with this key, and its corrections."
	}
	p := v.environmentPage("events", "Customers", title, lead, data)
	v.show(v.below(p, data.Customer, data.Base))
}

// showNewEvents is the part of the page that renews itself.
func showNewEvents(v *visit) { v.fragment("events", "events", v.events()) }
