package client

import (
	"cmp"
	"strings"

	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/form"
)

// Media types of CloudEvents 1.0 in structured mode, one and many.
const (
	mediaCloudEvent  = "application/cloudevents+json"
	mediaCloudEvents = "application/cloudevents-batch+json"
)

// Attributes of a CloudEvent that are not fields of a usage event, by the bit that says one was
// seen; they follow the fields of a usage event.
const (
	attributeVersion = iota + fieldBudget + 1
	attributeSource
	attributeContent
	attributeSchema
	attributeData
)

// attribute reads one attribute of a CloudEvent: id is the event's key, type its name, subject the
// customer, time its occurredAt; data has the other fields of a usage event.
func (in *ingest) attribute() {
	f, r := &in.form, &in.record
	var text []byte
	switch string(f.Name) {
	case "id":
		f.Bytes(fieldKey, &r.KeyText, 1, maxKey)
	case "type":
		f.Bytes(fieldName, &r.EventName, 1, maxName)
	case "subject":
		f.Bytes(fieldCustomer, &r.Customer, 1, maxID)
	case "time":
		f.Instant(fieldOccurredAt, &r.OccurredAt)
	case "specversion":
		if f.Bytes(attributeVersion, &text, 1, maxName) && string(text) != "1.0" {
			f.Problem("specversion", form.NotAllowed(`"1.0"`))
		}
	case "source":
		f.Bytes(attributeSource, &text, 1, 2048)
	case "datacontenttype":
		if f.Bytes(attributeContent, &text, 1, maxName) &&
			!strings.HasPrefix(strings.ToLower(string(text)), "application/json") {
			f.Problem("datacontenttype", form.NotAllowed("application/json"))
		}
	case "dataschema":
		f.Bytes(attributeSchema, &text, 1, 2048)
	case "data":
		if f.Inline(attributeData) {
			for f.Next() {
				in.field()
			}
			f.Outside()
		}
	default:
		in.extension()
	}
}

// extension passes an extension attribute, whose names CloudEvents limits to lower-case letters and
// digits. One that reads like a field of a usage event is refused: it belongs into data, and
// passing it over would count something else than what was meant.
func (in *ingest) extension() {
	f := &in.form
	for _, c := range f.Name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			f.Unknown()
			return
		}
	}
	switch string(f.Name) {
	case "", "usageunits", "costamount", "featurekey", "featureid", "customerid", "subscriptionid",
		"entitlementid", "invoiceid", "flowid", "meta", "budget", "eventname", "occurredat",
		"customerreferenceid", "eventidempotencykey":
		f.Problem(cmp.Or(string(f.Name), "body"), form.Mistake{
			Code: server.FieldUnknown, Text: "is not an attribute of a CloudEvent; it belongs in data",
		})
	}
	f.Scanner.Skip()
}

// cloudEventSchema describes a CloudEvent in structured mode; data has the fields of a usage event
// that are not attributes.
func cloudEventSchema() *server.Schema {
	var data []server.Property
	for _, p := range server.RequestSchema[billing.RecordUsage]().Properties {
		data = append(data, server.May(p.Name, p.Schema))
	}
	event := server.Object(
		server.Must("specversion", server.EnumSchema("1.0")),
		server.Must("id", text(1, maxKey).Explain("with source the event's idempotency key")),
		server.Must("source", text(1, 2048)),
		server.Must("type", text(1, maxName).Explain("eventName")),
		server.May("subject", text(1, maxID).Explain("customerReferenceId")),
		server.May("time", server.TimeSchema.Explain("occurredAt")),
		server.May("datacontenttype", server.EnumSchema("application/json")),
		server.May("dataschema", text(1, 2048)),
		server.May("data", server.Object(data...)),
	)
	event.Free = true // extension attributes
	return event
}
