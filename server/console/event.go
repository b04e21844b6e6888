package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tollgate/engine/billing"
	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/bill"
	"tollgate/server/console/page"
)

// shownEvent is an event as pages list it.
type shownEvent struct {
	api.Event
	// URL is its page: of a usage event with its corrections, or of a check.
	URL string
	// Of is its customer, in a list of all customers' events.
	Of *eventOwner
}

// eventOwner is the customer of an event; without URL, one that does not exist.
type eventOwner struct{ Customer, URL string }

// What is the feature of an event, or the name that it came with.
func (e shownEvent) What() string { return cmp.Or(e.FeatureKey, e.EventName) }

// shown are a customer's events as pages list them.
func (v *visit) shown(list []api.Event, customer string) (events []shownEvent) {
	for _, e := range list {
		name, value := "key", e.EventIdempotencyKey
		if e.Kind == billing.EventAudit.String() {
			name, value = "check", e.ID
		}
		events = append(events, shownEvent{Event: e, URL: v.customerURL(customer) + "/events?" +
			url.Values{name: {value}, "at": {written(e.OccurredAt)}}.Encode()})
	}
	return events
}

// owned are events of all customers, as pages list them.
func (v *visit) owned(list []api.Event) (events []shownEvent) {
	for i, e := range list {
		events = append(events, v.shown(list[i:i+1], e.CustomerReferenceID)...)
		events[i].Of = &eventOwner{Customer: e.CustomerReferenceID}
		if e.Reason == billing.ReasonCustomerUnknown.String() {
			events[i].URL = "" // it would be below the customer's
		} else {
			events[i].Of.URL = v.customerURL(e.CustomerReferenceID)
		}
	}
	return events
}

const day = 24 * time.Hour

// newestEvents are a customer's newest events, at most so many.
func (v *visit) newestEvents(customer string, maximum int) []shownEvent {
	return v.shown(need[api.EventPage](v, v.client, server.Call{
		Operation: "listCustomerEvents", Path: []string{customer},
		Query: url.Values{"limit": {strconv.Itoa(maximum)}, "order": {"desc"}},
	}).Events, customer)
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
	// Base is the customer's page; without a customer, the environment's overview.
	Base, Customer string
	Choices        []choice
	Orders         []page.Link // of a customer's
	Features       featureField
	// What the form selects; From and To are days.
	Feature, From, To string
	Kept              url.Values // what the form keeps of the address
	// Key is the event of the customer that alone is shown, Check the check; empty shows all.
	Key, Check string
	// Bill is what that event is billed by; nil where nothing bills it.
	Bill *eventBill
	// Correct is that event, where it may be voided and amended.
	Correct *correctable
	// Unmatched are the names that match no feature, where the list has those that are not billed.
	Unmatched []api.UnmatchedName
	// First is the request that sends a first event.
	First  string
	Events []shownEvent
	// Live is where the newest events are asked for again; empty on other pages of the list.
	Live  string
	CSV   string
	Pager page.Pager
	// Count is how many they are: within the part that renews itself.
	Count string
}

// Selects reports whether the list leaves events out.
func (d eventsData) Selects() bool { return d.Feature+d.From+d.To != "" || !d.Choices[0].Here }

// One reports whether the page is of one event.
func (d eventsData) One() bool { return d.Key+d.Check != "" }

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

// Figures is the limit that denied a check, as it was then.
func (e shownEvent) Figures() string {
	if e.Limit == "" {
		return ""
	}
	text := page.Amount(e.Used) + " used"
	if e.Held != "0" {
		text += ", " + page.Amount(e.Held) + " held"
	}
	text += " of " + page.Amount(e.Limit)
	if e.Budget != "" {
		text += " in budget " + e.Budget
	}
	if e.RequestedUnits != "" {
		text += ", " + page.Amount(e.RequestedUnits) + " requested"
	}
	return text
}

