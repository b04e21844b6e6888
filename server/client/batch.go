package client

import (
	"bytes"
	"runtime"
	"strconv"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/scan"
)

// Media types of batches with one event per line.
const (
	mediaLines    = "application/x-ndjson"
	mediaLinesToo = "application/ndjson"
)

const (
	// batchBytes and batchItems bound POST /events/batch.
	batchBytes = 8 << 20
	batchItems = 10_000
)

var (
	faultBatchKey = server.FieldFault("X-Idempotency-Key", server.FieldNotAllowed,
		"cannot name many events: give each its eventIdempotencyKey")
	faultBatchForm = server.FaultJSON.With(
		"Nothing was recorded. The body must be a JSON array of usage events, or one per line (NDJSON).")
	faultBatchItems = server.FaultSize.With(
		"Nothing was recorded. At most " + strconv.Itoa(batchItems) + " events are taken in one batch.")
)

func (a *API) ingestBatch(x *server.Exchange) *server.Fault {
	if len(x.Ctx.Request.Header.Peek("X-Idempotency-Key")) > 0 {
		return faultBatchKey
	}
	in := ingests.Get().(*ingest)
	defer in.release()
	in.cloud = x.Media() == mediaCloudEvents
	in.budget, in.bindings = principal(x).Budget, principal(x).Bindings
	in.payload, in.spans, in.faults = in.payload[:0], in.spans[:0], in.faults[:0]
	fault := a.limits.ItemsLeft(x, principal(x).KeyID)
	if fault == nil {
		fault = in.readBatch(principal(x).Env, x.Media(), x.Body)
	}
	if fault == nil {
		fault = x.HoldItems(len(in.faults))
	}
	if fault == nil { // an item that is refused costs as much as one that is taken
		fault = a.limits.TakeItems(x, principal(x).KeyID, len(in.faults))
	}
	if fault != nil {
		return fault
	}
	in.records, in.results = in.records[:0], in.results[:0]
	from := 0
	for _, to := range in.spans {
		in.records = append(in.records, engine.Record{
			Kind: billing.KindRecordUsage, Payload: in.payload[from:to],
		})
		in.results = append(in.results, engine.Result{})
		from = to
	}
	if len(in.records) > 0 {
		a.record(x, in)
	}
	if fault = in.flooding(); fault != nil {
		return fault
	}
	return a.answerBatch(x, in)
}

// readBatch reads all items before any is proposed: a body that turns out to be no array must have
// changed nothing. in.faults has one element per item, nil for those that are to be proposed; the
// payload of each of these ends at its element of in.spans.
//
// A media type of lines says where items end, so that the first may be broken like any other; under
// application/json lines are taken too, when the first begins like an object.
func (in *ingest) readBatch(env uint32, media string, body []byte) *server.Fault {
	in.form.Reset(body)
	lines := media == mediaLines || media == mediaLinesToo
	switch kind := in.form.Scanner.Peek(); {
	case kind == scan.KindArray:
		return in.readArray(env, body)
	case kind == scan.KindObject, lines && len(bytes.TrimSpace(body)) > 0:
		return in.readLines(env, body)
	default:
		return faultBatchForm
	}
}

func (in *ingest) readArray(env uint32, body []byte) *server.Fault {
	s := &in.form.Scanner
	s.Raise(1)
	if !s.Array() {
		return faultBatchForm
	}
	for first := true; s.Item(first); first = false {
		if len(in.faults) == batchItems {
			return faultBatchItems
		}
		s.Peek()
		start := s.Pos()
		if s.Err() != nil {
			return faultBatchForm
		}
		in.read(env, nil)
		fault := in.form.Fault()
		in.keep(fault)
		if fault != nil {
			// Where a broken item ends is known by its brackets alone.
			n := scan.Extent(body[start:])
			if n <= 0 {
				return faultBatchForm
			}
			s.Seek(start+n, 1)
		}
	}
	if !s.End() {
		return faultBatchForm
	}
	return nil
}

func (in *ingest) readLines(env uint32, body []byte) *server.Fault {
	for len(body) > 0 {
		line, rest, _ := bytes.Cut(body, []byte{'\n'})
		body = rest
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if len(in.faults) == batchItems {
			return faultBatchItems
		}
		in.form.Reset(line)
		in.read(env, nil)
		in.keep(in.form.Leave())
	}
	return nil
}

