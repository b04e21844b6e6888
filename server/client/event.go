package client

import (
	"math/rand/v2"
	"sync"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/server"
)

// ingest is the memory of one request that records usage events.
type ingest struct {
	form    form
	record  billing.RecordUsage
	units   bool
	timed   bool // occurredAt was given
	cloud   bool // events are CloudEvents
	meta    []byte
	payload []byte
	records []engine.Record
	results []engine.Result
	spans   []int
	faults  []*server.Fault
}

var ingests = sync.Pool{New: func() any {
	return &ingest{records: make([]engine.Record, 1), results: make([]engine.Result, 1)}
}}

// keepPayload bounds what a pooled ingest keeps of a large batch, in bytes.
const keepPayload = 1 << 20

func (in *ingest) release() {
	in.record = billing.RecordUsage{}
	clear(in.records)
	clear(in.results)
	clear(in.faults)
	if cap(in.payload) > keepPayload {
		in.payload = nil
	}
	in.form.reset(nil)
	ingests.Put(in)
}

// ingestEvent is POST /events.
func (a *API) ingestEvent(x *server.Exchange) {
	in := ingests.Get().(*ingest)
	defer in.release()
	in.form.reset(x.Body)
	in.cloud = x.Media() == mediaCloudEvent
	key, one := server.SoleHeader(x.Ctx, "X-Idempotency-Key")
	if !one {
		x.Refuse(*server.FieldFault("X-Idempotency-Key", server.FieldRepeated,
			"is there twice, with two values"))
		return
	}
	fault := in.read(x.Principal.Env, key)
	if fault == nil {
		fault = in.form.leave()
	}
	if fault == nil {
		fault = a.limits.TakeItems(x, x.Principal.KeyID, 1)
	}
	if fault != nil {
		x.Refuse(*fault)
		return
	}
	in.payload = in.record.Seal(in.payload[:0])
	in.records = append(in.records[:0], engine.Record{
		Kind: billing.KindRecordUsage, Payload: in.payload,
	})
	in.results = append(in.results[:0], engine.Result{})
	a.record(x, in)
	switch outcome := in.results[0].Outcome; {
	case outcome == engine.OutcomeLimitReached:
		data := x.Begin()
		data.Open('{')
		data.Bool("usageLimitExceeded", true)
		data.Text("message", limitReachedMessage)
		data.Close('}')
		x.End(200)
	case outcome.Recorded():
		x.Succeed(201)
	default:
		x.Refuse(a.refusal(x.Principal.Env, in.results[0]))
	}
}

const limitReachedMessage = "The usage event was recorded. The feature's usage limit is reached."

// Fields of a usage event, by the bit that says one was seen.
const (
	fieldKey = iota
	fieldName
	fieldOccurredAt
	fieldFlow
	fieldFeatureKey
	fieldFeatureID
	fieldCustomer
	fieldCustomerID
	fieldSubscription
	fieldEntitlement
	fieldInvoice
	fieldCost
	fieldUnits
	fieldMeta
)

// read fills in.record from the object that the form is before. header, when it is not empty,
// overrides the event's own idempotency key.
func (in *ingest) read(env uint32, header []byte) *server.Fault {
	in.form.begin()
	in.record = billing.RecordUsage{Env: env}
	in.units, in.timed = false, false
	if fault := in.form.enter(); fault != nil {
		return fault
	}
	for first := true; ; first = false {
		name, more := in.form.scanner.Name(first)
		if !more {
			break
		}
		ok, fresh := in.member(name)
		if !fresh {
			return in.form.duplicate(name)
		}
		if !ok {
			break
		}
	}
	if in.form.scanner.Err() != nil {
		return in.form.fault()
	}
	if in.cloud {
		in.cloudProblems()
	}
	in.complete(header)
	return in.form.fault()
}

