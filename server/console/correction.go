package console

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"tollgate/engine"
	"tollgate/engine/billing"
	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
)

// correctionRows are the forms that void and amend a usage event.
func (s *Console) correctionRows() []row {
	return []row{
		asked(form(customerPath+"/events/void", "void event", func(v *visit) {
			correct(v, "voidEvent", "", "event-void")
		})),
		asked(form(customerPath+"/events/amend", "amend event", func(v *visit) {
			correct(v, "amendEvent", v.typed("units"), "event-amended")
		})),
	}
}

// correctable is a usage event that may be voided and amended.
type correctable struct {
	Key, At string
	// Units are what it counts after its amendments.
	Units json.Number
}

// correctable finds the event of a page, unless it was voided or may not be changed.
func (d *eventsData) correctable(v *visit) *correctable {
	i := slices.IndexFunc(d.Events, func(e shownEvent) bool {
		return e.Kind == billing.EventUsage.String() && e.VoidedAt.IsZero()
	})
	if i < 0 || !v.manage {
		return nil
	}
	c := &correctable{Key: d.Key, At: written(d.Events[i].OccurredAt), Units: d.Events[i].UsageUnits}
	for _, e := range d.Events {
		if e.Kind == billing.EventAmend.String() {
			c.Units = e.UsageUnits
		}
	}
	return c
}

// correct voids an event, or with an operation that takes units amends it.
func correct(v *visit, operation, units, done string) {
	customer, key := string(v.x.Param(2)), v.fields.Get("key")
	next := v.customerURL(customer) + "/events?" + url.Values{
		"key": {key}, "at": {v.fields.Get("at")},
	}.Encode()
	if operation == "amendEvent" && units == "" {
		v.wrong("units", "Enter a number, such as 1200")
		showEvents(v)
		return
	}
	if !v.sure() {
		askCorrection(v, customer, key, units, next)
		return
	}
	fields := map[string]any{}
	if units != "" {
		fields["usageUnits"] = literal(units)
	}
	if reason := v.typed("reason"); reason != "" {
		fields["reason"] = reason
	}
	reply := v.client(server.Call{
		Operation: operation, Path: []string{key}, OnceKey: page.OnceKey(v.fields), Body: body(fields),
	})
	v.finish(reply.Fault, showEvents, next, done)
}

// askCorrection shows what a correction does to money, as the engine previews it. The event is one
// of the customer's.
func askCorrection(v *visit, customer, key, units, next string) {
	if !slices.ContainsFunc(v.events(customer).Events, func(e shownEvent) bool {
		return e.Kind == billing.EventUsage.String() && e.EventIdempotencyKey == key
	}) {
		if !v.fails() {
			refuse(v, server.FaultOf(engine.OutcomeUsageUnknown), showEvents)
		}
		return
	}
	call := server.Call{Operation: "previewCorrection", Path: []string{key}, Query: url.Values{}}
	if units != "" {
		call.Query.Set("usageUnits", units)
	}
	p, fault := dataOf[api.CorrectionPreview](v, v.client(call))
	if fault != nil {
		refuse(v, fault, showEvents)
		return
	}
	q := question{
		Title: "Void this event?", Button: "Void the event", Danger: true, Back: next,
		Facts: []fact{
			{"Event key", key},
			{"Customer", customer},
			{"Counts now", page.Amount(p.UsageUnits) + " units"},
			{"Counts then", page.Amount(p.NewUsageUnits) + " units"},
		},
	}
	if units != "" {
		q.Title = "Amend this event to " + page.Amount(p.NewUsageUnits) + " units?"
		q.Button, q.Danger = "Amend the event", false
	} else {
		q.Notes = append(q.Notes, "A voided event never counts again, and its key stays used.")
	}
	if reason := v.typed("reason"); reason != "" {
		q.Facts = append(q.Facts, fact{"Reason", reason})
	}
	if !p.Billed {
		q.Notes = append(q.Notes, "No subscription bills this event, so no invoice changes.")
		v.ask(q)
		return
	}
	q.Facts = append(q.Facts, fact{"Invoices to come", moreOrLess(p.Invoices.String(),
		func(n string) string { return page.Money(n, p.Currency) })})
	if p.Credits != "0" {
		q.Facts = append(q.Facts, fact{"Credits", moreOrLess(p.Credits.String(),
			func(n string) string { return page.Amount(n) + " used" })})
	}
	q.Notes = append(q.Notes,
		"If the period of the event was invoiced, the next invoice has the difference.")
	v.ask(q)
}

// moreOrLess says a change in words.
func moreOrLess(change string, write func(string) string) string {
	rest, less := strings.CutPrefix(change, "-")
	switch {
	case change == "0":
		return "no change"
	case less:
		return write(rest) + " less"
	}
	return write(change) + " more"
}
