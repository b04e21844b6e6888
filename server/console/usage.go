package console

import (
	"html/template"
	"net/url"
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

type eventsData struct {
	Base, Kind string
	Customer   string
	// Now is for the example of a first event.
	Now    string
	Events []api.Event
	Pager  pager
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
	type events struct {
		Events     []api.Event `json:"events"`
		NextCursor string      `json:"nextCursor"`
	}
	list := need[events](v, v.client, v.paged(call, "50"))
	data.Events = list.Events
	data.Pager = v.pages(data.Base+"/events", list.NextCursor, keep)
	p := v.environmentPage("events", "Customers", "Usage events",
		"Events recorded for "+id+", and the answers to its checks.", data)
	v.show(v.below(p, id, data.Base))
}