// field reads one field's value; fresh is false when the field was there before.
func (in *ingest) field(name []byte) (ok, fresh bool) {
	f, r := &in.form, &in.record
	switch string(name) {
	case "eventIdempotencyKey":
		if fresh = f.once(fieldKey); fresh {
			_, ok = f.text("eventIdempotencyKey", 1, longestKey, &r.KeyText)
		}
	case "eventName":
		if fresh = f.once(fieldName); fresh {
			_, ok = f.text("eventName", 1, longestName, &r.EventName)
		}
	case "occurredAt":
		if fresh = f.once(fieldOccurredAt); fresh {
			in.timed, ok = f.instant("occurredAt", &r.OccurredAt)
		}
	case "flowId":
		if fresh = f.once(fieldFlow); fresh {
			_, ok = f.text("flowId", 0, longestID, &r.FlowID)
		}
	case "featureKey":
		if fresh = f.once(fieldFeatureKey); fresh {
			_, ok = f.text("featureKey", 1, longestID, &r.FeatureKey)
		}
	case "customerReferenceId":
		if fresh = f.once(fieldCustomer); fresh {
			_, ok = f.text("customerReferenceId", 1, longestID, &r.Customer)
		}
	case "costAmount":
		if fresh = f.once(fieldCost); fresh {
			r.HasCost, ok = f.number("costAmount", &r.Cost)
		}
	case "usageUnits":
		if fresh = f.once(fieldUnits); fresh {
			in.units, ok = f.number("usageUnits", &r.Units)
		}
	case "meta":
		if fresh = f.once(fieldMeta); fresh {
			in.meta, ok = f.object("meta", in.meta)
			r.Meta = in.meta
		}
	default:
		return in.idField(name)
	}
	return ok, fresh
}

func (in *ingest) idField(name []byte) (ok, fresh bool) {
	f, r := &in.form, &in.record
	switch string(name) {
	case "featureId":
		if fresh = f.once(fieldFeatureID); fresh {
			ok = f.uuid("featureId", &r.FeatureID)
		}
	case "customerId":
		if fresh = f.once(fieldCustomerID); fresh {
			ok = f.uuid("customerId", &r.CustomerID)
		}
	case "subscriptionId":
		if fresh = f.once(fieldSubscription); fresh {
			ok = f.uuid("subscriptionId", &r.SubscriptionID)
		}
	case "entitlementId":
		if fresh = f.once(fieldEntitlement); fresh {
			ok = f.uuid("entitlementId", &r.EntitlementID)
		}
	case "invoiceId":
		if fresh = f.once(fieldInvoice); fresh {
			ok = f.uuid("invoiceId", &r.InvoiceID)
		}
	default:
		return f.unknown(name), true
	}
	return ok, fresh
}

// one is what an event without usageUnits counts.
var one = decimal.FromInt(1)

// complete checks what the fields say together and fills in what they leave out.
func (in *ingest) complete(header []byte) {
	f, r := &in.form, &in.record
	if len(header) > 0 {
		if code, reason := textProblem(header, 1, longestKey); reason != "" {
			f.problem("X-Idempotency-Key", code, reason)
		}
		r.KeyText = header
	} else if len(r.KeyText) == 0 && !f.wronged("eventIdempotencyKey") {
		f.problem("eventIdempotencyKey", server.FieldRequired,
			"is required, here or in X-Idempotency-Key")
	}
	if len(r.EventName) == 0 && !f.wronged("eventName") {
		f.problem("eventName", server.FieldRequired, "is required")
	}
	if !in.timed && !f.wronged("occurredAt") {
		f.problem("occurredAt", server.FieldRequired, "is required")
	}
	both := len(r.Customer) > 0 && r.CustomerID != ([16]byte{})
	neither := len(r.Customer) == 0 && r.CustomerID == ([16]byte{}) &&
		!f.wronged("customerReferenceId") && !f.wronged("customerId")
	if both || neither {
		code := server.FieldRequired
		if both {
			code = server.FieldConflict
		}
		f.problems = append(f.problems, server.FieldError{
			Field: "customerReferenceId", Code: code,
			Message: "exactly one of customerReferenceId and customerId is required",
		})
	}
	if !in.units {
		r.Units = one
	} else if r.Units.Sign() < 0 {
		f.problem("usageUnits", server.FieldOutOfRange, "must not be negative")
	}
	if r.HasCost && r.Cost.Sign() < 0 {
		f.problem("costAmount", server.FieldOutOfRange, "must not be negative")
	}
	r.Key = billing.UsageKey(r.Env, r.KeyText)
	r.Attempt = attemptTag()
}

// attemptTag tells this request's record from every other of the same key: random, never 0.
func attemptTag() uint32 {
	for {
		if tag := rand.Uint32(); tag != 0 {
			return tag
		}
	}
}