// stride is after how many items of a batch others get the core: a batch takes milliseconds, in
// which a single event, a check or a heartbeat would wait for it.
const stride = 64

func (in *ingest) keep(fault *server.Fault) {
	if in.faults = append(in.faults, fault); len(in.faults)%stride == 0 {
		runtime.Gosched()
	}
	if fault == nil {
		in.payload = in.record.Seal(in.payload)
		in.spans = append(in.spans, len(in.payload))
	}
}

// flooding refuses a batch when all of it was refused because the account has too much under way.
func (in *ingest) flooding() *server.Fault {
	for i := range in.results {
		if in.results[i].Outcome != engine.OutcomeShareFull {
			return nil
		}
	}
	if len(in.results) == 0 || len(in.results) < len(in.faults) {
		return nil
	}
	return server.FaultOfResult(in.results[0])
}

// batchResult is what became of a batch of events.
//
//schema:described client BatchResult
type batchResult struct {
	Accepted   uint64        `json:"accepted" rule:"required"`
	Duplicates uint64        `json:"duplicates" rule:"required"`
	Rejected   uint64        `json:"rejected" rule:"required"`
	Results    []eventResult `json:"results" rule:"required"`
}

// eventResult is what became of one event of a batch: what a request for it alone would answer.
//
//schema:described client EventResult
type eventResult struct {
	// Index is its place in the batch.
	Index   uint64 `json:"index" rule:"required"`
	Status  uint64 `json:"status" rule:"required"`
	Message string `json:"message,omitzero" rule:"min=1"`
	// Code is that of a refusal.
	Code               string `json:"code,omitzero" rule:"min=1"`
	UsageLimitExceeded bool   `json:"usageLimitExceeded,omitzero"`
	// Shortage and Budget say which limit refused it, as those of Error do.
	Shortage *billing.Shortage `json:"shortage,omitzero" ref:"Shortage"`
	Budget   *billing.Refusal  `json:"budget,omitzero" ref:"BudgetRefusal"`
}

// answerBatch writes a batchResult.
func (a *API) answerBatch(x *server.Exchange, in *ingest) *server.Fault {
	var accepted, duplicates, rejected, next int
	refused := refusals{API: a}
	data := x.Begin()
	data.Open('{')
	data.Array("results")
	for i, fault := range in.faults {
		if i%(4*stride) == stride {
			runtime.Gosched()
		}
		outcome := engine.OutcomeNone
		if fault == nil {
			result := in.results[next]
			if outcome = result.Outcome; !outcome.Recorded() {
				fault = refused.ofItem(principal(x).Env, result, in.records[next].Payload)
			}
			next++
		}
		data.Open('{')
		data.Uint("index", uint64(i))
		switch {
		case fault == nil && outcome == engine.OutcomeLimitReached:
			accepted++
			data.Uint("status", 200)
			data.Text("message", limitReachedMessage)
			data.Bool("usageLimitExceeded", true)
		case fault == nil:
			accepted++
			data.Uint("status", 201)
		default:
			if fault.Status == 409 {
				duplicates++
			} else {
				rejected++
			}
			data.Uint("status", uint64(fault.Status))
			data.Text("message", itemMessage(fault))
			data.Text("code", fault.Code)
			if fault.Status == 402 && fault.More != nil {
				fault.More(data)
			}
		}
		data.Close('}')
	}
	a.uses.events(principal(x), accepted)
	data.Close(']')
	data.Uint("accepted", uint64(accepted))
	data.Uint("duplicates", uint64(duplicates))
	data.Uint("rejected", uint64(rejected))
	data.Close('}')
	return x.End(200)
}

// ofItem is the refusal of an event of a batch.
func (l *refusals) ofItem(env uint32, result engine.Result, sealed []byte) *server.Fault {
	fault := l.refusal(env, result)
	var r billing.RecordUsage
	if result.Outcome == engine.OutcomeHardLimit && wire.Decode(sealed, &r) == nil {
		fault = l.limitFault(fault, &r)
	}
	return fault
}

// itemMessage is the message of one item, with the detail that only validation has.
func itemMessage(f *server.Fault) string {
	if f.Status == 400 && f.Detail != "" {
		return f.Message + ": " + f.Detail
	}
	return f.Message
}