// events reads what the page's address selects, the newest first: of a customer, or, where it is
// empty, of all.
func (v *visit) events(customer string) eventsData {
	data := eventsData{
		Base: v.base(), Customer: customer, Choices: choices(), Feature: v.query("feature"),
		Features: featuresOf(v, v.query("feature")), From: v.query("from"), To: v.query("to"),
		Kept: url.Values{},
	}
	call, keep := eventCall(v, customer)
	if customer != "" {
		data.Base = v.customerURL(customer)
		data.Key, data.Check = v.given("key"), v.query("check")
		for _, order := range []string{"", "asc"} {
			text := "Newest first"
			if order != "" {
				text = "Oldest first"
			}
			data.Orders = append(data.Orders, page.Link{
				Text: text, Here: order == keep.Get("order"),
				URL: data.Base + "/events?" + withParam(keep, "order", order).Encode(),
			})
		}
	}
	for _, name := range []string{"kind", "denied", "unbilled"} {
		if text := keep.Get(name); text != "" {
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
	if order := keep.Get("order"); order != "" {
		data.Kept.Set("order", order)
	}
	data.CSV = address + ".csv?" + keep.Encode()
	if data.One() {
		v.oneEvent(&call, &data)
		return data
	}
	list, fault := dataOf[api.EventPage](v, v.client(v.paged(call, "50")))
	if fault != nil {
		v.problem(fault)
	}
	if data.Events = v.shown(list.Events, customer); customer == "" {
		data.Events = v.owned(list.Events)
	}
	data.Pager = v.pages(address, list.NextCursor, keep)
	data.Count = data.Pager.Of(len(data.Events), "event").Count
	if len(data.Events) == 0 {
		data.First = firstEvent(v, customer)
	}
	if v.query("cursor") == "" && data.To+keep.Get("order") == "" && fault == nil {
		data.Live = address + "/live?" + keep.Encode()
	}
	return data
}

// eventCall asks for the events that the page's address selects, of a customer or, where it is
// empty, of all; keep are the address's parameters.
func eventCall(v *visit, customer string) (call server.Call, keep url.Values) {
	call = server.Call{Operation: "listEvents", Query: url.Values{}}
	keep = url.Values{}
	if customer != "" {
		call.Operation, call.Path = "listCustomerEvents", []string{customer}
		call.Query.Set("order", "desc")
		if v.query("order") == "asc" {
			call.Query.Set("order", "asc")
			keep.Set("order", "asc")
		}
	}
	for _, name := range []string{"kind", "denied", "unbilled", "feature", "from", "to"} {
		if text := v.query(name); text != "" {
			call.Query.Set(name, text)
			keep.Set(name, text)
		}
	}
	inRange(v, call.Query)
	return call, keep
}

// oneEvent adds the event of a key, which occurred at the instant that the page's address names,
// with its corrections, or the check of an id.
func (v *visit) oneEvent(call *server.Call, data *eventsData) {
	at, err := time.Parse(time.RFC3339, v.given("at"))
	if err != nil {
		return
	}
	call.Query = url.Values{
		"limit": {fullPage}, "from": {written(at)}, "to": {written(at.Add(time.Millisecond))},
	}
	list := need[api.EventPage](v, v.client, *call)
	data.Events = v.shown(slices.DeleteFunc(list.Events, func(e api.Event) bool {
		if data.Check != "" {
			return e.ID != data.Check
		}
		return e.EventIdempotencyKey != data.Key
	}), data.Customer)
	data.Correct, data.Bill = data.correctable(v), data.billed(v)
}

// eventBill is the subscription that bills an event, as it is now, and where to look for the event
// among invoices. A line does not name its events: an interim invoice has the period of the one
// before it, and usage that came late is on a later invoice than its period's.
type eventBill struct {
	Plan string
	// Price says in words what the feature costs in the subscription's present plan.
	Price []string
	Lines []eventLine
	// Outside says of an event from before or after its subscription where it counts.
	Outside string
}

// eventLine is a line of an invoice in whose period an event counts.
type eventLine struct{ Title, URL, Amount string }

// billed finds the subscription of the page's usage event, and the lines of its feature whose
// period it counts in, but for those of void invoices. Nothing bills an event that was voided.
func (d *eventsData) billed(v *visit) *eventBill {
	at := slices.IndexFunc(d.Events, func(e shownEvent) bool { return e.SubscriptionID != "" })
	voided := func(e shownEvent) bool { return !e.VoidedAt.IsZero() }
	if at < 0 || slices.ContainsFunc(d.Events, voided) {
		return nil
	}
	e, bills := &d.Events[at], &eventBill{}
	s, fault := dataOf[api.Subscription](v, v.client(server.Call{
		Operation: "getSubscription", Path: []string{e.SubscriptionID},
	}))
	if fault != nil {
		return nil
	}
	bills.Plan = s.Plan.Name
	for _, f := range s.Plan.Features {
		if f.Key == e.FeatureKey {
			bills.Price = bill.PricePhrases(f, s.Plan.Currency)
		}
	}
	counted := e.OccurredAt
	switch last := s.EndedAt.Add(-time.Millisecond); {
	case counted.Before(s.CreatedAt):
		counted = s.CreatedAt
		bills.Outside = "The event occurred before its subscription began, and counts in the first " +
			"period."
	case !s.EndedAt.IsZero() && counted.After(last):
		counted = last
		bills.Outside = "The event occurred after its subscription ended, and counts in the last period."
	}
	for _, i := range v.invoices(d.Customer) {
		if i.SubscriptionID != e.SubscriptionID || i.Status == "VOID" {
			continue
		}
		for _, line := range i.Items {
			if line.FeatureKey == e.FeatureKey && !counted.Before(line.PeriodStart) &&
				counted.Before(line.PeriodEnd) {
				bills.Lines = append(bills.Lines, eventLine{
					Title: i.Title(), URL: v.base() + "/invoices/" + url.PathEscape(i.ID),
					Amount: page.Money(line.Amount, i.Currency),
				})
			}
		}
	}
	return bills
}

// given is a parameter of the page's address, or a field of the form that leads back to it.
func (v *visit) given(name string) string { return cmp.Or(v.query(name), v.fields.Get(name)) }

// fullPage is how many events are read of an instant at most.
const fullPage = "1000"

// showEvents lists a customer's usage events and checks.
func showEvents(v *visit) {
	if soughtKey(v) {
		return
	}
	data := v.events(string(v.x.Param(2)))
	title, lead := "Events", "Events recorded for "+data.Customer+", and the answers to its checks."
	if data.Key != "" {
		title, lead = "Usage event", "The event with this key, and its corrections."
	}
	if data.Check != "" {
		title, lead = "Check", "The answer to a check, and the figures at that time."
	}
	p := v.environmentPage("events", "Customers", title, lead, data)
	v.show(v.below(p, data.Customer, data.Base))
}

// showAllEvents lists the events of all customers.
func showAllEvents(v *visit) {
	if soughtKey(v) {
		return
	}
	data := v.events("")
	if v.query("unbilled") == "true" && v.query("cursor") == "" {
		data.Unmatched = v.unmatched()
	}
	v.show(v.environmentPage("events", "Events", "Events",
		"Usage events, corrections and checks of all customers, the most recently recorded first.", data))
}

// soughtKey leads from a key without an instant, which is typed into the form, to the search: that
// knows when its event was.
func soughtKey(v *visit) bool {
	key := strings.TrimSpace(v.query("key"))
	if key == "" || v.given("at") != "" {
		return false
	}
	v.console.site.Redirect(v.x, v.base()+"/search?"+url.Values{"q": {key}}.Encode())
	return true
}

// showNewEvents is the part of both pages that renews itself.
func showNewEvents(v *visit) {
	v.fragment("events", "events", v.events(pathCustomer(v)))
}

// pathCustomer is the customer that the path names; empty where it is of all.
func pathCustomer(v *visit) string {
	if v.x.Route.Parameters() > 2 {
		return string(v.x.Param(2))
	}
	return ""
}

const eventPath = "/accounts/{account}/{environment}/events"

// eventRows are the pages of all customers' events.
func (s *Console) eventRows() []row {
	return []row{
		look(eventPath, "all events", showAllEvents),
		live(look(eventPath+"/live", "all events live", showNewEvents)),
	}
}
