package client

import (
	"cmp"
	"strings"

	"tollgate/server"
	"tollgate/server/scan"
)

// Media types of CloudEvents 1.0 in structured mode, one and many.
const (
	mediaCloudEvent  = "application/cloudevents+json"
	mediaCloudEvents = "application/cloudevents-batch+json"
)

// Attributes of a CloudEvent that are no fields of a usage event, by the bit that says one was
// seen; they follow the fields of a usage event.
const (
	attributeVersion = iota + fieldMeta + 1
	attributeSource
	attributeContent
	attributeSchema
	attributeData
)

// member reads one member of an event's outermost object.
func (in *ingest) member(name []byte) (ok, fresh bool) {
	if in.cloud {
		return in.attribute(name)
	}
	return in.field(name)
}

// attribute reads one attribute of a CloudEvent: id is the event's key, type its name, subject the
// customer, time its occurredAt; data has the other fields of a usage event.
func (in *ingest) attribute(name []byte) (ok, fresh bool) {
	f, r := &in.form, &in.record
	var text []byte
	switch string(name) {
	case "id":
		if fresh = f.once(fieldKey); fresh {
			_, ok = f.text("id", 1, longestKey, &r.KeyText)
		}
	case "type":
		if fresh = f.once(fieldName); fresh {
			_, ok = f.text("type", 1, longestName, &r.EventName)
		}
	case "subject":
		if fresh = f.once(fieldCustomer); fresh {
			_, ok = f.text("subject", 1, longestID, &r.Customer)
		}
	case "time":
		if fresh = f.once(fieldOccurredAt); fresh {
			in.timed, ok = f.instant("time", &r.OccurredAt)
		}
	case "specversion":
		if fresh = f.once(attributeVersion); fresh {
			if _, ok = f.text("specversion", 1, longestName, &text); ok && string(text) != "1.0" {
				f.problem("specversion", server.FieldNotAllowed, `must be "1.0"`)
			}
		}
	case "source":
		if fresh = f.once(attributeSource); fresh {
			ok = f.required("source", 2048, &text)
		}
	case "datacontenttype":
		if fresh = f.once(attributeContent); fresh {
			given := false
			if given, ok = f.text("datacontenttype", 1, longestName, &text); given &&
				!strings.HasPrefix(strings.ToLower(string(text)), "application/json") {
				f.problem("datacontenttype", server.FieldNotAllowed, "must be application/json")
			}
		}
	case "dataschema":
		if fresh = f.once(attributeSchema); fresh {
			_, ok = f.text("dataschema", 1, 2048, &text)
		}
	case "data":
		if fresh = f.once(attributeData); fresh {
			return in.data()
		}
	default:
		return in.extension(name), true
	}
	return ok, fresh
}

// data reads the fields of a usage event in a CloudEvent's data.
func (in *ingest) data() (ok, fresh bool) {
	f := &in.form
	if f.absent() {
		return true, true
	}
	if f.scanner.Peek() != scan.KindObject {
		return f.wrong("data", "an object"), true
	}
	if !f.scanner.Object() {
		return false, true
	}
	for first := true; ; first = false {
		name, more := f.scanner.Name(first)
		if !more {
			return f.scanner.Err() == nil, true
		}
		if ok, fresh = in.field(name); !ok || !fresh {
			if !fresh {
				f.inner = name
			}
			return ok, fresh
		}
	}
}

// extension passes an extension attribute, whose names CloudEvents limits to lower-case letters and
// digits. One that reads like a field of a usage event is refused: it belongs into data, and
// passing it over would count something else than what was meant.
func (in *ingest) extension(name []byte) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return in.form.unknown(name)
		}
	}
	switch string(name) {
	case "", "usageunits", "costamount", "featurekey", "featureid", "customerid", "subscriptionid",
		"entitlementid", "invoiceid", "flowid", "meta", "eventname", "occurredat",
		"customerreferenceid", "eventidempotencykey":
		in.form.problem(cmp.Or(string(name), "body"), server.FieldUnknown,
			"is not an attribute of a CloudEvent; it belongs in data")
	}
	return in.form.scanner.Skip()
}

// cloudProblems notes what every CloudEvent must have.
func (in *ingest) cloudProblems() {
	f := &in.form
	for _, must := range [...]struct {
		bit  uint
		name string
	}{{attributeVersion, "specversion"}, {attributeSource, "source"}} {
		if f.seen&(1<<must.bit) == 0 {
			f.problem(must.name, server.FieldRequired, "is required")
		}
	}
}

// cloudEventSchema describes a CloudEvent in structured mode; data has the fields of a usage event
// that are not attributes.
func cloudEventSchema() *server.Schema {
	about := func(s *server.Schema, what string) *server.Schema {
		described := *s
		described.About = what
		return &described
	}
	var data []server.Property
	for _, p := range eventRequest().Properties {
		data = append(data, server.May(p.Name, p.Schema))
	}
	event := server.Object(
		server.Must("specversion", server.EnumSchema("1.0")),
		server.Must("id", about(text(1, longestKey), "with source the event's idempotency key")),
		server.Must("source", text(1, 2048)),
		server.Must("type", about(text(1, longestName), "eventName")),
		server.May("subject", about(text(1, longestID), "customerReferenceId")),
		server.May("time", about(server.TimeSchema, "occurredAt")),
		server.May("datacontenttype", server.EnumSchema("application/json")),
		server.May("dataschema", text(1, 2048)),
		server.May("data", server.Object(data...)),
	)
	event.Free = true // extension attributes
	return event
}
