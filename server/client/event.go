package client

import (
	"math/rand/v2"
	"sync"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/server"
	"tollgate/server/form"
)

// ingest is the memory of one request that records usage events.
type ingest struct {
	form    form.Reader
	record  billing.RecordUsage
	cloud   bool // events are CloudEvents
	payload []byte
	records []engine.Record
	results []engine.Result
	spans   []int
	faults  []*server.Fault
	// budget is the node of budgets that the request's API key is bound to.
	budget, bindings uint32
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
	in.form.Reset(nil)
	ingests.Put(in)
}

func (a *API) ingestEvent(x *server.Exchange) *server.Fault {
	in := ingests.Get().(*ingest)
	defer in.release()
	in.form.Reset(x.Body)
	in.cloud = x.Media() == mediaCloudEvent
	in.budget, in.bindings = principal(x).Budget, principal(x).Bindings
	key, one := server.SoleHeader(x.Ctx, "X-Idempotency-Key")
	if !one {
		return server.RepeatedHeader("X-Idempotency-Key")
	}
	in.read(principal(x).Env, key)
	fault := in.form.Leave()
	if fault == nil {
		fault = a.limits.TakeItems(x, principal(x).KeyID, 1)
	}
	if fault != nil {
		return fault
	}
	in.payload = in.record.Seal(in.payload[:0])
	in.records = append(in.records[:0], engine.Record{
		Kind: billing.KindRecordUsage, Payload: in.payload,
	})
	in.results = append(in.results[:0], engine.Result{})
	a.record(x, in)
	if in.results[0].Outcome.Recorded() {
		a.uses.events(principal(x), 1)
	}
	switch outcome := in.results[0].Outcome; {
	case outcome == engine.OutcomeLimitReached:
		return x.Object(200, func(data *server.JSON) {
			data.Bool("usageLimitExceeded", true)
			data.Text("message", limitReachedMessage)
		})
	case outcome.Recorded():
		return x.Succeed(201)
	case outcome == engine.OutcomeHardLimit:
		return (&refusals{API: a}).limitFault(server.FaultOf(outcome), &in.record)
	}
	return a.refusal(principal(x).Env, in.results[0])
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
	fieldBudget
)

// read fills in.record from the object that the form is before. header, when it is not empty,
// overrides the event's own idempotency key.
func (in *ingest) read(env uint32, header []byte) {
	f := &in.form
	f.Begin()
	in.record = billing.RecordUsage{Env: env, KeyBudget: in.budget, Bindings: in.bindings}
	if !f.Enter() {
		return
	}
	for f.Next() {
		if in.cloud {
			in.attribute()
		} else {
			in.field()
		}
	}
	if f.Malformed() {
		return
	}
	if in.cloud {
		f.Need(attributeVersion, "specversion")
		f.Need(attributeSource, "source")
	}
	in.complete(header)
}

// field reads one field's value.
func (in *ingest) field() {
	f, r := &in.form, &in.record
	switch string(f.Name) {
	case "eventIdempotencyKey":
		f.Bytes(fieldKey, &r.KeyText, 1, maxKey)
	case "eventName":
		f.Bytes(fieldName, &r.EventName, 1, maxName)
	case "occurredAt":
		f.Instant(fieldOccurredAt, &r.OccurredAt)
	case "flowId":
		f.Bytes(fieldFlow, &r.FlowID, 0, maxID)
	case "featureKey":
		f.Bytes(fieldFeatureKey, &r.FeatureKey, 1, maxID)
	case "customerReferenceId":
		f.Bytes(fieldCustomer, &r.Customer, 1, maxID)
	case "costAmount":
		r.HasCost = f.Number(fieldCost, &r.Cost)
	case "usageUnits":
		f.Number(fieldUnits, &r.Units)
	case "meta":
		f.Object(fieldMeta, &r.Meta)
	case "budget":
		f.Bytes(fieldBudget, &r.Budget, 1, maxID)
	case "featureId":
		f.UUID(fieldFeatureID, &r.FeatureID)
	case "customerId":
		f.UUID(fieldCustomerID, &r.CustomerID)
	case "subscriptionId":
		f.UUID(fieldSubscription, &r.SubscriptionID)
	case "entitlementId":
		f.UUID(fieldEntitlement, &r.EntitlementID)
	case "invoiceId":
		f.UUID(fieldInvoice, &r.InvoiceID)
	default:
		f.Unknown()
	}
}

// one is what an event without usageUnits counts.
var one = decimal.FromInt(1)

// complete checks what the fields say together and fills in what they leave out.
func (in *ingest) complete(header []byte) {
	f, r := &in.form, &in.record
	if len(header) > 0 {
		if wrong, ok := form.CheckText(header, 1, maxKey); !ok {
			f.Problem("X-Idempotency-Key", wrong)
		}
		r.KeyText = header
	} else if !f.Given(fieldKey) {
		f.Problem("eventIdempotencyKey", form.Mistake{
			Code: server.FieldRequired, Text: "is required, here or in X-Idempotency-Key",
		})
	}
	f.Need(fieldName, "eventName")
	f.Need(fieldOccurredAt, "occurredAt")
	both := len(r.Customer) > 0 && r.CustomerID != ([16]byte{})
	if both || !f.Given(fieldCustomer) && !f.Given(fieldCustomerID) {
		code := server.FieldRequired
		if both {
			code = server.FieldConflict
		}
		f.Note(server.FieldError{
			Field: "customerReferenceId", Code: code,
			Message: "exactly one of customerReferenceId and customerId is required",
		})
	}
	if !f.Right(fieldUnits) {
		r.Units = one
	}
	f.NotNegative("usageUnits", r.Units)
	f.NotNegative("costAmount", r.Cost)
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
